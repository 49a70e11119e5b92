//! The gradient by the weights of a linear map together with the optimiser's step on them: of few rows the gradient is as
//! large as the weights and used once, so it is made some rows at a time, in the cache, and never written.

#![allow(unsafe_code)]

use crate::native::{
    Context, Isa, Panel, Reading, Start, Stepper, Tile, kernels, packed_columns, panels, split, wide,
};
use sooner_base::Shape;

/// Most rows whose sums take one pass over the weights, as wide as tiles are.
const ROWS: usize = 128;
/// Columns of weights that a task has at least: a row of theirs is half a page.
const COLUMNS: usize = 512;
/// Fewest columns of weights that a step is made with its gradient for: with 10 that takes longer than one after the other.
const LEAST: usize = 128;
/// Rows of weights whose gradient is made at a time.
const CHUNK: usize = 24;
/// Parts of the rows of a block of columns, for each thread.
const PARTS: usize = 2;

/// x `[N, I]`, dy `[N, O]` -> a step by `dw[i, o] = sum over n of x[n, i] dy[n, o]` for small N.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outer {
    /// N, I, O
    sizes: [usize; 3],
    /// Of a block of columns.
    panels: Vec<Panel>,
}

impl Outer {
    /// The step for these, if its rows are few and its columns are not.
    pub(crate) fn new(x: &Shape, dy: &Shape, isa: Isa) -> Option<Outer> {
        let [rows, inputs, outputs] = [x[0], x[1], dy[1]];
        if !(1..=ROWS).contains(&rows) || inputs == 0 || outputs < LEAST {
            return None;
        }
        let panels = panels(isa, outputs.min(COLUMNS), wide(isa, Reading::Columns));
        Some(Outer { sizes: [rows, inputs, outputs], panels })
    }

    /// Values of scratch that each thread needs: dy in panels, and the gradient of a chunk.
    pub(crate) fn scratch(&self) -> usize {
        (self.sizes[0] + CHUNK) * packed_columns(&self.panels)
    }

    /// Multiply-adds.
    pub(crate) fn products(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).product()
    }

    /// Makes the step.
    pub(crate) fn run(&self, cx: &mut Context, [x, dy]: [&[f32]; 2], stepper: &Stepper) {
        let [rows, inputs, outputs] = self.sizes;
        assert!(x.len() == rows * inputs && dy.len() == rows * outputs && stepper.len() == inputs * outputs);
        let isa = cx.isa;
        let blocks = outputs.div_ceil(COLUMNS);
        let parts = (PARTS * cx.pool.threads()).div_ceil(blocks).clamp(1, inputs.div_ceil(CHUNK));
        let row = packed_columns(&self.panels);
        cx.run(blocks * parts, &|task, scratch| {
            let (first, part) = (task.index / parts * COLUMNS, task.index % parts);
            let columns = COLUMNS.min(outputs - first);
            let (packed, sums) = scratch[..self.scratch()].split_at_mut(rows * row);
            for panel in self.panels.iter().filter(|panel| panel.column < columns) {
                let from = dy.chunks_exact(outputs);
                let to = packed[panel.packed * rows..].chunks_exact_mut(panel.width);
                for (from, to) in from.zip(to) {
                    let count = panel.columns.min(columns - panel.column);
                    to[..count].copy_from_slice(&from[first + panel.column..][..count]);
                    to[count..].fill(0.0);
                }
            }
            let [start, end] = [part, part + 1].map(|p| p * inputs / parts);
            for at in (start..end).step_by(CHUNK) {
                let count = CHUNK.min(end - at);
                // What a tile's step will read comes from memory while its sums are made.
                let soon = |row: usize, column: usize, len: usize| {
                    stepper.prefetch((at + row) * outputs + first + column, len.min(columns - column));
                };
                self.sums(isa, [at, count, columns], [x, packed], (&mut *sums, &soon));
                for (i, sums) in sums.chunks_exact(row).take(count).enumerate() {
                    // SAFETY: tasks have rows or columns of their own.
                    unsafe { stepper.part((at + i) * outputs + first, &sums[..columns]) };
                }
            }
        });
    }

    /// Some rows of dw for a block of columns; `soon` hears of each row and its columns that will be wanted.
    fn sums(
        &self,
        isa: Isa,
        [at, count, columns]: [usize; 3],
        [x, packed]: [&[f32]; 2],
        (sums, soon): (&mut [f32], &dyn Fn(usize, usize, usize)),
    ) {
        let [rows, inputs, _] = self.sizes;
        let row = packed_columns(&self.panels);
        for panel in self.panels.iter().filter(|panel| panel.column < columns) {
            let kernels = kernels(isa, Reading::Columns, panel.vectors);
            split(count, kernels.len(), |i, count| {
                (i..i + count).for_each(|row| soon(row, panel.column, panel.width));
                let tile = Tile {
                    a: x[at + i..].as_ptr(),
                    stride: inputs,
                    segments: &[0],
                    length: rows,
                    b: packed[panel.packed * rows..].as_ptr(),
                    c: sums[i * row + panel.packed..].as_mut_ptr(),
                    c_stride: row,
                    start: Start::Zero,
                    relu: false,
                };
                // SAFETY: x has rows of `inputs` values, of which the tile reads those of its rows of dw; panels are packed
                // for all rows of dy; sums have room for a chunk.
                unsafe { kernels[count - 1](&tile) };
            });
        }
    }
}
