//! Selective back-propagation: the examples of a batch that its update is made of, by their losses.
//!
//! Cost: one forward pass over the batch, a third of the FLOPs of its update. Keeping a share s therefore takes
//! (1/3 + s) of an update's time: half of the examples, 0.83.

use crate::programs::check_labels;
use crate::views::judge;
use crate::{Programs, TrainError};
use sooner_base::{Batch, Mix, Rng, Shape};
use sooner_engine::{Feed, State};
use sooner_plan::SelectPlan;

/// Leaves those examples in the batch that are kept, in their order. `batch.fresh` stays what was read.
pub(crate) fn select(
    programs: &mut Programs,
    state: &mut State,
    batch: &mut Batch,
    plan: &SelectPlan,
    rng: Rng,
) -> Result<(), TrainError> {
    let kept = plan.kept(batch.len());
    if kept < batch.len() {
        check_labels(batch, programs.model().classes())?;
        let native = programs.eval(batch.len())?;
        let feed = Feed { features: &batch.features, labels: &batch.labels, scalars: &[], ..Feed::default() };
        native.run(state, &feed)?;
        let losses = losses(batch, native.output(2));
        keep(batch, &draw(&losses, kept, plan.power, rng));
    }
    Ok(())
}

/// Cross-entropy of each example with its label, of mixed ones with both.
fn losses(batch: &Batch, logits: &[f32]) -> Vec<f64> {
    let classes = logits.len() / batch.len();
    let of = |(i, logits): (usize, &[f32])| {
        let label = batch.labels[i];
        let Mix { label: other, weight } = batch.mixes.get(i).copied().unwrap_or(Mix { label, weight: 0.0 });
        let weight = f64::from(weight);
        (1.0 - weight) * judge(logits, label).0 + weight * judge(logits, other).0
    };
    logits.chunks_exact(classes).enumerate().map(of).collect()
}

/// So many of the examples with these losses, in ascending order. Draws without replacement are the smallest of
/// -ln(u) / w, u uniform and w the weight (Efraimidis and Spirakis, 2006); the logarithms of these do not underflow.
fn draw(losses: &[f64], kept: usize, power: f64, mut rng: Rng) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..losses.len()).collect();
    ranked.sort_by(|&a, &b| losses[a].total_cmp(&losses[b]));
    let n = losses.len() as f64;
    let mut keys = vec![0.0; losses.len()];
    for (rank, &i) in ranked.iter().enumerate() {
        keys[i] = -power * ((rank + 1) as f64 / n).ln();
    }
    // One number for each place of the batch, whatever the losses.
    keys.iter_mut().for_each(|key| *key += (-(1.0 - rng.f64()).ln()).ln());
    ranked.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]).then(a.cmp(&b)));
    ranked.truncate(kept);
    ranked.sort_unstable();
    ranked
}

/// Leaves these examples, which are in ascending order.
fn keep(batch: &mut Batch, chosen: &[usize]) {
    let row = batch.features.len() / batch.len();
    for (to, &from) in chosen.iter().enumerate() {
        batch.features.copy_within(from * row..(from + 1) * row, to * row);
        batch.labels[to] = batch.labels[from];
        batch.origins[to] = batch.origins[from];
        if let Some(&mix) = batch.mixes.get(from) {
            batch.mixes[to] = mix;
        }
    }
    let n = chosen.len();
    batch.features.truncate(n * row);
    batch.labels.truncate(n);
    batch.origins.truncate(n);
    batch.mixes.truncate(n);
    let rest = &batch.shape.dims()[1..];
    batch.shape = Shape::new([&[n], rest].concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Origin, Purpose, Seed};

    fn rng(update: u64) -> Rng {
        Seed(3).key(Purpose::Select, 0).at(0, update, 0)
    }

    /// How often each of these losses is kept in many draws.
    fn shares(losses: &[f64], kept: usize, power: f64) -> Vec<f64> {
        let mut counts = vec![0.0; losses.len()];
        for update in 0..4000 {
            draw(losses, kept, power, rng(update)).into_iter().for_each(|i| counts[i] += 1.0 / 4000.0);
        }
        counts
    }

    #[test]
    fn one_of_two_by_rank() {
        // Ranks 1/2 and 1: with power 1 a third and two thirds, with power 2 a fifth and four fifths.
        for (power, expected) in [(0.0, 0.5), (1.0, 2.0 / 3.0), (2.0, 0.8)] {
            let share = shares(&[0.7, 0.1], 1, power);
            assert!(
                (share[0] - expected).abs() < 0.03 && (share[0] + share[1] - 1.0).abs() < 1e-9,
                "{share:?}"
            );
        }
    }

    #[test]
    fn steep_powers_keep_the_largest_and_broken_losses() {
        assert_eq!(draw(&[0.1, 5.0, 0.3, 2.0], 2, 1e6, rng(0)), [1, 3]);
        assert_eq!(draw(&[0.1, f64::NAN, f64::INFINITY, 2.0], 2, 1e6, rng(0)), [1, 2]);
        assert_eq!(draw(&[1.0; 3], 3, 1.0, rng(0)), [0, 1, 2]);
        assert_eq!(draw(&[], 0, 1.0, rng(0)), [0; 0]);
    }

    #[test]
    fn rows_stay_together() {
        let origin = |index| Origin { epoch: 1, index, echo: 0 };
        let mut batch = Batch {
            features: (0..10).map(|v| v as f32).collect(),
            shape: Shape::from([5, 2, 1, 1]),
            labels: vec![5, 6, 7, 8, 9],
            mixes: (0..5).map(|label| Mix { label, weight: 0.5 }).collect(),
            origins: (0..5).map(origin).collect(),
            fresh: 5,
        };
        keep(&mut batch, &[1, 4]);
        assert_eq!((&batch.features[..], &batch.labels[..]), (&[2.0, 3.0, 8.0, 9.0][..], &[6, 9][..]));
        assert_eq!((batch.len(), batch.fresh, batch.mixes[1].label), (2, 5, 4));
        assert_eq!((&batch.shape, batch.origins[0]), (&Shape::from([2, 2, 1, 1]), origin(1)));
    }

    #[test]
    fn losses_of_mixed_examples() {
        let logits = [0.0, 3f32.ln(), 0.0, 0.0];
        let mut batch = Batch { labels: vec![0, 1], ..Batch::empty(Shape::from([2, 1, 1, 1])) };
        let near = |found: &[f64], expected: [f64; 2]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        };
        near(&losses(&batch, &logits), [4f64.ln(), 2f64.ln()]);
        batch.mixes = vec![Mix { label: 1, weight: 0.25 }, Mix { label: 1, weight: 0.0 }];
        near(&losses(&batch, &logits), [4f64.ln() - 0.25 * 3f64.ln(), 2f64.ln()]);
    }
}
