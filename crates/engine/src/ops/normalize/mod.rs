//! Batch normalisation, split so that training and evaluation share the second half.
//!
//! R rows (every dimension but the last) of C channels; stats: `[2, C]` holds mean m and biased variance v;
//! s = 1 / sqrt(v + eps), z = (x - m) s.
//! - batch statistics: `m[c] = mean over r of x[r, c]`, `v[c] = mean over r of (x[r, c] - m[c])^2`
//! - normalize: `y[r, c] = gamma[c] z[r, c] + beta[c]`
//! - sums: row 0 `sum over r of dy[r, c]` (gradient of beta), row 1 `sum over r of dy[r, c] z[r, c]` (of gamma)
//! - gradient by x through its own statistics: `dx = gamma s (dy - (sums[0] + z sums[1]) / R)`
//! - gradient by x where the statistics are constants: `dx = gamma s dy`
//! - by groups of examples (ghost batch normalisation): all of this for each group by itself, stats and sums `[G, 2, C]`
//! - row: one row of `[2, C]`, or of any tensor along its first dimension

pub(crate) mod masked;
pub(crate) mod naive;
pub(crate) mod native;
mod smooth;

/// What is computed together with a normalisation: the activation of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Behind {
    /// Nothing.
    #[default]
    Nothing,
    /// A ReLU.
    Relu,
    /// A GELU.
    Gelu,
}
