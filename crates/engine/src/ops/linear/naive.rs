//! Naive kernels of this family.
