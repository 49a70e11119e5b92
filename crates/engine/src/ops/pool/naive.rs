//! Pooling as its formulas say.

use crate::Window;
use crate::naive::Tensor;
use crate::real::Real;
use sooner_base::Shape;

/// x: `[N, H, W, C]` -> y: `[N, H', W', C]`, whose shape is `output`.
pub(crate) fn max<T: Real>(x: Tensor<T>, window: &Window, output: &Shape) -> Vec<T> {
    winners(x, window, output).iter().map(|&at| x.data[at]).collect()
}

/// x: `[N, H, W, C]`, dy: `[N, H', W', C]` -> dx: `[N, H, W, C]`.
pub(crate) fn max_grad<T: Real>(x: Tensor<T>, dy: Tensor<T>, window: &Window) -> Vec<T> {
    let mut dx = vec![T::ZERO; x.data.len()];
    for (y_at, x_at) in winners(x, window, dy.shape).into_iter().enumerate() {
        dx[x_at] += dy.data[y_at];
    }
    dx
}

/// The element of x that each element of y takes its value from: the first of the largest, a NaN before any number.
fn winners<T: Real>(x: Tensor<T>, window: &Window, output: &Shape) -> Vec<usize> {
    let mut winner: Vec<Option<usize>> = vec![None; output.len()];
    each_pair(window, x.shape, output, |x_at, y_at| {
        let value = x.data[x_at];
        let wins = match winner[y_at].map(|at| x.data[at]) {
            None => true,
            Some(best) => value > best || value.is_nan() && !best.is_nan(),
        };
        if wins {
            winner[y_at] = Some(x_at);
        }
    });
    winner.into_iter().map(|at| at.expect("every window covers a position of the image")).collect()
}

/// x: `[N, H, W, C]` -> y: `[N, H', W', C]`, whose shape is `output`.
pub(crate) fn avg<T: Real>(x: Tensor<T>, window: &Window, output: &Shape) -> Vec<T> {
    let mut y = vec![T::ZERO; output.len()];
    let counts = counts(window, x.shape, output);
    each_pair(window, x.shape, output, |x_at, y_at| y[y_at] += x.data[x_at] / counts[y_at]);
    y
}

/// dy: `[N, H', W', C]` -> dx: `[N, H, W, C]`, whose shape is `input`.
pub(crate) fn avg_grad<T: Real>(dy: Tensor<T>, window: &Window, input: &Shape) -> Vec<T> {
    let mut dx = vec![T::ZERO; input.len()];
    let counts = counts(window, input, dy.shape);
    each_pair(window, input, dy.shape, |x_at, y_at| dx[x_at] += dy.data[y_at] / counts[y_at]);
    dx
}

/// How many positions inside the image each element of y is taken over.
fn counts<T: Real>(window: &Window, input: &Shape, output: &Shape) -> Vec<T> {
    let mut counts = vec![T::ZERO; output.len()];
    each_pair(window, input, output, |_, y_at| counts[y_at] += T::ONE);
    counts
}

/// x: `[N, H, W, C]` -> y: `[N, C]`.
pub(crate) fn global_avg<T: Real>(x: Tensor<T>) -> Vec<T> {
    let [n, positions, channels] = [x.shape[0], x.shape[1] * x.shape[2], x.shape[3]];
    let mut y = vec![T::ZERO; n * channels];
    for (i, &v) in x.data.iter().enumerate() {
        let image = i / (positions * channels);
        y[image * channels + i % channels] += v / T::from_f64(positions as f64);
    }
    y
}

/// dy: `[N, C]` -> dx: `[N, H, W, C]`, whose shape is `input`.
pub(crate) fn global_avg_grad<T: Real>(dy: Tensor<T>, input: &Shape) -> Vec<T> {
    let [positions, channels] = [input[1] * input[2], input[3]];
    let value = |i: usize| {
        let image = i / (positions * channels);
        dy.data[image * channels + i % channels] / T::from_f64(positions as f64)
    };
    (0..input.len()).map(value).collect()
}

/// Calls `visit(element of x, element of y)` for every element of x inside the window of each element of y.
fn each_pair(window: &Window, input: &Shape, output: &Shape, mut visit: impl FnMut(usize, usize)) {
    let [n, height, width, channels] = [0, 1, 2, 3].map(|d| input[d]);
    let [rows, columns] = [output[1], output[2]];
    for image in 0..n {
        window.each_tap([height, width], |[i, j], _, [h, w]| {
            for c in 0..channels {
                let x_at = ((image * height + h) * width + w) * channels + c;
                let y_at = ((image * rows + i) * columns + j) * channels + c;
                visit(x_at, y_at);
            }
        });
    }
}
