//! Matrix products of few rows: the weights are read once, where they lie, since a copy in the order of the tiles would
//! cost more than the products.
//!
//! Weights are cut into slices of rows, as the optimiser's step on them is ([`super::outer`]): what a thread changed in an
//! update its core's cache still holds in the next. Not into columns: rows lie a multiple of a page apart as a rule, and
//! half of each would find room in half of a cache.

#![allow(unsafe_code)]

use crate::native::{Context, Disjoint, Epilogue, LANES, load, multiversion, store};
use sooner_base::Shape;
use std::ops::Range;

/// Most rows for which packing the weights is not paid for.
pub(crate) const ROWS: usize = 8;
/// Columns of a task: their sums stay in the first-level cache.
const COLUMNS: usize = 1024;
/// Rows of weights that are added at a time.
const BLOCK: usize = 4;
/// Most slices of the rows of weights, fewest weights in one, and how many of them for each sum that is added afterwards.
const SLICES: usize = 8;
const LEAST: usize = 32 * 1024;
const PER_SUM: usize = 16;

/// x `[N, I]`, w `[I, O]` -> `[N, O]` for small N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Few {
    /// N, I, O
    sizes: [usize; 3],
    /// Slices of the rows of weights, a power of two. By shape alone: sums are added in their order.
    slices: usize,
}

impl Few {
    /// The product of these, if its rows are few.
    pub(crate) fn new(x: &Shape, w: &Shape) -> Option<Few> {
        let sizes = [x[0], w[0], w[1]];
        let most = (w[0] * w[1] / LEAST).min(w[0] / (PER_SUM * x[0].max(1))).clamp(1, SLICES);
        let slices = 1 << most.ilog2();
        (x[0] <= ROWS && w[0] > 0 && w[1] > 0).then_some(Few { sizes, slices })
    }

    /// Blocks of columns.
    fn blocks(&self) -> usize {
        self.sizes[2].div_ceil(COLUMNS)
    }

    /// Values of workspace: the sums of each task.
    pub(crate) fn workspace(&self) -> usize {
        self.slices * self.blocks() * self.sums()
    }

    /// Sums of a task.
    fn sums(&self) -> usize {
        self.sizes[0] * COLUMNS.min(self.sizes[2])
    }

    /// Computes y.
    pub(crate) fn run(
        &self,
        cx: &Context,
        [x, w]: [&[f32]; 2],
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        let [rows, inputs, outputs] = self.sizes;
        if rows == 0 {
            return;
        }
        assert_eq!(y.len(), rows * outputs);
        let blocks = self.blocks();
        let columns = |block: usize| block * COLUMNS..outputs.min((block + 1) * COLUMNS);
        let bound = |slice: usize| inputs.min(slice * inputs.div_ceil(BLOCK) / self.slices * BLOCK);
        let workspace = &mut workspace[..self.workspace()];
        let each = self.sums();
        let sums = Disjoint::new(workspace);
        cx.pool.run(self.slices * blocks, &|task| {
            let (slice, block) = (task.index / blocks, task.index % blocks);
            let part = [bound(slice)..bound(slice + 1), columns(block)];
            // SAFETY: tasks have sums of their own.
            let sums = unsafe { sums.range(task.index * each, each) };
            sums.fill(0.0);
            add_weights(cx.isa, self, part, [x, w], sums);
        });
        for block in 0..blocks {
            let sums = &workspace[block * each..];
            finish(cx.isa, self, columns(block), sums, epilogue, y);
        }
    }
}

multiversion! {
    /// Adds the products of all rows of x with these rows and columns of w.
    fn add_weights(few: &Few, part: [Range<usize>; 2], operands: [&[f32]; 2], sums: &mut [f32]) {
        let [x, w] = operands;
        let [_, inputs, outputs] = few.sizes;
        let [rows, columns] = part;
        let count = columns.len();
        let row = |i: usize| &w[i * outputs..][columns.clone()];
        let whole = rows.end - rows.len() % BLOCK;
        for i in (rows.start..whole).step_by(BLOCK) {
            let [a, b, c, d] = [row(i), row(i + 1), row(i + 2), row(i + 3)].map(|row| &row[..count]);
            for (x, sums) in x.chunks_exact(inputs).zip(sums.chunks_exact_mut(count)) {
                let (x, sums) = (&x[i..i + BLOCK], &mut sums[..count]);
                for k in 0..count {
                    sums[k] += (x[0] * a[k] + x[1] * b[k]) + (x[2] * c[k] + x[3] * d[k]);
                }
            }
        }
        for i in whole..rows.end {
            let a = &row(i)[..count];
            for (x, sums) in x.chunks_exact(inputs).zip(sums.chunks_exact_mut(count)) {
                for (sum, w) in sums.iter_mut().zip(a) {
                    *sum += x[i] * w;
                }
            }
        }
    }

    /// Adds the slices' sums of a block of columns in pairs of pairs; each slice's lie behind those of all blocks before it.
    fn finish(few: &Few, columns: Range<usize>, sums: &[f32], epilogue: Epilogue, y: &mut [f32]) {
        let [rows, _, outputs] = few.sizes;
        let count = columns.len();
        let apart = few.blocks() * few.sums();
        for row in 0..rows {
            let y = &mut y[row * outputs..][columns.clone()];
            for (at, y) in y.chunks_mut(LANES).enumerate() {
                let mut parts = [[0f32; LANES]; SLICES];
                for (slice, part) in parts[..few.slices].iter_mut().enumerate() {
                    *part = load(&sums[slice * apart + row * count + at * LANES..][..y.len()]);
                }
                let mut left = few.slices;
                while left > 1 {
                    left /= 2;
                    let (to, from) = parts.split_at_mut(left);
                    for (to, from) in to.iter_mut().zip(from) {
                        for i in 0..LANES {
                            to[i] += from[i];
                        }
                    }
                }
                let mut sum = parts[0];
                if let Some(bias) = epilogue.bias {
                    let bias = load(&bias[columns.start + at * LANES..][..y.len()]);
                    for i in 0..LANES {
                        sum[i] += bias[i];
                    }
                }
                if epilogue.relu {
                    sum = sum.map(|sum| if sum <= 0.0 { 0.0 } else { sum });
                }
                store(sum, y);
            }
        }
    }
}
