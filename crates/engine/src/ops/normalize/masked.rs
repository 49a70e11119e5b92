//! Batch normalisation together with the ReLU after it, and the max pooling after that: what the ReLU lets through, and
//! which element a window chooses, is found again from x, so neither the normalised values nor the gradients between
//! these operations go through memory.
//!
//! x: `[N, H, W, C]`; windows of KH x KW that cover the image without overlap, `[N, H', W', C]` of them. A strip is a row of
//! windows. v = gamma (x - mean) / sqrt(variance + eps) + beta is computed exactly as `native::normalize` does, so the same
//! elements are 0, and the same are chosen.

use super::native::By;
use crate::native::{Context, Slices, multiversion, rows_per_part, sum_slices};
use crate::{Normalization, Window};
use sooner_base::Shape;

/// Channels that are worked on at a time.
const LANES: usize = 16;

/// Windows that cover images without overlap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cover {
    kernel: [usize; 2],
    /// Windows in a strip.
    windows: usize,
    eps: f32,
}

impl Cover {
    /// The windows of a pooling of x, if they cover it without overlap and one set of statistics holds for all of x.
    pub(crate) fn new(window: &Window, x: &Shape, how: &Normalization) -> Option<Cover> {
        let covers = window.stride == window.kernel
            && window.dilation == [1, 1]
            && window.pad_low == [0, 0]
            && window.pad_high == [0, 0]
            && (0..2).all(|d| window.kernel[d] > 0 && x[d + 1] % window.kernel[d] == 0)
            && how.group.is_none()
            && !x.is_empty();
        covers.then(|| Cover { kernel: window.kernel, windows: x[2] / window.kernel[1], eps: how.eps as f32 })
    }

    /// Values of a strip of x, and of its windows.
    fn strip(&self, channels: usize) -> [usize; 2] {
        [self.kernel[0] * self.kernel[1] * self.windows * channels, self.windows * channels]
    }

    fn slices(&self, values: usize, channels: usize) -> Slices {
        let [strip, _] = self.strip(channels);
        Slices::of(values / strip.max(1), strip)
    }

    /// Values of workspace that [`pooled_sums`] takes for x of so many values.
    pub(crate) fn sums_workspace(&self, values: usize, channels: usize) -> usize {
        channels + self.slices(values, channels).workspace(2 * channels)
    }

    /// Where in its strip each element of a window begins.
    #[inline(always)]
    fn places(&self, window: usize, channels: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let [height, width] = self.kernel;
        let row = self.windows * width;
        (0..height * width).map(move |t| (t / width * row + window * width + t % width) * channels)
    }
}

/// gamma / sqrt(variance + eps)
fn scales(stats: &[f32], gamma: &[f32], eps: f32, scale: &mut [f32]) {
    let variance = &stats[gamma.len()..];
    for c in 0..gamma.len() {
        scale[c] = gamma[c] / (variance[c] + eps).sqrt();
    }
}

/// x -> max over windows of max(v, 0): `[N, H', W', C]`. The workspace holds C values.
pub(crate) fn normalize_pool(
    cx: &Context,
    cover: &Cover,
    [x, stats, gamma, beta]: [&[f32]; 4],
    y: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    let scale = &mut workspace[..channels];
    scales(stats, gamma, cover.eps, scale);
    let line = Line { mean: &stats[..channels], scale, beta };
    let [strip, pooled] = cover.strip(channels);
    let each = rows_per_part(strip);
    cx.pool.parts(y, each * pooled, &|task, y| {
        let x = &x[task.index * each * strip..][..y.len() / pooled * strip];
        pool_strips(cx.isa, cover, line, x, y);
    });
}

/// dy, x: `[N, H, W, C]`, stats `[2, C]` of each group, gamma, beta -> `[2, C]` of each group: sums of what the ReLU lets
/// through of dy, and of that times the normalised x. The workspace holds C values more than the unmasked sums take.
pub(crate) fn masked_sums(
    cx: &Context,
    by: &By,
    [dy, x, stats, gamma, beta]: [&[f32]; 5],
    sums: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    let (scale, workspace) = workspace.split_at_mut(channels);
    for (g, sums) in sums.chunks_mut((2 * channels).max(1)).enumerate() {
        let (dy, x) = (by.part(dy, g), by.part(x, g));
        let stats = &stats[g * 2 * channels..(g + 1) * 2 * channels];
        scales(stats, gamma, by.eps, scale);
        let line = Line { mean: &stats[..channels], scale, beta };
        let slices = Slices::of(x.len() / channels, channels);
        let length = slices.rows * channels;
        let found = sum_slices(cx, slices, 2 * channels, workspace, &|slice, sums| {
            let range = slice * length..x.len().min((slice + 1) * length);
            sums.fill(0.0);
            add_masked(cx.isa, line, [&dy[range.clone()], &x[range]], sums);
        });
        finish_sums(found, stats, by.eps, sums);
    }
}

/// As [`masked_sums`], with dy `[N, H', W', C]` behind the pooling.
pub(crate) fn pooled_sums(
    cx: &Context,
    cover: &Cover,
    [dy, x, stats, gamma, beta]: [&[f32]; 5],
    sums: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    let (scale, workspace) = workspace.split_at_mut(channels);
    scales(stats, gamma, cover.eps, scale);
    let line = Line { mean: &stats[..channels], scale, beta };
    let [strip, pooled] = cover.strip(channels);
    let slices = cover.slices(x.len(), channels);
    let found = sum_slices(cx, slices, 2 * channels, workspace, &|slice, sums| {
        let range = slice * slices.rows..(x.len() / strip).min((slice + 1) * slices.rows);
        sums.fill(0.0);
        let operands =
            [&dy[range.start * pooled..range.end * pooled], &x[range.start * strip..range.end * strip]];
        add_pooled(cx.isa, cover, line, operands, sums);
    });
    finish_sums(found, stats, cover.eps, sums);
}

fn finish_sums(found: Option<&[f32]>, stats: &[f32], eps: f32, sums: &mut [f32]) {
    let channels = sums.len() / 2;
    match found {
        Some(found) => sums.copy_from_slice(found),
        None => sums.fill(0.0),
    }
    for c in 0..channels {
        sums[channels + c] /= (stats[channels + c] + eps).sqrt();
    }
}

/// dy, x, stats, gamma, beta as for [`masked_sums`], and its sums -> dx through the statistics of x; in place of dy if there
/// is none. The workspace holds 4 C values.
pub(crate) fn masked_grad_input(
    cx: &Context,
    by: &By,
    dy: Option<&[f32]>,
    [x, stats, gamma, beta, sums]: [&[f32]; 5],
    dx: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    let part = rows_per_part(channels) * channels;
    for (g, dx) in dx.chunks_mut(by.each).enumerate() {
        let group = g * 2 * channels..(g + 1) * 2 * channels;
        let x = by.part(x, g);
        let operands = [&stats[group.clone()], gamma, beta, &sums[group]];
        let line = GradLine::new(operands, (by.eps, x.len() / channels), workspace);
        cx.pool.parts(dx, part, &|task, dx| {
            let start = task.index * part;
            if let Some(dy) = dy {
                dx.copy_from_slice(&by.part(dy, g)[start..start + dx.len()]);
            }
            through_masked(cx.isa, line, &x[start..start + dx.len()], dx);
        });
    }
}

/// As [`masked_grad_input`], with dy `[N, H', W', C]` behind the pooling.
pub(crate) fn pooled_grad_input(
    cx: &Context,
    cover: &Cover,
    [dy, x, stats, gamma, beta, sums]: [&[f32]; 6],
    dx: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    let line = GradLine::new([stats, gamma, beta, sums], (cover.eps, x.len() / channels), workspace);
    let [strip, pooled] = cover.strip(channels);
    let each = rows_per_part(strip);
    cx.pool.parts(dx, each * strip, &|task, dx| {
        let first = task.index * each;
        let dy = &dy[first * pooled..][..dx.len() / strip * pooled];
        through_pooled(cx.isa, cover, line, [dy, &x[first * strip..][..dx.len()]], dx);
    });
}

/// v = (x - mean) scale + beta
#[derive(Clone, Copy)]
struct Line<'a> {
    mean: &'a [f32],
    scale: &'a [f32],
    beta: &'a [f32],
}

impl<'a> Line<'a> {
    /// The channels from c on.
    #[inline(always)]
    fn from(self, c: usize) -> Line<'a> {
        Line { mean: &self.mean[c..], scale: &self.scale[c..], beta: &self.beta[c..] }
    }
}

/// max(v, 0) where NaN stays NaN.
#[inline(always)]
fn positive(x: f32, mean: f32, scale: f32, beta: f32) -> f32 {
    let v = (x - mean) * scale + beta;
    if v <= 0.0 { 0.0 } else { v }
}

/// dx = a d - b - e (x - mean), d being what comes through.
#[derive(Clone, Copy)]
struct GradLine<'a> {
    forward: Line<'a>,
    b: &'a [f32],
    e: &'a [f32],
}

impl<'a> GradLine<'a> {
    fn new(
        [stats, gamma, beta, sums]: [&'a [f32]; 4],
        (eps, rows): (f32, usize),
        workspace: &'a mut [f32],
    ) -> GradLine<'a> {
        let channels = gamma.len();
        let rows = rows as f32;
        let (scale, rest) = workspace[..3 * channels].split_at_mut(channels);
        let (b, e) = rest.split_at_mut(channels);
        for c in 0..channels {
            let s = 1.0 / (stats[channels + c] + eps).sqrt();
            let a = gamma[c] * s;
            b[c] = a * sums[c] / rows;
            e[c] = a * s * sums[channels + c] / rows;
        }
        scales(stats, gamma, eps, scale);
        GradLine { forward: Line { mean: &stats[..channels], scale, beta }, b, e }
    }
}

/// The largest max(v, 0) of one window for `count` channels, NaN if there is one.
#[inline(always)]
fn largest(line: Line, count: usize, places: impl Iterator<Item = usize>, x: &[f32]) -> [f32; LANES] {
    let mut best = [f32::NEG_INFINITY; LANES];
    for place in places {
        let x = &x[place..place + count];
        for i in 0..count {
            let v = positive(x[i], line.mean[i], line.scale[i], line.beta[i]);
            best[i] = if (v <= best[i]) | best[i].is_nan() { best[i] } else { v };
        }
    }
    best
}

/// Calls `visit` with channel and count for pieces of whole lanes, whose count the compiler then knows, and the rest.
#[inline(always)]
fn pieces(channels: usize, mut visit: impl FnMut(usize, usize)) {
    let whole = channels - channels % LANES;
    for c in (0..whole).step_by(LANES) {
        visit(c, LANES);
    }
    if whole < channels {
        visit(whole, channels - whole);
    }
}

multiversion! {
    fn pool_strips(cover: &Cover, line: Line, x: &[f32], y: &mut [f32]) {
        let channels = line.mean.len();
        let [strip, pooled] = cover.strip(channels);
        for (x, y) in x.chunks_exact(strip).zip(y.chunks_exact_mut(pooled)) {
            for (window, y) in y.chunks_exact_mut(channels).enumerate() {
                pieces(channels, #[inline(always)] |c, count| {
                    let places = cover.places(window, channels);
                    y[c..c + count].copy_from_slice(&largest(line.from(c), count, places, &x[c..])[..count]);
                });
            }
        }
    }

    fn add_masked(line: Line, operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.mean.len();
        let (plain, product) = sums.split_at_mut(channels);
        for (dy, x) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                let v = positive(x[c], line.mean[c], line.scale[c], line.beta[c]);
                let d = if v > 0.0 { dy[c] } else { 0.0 };
                plain[c] += d;
                product[c] += d * (x[c] - line.mean[c]);
            }
        }
    }

    fn add_pooled(cover: &Cover, line: Line, operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.mean.len();
        let [strip, pooled] = cover.strip(channels);
        let (plain, product) = sums.split_at_mut(channels);
        for (x, dy) in x.chunks_exact(strip).zip(dy.chunks_exact(pooled)) {
            for (window, dy) in dy.chunks_exact(channels).enumerate() {
                pieces(channels, #[inline(always)] |c, count| {
                    let (places, line, x) = (cover.places(window, channels), line.from(c), &x[c..]);
                    let best = largest(line, count, places.clone(), x);
                    let mut rest = [0f32; LANES];
                    rest[..count].copy_from_slice(&dy[c..c + count]);
                    let (plain, product) = (&mut plain[c..c + count], &mut product[c..c + count]);
                    for place in places {
                        let x = &x[place..place + count];
                        for i in 0..count {
                            let d = chosen(line, i, x[i], best[i], &mut rest[i]);
                            plain[i] += d;
                            product[i] += d * (x[i] - line.mean[i]);
                        }
                    }
                });
            }
        }
    }

    fn through_masked(line: GradLine, x: &[f32], dx: &mut [f32]) {
        let f = line.forward;
        let channels = f.mean.len();
        for (dx, x) in dx.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                let v = positive(x[c], f.mean[c], f.scale[c], f.beta[c]);
                let d = if v > 0.0 { dx[c] } else { 0.0 };
                dx[c] = f.scale[c] * d - line.b[c] - line.e[c] * (x[c] - f.mean[c]);
            }
        }
    }

    fn through_pooled(cover: &Cover, line: GradLine, operands: [&[f32]; 2], dx: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.forward.mean.len();
        let [strip, pooled] = cover.strip(channels);
        let strips = dx.chunks_exact_mut(strip).zip(x.chunks_exact(strip));
        for ((dx, x), dy) in strips.zip(dy.chunks_exact(pooled)) {
            for (window, dy) in dy.chunks_exact(channels).enumerate() {
                pieces(channels, #[inline(always)] |c, count| {
                    let (places, f) = (cover.places(window, channels), line.forward.from(c));
                    let (b, e) = (&line.b[c..c + count], &line.e[c..c + count]);
                    let best = largest(f, count, places.clone(), &x[c..]);
                    let mut rest = [0f32; LANES];
                    rest[..count].copy_from_slice(&dy[c..c + count]);
                    for place in places {
                        let (x, dx) = (&x[place + c..][..count], &mut dx[place + c..][..count]);
                        for i in 0..count {
                            let d = chosen(f, i, x[i], best[i], &mut rest[i]);
                            dx[i] = f.scale[i] * d - b[i] - e[i] * (x[i] - f.mean[i]);
                        }
                    }
                });
            }
        }
    }
}

/// What element x of a window gets of what is left of dy: all of it, if it is the first of the best and positive.
#[inline(always)]
fn chosen(line: Line, i: usize, x: f32, best: f32, rest: &mut f32) -> f32 {
    let v = positive(x, line.mean[i], line.scale[i], line.beta[i]);
    let beaten = v < best;
    let taken = if beaten { 0.0 } else { *rest };
    *rest = if beaten { *rest } else { 0.0 };
    if v > 0.0 { taken } else { 0.0 }
}
