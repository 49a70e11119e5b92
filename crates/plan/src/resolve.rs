//! From a checked plan to one in which nothing is left to be decided.

use crate::evaluation::fewest_updates_between;
use crate::{DataFacts, EvaluatePlan, Plan, PlanError};

impl Plan {
    /// The plan with everything explicit: sizes of the splits, threads, schedule length, evaluation points. Checks
    /// the plan first. `cores` is what threads default to. Resolving again changes nothing.
    pub fn resolve(&self, facts: &DataFacts, cores: usize) -> Result<Plan, PlanError> {
        self.check(facts)?;
        let mut plan = self.clone();
        plan.data.train = Some(facts.train_examples);
        plan.data.test = Some(facts.test_examples);
        plan.schedule.fill_horizon(plan.run.epochs);
        plan.run.threads.get_or_insert(cores.max(1));
        if let Some(target) = &mut plan.run.target {
            target.retain(|c| !c.is_whitespace());
        }
        if plan.run.evaluate == EvaluatePlan::Auto {
            let examples = facts.examples_of(self.evaluation_split());
            let updates = fewest_updates_between(self, facts.train_examples, examples);
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
