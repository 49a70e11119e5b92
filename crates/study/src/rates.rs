//! The best learning rate against batch size, and the rules of thumb it is compared with.

use crate::error::StudyError;
use crate::target::{Target, to_target};
use crate::trial::{Measure, Trial};
use serde::Serialize;

/// The learning rate that a constant gradient would see in the long run: rate / (1 - momentum).
pub fn effective_rate(rate: f64, momentum: f64) -> f64 {
    rate / (1.0 - momentum)
}

/// Rules of thumb for the learning rate of another batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateRule {
    /// In proportion to the batch size.
    Linear,
    /// In proportion to its square root.
    SquareRoot,
}

impl RateRule {
    /// The rate at `batch`, from the best one at another batch size.
    pub fn rate(self, from: (f64, f64), batch: f64) -> f64 {
        let (old_batch, rate) = from;
        let growth = batch / old_batch;
        rate * match self {
            RateRule::Linear => growth,
            RateRule::SquareRoot => growth.sqrt(),
        }
    }
}

/// The best trial's rates at one batch size, and how they compare with the rules anchored at the smallest batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestRate {
    /// Examples in a batch.
    pub batch: u64,
    /// The best trial's number.
    pub trial: u64,
    /// Its learning rate, per update.
    pub rate: f64,
    /// Its momentum; 0 if it has none.
    pub momentum: f64,
    /// rate / (1 - momentum).
    pub effective: f64,
    /// The effective rate over that of linear scaling.
    pub over_linear: f64,
    /// The effective rate over that of square-root scaling.
    pub over_square_root: f64,
}

/// The best trial's rates at each batch size, smallest first; sizes that do not reach the target, or whose best trial has
/// no parameter `learning_rate`, are left out.
pub fn best_rates(points: &[(u64, Vec<Trial>)], target: &Target) -> Result<Vec<BestRate>, StudyError> {
    let mut rates: Vec<BestRate> = Vec::new();
    let mut ordered: Vec<&(u64, Vec<Trial>)> = points.iter().collect();
    ordered.sort_by_key(|(batch, _)| *batch);
    for (batch, trials) in ordered {
        let Some(best) = to_target(trials, target, Measure::Updates)?.best else { continue };
        let found = trials.iter().find(|trial| trial.number == best.trial);
        let parameters = &found.expect("the best trial is one of them").parameters;
        let Some(&rate) = parameters.get("learning_rate") else { continue };
        let momentum = parameters.get("momentum").copied().unwrap_or(0.0);
        let effective = effective_rate(rate, momentum);
        let anchor =
            rates.first().map_or((*batch as f64, effective), |first| (first.batch as f64, first.effective));
        let over = |rule: RateRule| effective / rule.rate(anchor, *batch as f64);
        rates.push(BestRate {
            batch: *batch,
            trial: best.trial,
            rate,
            momentum,
            effective,
            over_linear: over(RateRule::Linear),
            over_square_root: over(RateRule::SquareRoot),
        });
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Status, tests::trial};

    #[test]
    fn rules_are_anchored_at_the_smallest_batch() {
        let at = |number, batch, rate, momentum, updates| {
            let mut t = trial(number, Status::Complete, batch, &[(0, 0.9), (updates, 0.1)]);
            t.parameters.insert("learning_rate".into(), rate);
            if momentum > 0.0 {
                t.parameters.insert("momentum".into(), momentum);
            }
            t
        };
        let points = vec![
            (64, vec![at(0, 64, 0.08, 0.9, 50), at(1, 64, 0.4, 0.0, 60)]),
            (16, vec![at(0, 16, 0.1, 0.0, 300), at(1, 16, 0.2, 0.0, 200)]),
            (256, vec![trial(0, Status::Complete, 256, &[(9, 0.5)])]),
            (1024, vec![trial(0, Status::Complete, 1024, &[(9, 0.1)])]),
        ];
        let rates = best_rates(&points, &"val.error<0.2".parse().unwrap()).unwrap();
        let summary: Vec<_> = rates.iter().map(|r| (r.batch, r.trial, r.momentum)).collect();
        assert_eq!(summary, [(16, 1, 0.0), (64, 0, 0.9)]);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(rates[0].effective, 0.2) && close(rates[0].over_linear, 1.0));
        assert!(close(rates[1].effective, 0.8) && close(rates[1].over_linear, 1.0));
        assert!(close(rates[1].over_square_root, 2.0));
    }
}
