//! From a checked plan to one in which nothing is left to be decided.

use crate::evaluation::fewest_updates_between;
use crate::{DataFacts, EvaluatePlan, Plan, PlanError};

impl Plan {
    /// The plan with everything explicit: sizes of the splits, threads, schedule length, evaluation points. Checks
    /// the plan first. `cores` is what threads default to. Resolving again changes nothing.
    pub fn resolve(&self, facts: &DataFacts, cores: usize) -> Result<Plan, PlanError> {
        let mut plan = self.clone();
        if plan.data.kind.has_own_sizes() {
            // Files may hold a validation split that the plan does not count.
            plan.data.validation = facts.val_examples;
        }
        plan.check(facts)?;
        plan.data.train = Some(facts.train_examples);
        plan.data.test = Some(facts.test_examples);
        plan.schedule.fill_horizon(plan.run.epochs, plan.optimizer.average.is_some());
        plan.run.threads.get_or_insert(cores.max(1));
        if let Some(target) = &mut plan.run.target {
            target.retain(|c| !c.is_whitespace());
        }
        if plan.run.evaluate == EvaluatePlan::Auto {
            let examples = facts.examples_of(plan.evaluation_split());
            let updates = fewest_updates_between(&plan, facts.train_examples, examples);
            plan.run.evaluate = EvaluatePlan::Updates(updates);
        }
        Ok(plan)
    }

    /// The same plan with another length: of the run, and of its schedule with it.
    pub fn with_epochs(&self, epochs: f64) -> Plan {
        let mut plan = self.clone();
        plan.schedule.stretch(epochs, plan.run.epochs);
        plan.run.epochs = epochs;
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use crate::{SchedulePlan, Split};
    use expect_test::expect;
    use proptest::prelude::*;

    /// What resolving adds to the plan of the tests.
    #[test]
    fn everything_is_explicit() {
        let plan = plan();
        let text = plan.resolve(&plan.data.expected_facts(), 2).unwrap().to_toml();
        let known = plan.to_toml();
        let known: Vec<&str> = known.lines().collect();
        let new: Vec<&str> = text.lines().filter(|line| !known.contains(line)).collect();
        expect![[r#"
            train = 45000
            test = 10000
            horizon = 3.0
            evaluate = { updates = 176 }
            threads = 2"#]]
        .assert_eq(&new.join("\n"));
    }

    #[test]
    fn what_is_said_is_kept() {
        let mut plan = plan();
        for setting in
            ["run.threads=7", "schedule.horizon=5", "run.evaluate=epoch", "data.train=1000", "data.test=9"]
        {
            plan.set(setting).unwrap();
        }
        let facts = plan.data.expected_facts();
        assert_eq!((facts.train_examples, facts.val_examples, facts.test_examples), (1000, 5000, 9));
        assert_eq!(plan.resolve(&facts, 2).unwrap(), plan);
    }

    /// A folder with a split of its own for validation is evaluated on that, also by a plan that holds nothing out.
    #[test]
    fn splits_of_own_files_are_counted() {
        let mut plan = plan();
        plan.set("data={kind=\"image-folder\", path=\"flowers\", validation=0}").unwrap();
        plan.set("model={kind=\"softmax\"}").unwrap();
        plan.set("run.target=none").unwrap();
        let facts = DataFacts {
            train_examples: 700,
            val_examples: 300,
            test_examples: 0,
            image: [0, 0, 3],
            classes: 5,
        };
        let stages = "pipeline.stages=[{resize=32},{center-crop=32},{batch=32}]";
        plan.set(stages).unwrap();
        let resolved = plan.resolve(&facts, 2).unwrap();
        assert_eq!((resolved.data.train, resolved.data.validation), (Some(700), 300));
        assert_eq!(resolved.evaluation_split(), Split::Val);
        assert_eq!(resolved.resolve(&facts, 3).unwrap(), resolved);
        let none = DataFacts { val_examples: 0, ..facts };
        assert!(plan.resolve(&none, 2).is_err(), "nothing to evaluate on");
    }

    #[test]
    fn a_length_in_updates_needs_no_horizon() {
        let mut plan = plan();
        plan.set("schedule.decay_updates=100").unwrap();
        let resolved = plan.resolve(&plan.data.expected_facts(), 2).unwrap();
        assert_eq!(resolved.schedule, plan.schedule);
        resolved.check_without_data().unwrap();
    }

    #[test]
    fn targets_lose_their_spaces_and_nothing_else() {
        let mut plan = plan();
        plan.set("run.target = val.error  <  0.400").unwrap();
        let resolved = plan.resolve(&plan.data.expected_facts(), 2).unwrap();
        assert_eq!(resolved.run.target.as_deref(), Some("val.error<0.400"));
    }

    #[test]
    fn the_split_to_evaluate() {
        let mut plan = plan();
        assert_eq!(plan.evaluation_split(), Split::Val);
        plan.set("run.target=test.accuracy>=0.94").unwrap();
        assert_eq!(plan.evaluation_split(), Split::Test);
        plan.set("run.target=none").unwrap();
        assert_eq!(plan.evaluation_split(), Split::Val);
        plan.set("data.validation=0").unwrap();
        assert_eq!(plan.evaluation_split(), Split::Test);
    }

    #[test]
    fn a_plan_that_is_wrong_is_not_resolved() {
        let mut plan = plan();
        plan.set("pipeline.stages.batch=0").unwrap();
        assert!(plan.resolve(&plan.data.expected_facts(), 2).is_err());
    }

    #[test]
    fn another_length_stretches_the_schedule() {
        let base = plan();
        let longer = base.with_epochs(6.0);
        assert_eq!((longer.run.epochs, longer.schedule.horizon()), (6.0, Some(6.0)));
        assert_eq!(longer.with_epochs(3.0).schedule.horizon(), Some(3.0));

        let mut in_updates = plan();
        in_updates.set("schedule.decay_updates=1000").unwrap();
        let SchedulePlan::Linear { decay_updates, horizon, .. } = in_updates.with_epochs(1.5).schedule else {
            panic!("another kind");
        };
        assert_eq!((decay_updates, horizon), (Some(500), None));

        let mut constant = plan();
        constant.set("schedule.kind=constant").unwrap();
        assert_eq!(constant.with_epochs(1.0).schedule, constant.schedule);
    }

    /// The rate over the share of the run that is done does not depend on the run's length.
    #[test]
    fn the_horizon_ends_with_the_run() {
        let plan = plan();
        let facts = plan.data.expected_facts();
        for epochs in [1.0, 2.5, 30.0] {
            let plan = plan.with_epochs(epochs).resolve(&facts, 2).unwrap();
            let (total, horizon) = (plan.total_updates(45_000), plan.horizon_updates(45_000));
            assert_eq!(total, horizon);
            assert_eq!(plan.schedule.learning_rate(total.0, horizon.0), 0.2 * 0.05);
        }
    }

    proptest! {
        #[test]
        fn resolving_again_changes_nothing(
            epochs in 0.01f64..20.0, batch in 1usize..2000, validation in 1usize..20_000, cores in 1usize..9
        ) {
            let mut plan = plan();
            plan.set(&format!("pipeline.stages.batch={batch}")).unwrap();
            plan.run.epochs = epochs;
            plan.data.validation = validation;
            let once = plan.resolve(&plan.data.expected_facts(), cores).unwrap();
            let again = once.resolve(&once.data.expected_facts(), cores + 1).unwrap();
            prop_assert_eq!(&again, &once);
            prop_assert_eq!(Plan::parse(&once.to_toml()).unwrap(), once);
        }
    }
}
