//! Nonlinearities in vectors.

use crate::Activation;
use crate::native::{Context, Isa, PART, math, multiversion};

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

/// A smooth nonlinearity of x, in place if there is no x.
pub(crate) fn activate(cx: &Context, activation: Activation, x: Option<&[f32]>, y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| {
        if let Some(x) = x {
            y.copy_from_slice(&x[task.index * PART..][..y.len()]);
        }
        each(cx.isa, activation, y);
    });
}

/// dy times the activation's slope, which follows from y or x as [`Activation::grad_from_result`] says; in place of dy
/// if there is none.
pub(crate) fn activate_grad(
    cx: &Context,
    activation: Activation,
    from: &[f32],
    dy: Option<&[f32]>,
    dx: &mut [f32],
) {
    cx.pool.parts(dx, PART, &|task, dx| {
        let start = task.index * PART;
        if let Some(dy) = dy {
            dx.copy_from_slice(&dy[start..start + dx.len()]);
        }
        each_slope(cx.isa, activation, &from[start..start + dx.len()], dx);
    });
}

fn each(isa: Isa, activation: Activation, y: &mut [f32]) {
    match activation {
        Activation::Gelu => gelu(isa, y),
        Activation::Silu => silu(isa, y),
        Activation::Celu { alpha } => celu(isa, alpha as f32, y),
        Activation::Tanh => tanh(isa, y),
        Activation::Sigmoid => sigmoid(isa, y),
    }
}

fn each_slope(isa: Isa, activation: Activation, from: &[f32], dx: &mut [f32]) {
    match activation {
        Activation::Gelu => gelu_slope(isa, from, dx),
        Activation::Silu => silu_slope(isa, from, dx),
        Activation::Celu { alpha } => celu_slope(isa, alpha as f32, from, dx),
        Activation::Tanh => tanh_slope(isa, from, dx),
        Activation::Sigmoid => sigmoid_slope(isa, from, dx),
    }
}

multiversion! {
    fn gelu(y: &mut [f32]) {
        for y in y {
            *y = math::gelu::<FUSED>(*y);
        }
    }

    fn gelu_slope(x: &[f32], dx: &mut [f32]) {
        for (dx, &x) in dx.iter_mut().zip(x) {
            *dx *= math::gelu_slope::<FUSED>(x);
        }
    }

    fn silu(y: &mut [f32]) {
        for y in y {
            *y *= math::sigmoid(*y);
        }
    }

    fn silu_slope(x: &[f32], dx: &mut [f32]) {
        for (dx, &x) in dx.iter_mut().zip(x) {
            let s = math::sigmoid(x);
            *dx *= s * (1.0 + x * (1.0 - s));
        }
    }

    fn celu(alpha: f32, y: &mut [f32]) {
        let inverse = 1.0 / alpha;
        for y in y {
            let negative = alpha * math::exp_m1(*y * inverse);
            *y = if *y > 0.0 { *y } else { negative };
        }
    }

    fn celu_slope(alpha: f32, y: &[f32], dx: &mut [f32]) {
        let inverse = 1.0 / alpha;
        for (dx, &y) in dx.iter_mut().zip(y) {
            let slope = if y > 0.0 { 1.0 } else { y * inverse + 1.0 };
            *dx *= slope;
        }
    }

    fn tanh(y: &mut [f32]) {
        for y in y {
            *y = math::tanh(*y);
        }
    }

    fn tanh_slope(y: &[f32], dx: &mut [f32]) {
        for (dx, &y) in dx.iter_mut().zip(y) {
            *dx *= 1.0 - y * y;
        }
    }

    fn sigmoid(y: &mut [f32]) {
        for y in y {
            *y = math::sigmoid(*y);
        }
    }

    fn sigmoid_slope(y: &[f32], dx: &mut [f32]) {
        for (dx, &y) in dx.iter_mut().zip(y) {
            *dx *= y * (1.0 - y);
        }
    }
}
