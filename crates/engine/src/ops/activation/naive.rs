//! Nonlinearities as their formulas say, computed in f64.

use crate::Activation;
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

/// A smooth nonlinearity of x.
pub(crate) fn activate<T: Real>(x: Tensor<T>, activation: Activation) -> Vec<T> {
    x.data.iter().map(|v| T::from_f64(value(activation, v.to_f64()))).collect()
}

/// from: y or x, as [`Activation::grad_from_result`] says.
pub(crate) fn activate_grad<T: Real>(from: Tensor<T>, dy: Tensor<T>, activation: Activation) -> Vec<T> {
    from.data.iter().zip(dy.data).map(|(v, &dy)| dy * T::from_f64(slope(activation, v.to_f64()))).collect()
}

fn value(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Gelu => x * normal(x),
        Activation::Silu => x * sigmoid(x),
        Activation::Celu { alpha } => {
            if x > 0.0 {
                x
            } else {
                alpha * (x / alpha).exp_m1()
            }
        }
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
    }
}

fn slope(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::Gelu => {
            let density = (-0.5 * v * v).exp() / (2.0 * std::f64::consts::PI).sqrt();
            normal(v) + v * density
        }
        Activation::Silu => sigmoid(v) * (1.0 + v * (1.0 - sigmoid(v))),
        Activation::Celu { alpha } => {
            if v > 0.0 {
                1.0
            } else {
                v / alpha + 1.0
            }
        }
        Activation::Tanh => 1.0 - v * v,
        Activation::Sigmoid => v * (1.0 - v),
    }
}

/// The normal distribution function; by the complement, so that its lower tail keeps its digits.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
