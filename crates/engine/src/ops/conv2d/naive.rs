//! Convolution as its formulas say, one multiply-add at a time.

use crate::Convolution;
use crate::naive::Tensor;
use crate::real::Real;
use sooner_base::Shape;

/// x: `[N, H, W, C]`, w: `[KH, KW, C / G, K]` -> y: `[N, H', W', K]`, whose shape is `output`.
pub(crate) fn forward<T: Real>(x: Tensor<T>, w: Tensor<T>, conv: &Convolution, output: &Shape) -> Vec<T> {
    let mut y = vec![T::ZERO; output.len()];
    each_multiply(conv, x.shape, output, |x_at, w_at, y_at| y[y_at] += x.data[x_at] * w.data[w_at]);
    y
}

/// dy: `[N, H', W', K]`, w: `[KH, KW, C / G, K]` -> dx: `[N, H, W, C]`, whose shape is `input`.
pub(crate) fn grad_input<T: Real>(dy: Tensor<T>, w: Tensor<T>, conv: &Convolution, input: &Shape) -> Vec<T> {
    let mut dx = vec![T::ZERO; input.len()];
    each_multiply(conv, input, dy.shape, |x_at, w_at, y_at| dx[x_at] += dy.data[y_at] * w.data[w_at]);
    dx
}

/// x: `[N, H, W, C]`, dy: `[N, H', W', K]` -> dw: `[KH, KW, C / G, K]`, whose shape is `weights`.
pub(crate) fn grad_weight<T: Real>(
    x: Tensor<T>,
    dy: Tensor<T>,
    conv: &Convolution,
    weights: &Shape,
) -> Vec<T> {
    let mut dw = vec![T::ZERO; weights.len()];
    each_multiply(conv, x.shape, dy.shape, |x_at, w_at, y_at| dw[w_at] += x.data[x_at] * dy.data[y_at]);
    dw
}

/// Calls `visit(element of x, element of w, element of y)` for every multiply-add of a convolution; the three
/// operations differ only in which of the three they sum into.
fn each_multiply(
    conv: &Convolution,
    input: &Shape,
    output: &Shape,
    mut visit: impl FnMut(usize, usize, usize),
) {
    let Convolution { window, groups } = conv;
    let [n, height, width, channels] = [0, 1, 2, 3].map(|d| input[d]);
    let [rows, columns, filters] = [1, 2, 3].map(|d| output[d]);
    let seen = channels / groups;
    for image in 0..n {
        window.each_tap([height, width], |[i, j], [a, b], [h, w]| {
            for k in 0..filters {
                let group = k / (filters / groups);
                for c in 0..seen {
                    let x_at = ((image * height + h) * width + w) * channels + group * seen + c;
                    let w_at = ((a * window.kernel[1] + b) * seen + c) * filters + k;
                    let y_at = ((image * rows + i) * columns + j) * filters + k;
                    visit(x_at, w_at, y_at);
                }
            }
        });
    }
}
