//! From the plan's byte budget to the number of batches that may exist at once, and what may be held beside them.

use crate::PipelineError;
use crate::recipe::Recipe;
use sooner_base::Bytes;
use sooner_plan::{Keep, PipelinePlan};

/// Batches beyond two a thread and two more absorb no jitter worth their memory: they would only be older.
const SPARE: usize = 2;

/// How the budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spending {
    /// The most batches that may be under way beside the one that the consumer holds; 0 for a plan without threads.
    pub(crate) depth: usize,
    /// The most that could be, whatever the plan's queue.
    pub(crate) room: usize,
    /// For what an echo stage holds.
    pub(crate) held: Bytes,
    /// For images kept over epochs.
    pub(crate) kept: Bytes,
}

/// Splits the budget. Batches under way, the consumer's, tables of repeats, and what is held and kept together never
/// exceed it.
pub(crate) fn spend(plan: &PipelinePlan, recipe: &Recipe, batch: Bytes) -> Result<Spending, PipelineError> {
    let budget = plan.budget_bytes()?;
    let tables =
        recipe.order.table_bytes() + recipe.batch_order.as_ref().map_or(0, |order| order.table_bytes());
    let batches = if plan.threads == 0 { 1 } else { 2 };
    let left = budget.0.saturating_sub(tables);
    let fit = left / batch.0.max(1);
    if fit < batches {
        let [h, w, c] = recipe.shape();
        let shape = [recipe.batch(), h, w, c];
        return Err(PipelineError::Budget { batch, shape, batches, budget });
    }
    let holds = recipe.holds_items() || recipe.batch_order.is_some() || recipe.auto.is_some();
    let keeps = plan.keep == Keep::Memory;
    // What is held pays for itself sooner than a longer queue.
    let fit = if holds || keeps { (fit / 2).max(batches) } else { fit };
    let depth = match plan.threads {
        0 => 0,
        threads => {
            // Repeats are ready at once: as many batches as they fill must be under way beside them, or the next fresh item
            // is begun too late to be ready when they are used up.
            let repeats = plan.echo().map_or(0, |(echo, batched)| {
                let fills = if batched { 1 } else { recipe.batch() };
                echo.fixed().map_or(0, |factor| (factor / fills as f64).ceil() as usize)
            });
            let useful = threads.saturating_mul(2).saturating_add(SPARE).saturating_add(repeats);
            plan.queue.unwrap_or(useful).min(usize::try_from(fit - 1).unwrap_or(usize::MAX))
        }
    };
    let rest = left - batch.0.saturating_mul(depth as u64 + 1).min(left);
    let (held, kept) = match (holds, keeps) {
        (true, true) => (rest / 2, rest / 2),
        (true, false) => (rest, 0),
        (false, true) => (0, rest),
        (false, false) => (0, 0),
    };
    let room = usize::try_from(fit - 1).unwrap_or(usize::MAX);
    Ok(Spending { depth, room, held: Bytes(held), kept: Bytes(kept) })
}
