//! Dropout, example by example.

use super::{generator, threshold};
use crate::native::{Context, rows_per_part};
use sooner_base::{Key, Origin};

/// x: `[N, ...]`, origins: `[N]`; in place if there is no x.
pub(crate) fn dropout(
    cx: &Context,
    x: Option<&[f32]>,
    (rate, key): (f64, Key),
    origins: &[Origin],
    y: &mut [f32],
) {
    let each = y.len().checked_div(origins.len()).unwrap_or(0);
    if each == 0 {
        return;
    }
    let (limit, scale) = (threshold(rate), (1.0 / (1.0 - rate)) as f32);
    let examples = rows_per_part(each);
    cx.pool.parts(y, examples * each, &|task, y| {
        let first = task.index * examples;
        if let Some(x) = x {
            y.copy_from_slice(&x[first * each..][..y.len()]);
        }
        for (y, origin) in y.chunks_exact_mut(each).zip(&origins[first..]) {
            let mut rng = generator(key, origin);
            for y in y {
                *y = if rng.u32() < limit { 0.0 } else { *y * scale };
            }
        }
    });
}
