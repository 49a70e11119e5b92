//! Linear maps and biases as their formulas say.

use crate::naive::Tensor;
use crate::real::Real;

/// x: `[N, I]`, w: `[I, O]` -> y: `[N, O]`.
pub(crate) fn forward<T: Real>(x: Tensor<T>, w: Tensor<T>) -> Vec<T> {
    let [rows, inputs, outputs] = [x.shape[0], x.shape[1], w.shape[1]];
    let mut y = vec![T::ZERO; rows * outputs];
    each_multiply([rows, inputs, outputs], |x_at, w_at, y_at| y[y_at] += x.data[x_at] * w.data[w_at]);
    y
}

/// dy: `[N, O]`, w: `[I, O]` -> dx: `[N, I]`.
pub(crate) fn grad_input<T: Real>(dy: Tensor<T>, w: Tensor<T>) -> Vec<T> {
    let [rows, inputs, outputs] = [dy.shape[0], w.shape[0], w.shape[1]];
    let mut dx = vec![T::ZERO; rows * inputs];
    each_multiply([rows, inputs, outputs], |x_at, w_at, y_at| dx[x_at] += dy.data[y_at] * w.data[w_at]);
    dx
}

/// x: `[N, I]`, dy: `[N, O]` -> dw: `[I, O]`.
pub(crate) fn grad_weight<T: Real>(x: Tensor<T>, dy: Tensor<T>) -> Vec<T> {
    let [rows, inputs, outputs] = [x.shape[0], x.shape[1], dy.shape[1]];
    let mut dw = vec![T::ZERO; inputs * outputs];
    each_multiply([rows, inputs, outputs], |x_at, w_at, y_at| dw[w_at] += x.data[x_at] * dy.data[y_at]);
    dw
}

/// x: `[R, C]`, b: `[C]` -> x + b on every row.
pub(crate) fn add_bias<T: Real>(x: Tensor<T>, b: Tensor<T>) -> Vec<T> {
    let channels = b.data.len();
    x.data.iter().enumerate().map(|(i, &v)| v + b.data[i % channels]).collect()
}

/// dy: `[R, C]` -> db: `[C]`.
pub(crate) fn bias_grad<T: Real>(dy: Tensor<T>) -> Vec<T> {
    let channels = dy.shape.last();
    let mut db = vec![T::ZERO; channels];
    for (i, &d) in dy.data.iter().enumerate() {
        db[i % channels] += d;
    }
    db
}

/// Calls `visit(element of x, element of w, element of y)` for every multiply-add of a linear map.
fn each_multiply([rows, inputs, outputs]: [usize; 3], mut visit: impl FnMut(usize, usize, usize)) {
    for n in 0..rows {
        for i in 0..inputs {
            for o in 0..outputs {
                visit(n * inputs + i, i * outputs + o, n * outputs + o);
            }
        }
    }
}
