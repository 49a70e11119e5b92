//! What optimisers that see weights as matrices, or gradients as one vector, are made of.
//!
//! - stack: tensors of one shape one after the other
//! - batch matmul: `y[b, i, k] = sum over j of a[b, i, j] b[b, j, k]`, a or b read transposed if asked for
//! - unit rows: `y[r, :] = x[r, :] / (|x[r, :]| + eps)`
//! - clip factor: `min(1, limit / (sqrt(squares) + 1e-6))`

pub(crate) mod naive;
pub(crate) mod native;

/// Keeps a clipped gradient of 0 from dividing by 0, as in PyTorch.
const CLIP_EPS: f64 = 1e-6;
