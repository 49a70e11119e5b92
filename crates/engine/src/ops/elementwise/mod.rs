//! Sums, scalings, changes of shape, and reductions to and from a single number.
//!
//! - add: `a + b`; scale: `factor x`; reshape: the same elements in the same order
//! - pad channels: x: `[R, C]` -> `[R, D]`, D >= C, new channels 0; take channels: the first D <= C of `[R, C]`
//! - sum: all elements to a scalar; broadcast: a scalar to every element of a shape; fill: a constant

pub(crate) mod naive;
pub(crate) mod native;
