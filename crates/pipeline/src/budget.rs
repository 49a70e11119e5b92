//! From the plan's byte budget to the number of batches that may exist at once.

use crate::PipelineError;
use crate::recipe::Recipe;
use sooner_base::Bytes;
use sooner_plan::PipelinePlan;

/// Batches beyond two a thread and two more absorb no jitter worth their memory: they would only be older.
const SPARE: usize = 2;

/// The most batches that may be under way beside the one that the consumer holds; 0 for a plan without threads.
/// The batches under way and the consumer's together never exceed the budget.
pub(crate) fn depth(plan: &PipelinePlan, recipe: &Recipe, batch: Bytes) -> Result<usize, PipelineError> {
    let budget = plan.budget_bytes()?;
    let batches = if plan.threads == 0 { 1 } else { 2 };
    let fit = budget.0 / batch.0.max(1);
    if fit < batches {
        let [h, w, c] = recipe.shape();
        let shape = [recipe.batch(), h, w, c];
        return Err(PipelineError::Budget { batch, shape, batches, budget });
    }
    if plan.threads == 0 {
        return Ok(0);
    }
    let useful = plan.threads.saturating_mul(2).saturating_add(SPARE);
    Ok(useful.min(usize::try_from(fit - 1).unwrap_or(usize::MAX)))
}
