//! Cross entropy, row by row. Rows are short, so sums are taken in f64, which costs nothing and makes a loss of nearly
//! 0 exact.

use crate::native::{Context, rows_per_part};

/// An exponential in f64 takes as long as so many values take that are only read and written.
const HEAVY: usize = 128;

/// logits `[N, K]`, labels `[N]` -> `[N]`.
pub(crate) fn cross_entropy(cx: &Context, logits: &[f32], labels: &[u32], smoothing: f32, y: &mut [f32]) {
    let classes = logits.len().checked_div(labels.len()).unwrap_or(0);
    let part = rows_per_part(classes * HEAVY);
    cx.pool.parts(y, part, &|task, y| {
        for (i, y) in y.iter_mut().enumerate() {
            let n = task.index * part + i;
            let row = &logits[n * classes..(n + 1) * classes];
            let log_sum = log_sum_exp(row);
            // - sum q log p with log p = z - log_sum and sum q = 1.
            let total: f64 = row.iter().map(|z| f64::from(*z) - log_sum).sum();
            let right = f64::from(row[labels[n] as usize]) - log_sum;
            let s = f64::from(smoothing);
            *y = -((1.0 - s) * right + s / classes as f64 * total) as f32;
        }
    });
}

/// logits `[N, K]`, labels `[N]`, dloss `[N]` -> `[N, K]`.
pub(crate) fn cross_entropy_grad(
    cx: &Context,
    logits: &[f32],
    labels: &[u32],
    smoothing: f32,
    dloss: &[f32],
    dz: &mut [f32],
) {
    let classes = logits.len().checked_div(labels.len()).unwrap_or(0);
    if classes == 0 {
        return;
    }
    let part = rows_per_part(classes * HEAVY);
    cx.pool.parts(dz, part * classes, &|task, dz| {
        for (i, dz) in dz.chunks_exact_mut(classes).enumerate() {
            let n = task.index * part + i;
            let row = &logits[n * classes..(n + 1) * classes];
            let log_sum = log_sum_exp(row);
            let floor = f64::from(smoothing) / classes as f64;
            for (k, (dz, z)) in dz.iter_mut().zip(row).enumerate() {
                let q = if k == labels[n] as usize { 1.0 - f64::from(smoothing) + floor } else { floor };
                *dz = (f64::from(dloss[n]) * ((f64::from(*z) - log_sum).exp() - q)) as f32;
            }
        }
    });
}

/// logits, soft labels `[N, K]` -> `[N]`.
pub(crate) fn soft_cross_entropy(cx: &Context, [logits, soft]: [&[f32]; 2], smoothing: f32, y: &mut [f32]) {
    let classes = logits.len().checked_div(y.len()).unwrap_or(0);
    let part = rows_per_part(classes * HEAVY);
    cx.pool.parts(y, part, &|task, y| {
        for (i, y) in y.iter_mut().enumerate() {
            let row = (task.index * part + i) * classes..(task.index * part + i + 1) * classes;
            let (z, t) = (&logits[row.clone()], &soft[row]);
            let log_sum = log_sum_exp(z);
            let terms =
                z.iter().zip(t).map(|(z, t)| smooth(*t, smoothing, classes) * (f64::from(*z) - log_sum));
            *y = -terms.sum::<f64>() as f32;
        }
    });
}

/// logits, soft labels `[N, K]`, dloss `[N]` -> `[N, K]`.
pub(crate) fn soft_cross_entropy_grad(
    cx: &Context,
    [logits, soft]: [&[f32]; 2],
    smoothing: f32,
    dloss: &[f32],
    dz: &mut [f32],
) {
    let classes = logits.len().checked_div(dloss.len()).unwrap_or(0);
    if classes == 0 {
        return;
    }
    let part = rows_per_part(classes * HEAVY);
    cx.pool.parts(dz, part * classes, &|task, dz| {
        for (i, dz) in dz.chunks_exact_mut(classes).enumerate() {
            let n = task.index * part + i;
            let row = n * classes..(n + 1) * classes;
            let (z, t) = (&logits[row.clone()], &soft[row]);
            let log_sum = log_sum_exp(z);
            let sum: f64 = t.iter().map(|t| smooth(*t, smoothing, classes)).sum();
            for ((dz, z), t) in dz.iter_mut().zip(z).zip(t) {
                let p = (f64::from(*z) - log_sum).exp();
                *dz = (f64::from(dloss[n]) * (p * sum - smooth(*t, smoothing, classes))) as f32;
            }
        }
    });
}

/// The probability that a smoothed soft label gives to a class.
fn smooth(t: f32, smoothing: f32, classes: usize) -> f64 {
    (1.0 - f64::from(smoothing)) * f64::from(t) + f64::from(smoothing) / classes as f64
}

/// logits `[N, K]`, labels `[N]` -> `[N]`: 1 where the first of the largest logits is at the label, else 0.
pub(crate) fn correct(cx: &Context, logits: &[f32], labels: &[u32], y: &mut [f32]) {
    let classes = logits.len().checked_div(labels.len()).unwrap_or(0);
    let part = rows_per_part(classes);
    cx.pool.parts(y, part, &|task, y| {
        for (i, y) in y.iter_mut().enumerate() {
            let n = task.index * part + i;
            let row = &logits[n * classes..(n + 1) * classes];
            let label = labels[n] as usize;
            let mine = row[label];
            let right = row[..label].iter().all(|z| *z < mine) && row[label..].iter().all(|z| *z <= mine);
            *y = if right { 1.0 } else { 0.0 };
        }
    });
}

/// log of the sum of exp(z), the largest z taken out first so that nothing overflows.
fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    let largest = f64::from(if largest.is_finite() { largest } else { row[0] });
    largest + row.iter().map(|z| (f64::from(*z) - largest).exp()).sum::<f64>().ln()
}
