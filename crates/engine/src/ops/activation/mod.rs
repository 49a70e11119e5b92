//! Nonlinearities, element by element. A NaN stays one in all of them, so that divergence is seen.
//!
//! - ReLU: `y = max(x, 0)`; gradient from the result: `dx = dy` where `y > 0`, else 0 (at 0 as well)
//! - GELU: `y = x P(x)` with the normal distribution function P; `dx = dy (P(x) + x p(x))` with its density p
//! - SiLU: `y = x s(x)` with the sigmoid s; `dx = dy s(x) (1 + x (1 - s(x)))`
//! - CELU: `y = x` where `x > 0`, else `a (exp(x / a) - 1)`; `dx = dy` where `y > 0`, else `dy (y / a + 1)`
//! - tanh: `dx = dy (1 - y^2)`
//! - sigmoid: `y = 1 / (1 + exp(-x))`; `dx = dy y (1 - y)`

pub(crate) mod naive;
pub(crate) mod native;
