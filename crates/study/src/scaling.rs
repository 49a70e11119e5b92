//! Updates-to-target against batch size: the law S = S_min (1 + B_crit / B), fitted; the line of perfect scaling; and
//! where the curve leaves it and where it ends.
//!
//! The law (McCandlish, Kaplan, Amodei and others, "An empirical model of large-batch training", 2018) says that updates
//! S and examples E = S B trade as (S / S_min - 1)(E / E_min - 1) = 1, with B_crit = E_min / S_min. At B_crit a run
//! needs twice the fewest updates and twice the fewest examples.

use crate::error::{Fault, StudyError};
use crate::interval::{Bootstrap, Interval};
use serde::Serialize;

/// Updates to the target at one batch size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Examples in a batch.
    pub batch: f64,
    /// Updates to the target.
    pub updates: f64,
}

/// The fitted law.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// S_min, the updates needed at any larger batch; 0 if the points show no end of perfect scaling.
    pub least_updates: f64,
    /// E_min, the examples needed at any smaller batch; 0 if the points show no gain from larger batches.
    pub least_examples: f64,
    /// B_crit = E_min / S_min in examples; infinite or 0 in these two cases.
    pub critical_batch: f64,
    /// Natural logarithm of measured over fitted updates, for each point in the order given.
    pub residuals: Vec<f64>,
}

impl Scaling {
    /// Updates at a batch size by the law.
    pub fn updates(&self, batch: f64) -> f64 {
        self.least_updates + self.least_examples / batch
    }
}

/// Residuals below this (one percent) count as agreement: evaluations are no closer than that.
const AGREEMENT: f64 = 0.01;
/// The critical batch is looked for this many times below the smallest and above the largest batch.
const REACH: f64 = 1000.0;

/// Fits the law to three or more batch sizes. The fit is even in log updates, as a factor of two is the same error at any
/// height of the curve, and counts far-off points linearly (Huber's loss, at 1.345 robust standard deviations), as one
/// search without luck should not bend the curve. Err for fewer than three different batch sizes, or values that are not
/// finite and above 0.
pub fn fit_scaling(points: &[CurvePoint]) -> Result<Scaling, StudyError> {
    if let Some(bad) = points.iter().find(|p| !(lawful(p.batch) && lawful(p.updates))) {
        let place = format!("batch {}", bad.batch);
        return Err(StudyError::Estimate(Fault::new(place, "a positive number of updates", bad.updates)));
    }
    let mut batches: Vec<f64> = points.iter().map(|p| p.batch).collect();
    batches.sort_by(f64::total_cmp);
    batches.dedup();
    let [smallest, _, .., largest] = batches[..] else {
        let expected = "at least three different batch sizes that reach the target";
        return Err(StudyError::Estimate(Fault::new("scaling curve", expected, batches.len())));
    };
    let (low, high) = ((smallest / REACH).ln(), (largest * REACH).ln());
    let mut robust_from = f64::INFINITY;
    let mut best = (0.0, 0.0);
    // Least squares first; then the scale of the residuals decides which of them are far off, until that settles.
    for _ in 0..4 {
        let loss = |log_critical: f64| level(points, log_critical, robust_from).1;
        let log_critical = minimise(loss, low, high);
        best = (log_critical, level(points, log_critical, robust_from).0);
        let mut sizes: Vec<f64> = residuals(points, best.0).map(|r| (r - best.1).abs()).collect();
        sizes.sort_by(f64::total_cmp);
        // The median absolute residual, as a standard deviation, with two parameters taken out.
        let freedom = points.len() as f64 / (points.len() - 2) as f64;
        let deviation = 1.4826 * sizes[sizes.len() / 2] * freedom.sqrt();
        robust_from = 1.345 * deviation.max(AGREEMENT);
    }
    let (log_critical, log_level) = best;
    let residuals = residuals(points, log_critical).map(|r| r - log_level).collect();
    // At an end of what was looked at, the other term of the law cannot be told from 0.
    let edge = 1e-3;
    let (least_updates, least_examples) = (log_level.exp(), (log_level + log_critical).exp());
    Ok(if log_critical > high - edge {
        Scaling { least_updates: 0.0, least_examples, critical_batch: f64::INFINITY, residuals }
    } else if log_critical < low + edge {
        Scaling { least_updates, least_examples: 0.0, critical_batch: 0.0, residuals }
    } else {
        Scaling { least_updates, least_examples, critical_batch: log_critical.exp(), residuals }
    })
}

fn lawful(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Log updates without the factor that the law gives a critical batch; all equal to log S_min if the law holds.
fn residuals(points: &[CurvePoint], log_critical: f64) -> impl Iterator<Item = f64> {
    let critical = log_critical.exp();
    points.iter().map(move |p| p.updates.ln() - (critical / p.batch).ln_1p())
}

/// The best log S_min for a critical batch, and the loss with it.
fn level(points: &[CurvePoint], log_critical: f64, robust_from: f64) -> (f64, f64) {
    let values: Vec<f64> = residuals(points, log_critical).collect();
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let mut level = sorted[sorted.len() / 2];
    if robust_from.is_infinite() {
        level = values.iter().sum::<f64>() / values.len() as f64;
    } else {
        // Weighted means from the median on; the loss is convex in the level, so this only descends.
        for _ in 0..50 {
            let weight = |v: f64| (robust_from / (v - level).abs()).min(1.0);
            let (sum, total) =
                values.iter().fold((0.0, 0.0), |(s, t), v| (s + weight(*v) * v, t + weight(*v)));
            let step = sum / total - level;
            level += step;
            if step.abs() < 1e-13 {
                break;
            }
        }
    }
    let huber = |r: f64| {
        let size = r.abs();
        if size <= robust_from { 0.5 * r * r } else { robust_from * (size - 0.5 * robust_from) }
    };
    (level, values.iter().map(|v| huber(v - level)).sum())
}

/// Where a function of one variable is least: a scan, then golden sections around its best place.
fn minimise(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    const STEPS: usize = 100;
    let width = (high - low) / STEPS as f64;
    let scan = (0..=STEPS).map(|i| low + width * i as f64);
    let (_, centre) =
        scan.map(|x| (f(x), x)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("the scan is not empty");
    let (mut a, mut d) = ((centre - width).max(low), (centre + width).min(high));
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut b, mut c) = (d - golden * (d - a), a + golden * (d - a));
    let (mut fb, mut fc) = (f(b), f(c));
    while d - a > 1e-9 {
        if fb <= fc {
            (d, c, fc) = (c, b, fb);
            b = d - golden * (d - a);
            fb = f(b);
        } else {
            (a, b, fb) = (b, c, fc);
            c = a + golden * (d - a);
            fc = f(c);
        }
    }
    0.5 * (a + d)
}

/// Intervals of the fitted law, from resampled searches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScalingIntervals {
    /// Of S_min.
    pub least_updates: Interval,
    /// Of E_min.
    pub least_examples: Interval,
    /// Of B_crit.
    pub critical_batch: Interval,
    /// Resamples left out, as fewer than three of their batch sizes reached the target.
    pub left_out: u32,
}

/// Intervals of the law over resampled trials: at each batch size, given with what each of its complete trials needed
/// (infinite if censored), as many are drawn with replacement, and the law is fitted to their best. Err if no resample
/// can be fitted.
pub fn scaling_intervals(
    points: &[(f64, Vec<f64>)],
    bootstrap: &Bootstrap,
) -> Result<ScalingIntervals, StudyError> {
    let minima: Vec<Vec<f64>> =
        points.iter().enumerate().map(|(i, (_, amounts))| bootstrap.minima(amounts, i)).collect();
    let (mut updates, mut examples, mut critical) = (Vec::new(), Vec::new(), Vec::new());
    for resample in 0..bootstrap.resamples as usize {
        let curve = points
            .iter()
            .zip(&minima)
            .map(|((batch, _), least)| CurvePoint { batch: *batch, updates: least[resample] });
        let reached: Vec<CurvePoint> = curve.filter(|p| p.updates.is_finite()).collect();
        if let Ok(fit) = fit_scaling(&reached) {
            updates.push(fit.least_updates);
            examples.push(fit.least_examples);
            critical.push(fit.critical_batch);
        }
    }
    let left_out = bootstrap.resamples - updates.len() as u32;
    let intervals = [&updates, &examples, &critical].map(|values| bootstrap.interval(values));
    let [Some(least_updates), Some(least_examples), Some(critical_batch)] = intervals else {
        let expected = "a resample with three batch sizes that reach the target";
        return Err(StudyError::Estimate(Fault::new("scaling curve", expected, "none")));
    };
    Ok(ScalingIntervals { least_updates, least_examples, critical_batch, left_out })
}

/// A batch size at which a measured curve changes its regime.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bend {
    /// The batch size, in examples.
    pub batch: f64,
    /// Whether the change was seen; else it lies beyond the largest batch, which is given.
    pub seen: bool,
}

/// A measured curve's three regimes: perfect scaling, diminishing returns, no more gain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Regimes {
    /// Where updates exceed the line of perfect scaling by the tolerance, between points by a straight line in logarithms.
    pub perfect_until: Bend,
    /// The largest useful batch: the smallest that needs at most 1 + tolerance times the fewest updates of all. Seen if
    /// one at least twice as large was measured.
    pub flat_from: Bend,
}

/// Updates at a batch size had every doubling halved them, from the smallest batch of the curve on. `None` of no points.
pub fn perfect_scaling(points: &[CurvePoint], batch: f64) -> Option<f64> {
    let first = points.iter().min_by(|a, b| a.batch.total_cmp(&b.batch))?;
    Some(first.updates * first.batch / batch)
}

/// The regimes of a measured curve, with a tolerance such as 0.2 for 20 % (the definition of the critical batch size in
/// recent work on language models). The line of perfect scaling is anchored at the smallest batch, so luck there moves
/// the first bend. Err of no points, or values that are not finite and above 0.
pub fn regimes(points: &[CurvePoint], tolerance: f64) -> Result<Regimes, StudyError> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.batch.total_cmp(&b.batch));
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return Err(StudyError::Estimate(Fault::new("scaling curve", "at least one batch size", "none")));
    };
    if let Some(bad) = sorted.iter().find(|p| !(lawful(p.batch) && lawful(p.updates))) {
        let place = format!("batch {}", bad.batch);
        return Err(StudyError::Estimate(Fault::new(place, "a positive number of updates", bad.updates)));
    }
    // Log of how far a point lies over the line.
    let over = |p: &CurvePoint| (p.updates * p.batch / (first.updates * first.batch)).ln();
    let limit = tolerance.ln_1p();
    let crossing = sorted.windows(2).find(|pair| over(&pair[1]) > limit).map(|pair| {
        let (a, b) = (over(&pair[0]), over(&pair[1]));
        let share = (limit - a) / (b - a);
        (pair[0].batch.ln() + share * (pair[1].batch / pair[0].batch).ln()).exp()
    });
    let perfect_until = match crossing {
        Some(batch) => Bend { batch, seen: true },
        None => Bend { batch: last.batch, seen: false },
    };
    let fewest = sorted.iter().map(|p| p.updates).fold(f64::INFINITY, f64::min);
    let useful =
        sorted.iter().find(|p| p.updates <= (1.0 + tolerance) * fewest).expect("the fewest is among them");
    let seen = last.batch >= 2.0 * useful.batch;
    let flat_from = Bend { batch: if seen { useful.batch } else { last.batch }, seen };
    Ok(Regimes { perfect_until, flat_from })
}

#[cfg(test)]
mod tests;
