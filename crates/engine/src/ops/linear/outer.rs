//! The gradient by the weights of a linear map together with the optimiser's step on them: of few rows the gradient is as
//! large as the weights and used once, so it is made some rows at a time, in the cache, and never written.
//!
//! Weights are cut into tasks as the product is that reads them first in the next update, so that each thread finds what it
//! changed in its core's cache: by rows where [`super::few`] makes it, else by columns.

#![allow(unsafe_code)]

use super::few;
use crate::native::{
    Context, Isa, Panel, Reading, Soon, Start, Stepper, Tile, kernels, multiversion, packed_columns, panels,
    split, wide,
};
use sooner_base::Shape;

/// Most rows whose sums take one pass over the weights, as wide as tiles are.
const ROWS: usize = 128;
/// Columns of weights that a step is made for at a time: their part of dy stays in the first-level cache.
const COLUMNS: usize = 64;
/// The same where dy has so few rows that a gradient is no work to speak of.
const LONG: usize = 1024;
/// Fewest columns of weights that a step is made with its gradient for: with 10 that takes longer than one after the other.
const LEAST: usize = 128;
/// Rows of weights whose gradient is made at a time: as many as two tiles have.
const CHUNK: usize = 12;
/// Most runs of rows of x, with each of which part of what the step takes is asked for.
const RUNS: usize = 8;
/// Tasks for each thread.
const TASKS: usize = 4;

/// x `[N, I]`, dy `[N, O]` -> a step by `dw[i, o] = sum over n of x[n, i] dy[n, o]` for small N.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outer {
    /// N, I, O
    sizes: [usize; 3],
    /// Of a block of columns.
    panels: Vec<Panel>,
    /// Where runs of rows of x begin, of which a tile takes one after the other.
    segments: Vec<usize>,
}

impl Outer {
    /// The step for these, if its rows are few and its columns are not.
    pub(crate) fn new(x: &Shape, dy: &Shape, isa: Isa) -> Option<Outer> {
        let [rows, inputs, outputs] = [x[0], x[1], dy[1]];
        if !(1..=ROWS).contains(&rows) || inputs == 0 || outputs < LEAST {
            return None;
        }
        let panels = panels(isa, COLUMNS, wide(isa, Reading::Columns));
        let runs = (1..=RUNS).rev().find(|runs| rows.is_multiple_of(*runs)).unwrap_or(1);
        let segments = (0..runs).map(|run| run * (rows / runs) * inputs).collect();
        Some(Outer { sizes: [rows, inputs, outputs], panels, segments })
    }

    /// Values of scratch that each thread needs: dy in panels, and the gradient of a chunk.
    pub(crate) fn scratch(&self) -> usize {
        let [rows, _, outputs] = self.sizes;
        if self.is_thin() { LONG.min(outputs) } else { (rows + CHUNK) * packed_columns(&self.panels) }
    }

    /// Multiply-adds.
    pub(crate) fn products(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).product()
    }

    /// Whether each sum has next to no products.
    fn is_thin(&self) -> bool {
        self.sizes[0] <= few::ROWS
    }

    /// Makes the step.
    pub(crate) fn run(&self, cx: &mut Context, operands: [&[f32]; 2], stepper: &Stepper) {
        let [rows, inputs, outputs] = self.sizes;
        let lens = operands.map(<[f32]>::len);
        assert!(lens == [rows * inputs, rows * outputs] && stepper.len() == inputs * outputs);
        if self.is_thin() {
            self.by_rows(cx, operands, stepper)
        } else {
            self.by_columns(cx, operands, stepper)
        }
    }

    /// Makes it a row of weights after the other.
    fn by_rows(&self, cx: &mut Context, [x, dy]: [&[f32]; 2], stepper: &Stepper) {
        let [_, inputs, outputs] = self.sizes;
        let parts = (TASKS * cx.pool.threads()).min(inputs);
        let isa = cx.isa;
        cx.run(parts, &|task, scratch| {
            let [start, end] = [task.index, task.index + 1].map(|part| part * inputs / parts);
            for row in start..end {
                for first in (0..outputs).step_by(LONG) {
                    let grad = &mut scratch[..LONG.min(outputs - first)];
                    weighted(isa, [&x[row..], &dy[first..]], [inputs, outputs], grad);
                    // SAFETY: tasks have rows of their own.
                    unsafe { stepper.part(row * outputs + first, grad) };
                }
            }
        });
    }

    /// Makes it a block of columns after the other.
    fn by_columns(&self, cx: &mut Context, [x, dy]: [&[f32]; 2], stepper: &Stepper) {
        let [rows, inputs, outputs] = self.sizes;
        let isa = cx.isa;
        let blocks = outputs.div_ceil(COLUMNS);
        let parts = (TASKS * cx.pool.threads()).div_ceil(blocks).clamp(1, inputs.div_ceil(CHUNK));
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
                let sums = &mut sums[..count * row];
                let start = at * outputs + first;
                self.sums(isa, [at, count, columns], [x, packed], (stepper, start), sums);
                // SAFETY: tasks have rows or columns of their own.
                unsafe { stepper.rows([start, outputs], columns, (sums, row)) };
            }
        });
    }

    /// Some rows of dw for a block of columns; their step will be made from `start` on.
    fn sums(
        &self,
        isa: Isa,
        [at, count, columns]: [usize; 3],
        [x, packed]: [&[f32]; 2],
        (stepper, start): (&Stepper, usize),
        sums: &mut [f32],
    ) {
        let [rows, inputs, outputs] = self.sizes;
        let row = packed_columns(&self.panels);
        for panel in self.panels.iter().filter(|panel| panel.column < columns) {
            let kernels = kernels(isa, Reading::Columns, panel.vectors);
            split(count, kernels.len(), |i, count| {
                // What the step will read comes from memory while its sums are made.
                let (places, known) = stepper.places(start + i * outputs + panel.column);
                let tile = Tile {
                    a: x[at + i..].as_ptr(),
                    stride: inputs,
                    segments: &self.segments,
                    length: rows / self.segments.len(),
                    b: packed[panel.packed * rows..].as_ptr(),
                    c: sums[i * row + panel.packed..].as_mut_ptr(),
                    c_stride: row,
                    start: Start::Zero,
                    relu: false,
                    soon: Soon::new(&places[..known], [outputs, count], self.segments.len()),
                };
                // SAFETY: x has rows of `inputs` values, of which the tile reads those of its rows of dw; panels are packed
                // for all rows of dy; sums have room for a chunk.
                unsafe { kernels[count - 1](&tile) };
            });
        }
    }
}

multiversion! {
    /// The sum of rows of the second operand, each times a value of the first, that are so far apart.
    fn weighted(operands: [&[f32]; 2], strides: [usize; 2], sums: &mut [f32]) {
        let [x, y] = operands;
        let mut rows = x.iter().step_by(strides[0]).zip(y.chunks(strides[1]));
        let (x, y) = rows.next().expect("there is a row");
        for (sum, y) in sums.iter_mut().zip(y) {
            *sum = x * y;
        }
        for (x, y) in rows {
            for (sum, y) in sums.iter_mut().zip(y) {
                *sum += x * y;
            }
        }
    }
}
