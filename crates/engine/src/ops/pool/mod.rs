//! Pooling over windows and over whole images, with gradients.
//!
//! x: `[N, H, W, C]`, y and dy: `[N, H', W', C]`; a window sees only positions inside the image, padding has no value.
//! - max: largest value of the window, NaN if one of them is, so that divergence is seen; its gradient sends dy to the
//!   first (in row-major order of the window) of the elements that equal it, and where the result is NaN to any one
//! - average: sum over the window's positions inside the image, divided by their number; its gradient sends dy
//!   divided by that number to each of them
//! - global average: `y[n, c] = mean over h, w of x[n, h, w, c]`; its gradient is `dy[n, c] / (H W)` everywhere

pub(crate) mod chosen;
pub(crate) mod naive;
pub(crate) mod native;
