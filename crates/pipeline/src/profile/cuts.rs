//! The places where an echo stage may stand.

use crate::recipe::Recipe;
use crate::{Dataset, PipelineError};
use sooner_base::Seed;
use sooner_plan::{EchoFactor, EchoPlan, PipelinePlan, StagePlan};
use std::sync::Arc;

/// What repeats at some place show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Every repeat is augmented afresh.
    Augmented,
    /// Repeats of an example are equal, or share a part of their augmentation.
    Copies,
    /// Whole batches come again.
    Batches,
}

/// A place where an echo stage may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where to put the echo stage in the plan's stages (without one that is there): 0 is before the first.
    pub index: usize,
    /// The same in words, such as `after decode` or `after shuffle`.
    pub position: String,
    /// What repeats there show.
    pub repeats: Repeats,
    /// Cuts with one group have the same upstream in execution: stages that one write does together are done again for
    /// each repeat, wherever among them the echo stage stands.
    pub(crate) group: Group,
}

/// What is upstream in execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Examples, with so many stages done once for all repeats.
    Shared(usize),
    /// Whole batches.
    Batches,
}

/// The plan without its echo stage, if it has one.
pub fn without_echo(plan: &PipelinePlan) -> PipelinePlan {
    let mut plan = plan.clone();
    plan.stages.retain(|stage| !matches!(stage, StagePlan::Echo(_)));
    plan
}

/// The plan with an echo stage of a fixed factor at a place.
pub(crate) fn with_echo(plan: &PipelinePlan, index: usize, echo: EchoPlan) -> PipelinePlan {
    let mut plan = without_echo(plan);
    plan.stages.insert(index, StagePlan::Echo(echo));
    plan
}

/// Every place of a plan where an echo stage may stand, in stream order. An error if the plan itself does not fit the
/// data.
pub fn cuts(plan: &PipelinePlan, data: &Arc<Dataset>, seed: Seed) -> Result<Vec<Cut>, PipelineError> {
    let plan = without_echo(plan);
    Recipe::new(&plan, data.clone(), seed)?;
    let batch_at = plan.stages.iter().position(|stage| matches!(stage, StagePlan::Batch(_)));
    let mut cuts: Vec<Cut> = Vec::new();
    for index in 0..=plan.stages.len() {
        let once = EchoPlan { factor: EchoFactor::Fixed(1.0), buffer: 0 };
        // A place that this order of stages does not allow is none.
        let Ok(recipe) = Recipe::new(&with_echo(&plan, index, once), data.clone(), seed) else { continue };
        let batched = batch_at.is_some_and(|at| index > at);
        let chain = &recipe.chain;
        let repeats = match (batched, chain.varies_before_echo(), chain.varies_behind_echo()) {
            (true, ..) => Repeats::Batches,
            (false, false, true) => Repeats::Augmented,
            (false, ..) => Repeats::Copies,
        };
        let position = match index.checked_sub(1).map(|before| plan.stages[before].name()) {
            Some(name) => format!("after {name}"),
            None if data.source().is_some() => "after decode".to_string(),
            None => "after memory".to_string(),
        };
        let group = if batched { Group::Batches } else { Group::Shared(chain.shared()) };
        cuts.push(Cut { index, position, repeats, group });
    }
    Ok(cuts)
}
