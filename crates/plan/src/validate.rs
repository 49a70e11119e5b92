//! What cannot be meant together, found before any work.

use crate::{DataFacts, Plan, PlanError};

impl Plan {
    /// Everything that can be known to be wrong without data.
    pub fn check_without_data(&self) -> Result<(), PlanError> {
        self.target()?;
        self.pipeline.budget_bytes()?;
        Ok(())
    }

    /// Everything that can be known to be wrong once the data's sizes are known; includes
    /// [`Plan::check_without_data`].
    pub fn check(&self, facts: &DataFacts) -> Result<(), PlanError> {
        self.check_without_data()?;
        let _ = facts;
        Ok(())
    }
}
