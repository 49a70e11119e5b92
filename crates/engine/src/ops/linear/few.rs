//! Matrix products of few rows: the weights are read once, where they lie, since a copy in the order of the tiles would
//! cost more than the products.

#![allow(unsafe_code)]

use crate::native::{Context, Disjoint, Epilogue, multiversion};
use sooner_base::Shape;
use std::ops::Range;

/// Most rows for which packing the weights is not paid for.
const ROWS: usize = 8;
/// Columns of a task: a row of theirs is half a page, read from front to back.
const COLUMNS: usize = 512;
/// Rows of weights that are added at a time.
const BLOCK: usize = 4;

/// x `[N, I]`, w `[I, O]` -> `[N, O]` for small N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Few {
    /// N, I, O
    sizes: [usize; 3],
}

impl Few {
    /// The product of these, if its rows are few.
    pub(crate) fn new(x: &Shape, w: &Shape) -> Option<Few> {
        let sizes = [x[0], w[0], w[1]];
        (x[0] <= ROWS && w[0] > 0 && w[1] > 0).then_some(Few { sizes })
    }

    /// Computes y.
    pub(crate) fn run(&self, cx: &Context, [x, w]: [&[f32]; 2], epilogue: Epilogue, y: &mut [f32]) {
        let [rows, _, outputs] = self.sizes;
        if rows == 0 {
            return;
        }
        assert_eq!(y.len(), rows * outputs);
        let y = Disjoint::new(y);
        cx.pool.run(outputs.div_ceil(COLUMNS), &|task| {
            let columns = task.index * COLUMNS..outputs.min((task.index + 1) * COLUMNS);
            let mut sums = [[0f32; COLUMNS]; ROWS];
            let sums = &mut sums[..rows];
            add_weights(cx.isa, self, columns.clone(), [x, w], sums);
            for (row, sums) in sums.iter_mut().enumerate() {
                let sums = &mut sums[..columns.len()];
                if let Some(bias) = epilogue.bias {
                    sums.iter_mut().zip(&bias[columns.clone()]).for_each(|(sum, b)| *sum += b);
                }
                if epilogue.relu {
                    sums.iter_mut().for_each(|sum| *sum = if *sum <= 0.0 { 0.0 } else { *sum });
                }
                // SAFETY: tasks have columns of their own.
                unsafe { y.range(row * outputs + columns.start, columns.len()) }.copy_from_slice(sums);
            }
        });
    }
}

multiversion! {
    /// Adds the products of all rows of x with these columns of w.
    fn add_weights(few: &Few, columns: Range<usize>, operands: [&[f32]; 2], sums: &mut [[f32; COLUMNS]]) {
        let [x, w] = operands;
        let [_, inputs, outputs] = few.sizes;
        let count = columns.len();
        let row = |i: usize| &w[i * outputs..][columns.clone()];
        let whole = inputs - inputs % BLOCK;
        for i in (0..whole).step_by(BLOCK) {
            let [a, b, c, d] = [row(i), row(i + 1), row(i + 2), row(i + 3)].map(|row| &row[..count]);
            for (x, sums) in x.chunks_exact(inputs).zip(&mut *sums) {
                let (x, sums) = (&x[i..i + BLOCK], &mut sums[..count]);
                for k in 0..count {
                    sums[k] += (x[0] * a[k] + x[1] * b[k]) + (x[2] * c[k] + x[3] * d[k]);
                }
            }
        }
        for i in whole..inputs {
            let a = &row(i)[..count];
            for (x, sums) in x.chunks_exact(inputs).zip(&mut *sums) {
                for (sum, w) in sums.iter_mut().zip(a) {
                    *sum += x[i] * w;
                }
            }
        }
    }
}
