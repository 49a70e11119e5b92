//! Sums, scalings, changes of shape and reductions, one element at a time. Reshape and fill need no loop of their own.

use crate::naive::Tensor;
use crate::real::Real;
use sooner_base::Shape;

/// a + b.
pub(crate) fn add<T: Real>(a: Tensor<T>, b: Tensor<T>) -> Vec<T> {
    a.data.iter().zip(b.data).map(|(&a, &b)| a + b).collect()
}

/// a b, element by element.
pub(crate) fn mul<T: Real>(a: Tensor<T>, b: Tensor<T>) -> Vec<T> {
    a.data.iter().zip(b.data).map(|(&a, &b)| a * b).collect()
}

/// factor x.
pub(crate) fn scale<T: Real>(x: Tensor<T>, factor: T) -> Vec<T> {
    x.data.iter().map(|&v| factor * v).collect()
}

/// x: `[R, C]` -> `[R, channels]`: `before` zeros, x's channels, zeros.
pub(crate) fn pad_channels<T: Real>(x: Tensor<T>, before: usize, channels: usize) -> Vec<T> {
    let old = x.shape.last();
    let mut y = vec![T::ZERO; rows(x.shape) * channels];
    for r in 0..rows(x.shape) {
        for c in 0..old {
            y[r * channels + before + c] = x.data[r * old + c];
        }
    }
    y
}

/// x: `[R, C]` -> `[R, channels]`: x's channels from `first` on.
pub(crate) fn take_channels<T: Real>(x: Tensor<T>, first: usize, channels: usize) -> Vec<T> {
    let old = x.shape.last();
    let row = |r: usize| (0..channels).map(move |c| x.data[r * old + first + c]);
    (0..rows(x.shape)).flat_map(row).collect()
}

fn rows(shape: &Shape) -> usize {
    shape.dims()[..shape.rank() - 1].iter().product()
}

/// The sum of all elements.
pub(crate) fn sum<T: Real>(x: Tensor<T>) -> Vec<T> {
    let mut sum = T::ZERO;
    for &v in x.data {
        sum += v;
    }
    vec![sum]
}
