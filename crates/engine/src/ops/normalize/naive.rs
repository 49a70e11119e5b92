//! Batch normalisation as its formulas say, in two passes over the data.

use crate::naive::Tensor;
use crate::real::Real;

/// x: `[R, C]` -> `[2, C]`: mean and biased variance of each channel.
pub(crate) fn batch_stats<T: Real>(x: Tensor<T>) -> Vec<T> {
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
pub(crate) fn normalize<T: Real>(operands: [Tensor<T>; 4], eps: f64) -> Vec<T> {
    let [x, stats, gamma, beta] = operands;
    let channels = x.shape.last();
    let value = |(i, &v): (usize, &T)| {
        let c = i % channels;
        gamma.data[c] * (v - stats.data[c]) * inverse_deviation(stats, c, eps) + beta.data[c]
    };
    x.data.iter().enumerate().map(value).collect()
}

/// dy, x: `[R, C]`, stats: `[2, C]` -> `[2, C]`: sums of dy and of dy z.
pub(crate) fn grad_sums<T: Real>(dy: Tensor<T>, x: Tensor<T>, stats: Tensor<T>, eps: f64) -> Vec<T> {
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
pub(crate) fn grad_input<T: Real>(operands: [Tensor<T>; 5], eps: f64) -> Vec<T> {
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

/// One row of a: `[2, C]`.
pub(crate) fn row<T: Real>(a: Tensor<T>, row: usize) -> Vec<T> {
    let channels = a.shape.last();
    a.data[row * channels..(row + 1) * channels].to_vec()
}

fn inverse_deviation<T: Real>(stats: Tensor<T>, channel: usize, eps: f64) -> T {
    let variance = stats.data[stats.shape.last() + channel];
    T::ONE / (variance + T::from_f64(eps)).sqrt()
}
