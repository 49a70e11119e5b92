//! Softmax cross entropy with label smoothing, its gradient, and the count of right answers.
//!
//! N examples, K classes; logits z: `[N, K]`, labels l: `[N]`, smoothing s: scalar, q = (1 - s) onehot(l) + s / K,
//! p = softmax(z).
//! - cross entropy: `y[n] = - sum over k of q[n, k] log p[n, k]`
//! - gradient by z: `dz[n, k] = dloss[n] (p[n, k] - q[n, k])`, since q sums to 1
//! - with soft labels t: `[N, K]` instead of l: q = (1 - s) t + s / K, and `dz = dloss (p sum(q) - q)`
//! - correct: `y[n] = 1` where the first of the largest logits is at the label, else 0 (0 too where any logit is NaN)

pub(crate) mod naive;
pub(crate) mod native;
