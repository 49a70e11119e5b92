//! Sums, scalings, changes of shape and reductions, one element at a time. Reshape and fill need no loop of their own.

use crate::naive::Tensor;
use crate::real::Real;

/// a + b.
pub(crate) fn add<T: Real>(a: Tensor<T>, b: Tensor<T>) -> Vec<T> {
    a.data.iter().zip(b.data).map(|(&a, &b)| a + b).collect()
}

/// factor x.
pub(crate) fn scale<T: Real>(x: Tensor<T>, factor: f64) -> Vec<T> {
    x.data.iter().map(|&v| T::from_f64(factor) * v).collect()
}

/// x: `[R, C]` -> `[R, channels]`: further channels are 0, surplus ones are dropped.
pub(crate) fn resize_channels<T: Real>(x: Tensor<T>, channels: usize) -> Vec<T> {
    let old = x.shape.last();
    let rows: usize = x.shape.dims()[..x.shape.rank() - 1].iter().product();
    let mut y = vec![T::ZERO; rows * channels];
    for r in 0..rows {
        for c in 0..old.min(channels) {
            y[r * channels + c] = x.data[r * old + c];
        }
    }
    y
}

/// The sum of all elements.
pub(crate) fn sum<T: Real>(x: Tensor<T>) -> Vec<T> {
    let mut sum = T::ZERO;
    for &v in x.data {
        sum += v;
    }
    vec![sum]
}
