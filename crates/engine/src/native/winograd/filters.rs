//! The transforms over many filters: a kernel reads some and writes all 36 points of each, or reads sums at the points and
//! writes gradients of filters.

#![allow(unsafe_code)]

use super::tiles::{each_vector, kernel};
use super::transform::{Filter, FilterGradient, Line, POINTS, SIDE, WideFilter, WideFilterGradient, square};
use super::{CHUNK, chunk, staggered};
use crate::native::context::Context;
use crate::native::pool::Disjoint;
#[cfg(target_arch = "x86_64")]
use crate::native::simd::{Avx2, Avx512};
use crate::native::simd::{Isa, Portable, Simd};
use crate::native::tile::{Panel, Reading, packed_columns, panels, wide};
use std::ops::Range;

/// Filters `[T, T, R, Q]` of 3 or 5 taps, and how they lie at the points: R rows in panels of Q columns. Or the sums over
/// tiles for all points, as rows, and the gradients of filters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filters {
    taps: usize,
    pub(super) rows: usize,
    columns: usize,
    pub(super) panels: Vec<Panel>,
    /// Values from one point to the next.
    pub(super) stride: usize,
}

impl Filters {
    pub(super) fn new(taps: usize, [rows, columns]: [usize; 2], isa: Isa, reading: Reading) -> Filters {
        let panels = panels(isa, columns, wide(isa, reading));
        let stride = staggered(rows * packed_columns(&panels));
        Filters { taps, rows, columns, panels, stride }
    }

    /// Values of the filters as they are given.
    pub(super) fn given(&self) -> usize {
        self.taps * self.taps * self.rows * self.columns
    }

    /// Values of all points.
    pub(super) fn points(&self) -> usize {
        POINTS * self.stride
    }

    /// Transforms filters.
    pub(super) fn spread(&self, cx: &Context, w: &[f32], u: &mut [f32]) {
        assert!(w.len() == self.given() && u.len() == self.points());
        let (isa, u) = (cx.isa, Disjoint::new(u));
        let spread = if self.taps == 3 { spread_filters } else { spread_wide };
        cx.pool.run(self.rows.div_ceil(CHUNK), &|task| {
            // SAFETY: u has room for all rows of all points, and chunks of rows do not overlap.
            unsafe { spread(isa, self, w, u, chunk(self.rows, CHUNK, task.index)) }
        });
    }

    /// Transforms sums over tiles, all of which are there, to gradients of filters.
    pub(super) fn gather(&self, cx: &Context, u: &[f32], dw: &mut [f32]) {
        assert!(u.len() == self.points() && dw.len() == self.given());
        let (isa, dw) = (cx.isa, Disjoint::new(dw));
        let gather = if self.taps == 3 { gather_filters } else { gather_wide };
        cx.pool.run(self.rows.div_ceil(CHUNK), &|task| {
            // SAFETY: u holds all points; chunks of rows do not overlap.
            unsafe { gather(isa, self, u, dw, chunk(self.rows, CHUNK, task.index)) }
        });
    }
}

kernel!(spread_filters, filters_body[Filter, 3], job: &Filters, w: &[f32], u: Disjoint, rows: Range<usize>);
kernel!(spread_wide, filters_body[WideFilter, 5], job: &Filters, w: &[f32], u: Disjoint, rows: Range<usize>);
kernel!(gather_filters, filter_gradient_body[FilterGradient, 3], job: &Filters, u: &[f32], dw: Disjoint,
    rows: Range<usize>);
kernel!(gather_wide, filter_gradient_body[WideFilterGradient, 5], job: &Filters, u: &[f32], dw: Disjoint,
    rows: Range<usize>);

/// # Safety
/// `u` has room for all points and no other task writes the same rows.
#[inline(always)]
unsafe fn filters_body<S: Simd, L: Line<T, SIDE>, const T: usize>(
    job: &Filters,
    w: &[f32],
    u: Disjoint,
    rows: Range<usize>,
) {
    let tap = job.rows * job.columns;
    debug_assert!(w.len() >= T * T * tap && u.len() >= (POINTS - 1) * job.stride);
    for r in rows {
        for panel in &job.panels {
            let from = r * job.columns + panel.column;
            let to = panel.packed * job.rows + r * panel.width;
            // SAFETY: handed on to the caller.
            let vector = |c: usize| unsafe { (w.as_ptr().add(from + c), u.pointer().add(to + c)) };
            each_vector::<S>(
                panel.columns,
                // SAFETY: handed on to the caller.
                |c| unsafe {
                    let (w, u) = vector(c);
                    square::<S, L, T, SIDE>(
                        |i, j| S::load(w.add((i * T + j) * tap)),
                        |i, j, v| S::store(u.add((i * SIDE + j) * job.stride), v),
                    );
                },
                // SAFETY: as above.
                |c| unsafe {
                    let (w, u) = vector(c);
                    square::<Portable, L, T, SIDE>(
                        |i, j| Portable::load(w.add((i * T + j) * tap)),
                        |i, j, v| Portable::store(u.add((i * SIDE + j) * job.stride), v),
                    );
                },
            );
        }
    }
}

/// # Safety
/// `u` holds all points, whose rows are as long as the packed columns; no other task writes the same rows of dw.
#[inline(always)]
unsafe fn filter_gradient_body<S: Simd, L: Line<SIDE, T>, const T: usize>(
    job: &Filters,
    u: &[f32],
    dw: Disjoint,
    rows: Range<usize>,
) {
    let tap = job.rows * job.columns;
    let row = packed_columns(&job.panels);
    debug_assert!(dw.len() >= T * T * tap && u.len() >= (POINTS - 1) * job.stride + job.rows * row);
    for r in rows {
        for panel in &job.panels {
            let (from, to) = (r * row + panel.packed, r * job.columns + panel.column);
            // SAFETY: handed on to the caller.
            let vector = |c: usize| unsafe { (u.as_ptr().add(from + c), dw.pointer().add(to + c)) };
            each_vector::<S>(
                panel.columns,
                // SAFETY: handed on to the caller.
                |c| unsafe {
                    let (u, dw) = vector(c);
                    square::<S, L, SIDE, T>(
                        |i, j| S::load(u.add((i * SIDE + j) * job.stride)),
                        |i, j, v| S::store(dw.add((i * T + j) * tap), v),
                    );
                },
                // SAFETY: as above.
                |c| unsafe {
                    let (u, dw) = vector(c);
                    square::<Portable, L, SIDE, T>(
                        |i, j| Portable::load(u.add((i * SIDE + j) * job.stride)),
                        |i, j, v| Portable::store(dw.add((i * T + j) * tap), v),
                    );
                },
            );
        }
    }
}
