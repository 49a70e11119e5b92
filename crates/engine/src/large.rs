//! An allocator for programs that move much data: large buffers lie on large pages. With pages of 4 KiB a processor
//! looks up an address for every thousand numbers that it writes, which in a virtual machine takes longer than writing
//! them; with pages of 2 MiB the same loops run up to twice as fast (docs/results/loaders.md). What is small is the
//! system's allocator's, untouched.

// This module hands out memory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with buffers of 2 MiB and more on large pages where the system has them (Linux with
/// transparent huge pages on request or always). A binary or benchmark asks for it:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: sooner_engine::LargePages = sooner_engine::LargePages;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct LargePages;

/// Bytes of a large page, and what large buffers are aligned to.
pub(crate) const PAGE: usize = 2 << 20;

/// Smaller buffers would mostly be the rest of a page.
const LEAST: usize = PAGE;

/// The bytes that are asked for: more, if what is left of the last large page is less than half of it.
fn whole(size: usize) -> usize {
    let rest = size % PAGE;
    if size >= LEAST && rest > PAGE / 2 { size.saturating_add(PAGE - rest) } else { size }
}

/// The layout that the system is asked for, and whether it is large.
fn asked(layout: Layout) -> (Layout, bool) {
    let aligned = Layout::from_size_align(whole(layout.size()), layout.align().max(PAGE));
    match aligned {
        Ok(aligned) if layout.size() >= LEAST => (aligned, true),
        _ => (layout, false),
    }
}

/// Asks for large pages for the whole pages of an allocated buffer that begins at a page. A refusal changes nothing but speed.
#[cfg(target_os = "linux")]
pub(crate) fn advise(start: *mut u8, size: usize) {
    unsafe extern "C" {
        fn madvise(
            start: *mut core::ffi::c_void,
            length: usize,
            advice: core::ffi::c_int,
        ) -> core::ffi::c_int;
    }
    const HUGE_PAGES: core::ffi::c_int = 14;
    // SAFETY: the pages are whole ones of a buffer that is allocated and belongs to the caller. The advice changes
    // how the system maps them, never what they hold.
    unsafe { madvise(start.cast(), size / PAGE * PAGE, HUGE_PAGES) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn advise(_: *mut u8, _: usize) {}

// SAFETY: all memory is the system's allocator's. A buffer is allocated and freed with the layout that `asked` makes of
// the caller's, which is a function of it alone, has at least its size, and is aligned at least as it is.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (layout, large) = asked(layout);
        // SAFETY: the caller's layout has a size above 0, and so has this one.
        let start = unsafe { System.alloc(layout) };
        if large && !start.is_null() {
            advise(start, layout.size());
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller has it from `alloc` with this layout, so the system has it from the one asked for.
        unsafe { System.dealloc(start, asked(layout).0) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !asked(layout).1 {
            // SAFETY: handed on with the caller's promises.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // The advice has to come before the pages are touched.
        // SAFETY: handed on with the caller's promises.
        let start = unsafe { self.alloc(layout) };
        if !start.is_null() {
            // SAFETY: `alloc` gave so many bytes.
            unsafe { start.write_bytes(0, layout.size()) };
        }
        start
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that this size, rounded up to the alignment, is no overflow.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !asked(layout).1 && !asked(wanted).1 {
            // SAFETY: handed on with the caller's promises; the system has it from this very layout.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: the caller promises a size above 0.
        let to = unsafe { self.alloc(wanted) };
        if !to.is_null() {
            // SAFETY: both buffers have at least so many bytes, and the new one is no part of the old.
            unsafe { to.copy_from_nonoverlapping(start, size.min(layout.size())) };
            // SAFETY: the caller has it from `alloc` with this layout.
            unsafe { self.dealloc(start, layout) };
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grows and shrinks a buffer over the border between small and large, checking what it holds.
    #[test]
    fn buffers_keep_what_they_hold() {
        let sizes =
            [1, 1000, LEAST - 1, LEAST, LEAST + 1, 2 * PAGE - 5, 5 * PAGE + 77, LEAST, 4096, 3 * LEAST, 8];
        let layout = |size: usize| Layout::from_size_align(size, 8).unwrap();
        let mut held = 0;
        // SAFETY: a size above 0.
        let mut at = unsafe { LargePages.alloc_zeroed(layout(sizes[0])) };
        for (from, to) in sizes.iter().zip(&sizes[1..]).map(|(&from, &to)| (from, to)) {
            // SAFETY: `at` has `from` bytes of this layout, all of them written.
            unsafe {
                at = LargePages.realloc(at, layout(from), to);
                let bytes = std::slice::from_raw_parts_mut(at, from.min(to));
                assert!(
                    bytes.iter().enumerate().all(|(i, &byte)| byte == if i < held { i as u8 } else { 0 })
                );
                for i in 0..to {
                    at.add(i).write(i as u8);
                }
            }
            assert!(to < LEAST || at.addr().is_multiple_of(PAGE), "{to} bytes at {at:?}");
            held = to;
        }
        // SAFETY: the last layout.
        unsafe { LargePages.dealloc(at, layout(sizes[sizes.len() - 1])) };
    }

    #[test]
    fn zeroed_buffers_are_zero() {
        for size in [100, LEAST, LEAST + PAGE + 5] {
            let layout = Layout::from_size_align(size, 64).unwrap();
            // SAFETY: sizes above 0; read within what was allocated; freed with the same layout.
            unsafe {
                let dirty = LargePages.alloc(layout);
                dirty.write_bytes(7, size);
                LargePages.dealloc(dirty, layout);
                let start = LargePages.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(start, size).iter().all(|&byte| byte == 0));
                LargePages.dealloc(start, layout);
            }
        }
    }
}
