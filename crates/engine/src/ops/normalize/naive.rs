//! Batch normalisation as its formulas say, in two passes over the data.

use crate::Normalization;
use crate::naive::Tensor;
use crate::real::Real;
use std::ops::Range;

/// The elements of each group of examples of x: `[N, ..., C]`.
fn groups<T>(x: Tensor<T>, group: Option<usize>) -> impl Iterator<Item = Range<usize>> + use<T> {
    let len = x.data.len();
    let each = match group {
        Some(examples) => examples * len.checked_div(x.shape[0]).unwrap_or(0),
        None => len,
    };
    (0..len).step_by(each.max(1)).map(move |start| start..len.min(start + each))
}

/// The elements of a range.
fn part<'a, T>(x: Tensor<'a, T>, range: &Range<usize>) -> Tensor<'a, T> {
    Tensor { shape: x.shape, data: &x.data[range.clone()] }
}

/// The statistics or sums of one group.
fn of_group<'a, T>(stats: Tensor<'a, T>, group: usize) -> Tensor<'a, T> {
    let len = 2 * stats.shape.last();
    Tensor { shape: stats.shape, data: &stats.data[group * len..(group + 1) * len] }
}

/// x: `[N, ..., C]` -> `[2, C]` or `[G, 2, C]`.
pub(crate) fn batch_stats<T: Real>(x: Tensor<T>, group: Option<usize>) -> Vec<T> {
    groups(x, group).flat_map(|range| group_stats(part(x, &range))).collect()
}

/// x, stats, gamma, beta -> gamma z + beta.
pub(crate) fn normalize<T: Real>([x, stats, gamma, beta]: [Tensor<T>; 4], how: &Normalization) -> Vec<T> {
    let one = |(g, range): (usize, Range<usize>)| {
        normalize_group([part(x, &range), of_group(stats, g), gamma, beta], how.eps)
    };
    groups(x, how.group).enumerate().flat_map(one).collect()
}

/// dy, x, stats -> sums of dy and of dy z, of the shape of stats.
pub(crate) fn grad_sums<T: Real>([dy, x, stats]: [Tensor<T>; 3], how: &Normalization) -> Vec<T> {
    if x.data.is_empty() {
        return vec![T::ZERO; stats.data.len()];
    }
    let one = |(g, range): (usize, Range<usize>)| {
        group_sums(part(dy, &range), part(x, &range), of_group(stats, g), how.eps)
    };
    groups(x, how.group).enumerate().flat_map(one).collect()
}

/// dy, x, stats, gamma, sums -> dx through the statistics of x.
pub(crate) fn grad_input<T: Real>(operands: [Tensor<T>; 5], how: &Normalization) -> Vec<T> {
    let [dy, x, stats, gamma, sums] = operands;
    let one = |(g, range): (usize, Range<usize>)| {
        let [stats, sums] = [stats, sums].map(|s| of_group(s, g));
        group_grad_input([part(dy, &range), part(x, &range), stats, gamma, sums], how.eps)
    };
    groups(x, how.group).enumerate().flat_map(one).collect()
}

/// x: `[R, C]` -> `[2, C]`: mean and biased variance of each channel.
fn group_stats<T: Real>(x: Tensor<T>) -> Vec<T> {
    let channels = x.shape.last();
    let rows = T::from_f64((x.data.len() / channels) as f64);
    let mut stats = vec![T::ZERO; 2 * channels];
    for (i, &v) in x.data.iter().enumerate() {
        stats[i % channels] += v / rows;
    }
    for (i, &v) in x.data.iter().enumerate() {
        let c = i % channels;
        let off = v - stats[c];
        stats[channels + c] += off * off / rows;
    }
    stats
}

/// x: `[R, C]`, stats: `[2, C]`, gamma, beta: `[C]` -> gamma z + beta.
fn normalize_group<T: Real>(operands: [Tensor<T>; 4], eps: f64) -> Vec<T> {
    let [x, stats, gamma, beta] = operands;
    let channels = x.shape.last();
    let value = |(i, &v): (usize, &T)| {
        let c = i % channels;
        gamma.data[c] * (v - stats.data[c]) * inverse_deviation(stats, c, eps) + beta.data[c]
    };
    x.data.iter().enumerate().map(value).collect()
}

/// dy, x: `[R, C]`, stats: `[2, C]` -> `[2, C]`: sums of dy and of dy z.
fn group_sums<T: Real>(dy: Tensor<T>, x: Tensor<T>, stats: Tensor<T>, eps: f64) -> Vec<T> {
    let channels = x.shape.last();
    let mut sums = vec![T::ZERO; 2 * channels];
    for (i, &d) in dy.data.iter().enumerate() {
        let c = i % channels;
        sums[c] += d;
        sums[channels + c] += d * (x.data[i] - stats.data[c]) * inverse_deviation(stats, c, eps);
    }
    sums
}

/// dy, x: `[R, C]`, stats: `[2, C]`, gamma: `[C]`, sums: `[2, C]` -> dx through the statistics of x.
fn group_grad_input<T: Real>(operands: [Tensor<T>; 5], eps: f64) -> Vec<T> {
    let [dy, x, stats, gamma, sums] = operands;
    let channels = x.shape.last();
    let rows = T::from_f64((x.data.len() / channels) as f64);
    let value = |(i, &d): (usize, &T)| {
        let c = i % channels;
        let s = inverse_deviation(stats, c, eps);
        let z = (x.data[i] - stats.data[c]) * s;
        gamma.data[c] * s * (d - (sums.data[c] + z * sums.data[channels + c]) / rows)
    };
    dy.data.iter().enumerate().map(value).collect()
}

/// dy: `[R, C]`, stats: `[2, C]`, gamma: `[C]` -> dx where the statistics are constants.
pub(crate) fn grad_input_fixed<T: Real>(
    dy: Tensor<T>,
    stats: Tensor<T>,
    gamma: Tensor<T>,
    eps: f64,
) -> Vec<T> {
    let channels = dy.shape.last();
    let value = |(i, &d): (usize, &T)| {
        let c = i % channels;
        gamma.data[c] * inverse_deviation(stats, c, eps) * d
    };
    dy.data.iter().enumerate().map(value).collect()
}

/// One row of a: `[R, ...]`.
pub(crate) fn row<T: Real>(a: Tensor<T>, row: usize) -> Vec<T> {
    let len = a.data.len() / a.shape[0];
    a.data[row * len..(row + 1) * len].to_vec()
}

fn inverse_deviation<T: Real>(stats: Tensor<T>, channel: usize, eps: f64) -> T {
    let variance = stats.data[stats.shape.last() + channel];
    T::ONE / (variance + T::from_f64(eps)).sqrt()
}
