//! The fewest fresh batches to the goal, at one learning rate and momentum and over the whole grid. Exact: a stretch of
//! fresh batches is leapt over only when a lower bound shows that the goal is not met at any of them.

use super::moments::Moments;
use super::{NqmCell, NqmSpec};
use crate::error::StudyError;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Rates on the grid: effective rate E = 2^(-12 + i/16) for i below this.
const RATES: usize = 273;
/// Learning rates at or above this are not on the grid.
const RATE_LIMIT: f64 = 4.0;
/// Cells that have not reached the goal by then never do: the slowest finite approach in doubles is far shorter.
const FOREVER: u64 = 1 << 50;

/// Fresh batches after which the expected loss is first below the goal with this learning rate (per update) and
/// momentum; `None` if that is not so within `limit` of them. Err if the specification makes no sense.
pub fn fresh_batches_to_goal(
    spec: &NqmSpec,
    learning_rate: f64,
    momentum: f64,
    limit: u64,
) -> Result<Option<u64>, StudyError> {
    spec.check()?;
    Ok(first_crossing(spec, learning_rate, momentum, limit))
}

fn first_crossing(spec: &NqmSpec, rate: f64, momentum: f64, limit: u64) -> Option<u64> {
    let goal = spec.goal * spec.initial_loss();
    let limit = limit.min(FOREVER);
    let mut moments = Moments::new(spec, rate, momentum);
    let mut k = 0usize;
    // Negated comparisons: a diverged cell's NaN must end the search, not prolong it.
    while moments.fresh < limit && moments.noise_loss() < goal {
        k = k.min((limit - moments.fresh).ilog2() as usize);
        if k == 0 {
            moments.advance(0);
            if moments.loss() < goal {
                return Some(moments.fresh);
            }
            k = 1;
        } else if moments.bound_over(k) < goal {
            k -= 1;
        } else {
            moments.advance(k);
            k += 1;
        }
    }
    None
}

/// The best cell of the grid: effective rate E = 2^(-12 + i/16), i = 0..=272, each momentum g of the optimiser, learning
/// rate E (1 - g) below 4; of equally good cells that with the least momentum, then the highest rate. `None` if no cell reaches the goal. The answer does not depend on `threads`.
/// Err if the specification makes no sense.
pub fn solve(spec: &NqmSpec, threads: NonZeroUsize) -> Result<Option<NqmCell>, StudyError> {
    spec.check()?;
    let cells = grid(spec);
    let next = AtomicUsize::new(0);
    let fewest = AtomicU64::new(u64::MAX);
    let work = || {
        let mut best: Option<(u64, usize)> = None;
        while let Some(&(index, rate, momentum)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let limit = fewest.load(Ordering::Relaxed);
            if let Some(fresh) = first_crossing(spec, rate, momentum, limit) {
                fewest.fetch_min(fresh, Ordering::Relaxed);
                best = Some(best.map_or((fresh, index), |b| b.min((fresh, index))));
            }
        }
        best
    };
    let best = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(work)).collect();
        let own = work();
        let joined = others.into_iter().map(|t| t.join().expect("the search does not panic"));
        joined.chain([own]).flatten().min()
    });
    Ok(best.map(|(fresh_batches, index)| {
        let (rate, momentum) = at(spec, index);
        NqmCell {
            batch: spec.batch,
            echo: spec.echo,
            fresh_batches,
            updates: fresh_batches * u64::from(spec.echo),
            learning_rate: rate,
            momentum,
        }
    }))
}

/// Learning rate and momentum of a grid index; lower indices win ties, so rates fall as the index rises.
fn at(spec: &NqmSpec, index: usize) -> (f64, f64) {
    let (g, i) = (spec.optimizer.momenta()[index / RATES], RATES - 1 - index % RATES);
    ((-12.0 + i as f64 / 16.0).exp2() * (1.0 - g), g)
}

/// The cells as (index, rate, momentum), widely spaced rates first: a good cell found early lets the others stop early.
fn grid(spec: &NqmSpec) -> Vec<(usize, f64, f64)> {
    let all = spec.optimizer.momenta().len() * RATES;
    let coarseness = |index: usize| std::cmp::Reverse((index % RATES).trailing_zeros());
    let mut indices: Vec<usize> = (0..all).collect();
    indices.sort_by_key(|&index| coarseness(index));
    let cells = indices.into_iter().map(|index| {
        let (rate, momentum) = at(spec, index);
        (index, rate, momentum)
    });
    cells.filter(|&(_, rate, _)| rate < RATE_LIMIT).collect()
}
