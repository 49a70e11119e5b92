//! The model as a workload: trials of it, for studies whose right result is known.

use super::{NqmSpec, loss_curve};
use crate::error::StudyError;
use crate::target::{Operator, Target};
use crate::trial::{Progress, Series, Status, Trial};
use sooner_base::{Examples, FreshExamples, Updates};

/// The metric of the model's trials.
const METRIC: &str = "val.loss";
/// A loss that has grown this many times has diverged.
const DIVERGED: f64 = 1e3;

impl NqmSpec {
    /// The specification's goal as a target of its trials.
    pub fn target(&self) -> Target {
        Target { metric: METRIC.into(), operator: Operator::Below, value: self.goal * self.initial_loss() }
    }
}

/// One trial of the model: exact expected losses, measured after fresh batches 1, 2, ... that grow by 3 %, up to the first
/// that meets the target or until `most_updates`. It is infeasible if the loss grows a thousandfold. Err if the
/// specification makes no sense.
pub fn run_trial(
    spec: &NqmSpec,
    number: u64,
    learning_rate: f64,
    momentum: f64,
    most_updates: u64,
) -> Result<Trial, StudyError> {
    let echo = u64::from(spec.echo.max(1));
    let curve = loss_curve(spec, learning_rate, momentum, (most_updates / echo) as usize)?;
    let (target, diverged) = (spec.target(), DIVERGED * spec.initial_loss());
    let mut trial = Trial {
        number,
        status: Status::Complete,
        parameters: [("learning_rate".to_owned(), learning_rate), ("momentum".to_owned(), momentum)].into(),
        series: Series::default(),
    };
    let mut fresh = 1u64;
    while let Some(&loss) = curve.get((fresh * echo - 1) as usize) {
        let updates = fresh * echo;
        let progress = Progress {
            updates: Updates(updates),
            examples: Examples(updates * spec.batch),
            fresh: FreshExamples(fresh * spec.batch),
            epochs: None,
            seconds: None,
        };
        trial.series.push(progress, [(METRIC, loss)]);
        if loss.is_nan() || loss > diverged {
            trial.status = Status::Infeasible;
            break;
        }
        if target.met(loss) {
            break;
        }
        fresh = (fresh + 1).max((fresh as f64 * 1.03).round() as u64);
    }
    Ok(trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nqm::{NqmOptimizer, fresh_batches_to_goal};

    #[test]
    fn trials_reach_the_goal_where_the_exact_solution_does() {
        let spec = NqmSpec { dims: 50, goal: 0.05, optimizer: NqmOptimizer::Momentum, batch: 64, echo: 2 };
        let exact = fresh_batches_to_goal(&spec, 0.05, 0.8, 10_000).unwrap().unwrap();
        let trial = run_trial(&spec, 3, 0.05, 0.8, 20_000).unwrap();
        let met = spec.target().first_met(&trial).unwrap();
        let fresh = met.fresh.0 / 64;
        assert!(exact <= fresh && fresh as f64 <= 1.04 * exact as f64, "{fresh} for {exact}");
        assert_eq!((met.updates.0, met.examples.0), (2 * fresh, 128 * fresh));
        assert_eq!(trial.series.progress().last(), Some(met));
    }

    #[test]
    fn censored_and_diverged_trials_say_so() {
        let spec = NqmSpec { dims: 50, goal: 0.05, optimizer: NqmOptimizer::Sgd, batch: 64, echo: 1 };
        let slow = run_trial(&spec, 0, 1e-3, 0.0, 500).unwrap();
        assert_eq!((slow.status, spec.target().first_met(&slow)), (Status::Complete, None));
        assert!(slow.series.progress().last().unwrap().updates.0 > 480);
        let wild = run_trial(&spec, 0, 2.5, 0.0, 500).unwrap();
        assert_eq!(wild.status, Status::Infeasible);
        assert!(wild.series.progress().len() < 30);
    }
}
