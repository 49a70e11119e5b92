//! Two-dimensional convolution (cross-correlation, as in every framework) and its two gradients.
//!
//! N images, H x W and H' x W' spatial extents of input and result, C and K channels of input and result, KH x KW
//! window, (s, t) stride, (d, e) dilation, (p, q) padding before the first row and column. Outside the image x is 0.
//! - x: `[N, H, W, C]`, w: `[KH, KW, C, K]`, y and dy: `[N, H', W', K]`
//! - `y[n, i, j, k] = sum over a, b, c of x[n, i s + a d - p, j t + b e - q, c] w[a, b, c, k]`
//! - `dx[n, h, w, c] = sum over all (i, j, a, b, k) with h = i s + a d - p, w = j t + b e - q of
//!   dy[n, i, j, k] w[a, b, c, k]`
//! - `dw[a, b, c, k] = sum over n, i, j of x[n, i s + a d - p, j t + b e - q, c] dy[n, i, j, k]`
//!
//! With G groups there are G such convolutions side by side: number g takes channels `g C / G..` of x, filters
//! `g K / G..` of w `[KH, KW, C / G, K]`, and gives channels `g K / G..` of y.

pub(crate) mod naive;
pub(crate) mod native;
