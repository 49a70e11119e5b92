//! Batch normalisation together with the ReLU or GELU after it, and the max pooling after a ReLU: what the activation lets
//! through, and which element a window chooses, is found again from x, so neither the normalised values nor the gradients
//! between these operations go through memory.
//!
//! x: `[N, H, W, C]`; windows of KH x KW that cover the image without overlap, `[N, H', W', C]` of them. A strip is a row of
//! windows. v = gamma (x - mean) / sqrt(variance + eps) + beta is computed exactly as `native::normalize` does, so the same
//! elements are 0, and the same are chosen.

use super::native::By;
use super::{Behind, smooth};
use crate::native::{Context, LANES, Slices, load, multiversion, rows_per_part, store, sum_slices};
use crate::{Normalization, Window};
use sooner_base::Shape;

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
            && (0..2).all(|d| window.kernel[d] > 0 && x[d + 1].is_multiple_of(window.kernel[d]))
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

    /// Elements of a window.
    #[inline(always)]
    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Where in its strip element t of a window begins.
    #[inline(always)]
    fn place(&self, window: usize, t: usize, channels: usize) -> usize {
        let width = self.kernel[1];
        (t / width * self.windows * width + window * width + t % width) * channels
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

/// dy, x: `[N, H, W, C]`, stats `[2, C]` of each group, gamma, beta -> `[2, C]` of each group: sums of what the activation lets
/// through of dy, and of that times the normalised x. The workspace holds C values more than the unmasked sums take.
pub(crate) fn masked_sums(
    cx: &Context,
    (by, behind): (&By, Behind),
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
            let operands = [&dy[range.clone()], &x[range]];
            match behind {
                Behind::Gelu => smooth::add_gelu(cx.isa, line, operands, sums),
                _ => add_masked(cx.isa, line, operands, sums),
            }
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
    (by, behind): (&By, Behind),
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
            let x = &x[start..start + dx.len()];
            match behind {
                Behind::Gelu => smooth::through_gelu(cx.isa, line, x, dx),
                _ => through_masked(cx.isa, line, x, dx),
            }
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
pub(super) struct Line<'a> {
    pub(super) mean: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) beta: &'a [f32],
}

/// The same for some channels, of which the last may not exist. Arrays, so that the compiler knows their length.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) mean: [f32; LANES],
    pub(super) scale: [f32; LANES],
    pub(super) beta: [f32; LANES],
}

impl Line<'_> {
    #[inline(always)]
    pub(super) fn lanes(self, c: usize) -> Lanes {
        let [mean, scale, beta] = [self.mean, self.scale, self.beta].map(|v| load(&v[c..]));
        Lanes { mean, scale, beta }
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
pub(super) struct GradLine<'a> {
    pub(super) forward: Line<'a>,
    pub(super) b: &'a [f32],
    pub(super) e: &'a [f32],
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

/// max(v, 0) of some channels of one element.
#[inline(always)]
fn positives(line: &Lanes, x: &[f32; LANES]) -> [f32; LANES] {
    let mut v = [0.0; LANES];
    for i in 0..LANES {
        v[i] = positive(x[i], line.mean[i], line.scale[i], line.beta[i]);
    }
    v
}

/// The largest max(v, 0) of one window for channels from c on, NaN if there is one.
#[inline(always)]
fn largest(cover: &Cover, line: &Lanes, [window, c, channels]: [usize; 3], x: &[f32]) -> [f32; LANES] {
    let mut best = [f32::NEG_INFINITY; LANES];
    for t in 0..cover.taps() {
        let at = cover.place(window, t, channels);
        let v = positives(line, &load(&x[at + c..at + channels]));
        for i in 0..LANES {
            best[i] = if (v[i] <= best[i]) | best[i].is_nan() { best[i] } else { v[i] };
        }
    }
    best
}

/// What elements x of a window get of what is left of dy: all of it, where they are the first of the best and positive.
#[inline(always)]
fn chosen(line: &Lanes, x: &[f32; LANES], best: &[f32; LANES], rest: &mut [f32; LANES]) -> [f32; LANES] {
    let v = positives(line, x);
    let mut d = [0.0; LANES];
    for i in 0..LANES {
        let beaten = v[i] < best[i];
        let taken = if beaten { 0.0 } else { rest[i] };
        rest[i] = if beaten { rest[i] } else { 0.0 };
        d[i] = if v[i] > 0.0 { taken } else { 0.0 };
    }
    d
}

multiversion! {
    fn pool_strips(cover: &Cover, line: Line, x: &[f32], y: &mut [f32]) {
        let channels = line.mean.len();
        let [strip, pooled] = cover.strip(channels);
        for (x, y) in x.chunks_exact(strip).zip(y.chunks_exact_mut(pooled)) {
            for c in (0..channels).step_by(LANES) {
                let line = line.lanes(c);
                for window in 0..cover.windows {
                    let best = largest(cover, &line, [window, c, channels], x);
                    store(best, &mut y[window * channels + c..(window + 1) * channels]);
                }
            }
        }
    }

    fn add_masked(line: Line, operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.mean.len();
        let (plain, product) = sums.split_at_mut(channels);
        // Blocks of rows, so that sums are kept in registers.
        const ROWS: usize = 16;
        for (dy, x) in dy.chunks(ROWS * channels).zip(x.chunks(ROWS * channels)) {
            for c in (0..channels).step_by(LANES) {
                let line = line.lanes(c);
                let (mut total, mut weighted) = ([0f32; LANES], [0f32; LANES]);
                for (dy, x) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
                    let (dy, x) = (load(&dy[c..]), load(&x[c..]));
                    let v = positives(&line, &x);
                    for i in 0..LANES {
                        let d = if v[i] > 0.0 { dy[i] } else { 0.0 };
                        total[i] += d;
                        weighted[i] += d * (x[i] - line.mean[i]);
                    }
                }
                for (i, (plain, product)) in plain[c..].iter_mut().zip(&mut product[c..]).take(LANES).enumerate() {
                    *plain += total[i];
                    *product += weighted[i];
                }
            }
        }
    }

    fn add_pooled(cover: &Cover, line: Line, operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.mean.len();
        let [strip, pooled] = cover.strip(channels);
        let (plain, product) = sums.split_at_mut(channels);
        for (x, dy) in x.chunks_exact(strip).zip(dy.chunks_exact(pooled)) {
            for c in (0..channels).step_by(LANES) {
                let line = line.lanes(c);
                let (mut total, mut weighted) = ([0f32; LANES], [0f32; LANES]);
                for window in 0..cover.windows {
                    let best = largest(cover, &line, [window, c, channels], x);
                    let mut rest = load(&dy[window * channels + c..(window + 1) * channels]);
                    for t in 0..cover.taps() {
                        let at = cover.place(window, t, channels);
                        let x = load(&x[at + c..at + channels]);
                        let d = chosen(&line, &x, &best, &mut rest);
                        for i in 0..LANES {
                            total[i] += d[i];
                            weighted[i] += d[i] * (x[i] - line.mean[i]);
                        }
                    }
                }
                for (i, (plain, product)) in plain[c..].iter_mut().zip(&mut product[c..]).take(LANES).enumerate() {
                    *plain += total[i];
                    *product += weighted[i];
                }
            }
        }
    }

    fn through_masked(line: GradLine, x: &[f32], dx: &mut [f32]) {
        let f = line.forward;
        let channels = f.mean.len();
        let [scale, beta, b, e] = [f.scale, f.beta, line.b, line.e].map(|v| &v[..channels]);
        for (dx, x) in dx.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                let v = positive(x[c], f.mean[c], scale[c], beta[c]);
                let d = if v > 0.0 { dx[c] } else { 0.0 };
                dx[c] = scale[c] * d - b[c] - e[c] * (x[c] - f.mean[c]);
            }
        }
    }

    fn through_pooled(cover: &Cover, line: GradLine, operands: [&[f32]; 2], dx: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.forward.mean.len();
        let [strip, pooled] = cover.strip(channels);
        let strips = dx.chunks_exact_mut(strip).zip(x.chunks_exact(strip));
        for ((dx, x), dy) in strips.zip(dy.chunks_exact(pooled)) {
            for c in (0..channels).step_by(LANES) {
                let f = line.forward.lanes(c);
                let (b, e) = (load(&line.b[c..]), load(&line.e[c..]));
                for window in 0..cover.windows {
                    let best = largest(cover, &f, [window, c, channels], x);
                    let mut rest = load(&dy[window * channels + c..(window + 1) * channels]);
                    for t in 0..cover.taps() {
                        let at = cover.place(window, t, channels);
                        let x = load(&x[at + c..at + channels]);
                        let mut d = chosen(&f, &x, &best, &mut rest);
                        for i in 0..LANES {
                            d[i] = f.scale[i] * d[i] - b[i] - e[i] * (x[i] - f.mean[i]);
                        }
                        store(d, &mut dx[at + c..at + channels]);
                    }
                }
            }
        }
    }
}
