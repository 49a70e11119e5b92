//! Matrix products and biases.

use crate::native::{Context, Correlation, Geometry, Isa, WeightGradient, WeightRows, multiversion};
use crate::native::{column_sums, rows_per_part};
use sooner_base::Shape;

/// x `[N, I]`, w `[I, O]` -> `[N, O]`.
pub(crate) fn forward(x: &Shape, w: &Shape, isa: Isa) -> Correlation {
    let weights = WeightRows { start: 0, count: w[0], row: w[1], column: 1 };
    Correlation::new(Geometry::product([x[0], w[0], w[1]]), vec![weights], x[0], isa)
}

/// dy `[N, O]`, w `[I, O]` -> dx `[N, I]`.
pub(crate) fn grad_input(dy: &Shape, w: &Shape, isa: Isa) -> Correlation {
    let weights = WeightRows { start: 0, count: w[1], row: 1, column: w[1] };
    Correlation::new(Geometry::product([dy[0], w[1], w[0]]), vec![weights], dy[0], isa)
}

/// x `[N, I]`, dy `[N, O]` -> dw `[I, O]`.
pub(crate) fn grad_weight(x: &Shape, dy: &Shape, isa: Isa) -> WeightGradient {
    WeightGradient::new(Geometry::product([x[0], x[1], dy[1]]), x[0], isa)
}

/// x: `[R, C]`, b: `[C]` -> x + b, in place if there is no x. Negative sums become 0 if `relu`.
pub(crate) fn add_bias(cx: &Context, x: Option<&[f32]>, b: &[f32], relu: bool, y: &mut [f32]) {
    if b.is_empty() {
        return;
    }
    let part = rows_per_part(b.len()) * b.len();
    cx.pool.parts(y, part, &|task, y| {
        if let Some(x) = x {
            y.copy_from_slice(&x[task.index * part..][..y.len()]);
        }
        add_rows(cx.isa, b, relu, y);
    });
}

/// dy: `[R, C]` -> `[C]`: sums over rows.
pub(crate) fn bias_grad(cx: &Context, dy: &[f32], db: &mut [f32], workspace: &mut [f32]) {
    column_sums(cx, dy, db, workspace);
}

multiversion! {
    fn add_rows(b: &[f32], relu: bool, y: &mut [f32]) {
        for row in y.chunks_exact_mut(b.len()) {
            if relu {
                for (y, b) in row.iter_mut().zip(b) {
                    let sum = *y + b;
                    *y = if sum <= 0.0 { 0.0 } else { sum };
                }
            } else {
                for (y, b) in row.iter_mut().zip(b) {
                    *y += b;
                }
            }
        }
    }
}
