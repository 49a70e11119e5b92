//! When a run evaluates, fixed before it starts, and on what.

use crate::{DataFacts, EvaluatePlan, Plan, Split, Target};
use sooner_base::Updates;

/// The updates after which a run evaluates; the last update is always one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationPoints {
    rule: Rule,
    total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Every(u64),
    Listed(Vec<u64>),
}

impl EvaluationPoints {
    /// Whether to evaluate after the first so many updates.
    pub fn is_due(&self, updates: Updates) -> bool {
        let n = updates.0;
        if n == 0 || n > self.total {
            return false;
        }
        n == self.total
            || match &self.rule {
                Rule::Every(every) => n.is_multiple_of(*every),
                Rule::Listed(points) => points.binary_search(&n).is_ok(),
            }
    }

    /// All of them, rising.
    pub fn iter(&self) -> impl Iterator<Item = Updates> + '_ {
        let (every, listed) = match &self.rule {
            Rule::Every(every) => (Some(*every), &[][..]),
            Rule::Listed(points) => (None, &points[..]),
        };
        let regular = every.into_iter().flat_map(|n| (1..).map(move |k| k * n));
        let before_end = regular.chain(listed.iter().copied()).take_while(|n| *n < self.total);
        before_end.chain((self.total > 0).then_some(self.total)).map(Updates)
    }
}

impl Plan {
    /// The split that evaluations measure: the target's; without a target validation, or test if nothing is held out.
    pub fn evaluation_split(&self) -> Split {
        match self.target() {
            Ok(Some(target)) => target.split,
            _ if self.data.validation > 0 => Split::Val,
            _ => Split::Test,
        }
    }

    /// The target, read.
    pub fn target(&self) -> Result<Option<Target>, crate::PlanError> {
        self.run.target.as_deref().map(Target::parse).transpose()
    }

    /// When the run evaluates. Panics if the plan has no batch stage: check plans first.
    pub fn evaluation_points(&self, facts: &DataFacts) -> EvaluationPoints {
        let total = self.total_updates(facts.train_examples).0;
        // Where repeats depend on time only a bound is known, and whoever trains knows when the end is there.
        let total = self.most_uses().map_or(total, |max| (total + 1).saturating_mul(u64::from(max) + 1));
        let rule = match self.run.evaluate {
            EvaluatePlan::Auto => {
                let examples = facts.examples_of(self.evaluation_split());
                Rule::Every(fewest_updates_between(self, facts.train_examples, examples))
            }
            EvaluatePlan::Epoch => Rule::Every(self.updates_per_epoch(facts.train_examples).0),
            EvaluatePlan::Updates(every) => Rule::Every(every.max(1)),
            EvaluatePlan::Geometric => Rule::Listed(growing(1, 1.03, total)),
            EvaluatePlan::Growing { by, from } => {
                Rule::Listed(growing(((total as f64 * from).ceil() as u64).max(1), by, total))
            }
        };
        EvaluationPoints { rule, total }
    }
}

/// Numbers up to the total that grow by a factor, and by at least 1.
fn growing(first: u64, by: f64, total: u64) -> Vec<u64> {
    // What lies within rounding of a whole number is that number.
    let grow = |n: &u64| Some((n + 1).max((*n as f64 * by + 1e-6) as u64));
    std::iter::successors(Some(first), grow).take_while(|n| *n <= total).collect()
}

/// The fewest updates between evaluations of so many examples such that they cost at most 15 % of the run's FLOPs,
/// whether it ends at its last update or at any evaluation before, and come at most four times an epoch. An update of
/// n examples costs 3 n forward passes, an evaluation of m examples m. Never more than the whole run: where even one
/// evaluation costs more, there is one, at the end.
pub(crate) fn fewest_updates_between(plan: &Plan, train_examples: usize, evaluated: usize) -> u64 {
    let pace = plan.pace(train_examples);
    let (per_epoch, evaluated) = (pace.updates_per_epoch(), evaluated as u128);
    let total = plan.total_updates(train_examples).0.max(1);
    // With k evaluations after n updates: m k <= 0.15 (m k + 3 examples) is 17 m k <= 9 examples, and the examples
    // of n updates are at least their average share of an epoch, since an epoch's smaller batch comes last.
    let paid = (17 * evaluated * u128::from(per_epoch)).div_ceil(9 * u128::from(pace.train_examples));
    // The evaluation at the end may come early after the one before it; it has to be paid for too.
    let affordable = 9 * u128::from(pace.examples_after(total)) / (17 * evaluated.max(1));
    if affordable == 0 {
        return total;
    }
    let spread = u128::from(total).div_ceil(affordable);
    let every = paid.max(spread).max(u128::from(per_epoch.div_ceil(4)));
    every.min(u128::from(total)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pace;
    use crate::testing::plan;
    use proptest::prelude::*;

    fn points(evaluate: EvaluatePlan, epochs: f64, batch: usize, facts: &DataFacts) -> Vec<u64> {
        let mut plan = plan();
        plan.set(&format!("pipeline.stages.batch={batch}")).unwrap();
        plan.run.epochs = epochs;
        plan.run.evaluate = evaluate;
        let points = plan.evaluation_points(facts);
        let listed: Vec<u64> = points.iter().map(|u| u.0).collect();
        let total = plan.total_updates(facts.train_examples).0;
        let asked: Vec<u64> = (0..total + 3).filter(|u| points.is_due(Updates(*u))).collect();
        assert_eq!(listed, asked);
        listed
    }

    fn facts(train_examples: usize, val_examples: usize) -> DataFacts {
        DataFacts { train_examples, val_examples, test_examples: 10, image: [32, 32, 3], classes: 10 }
    }

    #[test]
    fn rules() {
        assert_eq!(points(EvaluatePlan::Epoch, 2.5, 32, &facts(100, 10)), [4, 8, 10]);
        assert_eq!(points(EvaluatePlan::Updates(3), 2.0, 32, &facts(100, 10)), [3, 6, 8]);
        assert_eq!(points(EvaluatePlan::Updates(100), 2.0, 32, &facts(100, 10)), [8]);
        let geometric = points(EvaluatePlan::Geometric, 1.0, 1, &facts(80, 10));
        assert_eq!(geometric[..34], (1..=34).collect::<Vec<u64>>());
        assert_eq!(geometric[64..], [65, 66, 67, 69, 71, 73, 75, 77, 79, 80]);
        let growing = |by, from| points(EvaluatePlan::Growing { by, from }, 1.0, 1, &facts(80, 10));
        assert_eq!(growing(1.25, 0.25), [20, 25, 31, 38, 47, 58, 72, 80]);
        assert_eq!(growing(2.0, 1.0), [80]);
        assert_eq!(growing(1.01, 1e-9)[..5], [1, 2, 3, 4, 5]);
    }

    #[test]
    fn auto_on_cifar10_is_four_times_an_epoch() {
        let auto = points(EvaluatePlan::Auto, 3.0, 64, &facts(45_000, 5000));
        assert_eq!(auto, (1..=12).map(|k| 176 * k).collect::<Vec<u64>>());
    }

    #[test]
    fn auto_leaves_the_end_to_runs_that_are_too_short() {
        assert_eq!(points(EvaluatePlan::Auto, 1.0, 64, &facts(640, 5000)), [10]);
    }

    proptest! {
        #[test]
        fn auto_costs_at_most_15_percent(
            train in 100usize..3000, val in 1usize..3000, batch in 1usize..100, epochs in 0.1f64..8.0
        ) {
            let facts = facts(train, val);
            let auto = points(EvaluatePlan::Auto, epochs, batch, &facts);
            let (echo, last) = (crate::Echo::None, crate::LastBatch::Keep);
            let pace = Pace { train_examples: train as u64, batch: batch as u64, echo, last };
            for (count, updates) in auto.iter().enumerate() {
                let evaluate = (val * (count + 1)) as f64;
                let train = 3.0 * pace.examples_after(*updates) as f64;
                prop_assert!(auto.len() == 1 || evaluate / (evaluate + train) <= 0.15 + 1e-12);
            }
        }
    }
}
