//! Rectified linear units, one element at a time.

use crate::naive::Tensor;
use crate::real::Real;

/// max(x, 0), where NaN stays NaN.
pub(crate) fn relu<T: Real>(x: Tensor<T>) -> Vec<T> {
    x.data.iter().map(|&v| if v <= T::ZERO { T::ZERO } else { v }).collect()
}

/// dy where y > 0, else 0.
pub(crate) fn relu_grad<T: Real>(y: Tensor<T>, dy: Tensor<T>) -> Vec<T> {
    y.data.iter().zip(dy.data).map(|(&y, &dy)| if y > T::ZERO { dy } else { T::ZERO }).collect()
}
