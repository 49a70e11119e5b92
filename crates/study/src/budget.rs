//! What trials reach within a budget: which of them are good, and the best metric at each batch size. A budget of epochs
//! and one of updates give opposite pictures of the same trials.

use crate::target::Target;
use crate::trial::{Measure, Progress, Status, Trial};
use serde::Serialize;

/// The most of something that a trial may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Budget {
    /// What is limited.
    pub measure: Measure,
    /// The most of it, itself still allowed.
    pub limit: f64,
}

impl Budget {
    /// Whether an evaluation is within the budget; never if the measure was not recorded.
    pub fn allows(&self, progress: &Progress) -> bool {
        self.measure.of(progress).is_some_and(|amount| amount <= self.limit)
    }
}

/// What became of a trial under a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It met the target within the budget.
    Good,
    /// It did not.
    NotReached,
    /// It diverged.
    Infeasible,
}

/// The class of a trial; `None` for an incomplete one.
pub fn classify(trial: &Trial, target: &Target, budget: &Budget) -> Option<Class> {
    match trial.status {
        Status::Incomplete => None,
        Status::Infeasible => Some(Class::Infeasible),
        Status::Complete => {
            let met = target.first_met(trial).is_some_and(|progress| budget.allows(progress));
            Some(if met { Class::Good } else { Class::NotReached })
        }
    }
}

/// How many trials are of each class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClassCounts {
    /// Met the target within the budget.
    pub good: usize,
    /// Did not.
    pub not_reached: usize,
    /// Diverged.
    pub infeasible: usize,
}

impl ClassCounts {
    /// Counts the trials of one point.
    pub fn of(trials: &[Trial], target: &Target, budget: &Budget) -> ClassCounts {
        let mut counts = ClassCounts::default();
        for class in trials.iter().filter_map(|trial| classify(trial, target, budget)) {
            match class {
                Class::Good => counts.good += 1,
                Class::NotReached => counts.not_reached += 1,
                Class::Infeasible => counts.infeasible += 1,
            }
        }
        counts
    }

    /// The good trials' share of all: how much of the search space works. `None` of no trials.
    pub fn good_share(&self) -> Option<f64> {
        let all = self.good + self.not_reached + self.infeasible;
        (all > 0).then(|| self.good as f64 / all as f64)
    }
}

/// The best evaluation within a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestWithin {
    /// The trial's number.
    pub trial: u64,
    /// The metric's value.
    pub value: f64,
    /// Progress at that evaluation.
    pub progress: Progress,
}

/// The best value of a metric over all evaluations of complete trials within the budget; of equal ones the fewest updates,
/// then the lowest trial. `None` if there is none but NaN.
pub fn best_within(
    trials: &[Trial],
    metric: &str,
    lower_is_better: bool,
    budget: &Budget,
) -> Option<BestWithin> {
    let complete = trials.iter().filter(|trial| trial.status == Status::Complete);
    let evaluations = complete.flat_map(|trial| {
        trial.series.of(metric).map(|(progress, value)| BestWithin {
            trial: trial.number,
            value,
            progress: *progress,
        })
    });
    let allowed = evaluations.filter(|e| budget.allows(&e.progress) && !e.value.is_nan());
    allowed.min_by(|a, b| {
        let by_value =
            if lower_is_better { a.value.total_cmp(&b.value) } else { b.value.total_cmp(&a.value) };
        by_value.then(a.progress.updates.cmp(&b.progress.updates)).then(a.trial.cmp(&b.trial))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::trial;

    #[test]
    fn budgets_sort_trials_into_classes() {
        use Status::*;
        let target: Target = "val.error<0.2".parse().unwrap();
        let trials = [
            trial(0, Complete, 10, &[(0, 0.9), (50, 0.19), (100, 0.1)]),
            trial(1, Complete, 10, &[(0, 0.9), (100, 0.15)]),
            trial(2, Complete, 10, &[(0, 0.9), (100, 0.2)]),
            trial(3, Infeasible, 10, &[(10, 0.1)]),
            trial(4, Incomplete, 10, &[(10, 0.1)]),
        ];
        let counts = |measure, limit| {
            let c = ClassCounts::of(&trials, &target, &Budget { measure, limit });
            (c.good, c.not_reached, c.infeasible)
        };
        assert_eq!(counts(Measure::Updates, 49.0), (0, 3, 1));
        assert_eq!(counts(Measure::Updates, 50.0), (1, 2, 1));
        assert_eq!(counts(Measure::Updates, 100.0), (2, 1, 1));
        // 50 updates of 10 are half an epoch of 1000 examples.
        assert_eq!(counts(Measure::Epochs, 0.5), (1, 2, 1));
        assert_eq!(counts(Measure::Examples, 1e9), (2, 1, 1));
        let all = ClassCounts { good: 2, not_reached: 1, infeasible: 1 };
        assert_eq!((all.good_share(), ClassCounts::default().good_share()), (Some(0.5), None));
    }

    #[test]
    fn the_best_value_within_a_budget() {
        use Status::*;
        let trials = [
            trial(5, Complete, 10, &[(10, f64::NAN), (20, 0.3), (40, 0.2), (80, 0.1)]),
            trial(2, Complete, 10, &[(20, 0.3), (40, 0.25), (80, 0.2)]),
            trial(1, Infeasible, 10, &[(20, 0.01)]),
        ];
        let best = |lower, limit| {
            let budget = Budget { measure: Measure::Updates, limit };
            best_within(&trials, "val.error", lower, &budget)
                .map(|b| (b.trial, b.progress.updates.0, b.value))
        };
        assert_eq!(best(true, 10.0), None);
        assert_eq!(best(true, 20.0), Some((2, 20, 0.3)));
        assert_eq!(best(true, 79.0), Some((5, 40, 0.2)));
        assert_eq!(best(true, 80.0), Some((5, 80, 0.1)));
        assert_eq!(best(false, 80.0), Some((2, 20, 0.3)));
    }
}
