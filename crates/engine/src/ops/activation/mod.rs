//! Rectified linear units, element by element.
//!
//! - `y = max(x, 0)`; a NaN stays one, so that divergence is seen
//! - gradient from the result: `dx = dy` where `y > 0`, else 0 (at 0 as well)

pub(crate) mod naive;
pub(crate) mod native;
