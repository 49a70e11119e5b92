//! One folder for each family of operations: its formulas in `mod.rs`, plain loops in `naive.rs`, the kernels that
//! training runs on in `native.rs`.

pub(crate) mod activation;
pub(crate) mod conv2d;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod matrix;
pub(crate) mod normalize;
pub(crate) mod pool;
