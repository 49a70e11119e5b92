//! Max pooling of a convolution's results with the ReLU before it: kept are the pooled values p and, for each of them, a code
//! of the element that it came from, so that results before the pooling, and their gradient, need not be kept.
//!
//! y: `[N, H, W, C]`; windows of KH x KW that cover it without overlap; p, codes: `[N, H', W', C]`. A code is the element's
//! place in its window, row by row, or `NONE` where p is not positive and so lets no gradient through. Codes are bytes, four
//! to a value of memory. The element is the same as for pooling and ReLU apart: the first of the largest, where they are
//! positive.

#![allow(unsafe_code)]

use crate::Window;
use crate::native::{Context, Disjoint, Isa, LANES, PART, Slices, multiversion, sum_slices};
use sooner_base::Shape;
use std::ops::Range;

/// The code where no element gets a gradient.
const NONE: u8 = u8::MAX;
/// Codes in a value of memory.
const CODES: usize = size_of::<f32>();

/// Windows that cover images without overlap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chosen {
    kernel: [usize; 2],
    /// H', W'
    windows: [usize; 2],
    channels: usize,
}

impl Chosen {
    /// The windows of a pooling of y, if they cover it without overlap, and codes of an image fill whole values of memory.
    pub(crate) fn new(window: &Window, y: &Shape) -> Option<Chosen> {
        let kernel = window.kernel;
        let covers = window.stride == kernel
            && window.dilation == [1, 1]
            && window.pad_low == [0, 0]
            && window.pad_high == [0, 0]
            && (0..2).all(|d| kernel[d] > 0 && y[d + 1].is_multiple_of(kernel[d]))
            && kernel[0] * kernel[1] <= usize::from(NONE)
            && y[3].is_multiple_of(CODES)
            && !y.is_empty();
        let windows = || [0, 1].map(|d| y[d + 1] / kernel[d]);
        covers.then(|| Chosen { kernel, windows: windows(), channels: y[3] })
    }

    /// Values of an image of y.
    pub(crate) fn plain(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.pooled()
    }

    /// Values of an image of p, and codes.
    pub(crate) fn pooled(&self) -> usize {
        self.windows[0] * self.windows[1] * self.channels
    }

    /// Values of memory that so many codes take.
    pub(crate) fn codes(count: usize) -> usize {
        count / CODES
    }

    /// Where p and codes of images from `first` on are in memory that holds p and then the codes of all images.
    ///
    /// # Safety
    /// As for [`Disjoint::range`]: nobody else uses these images of it.
    pub(crate) unsafe fn images<'o>(
        &self,
        out: Disjoint<'o>,
        all: usize,
        [first, count]: [usize; 2],
    ) -> [&'o mut [f32]; 2] {
        let pooled = self.pooled();
        let codes = Chosen::codes(pooled);
        // SAFETY: handed on to the caller; values and codes lie apart.
        unsafe {
            [
                out.range(first * pooled, count * pooled),
                out.range(all * pooled + first * codes, count * codes),
            ]
        }
    }

    /// Images of y -> their p and codes.
    pub(crate) fn pool(&self, isa: Isa, y: &[f32], [p, codes]: [&mut [f32]; 2]) {
        pool_strips(isa, self, y, p, bytes_mut(codes));
    }

    /// All of y -> p and then codes.
    pub(crate) fn pool_all(&self, cx: &Context, y: &[f32], out: &mut [f32]) {
        let images = y.len() / self.plain();
        let each = (PART / self.plain()).max(1);
        let out = Disjoint::new(out);
        cx.pool.run(images.div_ceil(each), &|task| {
            let first = task.index * each;
            let count = each.min(images - first);
            // SAFETY: each task has images of its own.
            let parts = unsafe { self.images(out, images, [first, count]) };
            self.pool(cx.isa, &y[first * self.plain()..(first + count) * self.plain()], parts);
        });
    }

    /// dp and codes of images from `first` on, as many as there is room for -> their dy.
    pub(crate) fn spread(&self, isa: Isa, [dp, codes]: [&[f32]; 2], first: usize, dy: &mut [f32]) {
        let pooled = self.pooled();
        let images = first * pooled..(first + dy.len() / self.plain()) * pooled;
        spread_strips(isa, self, &dp[images.clone()], &bytes(codes)[images], dy);
    }

    /// dp, codes -> dy, all of it.
    pub(crate) fn spread_all(&self, cx: &Context, operands: [&[f32]; 2], dy: &mut [f32]) {
        let each = (PART / self.plain()).max(1);
        cx.pool.parts(dy, each * self.plain(), &|task, dy| {
            self.spread(cx.isa, operands, task.index * each, dy);
        });
    }

    /// dp, codes -> `[C]`: sums of dy over all its pixels. The workspace holds [`Chosen::sums_workspace`] values.
    pub(crate) fn sums(
        &self,
        cx: &Context,
        [dp, codes]: [&[f32]; 2],
        out: &mut [f32],
        workspace: &mut [f32],
    ) {
        let channels = self.channels;
        let slices = Slices::of(dp.len() / channels, channels);
        let length = slices.rows * channels;
        let codes = bytes(codes);
        let found = sum_slices(cx, slices, channels, workspace, &|slice, sums| {
            let range = slice * length..dp.len().min((slice + 1) * length);
            sums.fill(0.0);
            add_chosen(cx.isa, &dp[range.clone()], &codes[range], sums);
        });
        out.copy_from_slice(found.expect("there are pixels"));
    }

    /// Values of workspace that [`Chosen::sums`] takes for so many values of dp.
    pub(crate) fn sums_workspace(&self, count: usize) -> usize {
        Slices::of(count / self.channels, self.channels).workspace(self.channels)
    }

    /// Values of a strip, a row of windows: of y, of p.
    #[inline(always)]
    fn strip(&self) -> [usize; 2] {
        let pooled = self.windows[1] * self.channels;
        [self.kernel[0] * self.kernel[1] * pooled, pooled]
    }
}

fn bytes(values: &[f32]) -> &[u8] {
    // SAFETY: the same memory, as bytes, of which all are valid.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn bytes_mut(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: the same memory, as bytes; all bytes are valid values.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Some values; if `WHOLE` there are as many as lanes, else fewer, and zeros for the rest. Two functions in one, since where
/// both ways stand beside each other the compiler makes one copy of any length of them.
#[inline(always)]
fn take<T: Copy + Default, const WHOLE: bool>(from: &[T]) -> [T; LANES] {
    if WHOLE {
        return *from.first_chunk().expect("whole lanes are left");
    }
    let mut part = [T::default(); LANES];
    part[..from.len()].copy_from_slice(from);
    part
}

/// Writes them, or as many as there is room for.
#[inline(always)]
fn put<T: Copy, const WHOLE: bool>(values: [T; LANES], to: &mut [T]) {
    if WHOLE {
        *to.first_chunk_mut().expect("whole lanes are left") = values;
    } else {
        to.copy_from_slice(&values[..to.len()]);
    }
}

/// The lanes of window number `window` of a strip from channel c on.
#[derive(Clone, Copy)]
struct Lanes<'a> {
    chosen: &'a Chosen,
    window: usize,
    c: usize,
}

impl Lanes<'_> {
    /// Where in pooled values they are.
    #[inline(always)]
    fn pooled(self) -> Range<usize> {
        let channels = self.chosen.channels;
        self.window * channels + self.c..(self.window + 1) * channels
    }

    /// Where in its strip the element of the window in row a and column b of it is.
    #[inline(always)]
    fn element(self, [a, b]: [usize; 2]) -> Range<usize> {
        let Chosen { kernel, windows, channels } = *self.chosen;
        let at = ((a * windows[1] + self.window) * kernel[1] + b) * channels;
        at + self.c..at + channels
    }

    /// y -> p and codes: the first of the largest values of a window of this size, after a ReLU.
    #[inline(always)]
    fn choose<const WHOLE: bool>(
        self,
        [rows, columns]: [usize; 2],
        y: &[f32],
        (p, codes): (&mut [f32], &mut [u8]),
    ) {
        let mut best = [f32::NEG_INFINITY; LANES];
        let mut code = [0u32; LANES];
        for a in 0..rows {
            for b in 0..columns {
                let v = take::<_, WHOLE>(&y[self.element([a, b])]);
                for i in 0..LANES {
                    // Not `v > best`: a NaN on either side must win.
                    let stays = (v[i] <= best[i]) | best[i].is_nan();
                    best[i] = if stays { best[i] } else { v[i] };
                    code[i] = if stays { code[i] } else { (a * columns + b) as u32 };
                }
            }
        }
        let mut narrow = [0; LANES];
        for i in 0..LANES {
            narrow[i] = if best[i] > 0.0 { code[i] as u8 } else { NONE };
            best[i] = if best[i] <= 0.0 { 0.0 } else { best[i] };
        }
        put::<_, WHOLE>(best, &mut p[self.pooled()]);
        put::<_, WHOLE>(narrow, &mut codes[self.pooled()]);
    }

    /// dp and codes -> dy of a window of this size.
    #[inline(always)]
    fn send<const WHOLE: bool>(
        self,
        [rows, columns]: [usize; 2],
        (dp, codes): (&[f32], &[u8]),
        dy: &mut [f32],
    ) {
        let d = take::<_, WHOLE>(&dp[self.pooled()]);
        let code = take::<_, WHOLE>(&codes[self.pooled()]).map(u32::from);
        for a in 0..rows {
            for b in 0..columns {
                let mut v = [0.0; LANES];
                for i in 0..LANES {
                    v[i] = if code[i] == (a * columns + b) as u32 { d[i] } else { 0.0 };
                }
                put::<_, WHOLE>(v, &mut dy[self.element([a, b])]);
            }
        }
    }
}

/// Calls this for the lanes of all windows of a strip, with the size of a window and whether they are whole.
macro_rules! each_lanes {
    ($chosen:ident, $call:ident($($arg:expr),*)) => {
        for window in 0..$chosen.windows[1] {
            let whole = $chosen.channels - $chosen.channels % LANES;
            for c in (0..whole).step_by(LANES) {
                let lanes = Lanes { chosen: $chosen, window, c };
                match $chosen.kernel {
                    // Of known size, and so without loops.
                    [2, 2] => lanes.$call::<true>([2, 2], $($arg),*),
                    kernel => lanes.$call::<true>(kernel, $($arg),*),
                }
            }
            if whole < $chosen.channels {
                Lanes { chosen: $chosen, window, c: whole }.$call::<false>($chosen.kernel, $($arg),*);
            }
        }
    };
}

multiversion! {
    fn pool_strips(chosen: &Chosen, y: &[f32], p: &mut [f32], codes: &mut [u8]) {
        let [strip, pooled] = chosen.strip();
        let results = p.chunks_exact_mut(pooled).zip(codes.chunks_exact_mut(pooled));
        for (y, (p, codes)) in y.chunks_exact(strip).zip(results) {
            each_lanes!(chosen, choose(y, (&mut *p, &mut *codes)));
        }
    }

    fn spread_strips(chosen: &Chosen, dp: &[f32], codes: &[u8], dy: &mut [f32]) {
        let [strip, pooled] = chosen.strip();
        let operands = dp.chunks_exact(pooled).zip(codes.chunks_exact(pooled));
        for (dy, operands) in dy.chunks_exact_mut(strip).zip(operands) {
            each_lanes!(chosen, send(operands, &mut *dy));
        }
    }

    /// Adds the dp that comes through, blocks of rows first among themselves so that rounding stays small.
    fn add_chosen(dp: &[f32], codes: &[u8], sums: &mut [f32]) {
        const ROWS: usize = 16;
        let channels = sums.len();
        let whole = channels - channels % LANES;
        for (dp, codes) in dp.chunks(ROWS * channels).zip(codes.chunks(ROWS * channels)) {
            let rows = || dp.chunks_exact(channels).zip(codes.chunks_exact(channels));
            for c in (0..whole).step_by(LANES) {
                let mut total = [0f32; LANES];
                for (dp, codes) in rows() {
                    let d = take::<_, true>(&dp[c..]);
                    let code = take::<_, true>(&codes[c..]);
                    for i in 0..LANES {
                        total[i] += if code[i] == NONE { 0.0 } else { d[i] };
                    }
                }
                for i in 0..LANES {
                    sums[c + i] += total[i];
                }
            }
            for c in whole..channels {
                sums[c] += rows().map(|(dp, codes)| if codes[c] == NONE { 0.0 } else { dp[c] }).sum::<f32>();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Kernels;

    /// Values with ties, zeros of both signs, infinities and NaN.
    fn values(count: usize) -> Vec<f32> {
        let odd = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -0.0];
        let value = |i: usize| {
            let v = (i * 2_654_435_761) >> 7;
            if v.is_multiple_of(13) { odd[v / 13 % 4] } else { (v % 5) as f32 - 2.0 }
        };
        (0..count).map(value).collect()
    }

    #[test]
    fn the_first_of_the_largest_that_are_positive_is_chosen() {
        for (kernel, windows, channels) in [
            ([2, 2], [3, 2], 4),
            ([2, 2], [1, 5], 16),
            ([2, 2], [2, 2], 36),
            ([3, 1], [2, 3], 20),
            ([1, 4], [1, 1], 64),
        ] {
            let images = 3;
            let [height, width] = [0, 1].map(|d| kernel[d] * windows[d]);
            let window = Window { kernel, stride: kernel, ..Window::valid(1, 1) };
            let shape = Shape::from([images, height, width, channels]);
            let chosen = Chosen::new(&window, &shape).expect("it covers");
            let y = values(shape.len());
            let count = images * chosen.pooled();
            let dp: Vec<f32> = (0..count).map(|i| i as f32 + 1.0).collect();
            let (mut p, mut dy, mut sums) = (vec![0f32; count], vec![0f32; y.len()], vec![0f32; channels]);
            for (to, p) in p.iter_mut().enumerate() {
                let (c, at) = (to % channels, to / channels);
                let (n, i, j) = (at / windows[1] / windows[0], at / windows[1] % windows[0], at % windows[1]);
                let place = |a: usize, b: usize| {
                    ((n * height + i * kernel[0] + a) * width + j * kernel[1] + b) * channels + c
                };
                let mut best = place(0, 0);
                for a in 0..kernel[0] {
                    for b in 0..kernel[1] {
                        let v = y[place(a, b)];
                        if v > y[best] || v.is_nan() && !y[best].is_nan() {
                            best = place(a, b);
                        }
                    }
                }
                *p = if y[best] <= 0.0 { 0.0 } else { y[best] };
                if y[best] > 0.0 {
                    dy[best] = dp[to];
                    sums[c] += dp[to];
                }
            }
            for kernels in Kernels::available() {
                let isa = kernels.resolve().expect("it is available");
                let mut out = vec![f32::NAN; count + Chosen::codes(count)];
                let (found, codes) = out.split_at_mut(count);
                chosen.pool(isa, &y, [&mut *found, &mut *codes]);
                let bits = |v: &[f32]| {
                    v.iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect::<Vec<_>>()
                };
                assert_eq!(bits(found), bits(&p), "{kernels:?} {chosen:?}");
                let mut back = vec![f32::NAN; y.len()];
                chosen.spread(isa, [&dp, codes], 0, &mut back);
                assert_eq!(back, dy, "{kernels:?} {chosen:?}");
                let last = &mut back[..chosen.plain()];
                chosen.spread(isa, [&dp, codes], images - 1, last);
                assert_eq!(*last, dy[(images - 1) * chosen.plain()..], "{kernels:?} {chosen:?}");
                let mut found = vec![0.0; channels];
                add_chosen(isa, &dp, bytes(codes), &mut found);
                assert_eq!(found, sums, "{kernels:?} {chosen:?}");
            }
        }
    }

    #[test]
    fn only_windows_that_cover_whole_images_are_taken() {
        let is = |window: Window, shape: [usize; 4]| Chosen::new(&window, &Shape::from(shape)).is_some();
        let two = Window::valid(2, 2);
        assert!(is(two, [1, 2, 4, 4]));
        for shape in [[1, 3, 4, 4], [1, 2, 5, 4], [1, 2, 4, 6], [0, 2, 4, 4]] {
            assert!(!is(two, shape), "{shape:?}");
        }
        assert!(!is(Window::same(3, 1), [1, 3, 3, 4]) && !is(Window::valid(2, 1), [1, 2, 2, 4]));
        // Codes would not fit a byte.
        assert!(is(Window::valid(15, 15), [1, 15, 15, 4]) && !is(Window::valid(16, 16), [1, 16, 16, 4]));
    }
}
