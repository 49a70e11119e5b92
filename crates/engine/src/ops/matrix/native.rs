//! Products of matrices one after the other, each on all threads; norms row by row.

use super::naive;
use crate::Transposed;
use crate::native::{
    Context, Correlation, Epilogue, Gradient, Isa, PART, WeightGradient, multiversion, total, total_workspace,
};
use crate::ops::linear;
use sooner_base::Shape;

/// Products of matrices of one shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Products {
    one: One,
    /// Values of one matrix of a, of b and of the result.
    sizes: [usize; 3],
}

/// How one of them is computed.
#[derive(Debug, Clone, PartialEq)]
enum One {
    Rows(Correlation),
    Sums(WeightGradient),
}

impl Products {
    /// a: `[B, I, J]`, b: `[B, J, K]` -> `[B, I, K]`.
    pub(crate) fn new(a: &Shape, b: &Shape, transposed: Transposed, isa: Isa) -> Products {
        let matrix = |s: &Shape| Shape::from([s[1], s[2]]);
        let (left, right) = (matrix(a), matrix(b));
        let (one, result) = match transposed {
            Transposed::Neither => {
                (One::Rows(linear::native::forward(&left, &right, isa)), left[0] * right[1])
            }
            Transposed::Right => {
                (One::Rows(linear::native::grad_input(&left, &right, isa)), left[0] * right[0])
            }
            Transposed::Left => {
                (One::Sums(linear::native::grad_weight(&left, &right, isa)), left[1] * right[1])
            }
        };
        Products { one, sizes: [left.len(), right.len(), result] }
    }

    /// Values of workspace that [`Products::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        match &self.one {
            One::Rows(plan) => plan.workspace(),
            One::Sums(plan) => plan.workspace(),
        }
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        match &self.one {
            One::Rows(plan) => plan.scratch(),
            One::Sums(plan) => plan.scratch(),
        }
    }

    /// Computes all products.
    pub(crate) fn run(&self, cx: &mut Context, [a, b]: [&[f32]; 2], y: &mut [f32], workspace: &mut [f32]) {
        let [left, right, result] = self.sizes;
        for (n, y) in y.chunks_exact_mut(result.max(1)).enumerate() {
            let operands = [&a[n * left..(n + 1) * left], &b[n * right..(n + 1) * right]];
            match &self.one {
                One::Rows(plan) => plan.run(cx, operands, Epilogue::default(), y, workspace),
                One::Sums(plan) => {
                    let [x, dy] = operands;
                    plan.run(cx, (x, Gradient::Plain(dy)), y, workspace);
                }
            }
        }
    }
}

/// Values of workspace that [`unit_rows`] takes for rows of so many values: one row, and sums of its parts.
pub(crate) fn unit_rows_workspace(len: usize) -> usize {
    len + total_workspace(len)
}

/// x: `[R, len]`: rows divided by their norms plus eps.
pub(crate) fn unit_rows(
    cx: &Context,
    x: &[f32],
    (len, eps): (usize, f32),
    y: &mut [f32],
    workspace: &mut [f32],
) {
    if len == 0 {
        return;
    }
    let (squares, sums) = workspace.split_at_mut(len);
    for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
        cx.pool.parts(squares, PART, &|task, out| square(cx.isa, &x[task.index * PART..], out));
        let factor = 1.0 / (total(cx, squares, sums).sqrt() + eps);
        cx.pool.parts(y, PART, &|task, out| times(cx.isa, factor, &x[task.index * PART..], out));
    }
}

/// As in the naive executor: there is one number to compute.
pub(crate) fn clip_factor(squares: f32, limit: f64) -> f32 {
    naive::clip_factor(squares, limit)
}

multiversion! {
    fn square(x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x * x;
        }
    }

    fn times(factor: f32, x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = factor * x;
        }
    }
}
