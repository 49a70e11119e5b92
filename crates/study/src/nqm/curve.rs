//! The model's loss, update by update.

use super::NqmSpec;
use super::moments::{apply, product, update};
use crate::error::StudyError;

/// Expected loss after each of the `fresh_batches` times `echo` updates, at a learning rate (per update) and momentum;
/// the loss before the first update is `spec.initial_loss()`. A diverging curve grows to infinity and ends in NaN.
/// Err if the specification makes no sense.
pub fn loss_curve(
    spec: &NqmSpec,
    learning_rate: f64,
    momentum: f64,
    fresh_batches: usize,
) -> Result<Vec<f64>, StudyError> {
    spec.check()?;
    let echo = spec.echo as usize;
    let mut curve = vec![0.0; fresh_batches * echo];
    for i in 0..spec.dims {
        let h = spec.curvature(i);
        let variance = h / spec.batch as f64;
        let (a, b) = update(spec.optimizer, h, learning_rate, momentum);
        // Second moments (theta theta, theta v, v v) at the start of each fresh batch. Its noise is independent of them,
        // so after j updates of it they are P S P^T + variance c c^T, with P = A^j and c = (1 + ... + A^(j-1)) b.
        let mut start = [1.0, 0.0, 0.0];
        for batch in curve.chunks_exact_mut(echo) {
            let (mut p, mut c) = ([1.0, 0.0, 0.0, 1.0], [0.0, 0.0]);
            let mut now = start;
            for loss in batch {
                p = product(a, p);
                c = apply(a, c);
                c = [c[0] + b[0], c[1] + b[1]];
                now = super::moments::congruence(p, start);
                now[0] += variance * c[0] * c[0];
                now[1] += variance * c[0] * c[1];
                now[2] += variance * c[1] * c[1];
                *loss += 0.5 * h * now[0];
            }
            start = now;
        }
    }
    Ok(curve)
}
