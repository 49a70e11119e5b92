//! Pooling in vectors over channels; one task takes some images.

use crate::Window;
use crate::native::{Context, PART, add_columns, multiversion};
use sooner_base::Shape;
use std::ops::Range;

/// Channels whose largest values are kept at a time.
const CHANNELS: usize = 64;

/// The sizes of a pooling: input `[N, H, W, C]`, output `[N, H', W', C]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pooling {
    window: Window,
    input: [usize; 2],
    output: [usize; 2],
    channels: usize,
}

impl Pooling {
    /// A pooling of an input `[N, H, W, C]` by this window.
    pub(crate) fn new(window: &Window, input: &Shape) -> Pooling {
        let extent = [input[1], input[2]];
        let output = window.output(extent).expect("the graph has checked that the window fits");
        Pooling { window: *window, input: extent, output, channels: input[3] }
    }

    fn input_len(&self) -> usize {
        self.input[0] * self.input[1] * self.channels
    }

    fn output_len(&self) -> usize {
        self.output[0] * self.output[1] * self.channels
    }

    /// Rows or columns of the input that window `at` covers.
    fn covered(&self, d: usize, at: usize) -> Range<usize> {
        let start = at * self.window.stride[d];
        let end = start + self.window.kernel[d];
        let pad = self.window.pad_low[d];
        start.saturating_sub(pad).min(self.input[d])..end.saturating_sub(pad).min(self.input[d])
    }

    /// Every output position of an image: its offset and its covered rows and columns.
    #[inline(always)]
    fn windows(&self) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        (0..self.output[0] * self.output[1]).map(|position| {
            let (i, j) = (position / self.output[1], position % self.output[1]);
            (position * self.channels, self.covered(0, i), self.covered(1, j))
        })
    }

    /// Calls `run` for groups of images with their part of `out`, whose images have `out_len` values, and the range of
    /// the same images in a tensor whose images have `other_len`.
    fn images(
        &self,
        cx: &Context,
        out: &mut [f32],
        [out_len, other_len]: [usize; 2],
        run: &(dyn Fn(Range<usize>, &mut [f32]) + Sync),
    ) {
        if out_len == 0 {
            return;
        }
        let images = (PART / out_len.max(other_len).max(1)).max(1);
        cx.pool.parts(out, images * out_len, &|task, out| {
            let first = task.index * images;
            run(first * other_len..(first + out.len() / out_len) * other_len, out);
        });
    }
}

/// x `[N, H, W, C]` -> y `[N, H', W', C]`: the largest value of each window, NaN if it holds one.
pub(crate) fn max(cx: &Context, p: &Pooling, x: &[f32], y: &mut [f32]) {
    p.images(cx, y, [p.output_len(), p.input_len()], &|range, y| max_images(cx.isa, p, &x[range], y));
}

/// x `[N, H, W, C]`, dy `[N, H', W', C]` -> dx: dy at the first of the largest values of each window.
pub(crate) fn max_grad(cx: &Context, p: &Pooling, [x, dy]: [&[f32]; 2], dx: &mut [f32]) {
    let input = p.input_len();
    p.images(cx, dx, [input, p.output_len()], &|range, dx| {
        let first = range.start.checked_div(p.output_len()).unwrap_or(0) * input;
        max_grad_images(cx.isa, p, [&x[first..first + dx.len()], &dy[range]], dx);
    });
}

/// x `[N, H, W, C]` -> y `[N, H', W', C]`: the mean of each window's positions inside the image.
pub(crate) fn avg(cx: &Context, p: &Pooling, x: &[f32], y: &mut [f32]) {
    p.images(cx, y, [p.output_len(), p.input_len()], &|range, y| avg_images(cx.isa, p, &x[range], y));
}

/// dy `[N, H', W', C]` -> dx `[N, H, W, C]`.
pub(crate) fn avg_grad(cx: &Context, p: &Pooling, dy: &[f32], dx: &mut [f32]) {
    p.images(cx, dx, [p.input_len(), p.output_len()], &|range, dx| {
        avg_grad_images(cx.isa, p, &dy[range], dx)
    });
}

multiversion! {
    fn max_images(p: &Pooling, x: &[f32], y: &mut [f32]) {
        for (x, y) in x.chunks_exact(p.input_len()).zip(y.chunks_exact_mut(p.output_len())) {
            for (at, rows, columns) in p.windows() {
                let y = &mut y[at..at + p.channels];
                let mut first = true;
                for h in rows {
                    for w in columns.clone() {
                        let x = &x[(h * p.input[1] + w) * p.channels..][..p.channels];
                        if first {
                            y.copy_from_slice(x);
                        } else {
                            larger(x, y);
                        }
                        first = false;
                    }
                }
            }
        }
    }

    fn max_grad_images(p: &Pooling, operands: [&[f32]; 2], dx: &mut [f32]) {
        let [x, dy] = operands;
        dx.fill(0.0);
        let images = x.chunks_exact(p.input_len()).zip(dx.chunks_exact_mut(p.input_len()));
        for ((x, dx), dy) in images.zip(dy.chunks_exact(p.output_len())) {
            for (at, rows, columns) in p.windows() {
                for c in (0..p.channels).step_by(CHANNELS) {
                    let count = CHANNELS.min(p.channels - c);
                    let at_x = |h: usize, w: usize| (h * p.input[1] + w) * p.channels + c;
                    let mut best = [f32::NEG_INFINITY; CHANNELS];
                    for h in rows.clone() {
                        for w in columns.clone() {
                            larger(&x[at_x(h, w)..][..count], &mut best[..count]);
                        }
                    }
                    let mut rest = [0f32; CHANNELS];
                    rest[..count].copy_from_slice(&dy[at + c..][..count]);
                    for h in rows.clone() {
                        for w in columns.clone() {
                            let (x, dx) = (&x[at_x(h, w)..][..count], &mut dx[at_x(h, w)..][..count]);
                            send(x, &best[..count], &mut rest[..count], dx);
                        }
                    }
                }
            }
        }
    }

    fn avg_images(p: &Pooling, x: &[f32], y: &mut [f32]) {
        for (x, y) in x.chunks_exact(p.input_len()).zip(y.chunks_exact_mut(p.output_len())) {
            for (at, rows, columns) in p.windows() {
                let y = &mut y[at..at + p.channels];
                let scale = 1.0 / (rows.len() * columns.len()) as f32;
                y.fill(0.0);
                for h in rows {
                    for w in columns.clone() {
                        let x = &x[(h * p.input[1] + w) * p.channels..][..p.channels];
                        for (y, x) in y.iter_mut().zip(x) {
                            *y += x;
                        }
                    }
                }
                y.iter_mut().for_each(|y| *y *= scale);
            }
        }
    }

    fn avg_grad_images(p: &Pooling, dy: &[f32], dx: &mut [f32]) {
        dx.fill(0.0);
        for (dy, dx) in dy.chunks_exact(p.output_len()).zip(dx.chunks_exact_mut(p.input_len())) {
            for (at, rows, columns) in p.windows() {
                let dy = &dy[at..at + p.channels];
                let scale = 1.0 / (rows.len() * columns.len()) as f32;
                for h in rows {
                    for w in columns.clone() {
                        let dx = &mut dx[(h * p.input[1] + w) * p.channels..][..p.channels];
                        for (dx, dy) in dx.iter_mut().zip(dy) {
                            *dx += dy * scale;
                        }
                    }
                }
            }
        }
    }
}

/// The larger of each two, NaN if either is.
#[inline(always)]
fn larger(x: &[f32], best: &mut [f32]) {
    for (best, &x) in best.iter_mut().zip(x) {
        // Not `x > best`: a NaN on either side must win.
        *best = if (x <= *best) | best.is_nan() { *best } else { x };
    }
}

/// Adds to dx what is left of a window's dy where x is the window's best, and leaves nothing of it: so the first of
/// equals gets it. Where the best is NaN, the first of all.
#[inline(always)]
fn send(x: &[f32], best: &[f32], rest: &mut [f32], dx: &mut [f32]) {
    for (((dx, rest), &x), &best) in dx.iter_mut().zip(rest).zip(x).zip(best) {
        let beaten = x < best;
        *dx += if beaten { 0.0 } else { *rest };
        *rest = if beaten { *rest } else { 0.0 };
    }
}

/// x `[N, P, C]` -> y `[N, C]`: the mean over the P positions.
pub(crate) fn global_avg(cx: &Context, x: &[f32], [positions, channels]: [usize; 2], y: &mut [f32]) {
    if channels == 0 {
        return;
    }
    let images = (PART / (positions * channels)).max(1);
    cx.pool.parts(y, images * channels, &|task, y| {
        for (n, y) in y.chunks_exact_mut(channels).enumerate() {
            let image = (task.index * images + n) * positions * channels;
            y.fill(0.0);
            add_columns(cx.isa, &x[image..image + positions * channels], y);
            y.iter_mut().for_each(|v| *v /= positions as f32);
        }
    });
}

/// dy `[N, C]` -> dx `[N, P, C]`.
pub(crate) fn global_avg_grad(cx: &Context, dy: &[f32], [positions, channels]: [usize; 2], dx: &mut [f32]) {
    let image = positions * channels;
    if image == 0 {
        return;
    }
    let images = (PART / image).max(1);
    cx.pool.parts(dx, images * image, &|task, dx| {
        for (n, dx) in dx.chunks_exact_mut(image).enumerate() {
            let dy = &dy[(task.index * images + n) * channels..][..channels];
            spread(cx.isa, dy, 1.0 / positions as f32, dx);
        }
    });
}

multiversion! {
    fn spread(dy: &[f32], scale: f32, dx: &mut [f32]) {
        for dx in dx.chunks_exact_mut(dy.len()) {
            for (dx, dy) in dx.iter_mut().zip(dy) {
                *dx = dy * scale;
            }
        }
    }
}
