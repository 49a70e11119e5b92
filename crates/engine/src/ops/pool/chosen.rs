//! Max pooling of a convolution's results, perhaps with the ReLU before it: kept are the pooled values p and, for each of them,
//! a code of the element that it came from, so that results before the pooling, and their gradient, need not be kept.
//!
//! y: `[N, H, W, C]`; windows of KH x KW side by side, of which H' x W' fit, so that the last rows and columns may be in none;
//! p, codes: `[N, H', W', C]`. A code is the element's place in its window, row by row, or with a ReLU `NONE` where p is not
//! positive and so lets no gradient through. Codes are bytes, four to a value of memory. The element is the same as for pooling
//! and ReLU apart: the first of the largest, with a ReLU where they are positive.

#![allow(unsafe_code)]

use crate::Window;
use crate::native::{Context, Disjoint, Isa, LANES, PART, Slices, multiversion, sum_slices};
use sooner_base::Shape;
use std::ops::Range;

/// The code where no element gets a gradient.
const NONE: u8 = u8::MAX;
/// Codes in a value of memory.
const CODES: usize = size_of::<f32>();

/// Windows side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chosen {
    kernel: [usize; 2],
    /// H, W
    extent: [usize; 2],
    /// H', W'
    windows: [usize; 2],
    channels: usize,
    /// Whether a ReLU is before the pooling.
    relu: bool,
}

impl Chosen {
    /// The windows of a pooling of y, if they do not overlap, and codes of a row of them fill whole values of memory.
    pub(crate) fn new(window: &Window, y: &Shape, relu: bool) -> Option<Chosen> {
        let kernel = window.kernel;
        let extent = [y[1], y[2]];
        let apart = window.stride == kernel
            && window.dilation == [1, 1]
            && window.pad_low == [0, 0]
            && window.pad_high == [0, 0]
            && (0..2).all(|d| kernel[d] > 0 && kernel[d] <= extent[d])
            && kernel[0] * kernel[1] <= usize::from(NONE)
            && y[3].is_multiple_of(CODES)
            && !y.is_empty();
        let windows = || [0, 1].map(|d| extent[d] / kernel[d]);
        apart.then(|| Chosen { kernel, extent, windows: windows(), channels: y[3], relu })
    }

    /// Values of an image of y.
    pub(crate) fn plain(&self) -> usize {
        self.extent[0] * self.extent[1] * self.channels
    }

    /// Values of an image of p, and codes.
    pub(crate) fn pooled(&self) -> usize {
        self.windows[0] * self.windows[1] * self.channels
    }

    /// Values of memory that so many codes take.
    pub(crate) fn codes(count: usize) -> usize {
        count / CODES
    }

    /// Where p and codes of a strip, a row of windows, are in memory that holds p and then the codes of all images; of strip
    /// number `strip` counted through the images.
    ///
    /// # Safety
    /// As for [`Disjoint::range`]: nobody else uses these parts of it.
    unsafe fn parts<'o>(&self, out: Disjoint<'o>, images: usize, strip: usize) -> [&'o mut [f32]; 2] {
        let [_, pooled] = self.strip();
        let codes = Chosen::codes(pooled);
        // SAFETY: handed on to the caller; values and codes lie apart.
        unsafe {
            [out.range(strip * pooled, pooled), out.range(images * self.pooled() + strip * codes, codes)]
        }
    }

    /// Where in its images of y strip number `strip` is; with the rows in no window that follow it, if it is an image's last.
    fn rows(&self, strip: usize) -> Range<usize> {
        let (image, row) = (strip / self.windows[0], strip % self.windows[0]);
        let [values, _] = self.strip();
        let last = row + 1 == self.windows[0];
        let end = if last { self.plain() } else { (row + 1) * values };
        image * self.plain() + row * values..image * self.plain() + end
    }

    /// y of images from `first` on, and `out` for p and codes of so many `images` in all -> their p and codes.
    ///
    /// # Safety
    /// Nobody else uses these images' parts of `out`.
    pub(crate) unsafe fn pool(&self, isa: Isa, y: &[f32], out: Disjoint, [first, images]: [usize; 2]) {
        for strip in 0..y.len() / self.plain() * self.windows[0] {
            // SAFETY: handed on to the caller.
            let [p, codes] = unsafe { self.parts(out, images, first * self.windows[0] + strip) };
            pool_strip(isa, self, &y[self.rows(strip)], p, bytes_mut(codes));
        }
    }

    /// As [`Chosen::pool`], by all threads.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn pool_together(
        &self,
        cx: &Context,
        y: &[f32],
        out: Disjoint,
        [first, images]: [usize; 2],
    ) {
        let strips = y.len() / self.plain() * self.windows[0];
        let each = self.strips_per_task();
        cx.pool.run(strips.div_ceil(each), &|task| {
            for strip in task.index * each..strips.min((task.index + 1) * each) {
                // SAFETY: handed on to the caller; each task has strips of its own.
                let [p, codes] = unsafe { self.parts(out, images, first * self.windows[0] + strip) };
                pool_strip(cx.isa, self, &y[self.rows(strip)], p, bytes_mut(codes));
            }
        });
    }

    /// All of y -> p and then codes.
    pub(crate) fn pool_all(&self, cx: &Context, y: &[f32], out: &mut [f32]) {
        let images = y.len() / self.plain();
        // SAFETY: `out` is borrowed mutably.
        unsafe { self.pool_together(cx, y, Disjoint::new(out), [0, images]) }
    }

    /// dp and codes of images from `first` on, as many as there is room for -> their dy.
    pub(crate) fn spread(&self, isa: Isa, operands: [&[f32]; 2], first: usize, dy: &mut [f32]) {
        for strip in 0..dy.len() / self.plain() * self.windows[0] {
            let rows = self.rows(strip);
            self.spread_one(isa, operands, first * self.windows[0] + strip, &mut dy[rows]);
        }
    }

    /// As [`Chosen::spread`], by all threads.
    pub(crate) fn spread_together(&self, cx: &Context, operands: [&[f32]; 2], first: usize, dy: &mut [f32]) {
        let strips = dy.len() / self.plain() * self.windows[0];
        let each = self.strips_per_task();
        let dy = Disjoint::new(dy);
        cx.pool.run(strips.div_ceil(each), &|task| {
            for strip in task.index * each..strips.min((task.index + 1) * each) {
                let rows = self.rows(strip);
                // SAFETY: each task has strips of its own.
                let dy = unsafe { dy.range(rows.start, rows.len()) };
                self.spread_one(cx.isa, operands, first * self.windows[0] + strip, dy);
            }
        });
    }

    fn spread_one(&self, isa: Isa, [dp, codes]: [&[f32]; 2], strip: usize, dy: &mut [f32]) {
        let [_, pooled] = self.strip();
        let range = strip * pooled..(strip + 1) * pooled;
        spread_strip(isa, self, &dp[range.clone()], &bytes(codes)[range], dy);
    }

    fn strips_per_task(&self) -> usize {
        (PART / self.strip()[0]).max(1)
    }

    /// dp, codes -> dy, all of it.
    pub(crate) fn spread_all(&self, cx: &Context, operands: [&[f32]; 2], dy: &mut [f32]) {
        self.spread_together(cx, operands, 0, dy);
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

    /// Values of a strip: of y, of p.
    #[inline(always)]
    fn strip(&self) -> [usize; 2] {
        [self.kernel[0] * self.extent[1] * self.channels, self.windows[1] * self.channels]
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
        let Chosen { kernel, extent, channels, .. } = *self.chosen;
        let at = (a * extent[1] + self.window * kernel[1] + b) * channels;
        at + self.c..at + channels
    }

    /// y -> p and codes: the first of the largest values of a window of this size, perhaps after a ReLU.
    #[inline(always)]
    fn choose<const WHOLE: bool, const RELU: bool>(
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
            let passes = !RELU | (best[i] > 0.0);
            narrow[i] = if passes { code[i] as u8 } else { NONE };
            best[i] = if RELU & (best[i] <= 0.0) { 0.0 } else { best[i] };
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

/// Calls this for the lanes of all windows of a strip, with the size of a window, whether they are whole, and what else
/// is known beforehand.
macro_rules! each_lanes {
    ($chosen:ident, $call:ident[$($relu:literal)?]($($arg:expr),*)) => {
        for window in 0..$chosen.windows[1] {
            let whole = $chosen.channels - $chosen.channels % LANES;
            for c in (0..whole).step_by(LANES) {
                let lanes = Lanes { chosen: $chosen, window, c };
                match $chosen.kernel {
                    // Of known size, and so without loops.
                    [2, 2] => lanes.$call::<true $(, $relu)?>([2, 2], $($arg),*),
                    kernel => lanes.$call::<true $(, $relu)?>(kernel, $($arg),*),
                }
            }
            if whole < $chosen.channels {
                let lanes = Lanes { chosen: $chosen, window, c: whole };
                lanes.$call::<false $(, $relu)?>($chosen.kernel, $($arg),*);
            }
        }
    };
}

multiversion! {
    fn pool_strip(chosen: &Chosen, y: &[f32], p: &mut [f32], codes: &mut [u8]) {
        if chosen.relu {
            each_lanes!(chosen, choose[true](y, (&mut *p, &mut *codes)));
        } else {
            each_lanes!(chosen, choose[false](y, (&mut *p, &mut *codes)));
        }
    }

    fn spread_strip(chosen: &Chosen, dp: &[f32], codes: &[u8], dy: &mut [f32]) {
        each_lanes!(chosen, send[]((dp, codes), &mut *dy));
        let [strip, _] = chosen.strip();
        let (windows, below) = dy.split_at_mut(strip);
        let covered = chosen.windows[1] * chosen.kernel[1] * chosen.channels;
        for row in windows.chunks_exact_mut(chosen.extent[1] * chosen.channels) {
            row[covered..].fill(0.0);
        }
        below.fill(0.0);
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
    use crate::native::{Kernels, Pool};

    /// Values with ties, zeros of both signs, infinities and NaN.
    fn values(count: usize) -> Vec<f32> {
        let odd = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -0.0];
        let value = |i: usize| {
            let v = (i * 2_654_435_761) >> 7;
            if v.is_multiple_of(13) { odd[v / 13 % 4] } else { (v % 5) as f32 - 2.0 }
        };
        (0..count).map(value).collect()
    }

    /// p, dy of dp, and the sums of dy, of y `[N, H, W, C]`, by the formulas.
    fn expected(chosen: &Chosen, y: &[f32], dp: &[f32]) -> [Vec<f32>; 3] {
        let Chosen { kernel, extent, windows, channels, relu } = *chosen;
        let (mut p, mut dy, mut sums) = (vec![0f32; dp.len()], vec![0f32; y.len()], vec![0f32; channels]);
        for (to, p) in p.iter_mut().enumerate() {
            let (c, at) = (to % channels, to / channels);
            let (n, i, j) = (at / windows[1] / windows[0], at / windows[1] % windows[0], at % windows[1]);
            let place = |a: usize, b: usize| {
                ((n * extent[0] + i * kernel[0] + a) * extent[1] + j * kernel[1] + b) * channels + c
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
            *p = if relu && y[best] <= 0.0 { 0.0 } else { y[best] };
            if !relu || y[best] > 0.0 {
                dy[best] = dp[to];
                sums[c] += dp[to];
            }
        }
        [p, dy, sums]
    }

    #[test]
    fn the_first_of_the_largest_is_chosen() {
        // Windows that leave rows and columns over, and that do not.
        for (kernel, extent, channels) in [
            ([2, 2], [6, 4], 4),
            ([2, 2], [2, 10], 16),
            ([2, 2], [4, 4], 36),
            ([2, 2], [7, 5], 36),
            ([2, 2], [3, 2], 64),
            ([3, 1], [6, 3], 20),
            ([3, 2], [5, 7], 20),
            ([1, 4], [1, 4], 64),
            ([1, 4], [2, 7], 4),
        ] {
            let images = 3;
            let [height, width] = extent;
            let window = Window { kernel, stride: kernel, ..Window::valid(1, 1) };
            let shape = Shape::from([images, height, width, channels]);
            for relu in [false, true] {
                let chosen = Chosen::new(&window, &shape, relu).expect("windows are apart");
                let y = values(shape.len());
                let count = images * chosen.pooled();
                let dp: Vec<f32> = (0..count).map(|i| i as f32 + 1.0).collect();
                let [p, dy, sums] = expected(&chosen, &y, &dp);
                for kernels in Kernels::available() {
                    let isa = kernels.resolve().expect("it is available");
                    let told = format!("{kernels:?} {chosen:?}");
                    let pool = Pool::new(std::num::NonZeroUsize::new(2).expect("not zero"));
                    let cx = Context::new(&pool, isa, &mut []);
                    let mut out = vec![f32::NAN; count + Chosen::codes(count)];
                    chosen.pool_all(&cx, &y, &mut out);
                    let bits = |v: &[f32]| {
                        v.iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect::<Vec<_>>()
                    };
                    assert_eq!(bits(&out[..count]), bits(&p), "{told}");
                    // Some images at a time.
                    let mut again = vec![f32::NAN; out.len()];
                    let (first, rest) = y.split_at(chosen.plain());
                    // SAFETY: the places of images are apart.
                    unsafe {
                        chosen.pool(isa, rest, Disjoint::new(&mut again), [1, images]);
                        chosen.pool_together(&cx, first, Disjoint::new(&mut again), [0, images]);
                    }
                    assert_eq!(bytes(&again), bytes(&out), "{told}");
                    let codes = &out[count..];
                    let mut back = vec![f32::NAN; y.len()];
                    chosen.spread_all(&cx, [&dp, codes], &mut back);
                    assert_eq!(back, dy, "{told}");
                    for some in 1..images {
                        let part = &mut back[..some * chosen.plain()];
                        part.fill(f32::NAN);
                        chosen.spread(isa, [&dp, codes], images - some, part);
                        assert_eq!(*part, dy[(images - some) * chosen.plain()..], "{told}");
                    }
                    let mut found = vec![0.0; channels];
                    add_chosen(isa, &dp, bytes(codes), &mut found);
                    assert_eq!(found, sums, "{told}");
                }
            }
        }
    }

    #[test]
    fn only_windows_apart_are_taken() {
        let is =
            |window: Window, shape: [usize; 4]| Chosen::new(&window, &Shape::from(shape), true).is_some();
        let two = Window::valid(2, 2);
        assert!(is(two, [1, 2, 4, 4]) && is(two, [1, 3, 5, 4]));
        for shape in [[1, 2, 4, 6], [0, 2, 4, 4], [1, 1, 4, 4]] {
            assert!(!is(two, shape), "{shape:?}");
        }
        assert!(!is(Window::same(3, 1), [1, 3, 3, 4]) && !is(Window::valid(2, 1), [1, 2, 2, 4]));
        assert!(!is(Window::valid(3, 2), [1, 7, 7, 4]) && !is(Window::valid(2, 3), [1, 5, 5, 4]));
        // Codes would not fit a byte.
        assert!(is(Window::valid(15, 15), [1, 15, 15, 4]) && !is(Window::valid(16, 16), [1, 16, 16, 4]));
    }
}
