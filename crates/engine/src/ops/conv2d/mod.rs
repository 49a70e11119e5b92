//! Two-dimensional convolution (cross-correlation, as in every framework) and its two gradients.
//!
//! N images, H x W and H' x W' spatial extents of input and result, C and K channels of input and result, KH x KW
//! window, (s, t) stride, (p, q) padding before the first row and column. Outside the image x is 0.
//! - x: `[N, H, W, C]`, w: `[KH, KW, C, K]`, y and dy: `[N, H', W', K]`
//! - `y[n, i, j, k] = sum over a, b, c of x[n, i s + a - p, j t + b - q, c] w[a, b, c, k]`
//! - `dx[n, h, w, c] = sum over all (i, j, a, b, k) with h = i s + a - p, w = j t + b - q of dy[n, i, j, k] w[a, b, c, k]`
//! - `dw[a, b, c, k] = sum over n, i, j of x[n, i s + a - p, j t + b - q, c] dy[n, i, j, k]`

pub(crate) mod naive;
pub(crate) mod native;
