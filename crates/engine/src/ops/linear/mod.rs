//! Linear maps, biases and their gradients.
//!
//! N rows, I inputs, O outputs; R rows of C channels for biases.
//! - linear: x: `[N, I]`, w: `[I, O]`, `y[n, o] = sum over i of x[n, i] w[i, o]`
//! - gradient by x: `dx[n, i] = sum over o of dy[n, o] w[i, o]`; by w: `dw[i, o] = sum over n of x[n, i] dy[n, o]`
//! - bias: x: `[R, C]`, b: `[C]`, `y[r, c] = x[r, c] + b[c]`; its gradient `db[c] = sum over r of dy[r, c]`

pub(crate) mod few;
pub(crate) mod naive;
pub(crate) mod native;
pub(crate) mod outer;
