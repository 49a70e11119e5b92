//! The native CPU executor: programs are lowered to steps (`lower`), steps get memory (`plan`), and a run calls one
//! kernel after the other, each on all threads. Kernels lie with their operations in `crate::ops`; what they share is
//! here: threads, instruction sets, tiles of products, convolutions without im2col, sums over rows.
//!
//! **Invariant:** a run allocates nothing, its results do not depend on the number of threads, on timing or on what
//! memory held before, and threads are given, never global.

mod columns;
mod context;
mod correlate;
mod cost;
mod executor;
mod fusion;
mod geometry;
mod halves;
mod kernel;
mod long_sums;
mod lower;
pub(crate) mod math;
mod memory;
mod packing;
mod padded;
mod plan;
mod pool;
mod simd;
mod tile;
mod update;
mod weight_gradient;
mod winograd;

#[cfg(test)]
mod halves_tests;
#[cfg(test)]
mod pooled_tests;
#[cfg(test)]
mod product_tests;
#[cfg(test)]
mod tests;

pub use executor::{Native, NativeOptions, OpTime, Storage};
pub(crate) use pool::Disjoint;
pub use pool::{Pool, Task};
pub use simd::Kernels;

pub(crate) use columns::{
    LANES, PART, Slices, add_columns, column_sums, load, rows_per_part, store, sum_slices, total,
    total_workspace,
};
pub(crate) use context::Context;
pub(crate) use correlate::{Correlation, Epilogue};
pub(crate) use geometry::{Geometry, Strides};
pub(crate) use packing::WeightRows;
#[cfg(target_arch = "x86_64")]
pub(crate) use simd::{Avx2, Avx512};
pub(crate) use simd::{Choice, Isa, Portable, Simd, multiversion};
pub(crate) use tile::{Panel, Reading, Soon, Start, Tile, kernels, packed_columns, panels, split, wide};
pub(crate) use update::Stepper;
pub(crate) use weight_gradient::{Gradient, WeightGradient};
pub(crate) use winograd::{Fast, FastGradWeight, Pass, wins};
