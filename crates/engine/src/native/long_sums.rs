//! Matrices of long sums of outer products: the gradient by the weights of a linear map in a batch that is large.
//!
//! x: `[N, I]`, dy: `[N, O]`; `dw[i, o] = sum over n of x[n, i] dy[n, o]`.
//!
//! A task makes a block of dw, whose sums stay in the second-level cache, tile by tile without gaps, until the last row: in
//! dw itself rows lie a multiple of a page apart as a rule, where few of them fit the cache at once. Rows of x and dy are
//! packed a chunk at a time. Every sum goes over the rows in order, so bits depend neither on the tasks nor on the threads.

#![allow(unsafe_code)]

use super::context::Context;
use super::geometry::Geometry;
use super::packing::{Rows, pack_columns, pack_panel};
use super::pool::Disjoint;
use super::simd::Isa;
use super::tile::{Panel, Reading, Soon, Start, Tile, call, kernels, packed_columns, panels, split, wide};

/// Rows of N for which it pays, and beyond which sums would lose digits.
const ROWS: std::ops::RangeInclusive<usize> = 192..=16384;
/// Fewest rows of dw, and fewest columns.
const LEAST: usize = 64;
const NARROW: usize = 8;
/// Columns of a task: a part of dy that is packed lies in the second-level cache.
const COLUMNS: usize = 256;
/// Most values in the sums of a task (800 KiB).
const SUMS: usize = 200 * 1024;
/// Values of packed dy that stay in the first-level cache while tiles pass by (32 KiB).
const NEAR: usize = 8192;
/// Most rows of a chunk.
const CHUNK: usize = 256;
/// Tasks for each thread, if there are that many.
const TASKS: usize = 2;

/// How such a matrix is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LongSums {
    /// N, I, O
    sizes: [usize; 3],
    /// Where a row of dy has its O values, and the distance of its rows.
    dy: [usize; 2],
    /// Of a block of columns.
    panels: Vec<Panel>,
    /// Rows of N that are packed together.
    chunk: usize,
    /// Most rows of dw in a task.
    most: usize,
}

impl LongSums {
    /// The sums of the gradient by the weights of this geometry, if it is a product large enough; `positions` are N.
    pub(crate) fn new(g: &Geometry, positions: usize, isa: Isa) -> Option<LongSums> {
        let product = *g == Geometry { target: g.target, ..Geometry::product([positions, g.depth, g.width]) };
        let large = ROWS.contains(&positions) && g.depth >= LEAST && g.width >= NARROW;
        if !(product && large) {
            return None;
        }
        let panels = panels(isa, g.width.min(COLUMNS), wide(isa, Reading::Columns));
        let widest = panels.iter().map(|p| p.width).max().unwrap_or(1);
        Some(LongSums {
            sizes: [positions, g.depth, g.width],
            dy: [g.target.offset, g.target.column],
            chunk: (NEAR / widest).min(CHUNK),
            most: (SUMS / packed_columns(&panels)).min(g.depth),
            panels,
        })
    }

    /// Values of scratch that each thread needs: x and dy of a chunk, and the sums.
    pub(crate) fn scratch(&self) -> usize {
        let columns = packed_columns(&self.panels);
        self.chunk * (self.most + columns) + self.most * columns
    }

    /// Computes dw.
    pub(crate) fn run(&self, cx: &mut Context, [x, dy]: [&[f32]; 2], dw: &mut [f32]) {
        let [rows, inputs, outputs] = self.sizes;
        let [offset, stride] = self.dy;
        assert!(x.len() >= rows * inputs && dy.len() >= rows * stride && dw.len() == inputs * outputs);
        assert!(offset + outputs <= stride, "a row of dy has all columns");
        let isa = cx.isa;
        let blocks = outputs.div_ceil(COLUMNS);
        let wanted = (TASKS * cx.pool.threads()).div_ceil(blocks).min(inputs / LEAST);
        let parts = inputs.div_ceil(self.most).max(wanted);
        let dw = Disjoint::new(dw);
        cx.run(blocks * parts, &|task, scratch| {
            let (block, part) = (task.index / parts, task.index % parts);
            let [first, last] = [part, part + 1].map(|p| p * inputs / parts);
            let columns = block * COLUMNS..outputs.min((block + 1) * COLUMNS);
            let job = Job { plan: self, isa, rows: first..last, columns, dw };
            let start = offset + block * COLUMNS;
            job.run(
                Rows { values: x, start: first, stride: inputs },
                Rows { values: dy, start, stride },
                scratch,
            );
        });
    }
}

/// One task: a block of dw.
struct Job<'a> {
    plan: &'a LongSums,
    isa: Isa,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    dw: Disjoint<'a>,
}

impl Job<'_> {
    /// The panels of this block; the last may have fewer columns than it was planned with.
    fn panels(&self) -> impl Iterator<Item = Panel> {
        let columns = self.columns.len();
        let panels = self.plan.panels.iter().filter(move |panel| panel.column < columns);
        panels.map(move |panel| Panel { columns: panel.columns.min(columns - panel.column), ..*panel })
    }

    fn run(&self, x: Rows, dy: Rows, scratch: &mut [f32]) {
        let plan = self.plan;
        let count = self.rows.len();
        let (left, scratch) = scratch.split_at_mut(plan.chunk * plan.most);
        let (right, sums) = scratch.split_at_mut(plan.chunk * packed_columns(&plan.panels));
        let most = kernels(self.isa, Reading::Columns, plan.panels[0].vectors).len();
        let total = plan.sizes[0];
        split(total, plan.chunk, |first, length| {
            pack_columns(&Rows { start: x.start + first * x.stride, ..x }, [count, length], most, left);
            for panel in self.panels() {
                let to = &mut right[panel.packed * length..][..length * panel.width];
                let from = &dy.values[dy.start + first * dy.stride + panel.column..];
                pack_panel(from, dy.stride, &panel, to);
            }
            let bounds = [first == 0, first + length == total];
            self.chunk([left, right], (length, most), bounds, sums);
        });
    }

    /// Adds a chunk of this length, cut in tiles of at most so many rows; the last goes to dw.
    fn chunk(
        &self,
        [left, right]: [&[f32]; 2],
        (length, most): (usize, usize),
        [is_first, is_last]: [bool; 2],
        sums: &mut [f32],
    ) {
        let outputs = self.plan.sizes[2];
        for panel in self.panels() {
            let kernels = kernels(self.isa, Reading::Columns, panel.vectors);
            let b = &right[panel.packed * length..][..length * panel.width];
            split(self.rows.len(), most, |row, count| {
                let a = &left[row * length..][..count * length];
                let at = panel.packed * self.rows.len() + row * panel.width;
                let sums = &mut sums[at..][..count * panel.width];
                let tile = Tile {
                    a: a.as_ptr(),
                    stride: count,
                    segments: &[0],
                    length,
                    b: b.as_ptr(),
                    c: sums.as_mut_ptr(),
                    c_stride: panel.width,
                    start: if is_first { Start::Zero } else { Start::Sums(sums.as_ptr()) },
                    relu: false,
                    soon: Soon::default(),
                };
                // SAFETY: a, b and the sums are as long as a tile of so many rows and products takes; dw holds all rows and
                // columns of this task, which are no other's.
                unsafe {
                    if is_last {
                        let at = (self.rows.start + row) * outputs + self.columns.start + panel.column;
                        let c = self.dw.pointer().add(at);
                        call(kernels[count - 1], &Tile { c, c_stride: outputs, ..tile }, &panel, count);
                    } else {
                        kernels[count - 1](&tile);
                    }
                }
            });
        }
    }
}
