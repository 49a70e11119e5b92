//! Sums, scalings and changes of shape in vectors.

use crate::native::{Context, PART, multiversion, rows_per_part};

/// a + b, in place of a if there is none.
pub(crate) fn add(cx: &Context, a: Option<&[f32]>, b: &[f32], y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| {
        let start = task.index * PART;
        let b = &b[start..start + y.len()];
        match a {
            Some(a) => sum(cx.isa, &a[start..start + y.len()], b, y),
            None => sum_in_place(cx.isa, b, y),
        }
    });
}

/// factor x, in place if there is no x.
pub(crate) fn scale(cx: &Context, x: Option<&[f32]>, factor: f32, y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| {
        if let Some(x) = x {
            y.copy_from_slice(&x[task.index * PART..][..y.len()]);
        }
        multiply(cx.isa, factor, y);
    });
}

/// a b, in place of a if there is none.
pub(crate) fn mul(cx: &Context, a: Option<&[f32]>, b: &[f32], y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| {
        let start = task.index * PART;
        if let Some(a) = a {
            y.copy_from_slice(&a[start..start + y.len()]);
        }
        multiply_by(cx.isa, &b[start..start + y.len()], y);
    });
}

/// Which channels of x: `[R, from]` become which of y: `[R, to]`; the others of y are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The first that is taken.
    pub(crate) first: usize,
    /// Zeros before it.
    pub(crate) before: usize,
}

/// x: `[R, from]` -> y: `[R, to]`.
pub(crate) fn resize_channels(cx: &Context, x: &[f32], channels: Channels, y: &mut [f32]) {
    let Channels { from, to, first, before } = channels;
    if to == 0 {
        return;
    }
    let kept = (from - first).min(to - before);
    let rows = rows_per_part(to);
    cx.pool.parts(y, rows * to, &|task, y| {
        for (r, y) in y.chunks_exact_mut(to).enumerate() {
            let at = (task.index * rows + r) * from + first;
            y[..before].fill(0.0);
            y[before..before + kept].copy_from_slice(&x[at..at + kept]);
            y[before + kept..].fill(0.0);
        }
    });
}

/// One value everywhere.
pub(crate) fn fill(cx: &Context, value: f32, y: &mut [f32]) {
    cx.pool.parts(y, PART, &|_, y| y.fill(value));
}

/// The same values.
pub(crate) fn copy(cx: &Context, x: &[f32], y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| y.copy_from_slice(&x[task.index * PART..][..y.len()]));
}

multiversion! {
    fn sum(a: &[f32], b: &[f32], y: &mut [f32]) {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = a + b;
        }
    }

    fn sum_in_place(b: &[f32], y: &mut [f32]) {
        for (y, b) in y.iter_mut().zip(b) {
            *y += b;
        }
    }

    fn multiply_by(b: &[f32], y: &mut [f32]) {
        for (y, b) in y.iter_mut().zip(b) {
            *y *= b;
        }
    }

    fn multiply(factor: f32, y: &mut [f32]) {
        for y in y {
            *y *= factor;
        }
    }
}
