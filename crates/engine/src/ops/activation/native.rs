//! Rectified linear units in vectors.

use crate::native::{Context, PART, multiversion};

/// max(x, 0) where NaN stays NaN, in place if there is no x.
pub(crate) fn relu(cx: &Context, x: Option<&[f32]>, y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| match x {
        Some(x) => rectify(cx.isa, &x[task.index * PART..][..y.len()], y),
        None => rectify_in_place(cx.isa, y),
    });
}

/// dy where y > 0, else 0; in place of dy if there is none.
pub(crate) fn relu_grad(cx: &Context, y: &[f32], dy: Option<&[f32]>, dx: &mut [f32]) {
    cx.pool.parts(dx, PART, &|task, dx| {
        let part = |v: &[f32]| task.index * PART..(task.index * PART + dx.len()).min(v.len());
        let y = &y[part(y)];
        match dy {
            Some(dy) => pass(cx.isa, y, &dy[part(dy)], dx),
            None => pass_in_place(cx.isa, y, dx),
        }
    });
}

multiversion! {
    fn rectify(x: &[f32], y: &mut [f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = if x <= 0.0 { 0.0 } else { x };
        }
    }

    fn rectify_in_place(y: &mut [f32]) {
        for y in y {
            *y = if *y <= 0.0 { 0.0 } else { *y };
        }
    }

    fn pass(y: &[f32], dy: &[f32], dx: &mut [f32]) {
        for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
            *dx = if y > 0.0 { dy } else { 0.0 };
        }
    }

    fn pass_in_place(y: &[f32], dx: &mut [f32]) {
        for (dx, &y) in dx.iter_mut().zip(y) {
            *dx = if y > 0.0 { *dx } else { 0.0 };
        }
    }
}
