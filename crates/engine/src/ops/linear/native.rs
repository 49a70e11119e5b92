//! Native kernels of this family.
