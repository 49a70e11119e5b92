//! What cannot be meant, or not together, found before any work. The text's form is checked by reading it; here is
//! what its values mean, one file for each part of the plan.

mod data;
mod model;
mod run;
mod stages;
mod training;

use crate::{DataFacts, Plan, PlanError};

/// The most threads that a plan may ask for: beyond this a number is a slip of the hand.
pub const MOST_THREADS: usize = 1024;

impl Plan {
    /// Everything that can be known to be wrong before the data are read: values outside their ranges, stages that
    /// cannot follow each other, and sizes that do not fit what the data's kind says of them.
    pub fn check_without_data(&self) -> Result<(), PlanError> {
        self.check(&self.data.expected_facts())
    }

    /// The same with the sizes of the data as they were found. A missing `data.path` is no error here but where the
    /// folder is needed, in [`crate::DataPlan::folder`]: benchmarks need none.
    pub fn check(&self, facts: &DataFacts) -> Result<(), PlanError> {
        if self.name.trim().is_empty() {
            return Err(PlanError::value("name", "a name", format_args!("\"{}\"", self.name), ""));
        }
        // Folders of records are called after the plan.
        let unfit = |c: char| c.is_control() || c == '/' || c == '\\';
        if self.name.contains(unfit) || self.name.starts_with('.') || self.name.len() > 100 {
            let expected =
                "at most 100 bytes without slashes and control characters, not starting with a dot";
            return Err(PlanError::value("name", expected, format_args!("{:?}", self.name), ""));
        }
        // TOML's integers end there, and a plan that cannot be written cannot be recorded.
        if self.seed.0 > i64::MAX as u64 {
            return Err(PlanError::value("seed", "a whole number below 2^63", self.seed.0, ""));
        }
        data::check(&self.data, facts)?;
        model::check(&self.model)?;
        stages::check(&self.pipeline, facts)?;
        training::check_optimizer(&self.optimizer)?;
        training::check_schedule(&self.schedule, self.optimizer.average.is_some())?;
        run::check(self, facts)
    }
}

/// Accepts a finite number for which the condition holds; says what was expected otherwise.
pub(crate) fn number(place: &str, value: f64, expected: &str, holds: bool) -> Result<(), PlanError> {
    // In the form that keeps large and small numbers short.
    let found = format_args!("{value:?}");
    if value.is_finite() && holds { Ok(()) } else { Err(PlanError::value(place, expected, found, "")) }
}

/// Accepts a number of threads from `least` to more than any machine has cores: beyond that it is a slip.
fn threads(place: &str, value: usize, least: usize) -> Result<(), PlanError> {
    if (least..=MOST_THREADS).contains(&value) {
        return Ok(());
    }
    Err(PlanError::value(place, &format!("{least} to {MOST_THREADS} threads"), value, ""))
}

#[cfg(test)]
mod tests;
