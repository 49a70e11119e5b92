//! Where values lie: one block of memory, shared over time by values that are never needed together.

#![allow(unsafe_code)]

use crate::large::{PAGE, advise};
use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::ptr::NonNull;

/// Values of a cache line; every buffer starts on one.
pub(crate) const LINE: usize = 16;

/// A buffer and the steps between which it holds something, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) len: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Request {
    fn meets(&self, other: &Request) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Gives every request a start, in values, such that requests that meet in time do not overlap; returns the starts and
/// the end of the last. Each in turn gets the lowest place that is free for all of its time, in the better of two
/// orders, largest first and longest-lived first: on graphs of layers this comes within some percent of the most that
/// is ever live at once.
pub(crate) fn layout(requests: &[Request]) -> (Vec<usize>, usize) {
    let lines = |i: usize| requests[i].len.div_ceil(LINE);
    let time = |i: usize| requests[i].last - requests[i].first + 1;
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lines(i)), requests[i].first));
    let by_size = place(requests, &order);
    order.sort_by_key(|&i| (std::cmp::Reverse(time(i) * lines(i)), requests[i].first));
    let by_time = place(requests, &order);
    if by_time.1 < by_size.1 { by_time } else { by_size }
}

/// Places requests in this order.
fn place(requests: &[Request], order: &[usize]) -> (Vec<usize>, usize) {
    let mut starts = vec![0; requests.len()];
    let mut end = 0;
    // What is placed already, by start.
    let mut placed: Vec<usize> = Vec::with_capacity(requests.len());
    for &i in order {
        let request = &requests[i];
        if request.len == 0 {
            continue;
        }
        let len = request.len.next_multiple_of(LINE);
        let mut start = 0;
        for &other in &placed {
            if !request.meets(&requests[other]) {
                continue;
            }
            if start + len <= starts[other] {
                break;
            }
            start = start.max(starts[other] + requests[other].len.next_multiple_of(LINE));
        }
        starts[i] = start;
        end = end.max(start + len);
        let at = placed.partition_point(|&other| starts[other] <= start);
        placed.insert(at, i);
    }
    (starts, end)
}

/// The most values that any plan must hold at once.
#[cfg(test)]
pub(crate) fn lower_bound(requests: &[Request]) -> usize {
    let live = |step: usize| {
        let held = requests.iter().filter(|r| r.first <= step && step <= r.last);
        held.map(|r| r.len.next_multiple_of(LINE)).sum()
    };
    requests.iter().map(|r| live(r.first)).max().unwrap_or(0)
}

/// Zeroed memory that starts on a cache line, or if it is large on a large page. The system hands out zeroed pages when
/// they are first touched, so making a large arena takes no time. Large pages are asked for, since fast convolutions read
/// and write at 36 places at once, more than a processor remembers the addresses of small pages for.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<f32>,
    len: usize,
    /// What was allocated: the values and room to move them to where they should start. With a small alignment, since the
    /// allocator clears memory itself where it has to align it.
    base: NonNull<u8>,
}

// SAFETY: the arena owns its memory; shared and exclusive access follow Rust's rules through `values` and `values_mut`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(len: usize) -> Arena {
        if len == 0 {
            return Arena { start: NonNull::dangling(), len, base: NonNull::dangling() };
        }
        let (layout, align) = Arena::layout(len);
        // From the system itself: a program's own allocator may touch every page to clear it, as `LargePages` does.
        // SAFETY: the layout is not empty.
        let base = unsafe { System.alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: the layout has room for the values behind the next multiple of `align`.
        let start = unsafe { base.add(base.as_ptr().align_offset(align)) };
        if align == PAGE {
            advise(start.as_ptr(), len * size_of::<f32>());
        }
        Arena { start: start.cast(), len, base }
    }

    /// What is allocated for so many values, and what their address is to be a multiple of.
    fn layout(len: usize) -> (Layout, usize) {
        let bytes = len.checked_mul(size_of::<f32>()).expect("a program's memory can be counted");
        let align = if bytes < PAGE { LINE * size_of::<f32>() } else { PAGE };
        let layout = bytes.checked_add(align).map(|all| Layout::from_size_align(all, align_of::<f32>()));
        (layout.and_then(Result::ok).expect("a program's memory can be addressed"), align)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn values(&self) -> &[f32] {
        // SAFETY: `len` values were allocated and zeroed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and the arena is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `new` allocated it with this layout.
            unsafe { System.dealloc(self.base.as_ptr(), Arena::layout(self.len).0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn check(requests: &[Request], slack: f64) {
        let (starts, end) = layout(requests);
        for (i, a) in requests.iter().enumerate() {
            assert!(starts[i] % LINE == 0 && starts[i] + a.len <= end);
            for (j, b) in requests.iter().enumerate().skip(i + 1) {
                let apart = starts[i] + a.len <= starts[j] || starts[j] + b.len <= starts[i];
                assert!(apart || !a.meets(b) || a.len == 0 || b.len == 0, "{a:?} {b:?}");
            }
        }
        let bound = lower_bound(requests);
        assert!(end as f64 <= slack * bound as f64, "{end} values, bound {bound}");
    }

    #[test]
    fn random_lifetimes() {
        for salt in 0..200 {
            let mut rng = Seed(1).key(Purpose::Study, salt).at(0, 0, 0);
            let request = |_| {
                let first = rng.below(100) as usize;
                let length = if rng.coin() { rng.below(5) } else { rng.below(90) };
                Request { len: rng.below(5000) as usize, first, last: first + length as usize }
            };
            let requests: Vec<Request> = (0..60).map(request).collect();
            check(&requests, 1.2);
        }
    }

    #[test]
    fn arenas_are_zero_and_aligned() {
        for len in [0, 1, 17, 100_000, PAGE / 4, PAGE + 3] {
            let mut arena = Arena::new(len);
            assert_eq!((arena.len(), arena.values().len()), (len, len));
            assert!(len == 0 || arena.values().as_ptr().addr().is_multiple_of(64));
            assert!(arena.values_mut().iter().all(|v| *v == 0.0));
            arena.values_mut().fill(1.0);
        }
    }

    #[test]
    fn nothing_and_chains() {
        assert_eq!(layout(&[]), (vec![], 0));
        // A chain of layers of equal size needs two buffers, however long it is.
        let chain: Vec<Request> = (0..50).map(|i| Request { len: 160, first: i, last: i + 1 }).collect();
        check(&chain, 1.0);
        // Forward and backward: each value is needed again on the way back.
        let there_and_back: Vec<Request> =
            (0..50).map(|i| Request { len: 16 * (i + 1), first: i, last: 100 - i }).collect();
        check(&there_and_back, 1.0);
    }
}
