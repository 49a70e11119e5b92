//! Batch normalisation in vectors over channels. Statistics are taken in two passes over blocks of rows that stay in
//! the cache and merged by the formula of Chan, Golub and LeVeque (1979), so a mean far from 0 costs no precision.

use super::Behind;
use crate::native::{Context, Slices, math, multiversion, rows_per_part, sum_slices};
use sooner_base::Shape;

/// Values of a block of rows that is read twice (32 KiB).
const BLOCK: usize = 8192;

/// The groups of examples that share statistics, as parts of x: `[N, ..., C]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct By {
    pub(super) eps: f32,
    /// Values of x that share statistics.
    pub(super) each: usize,
}

impl By {
    /// Groups of so many examples of x, or all of it.
    pub(crate) fn new(x: &Shape, group: Option<usize>, eps: f64) -> By {
        let each = group.map_or(x.len(), |n| n.min(x[0]) * x.len().checked_div(x[0]).unwrap_or(0));
        By { eps: eps as f32, each: each.max(1) }
    }

    /// The most rows of C channels in a group.
    pub(crate) fn rows(&self, channels: usize) -> usize {
        self.each.checked_div(channels).unwrap_or(0)
    }

    /// The part of x that group number g has.
    pub(super) fn part<'a>(&self, x: &'a [f32], g: usize) -> &'a [f32] {
        &x[g * self.each..x.len().min((g + 1) * self.each)]
    }
}

/// x: `[N, ..., C]` -> `[2, C]` of each group: mean and biased variance of each channel.
pub(crate) fn batch_stats(cx: &Context, by: &By, x: &[f32], stats: &mut [f32], workspace: &mut [f32]) {
    let groups = x.len().div_ceil(by.each);
    let len = stats.len().checked_div(groups).unwrap_or(0);
    for (g, stats) in stats.chunks_mut(len.max(1)).enumerate() {
        group_stats(cx, by.part(x, g), stats, workspace);
    }
}

/// x: `[N, ..., C]`, stats: `[2, C]` of each group, gamma, beta: `[C]` -> normalised x, or what is behind it of that; in place
/// if there is no x. The workspace holds C values.
pub(crate) fn normalize(
    cx: &Context,
    (by, behind): (&By, Behind),
    x: Option<&[f32]>,
    [stats, gamma, beta]: [&[f32]; 3],
    y: &mut [f32],
    workspace: &mut [f32],
) {
    let len = 2 * gamma.len();
    for (g, y) in y.chunks_mut(by.each).enumerate() {
        let operands = [&stats[g * len..(g + 1) * len], gamma, beta];
        normalize_group(cx, x.map(|x| by.part(x, g)), operands, (by.eps, behind), y, workspace);
    }
}

/// dy, x: `[N, ..., C]`, stats: `[2, C]` of each group -> `[2, C]` of each group: sums of dy and of dy times the
/// normalised x.
pub(crate) fn grad_sums(
    cx: &Context,
    by: &By,
    [dy, x, stats]: [&[f32]; 3],
    sums: &mut [f32],
    workspace: &mut [f32],
) {
    let len = sums.len().checked_div(x.len().div_ceil(by.each)).unwrap_or(sums.len());
    for (g, sums) in sums.chunks_mut(len.max(1)).enumerate() {
        let operands =
            if x.is_empty() { [dy, x, stats] } else { [by.part(dy, g), by.part(x, g), &stats[g * len..]] };
        group_sums(cx, operands, by.eps, sums, workspace);
    }
}

/// dy, x: `[N, ..., C]`, stats: `[2, C]` of each group, gamma: `[C]`, sums: as stats -> dx through the statistics of x;
/// in place of dy if there is none. The workspace holds 3 C values.
pub(crate) fn grad_input(
    cx: &Context,
    by: &By,
    dy: Option<&[f32]>,
    [x, stats, gamma, sums]: [&[f32]; 4],
    dx: &mut [f32],
    workspace: &mut [f32],
) {
    let len = 2 * gamma.len();
    for (g, dx) in dx.chunks_mut(by.each).enumerate() {
        let group = g * len..(g + 1) * len;
        let operands = [by.part(x, g), &stats[group.clone()], gamma, &sums[group]];
        group_grad_input(cx, dy.map(|dy| by.part(dy, g)), operands, by.eps, dx, workspace);
    }
}

/// Values of workspace that [`batch_stats`] takes: mean and sum of squares of each slice, and of a block.
pub(crate) fn batch_stats_workspace(rows: usize, channels: usize) -> usize {
    Slices::of(rows, channels).workspace(4 * channels)
}

/// x: `[R, C]` -> `[2, C]`: mean and biased variance of each channel.
fn group_stats(cx: &Context, x: &[f32], stats: &mut [f32], workspace: &mut [f32]) {
    let channels = stats.len() / 2;
    if channels == 0 {
        return;
    }
    let rows = x.len() / channels;
    let slices = Slices::of(rows, channels);
    let length = slices.rows * channels;
    let workspace = &mut workspace[..slices.workspace(4 * channels)];
    cx.pool.parts(workspace, 4 * channels, &|task, sums| {
        let start = task.index * length;
        let x = &x[start..x.len().min(start + length)];
        let (total, block) = sums.split_at_mut(2 * channels);
        let mut count = 0;
        for rows in x.chunks((BLOCK / channels).max(1) * channels) {
            block_stats(cx.isa, rows, block);
            let more = rows.len() / channels;
            merge(cx.isa, [count as f32, more as f32], block, total);
            count += more;
        }
    });
    for (slice, sums) in workspace.chunks_exact(4 * channels).enumerate() {
        let before = slice * slices.rows;
        let more = slices.rows.min(rows - before);
        merge(cx.isa, [before as f32, more as f32], &sums[..2 * channels], stats);
    }
    stats[channels..].iter_mut().for_each(|v| *v /= rows as f32);
}

multiversion! {
    /// x: `[R, C]` -> mean and sum of squared deviations from it.
    fn block_stats(x: &[f32], stats: &mut [f32]) {
        let channels = stats.len() / 2;
        let (mean, squares) = stats.split_at_mut(channels);
        mean.fill(0.0);
        for row in x.chunks_exact(channels) {
            for (m, x) in mean.iter_mut().zip(row) {
                *m += x;
            }
        }
        let rows = (x.len() / channels) as f32;
        mean.iter_mut().for_each(|m| *m /= rows);
        squares.fill(0.0);
        for row in x.chunks_exact(channels) {
            for ((s, m), x) in squares.iter_mut().zip(&*mean).zip(row) {
                let off = x - m;
                *s += off * off;
            }
        }
    }

    /// Merges mean and squares of `more` rows into those of `count` rows, which hold nothing yet if count is 0.
    fn merge(counts: [f32; 2], from: &[f32], total: &mut [f32]) {
        let [count, more] = counts;
        if count == 0.0 {
            total.copy_from_slice(from);
            return;
        }
        let channels = total.len() / 2;
        let (mean, squares) = total.split_at_mut(channels);
        let (from_mean, from_squares) = from.split_at(channels);
        let share = more / (count + more);
        for c in 0..channels {
            let apart = from_mean[c] - mean[c];
            mean[c] += apart * share;
            squares[c] += from_squares[c] + apart * apart * (count * share);
        }
    }
}

/// x: `[R, C]`, stats: `[2, C]`, gamma, beta: `[C]` -> gamma (x - mean) / sqrt(variance + eps) + beta, in place if there
/// is no x, or what is behind it of that. The workspace holds C values.
fn normalize_group(
    cx: &Context,
    x: Option<&[f32]>,
    [stats, gamma, beta]: [&[f32]; 3],
    (eps, behind): (f32, Behind),
    y: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    if channels == 0 {
        return;
    }
    let (mean, variance) = stats.split_at(channels);
    let scale = &mut workspace[..channels];
    for c in 0..channels {
        scale[c] = gamma[c] / (variance[c] + eps).sqrt();
    }
    let coefficients = [mean, &*scale, beta];
    let part = rows_per_part(channels) * channels;
    let relu = behind == Behind::Relu;
    cx.pool.parts(y, part, &|task, y| {
        let x = x.map(|x| &x[task.index * part..][..y.len()]);
        match (behind, x) {
            (Behind::Gelu, Some(x)) => affine_gelu(cx.isa, coefficients, x, y),
            (Behind::Gelu, None) => affine_gelu_in_place(cx.isa, coefficients, y),
            (_, Some(x)) => affine(cx.isa, coefficients, relu, x, y),
            (_, None) => affine_in_place(cx.isa, coefficients, relu, y),
        }
    });
}

multiversion! {
    fn affine(coefficients: [&[f32]; 3], relu: bool, x: &[f32], y: &mut [f32]) {
        let [mean, scale, beta] = coefficients;
        let channels = mean.len();
        for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                let v = (x[c] - mean[c]) * scale[c] + beta[c];
                y[c] = if relu && v <= 0.0 { 0.0 } else { v };
            }
        }
    }

    fn affine_in_place(coefficients: [&[f32]; 3], relu: bool, y: &mut [f32]) {
        let [mean, scale, beta] = coefficients;
        let channels = mean.len();
        for y in y.chunks_exact_mut(channels) {
            for c in 0..channels {
                let v = (y[c] - mean[c]) * scale[c] + beta[c];
                y[c] = if relu && v <= 0.0 { 0.0 } else { v };
            }
        }
    }

    fn affine_gelu(coefficients: [&[f32]; 3], x: &[f32], y: &mut [f32]) {
        let [mean, scale, beta] = coefficients;
        let channels = mean.len();
        for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                y[c] = math::gelu::<FUSED>((x[c] - mean[c]) * scale[c] + beta[c]);
            }
        }
    }

    fn affine_gelu_in_place(coefficients: [&[f32]; 3], y: &mut [f32]) {
        let [mean, scale, beta] = coefficients;
        let channels = mean.len();
        for y in y.chunks_exact_mut(channels) {
            for c in 0..channels {
                y[c] = math::gelu::<FUSED>((y[c] - mean[c]) * scale[c] + beta[c]);
            }
        }
    }
}

/// Values of workspace that [`grad_sums`] takes.
pub(crate) fn grad_sums_workspace(rows: usize, channels: usize) -> usize {
    Slices::of(rows, channels).workspace(2 * channels)
}

/// dy, x: `[R, C]`, stats: `[2, C]` -> `[2, C]`: sums of dy and of dy times the normalised x.
fn group_sums(cx: &Context, [dy, x, stats]: [&[f32]; 3], eps: f32, sums: &mut [f32], workspace: &mut [f32]) {
    let channels = sums.len() / 2;
    let slices = Slices::of(x.len().checked_div(channels).unwrap_or(0), channels);
    let length = slices.rows * channels;
    let found = sum_slices(cx, slices, 2 * channels, workspace, &|slice, sums| {
        let range = slice * length..x.len().min((slice + 1) * length);
        sums.fill(0.0);
        add_products(cx.isa, &stats[..channels], [&dy[range.clone()], &x[range]], sums);
    });
    match found {
        Some(found) => sums.copy_from_slice(found),
        None => sums.fill(0.0),
    }
    for c in 0..channels {
        sums[channels + c] /= (stats[channels + c] + eps).sqrt();
    }
}

multiversion! {
    fn add_products(mean: &[f32], operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        const ROWS: usize = 4;
        let channels = mean.len();
        let (plain, product) = sums.split_at_mut(channels);
        let (mut dys, mut xs) = (dy.chunks_exact(ROWS * channels), x.chunks_exact(ROWS * channels));
        for (dy, x) in (&mut dys).zip(&mut xs) {
            let dy: [&[f32]; ROWS] = std::array::from_fn(|r| &dy[r * channels..(r + 1) * channels]);
            let x: [&[f32]; ROWS] = std::array::from_fn(|r| &x[r * channels..(r + 1) * channels]);
            for c in 0..channels {
                let z = |r: usize| dy[r][c] * (x[r][c] - mean[c]);
                plain[c] += (dy[0][c] + dy[1][c]) + (dy[2][c] + dy[3][c]);
                product[c] += (z(0) + z(1)) + (z(2) + z(3));
            }
        }
        let rest = dys.remainder().chunks_exact(channels).zip(xs.remainder().chunks_exact(channels));
        for (dy, x) in rest {
            for c in 0..channels {
                plain[c] += dy[c];
                product[c] += dy[c] * (x[c] - mean[c]);
            }
        }
    }
}

/// dy, x: `[R, C]`, stats: `[2, C]`, gamma: `[C]`, sums: `[2, C]` -> dx through the statistics of x; in place of dy if
/// there is none. The workspace holds 3 C values.
fn group_grad_input(
    cx: &Context,
    dy: Option<&[f32]>,
    [x, stats, gamma, sums]: [&[f32]; 4],
    eps: f32,
    dx: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    if channels == 0 {
        return;
    }
    let rows = (x.len() / channels) as f32;
    // dx = a dy - b - d (x - mean)
    let (a, rest) = workspace[..3 * channels].split_at_mut(channels);
    let (b, d) = rest.split_at_mut(channels);
    for c in 0..channels {
        let s = 1.0 / (stats[channels + c] + eps).sqrt();
        a[c] = gamma[c] * s;
        b[c] = a[c] * sums[c] / rows;
        d[c] = a[c] * s * sums[channels + c] / rows;
    }
    let coefficients = [&stats[..channels], a, b, d];
    let part = rows_per_part(channels) * channels;
    cx.pool.parts(dx, part, &|task, dx| {
        let start = task.index * part;
        let x = &x[start..start + dx.len()];
        if let Some(dy) = dy {
            dx.copy_from_slice(&dy[start..start + dx.len()]);
        }
        through_statistics(cx.isa, coefficients, x, dx);
    });
}

/// dy: `[R, C]`, stats: `[2, C]`, gamma: `[C]` -> dx where the statistics are constants; in place of dy if there is
/// none. The workspace holds C values.
pub(crate) fn grad_input_fixed(
    cx: &Context,
    dy: Option<&[f32]>,
    [stats, gamma]: [&[f32]; 2],
    eps: f32,
    dx: &mut [f32],
    workspace: &mut [f32],
) {
    let channels = gamma.len();
    if channels == 0 {
        return;
    }
    let scale = &mut workspace[..channels];
    for c in 0..channels {
        scale[c] = gamma[c] / (stats[channels + c] + eps).sqrt();
    }
    let scale = &*scale;
    let part = rows_per_part(channels) * channels;
    cx.pool.parts(dx, part, &|task, dx| {
        if let Some(dy) = dy {
            dx.copy_from_slice(&dy[task.index * part..][..dx.len()]);
        }
        multiply_rows(cx.isa, scale, dx);
    });
}

multiversion! {
    fn through_statistics(coefficients: [&[f32]; 4], x: &[f32], dx: &mut [f32]) {
        let [mean, a, b, d] = coefficients;
        let channels = mean.len();
        for (dx, x) in dx.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                dx[c] = a[c] * dx[c] - b[c] - d[c] * (x[c] - mean[c]);
            }
        }
    }

    fn multiply_rows(scale: &[f32], dx: &mut [f32]) {
        for dx in dx.chunks_exact_mut(scale.len()) {
            for (dx, scale) in dx.iter_mut().zip(scale) {
                *dx *= scale;
            }
        }
    }
}
