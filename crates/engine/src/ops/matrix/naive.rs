//! Products of matrices, norms and clipping as their formulas say.

use super::CLIP_EPS;
use crate::Transposed;
use crate::naive::Tensor;
use crate::real::Real;
use sooner_base::Shape;

/// a: `[B, I, J]`, b: `[B, J, K]` -> `[B, I, K]`, whose shape is `output`.
pub(crate) fn product<T: Real>(a: Tensor<T>, b: Tensor<T>, transposed: Transposed, output: &Shape) -> Vec<T> {
    let [count, rows, columns] = [output[0], output[1], output[2]];
    let left = transposed == Transposed::Left;
    let depth = if left { a.shape[1] } else { a.shape[2] };
    let mut y = vec![T::ZERO; output.len()];
    for n in 0..count {
        for i in 0..rows {
            for k in 0..columns {
                for j in 0..depth {
                    let a_at = if left { (n * depth + j) * rows + i } else { (n * rows + i) * depth + j };
                    let b_at = match transposed {
                        Transposed::Right => (n * columns + k) * depth + j,
                        _ => (n * depth + j) * columns + k,
                    };
                    y[(n * rows + i) * columns + k] += a.data[a_at] * b.data[b_at];
                }
            }
        }
    }
    y
}

/// x: `[R, ...]`.
pub(crate) fn unit_rows<T: Real>(x: Tensor<T>, eps: f64) -> Vec<T> {
    let len = x.data.len().checked_div(x.shape[0]).unwrap_or(0);
    let unit = |row: &[T]| {
        let mut squares = T::ZERO;
        row.iter().for_each(|&v| squares += v * v);
        let norm = squares.sqrt() + T::from_f64(eps);
        row.iter().map(|&v| v / norm).collect::<Vec<T>>()
    };
    x.data.chunks(len.max(1)).flat_map(unit).collect()
}

/// What gradients with this sum of squares are multiplied by. A NaN stays one.
pub(crate) fn clip_factor<T: Real>(squares: T, limit: f64) -> T {
    let factor = T::from_f64(limit) / (squares.sqrt() + T::from_f64(CLIP_EPS));
    if factor > T::ONE { T::ONE } else { factor }
}
