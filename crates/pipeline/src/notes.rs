//! What should be known about an order of stages that works but may not do what was meant.

use crate::Dataset;
use crate::chain::Chain;
use crate::stages::Mixing;
use sooner_plan::{EchoFactor, PipelinePlan, ShuffleKind, StagePlan};

/// A remark on one stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The stage's place in the plan, from 0.
    pub position: usize,
    /// The stage's name.
    pub stage: &'static str,
    /// What to know, in a sentence.
    pub text: String,
}

/// Remarks on a plan's echo stage. `mixed` says whether examples are mixed, and if so behind an echo of batches.
pub(crate) fn of(plan: &PipelinePlan, data: &Dataset, chain: &Chain, mixed: Option<bool>) -> Vec<Note> {
    let mut notes = Vec::new();
    let Some((echo, batched)) = plan.echo() else { return notes };
    if echo.fixed() == Some(1.0) {
        return notes;
    }
    let position = plan.stages.iter().position(|stage| matches!(stage, StagePlan::Echo(_))).unwrap_or(0);
    let mut note = |text: String| notes.push(Note { position, stage: "echo", text });
    let behind = |wanted: fn(&StagePlan) -> bool| plan.stages[position..].iter().any(wanted);
    let shuffled_behind = behind(|stage| matches!(stage, StagePlan::Shuffle(_)));
    if data.source().is_none() && !batched && !chain.shares_work() {
        note(
            "examples are in memory and nothing before this stage takes time, so that repeats save none; it changes \
             only what is trained on"
                .into(),
        );
    }
    let auto = matches!(echo.factor, EchoFactor::Auto { .. });
    if !batched && echo.buffer < 2 && !shuffled_behind && !auto {
        let batch = plan.batch_size().unwrap_or(1) as f64;
        let different = (batch / echo.fixed().unwrap_or(1.0)).ceil();
        note(format!(
            "repeats follow each other, so that a batch of {batch} holds about {different} different examples; a buffer \
             after echo spreads them"
        ));
    }
    let varies = chain.varies_behind_echo() && !batched || mixed.is_some_and(|behind| behind || !batched);
    if !varies {
        note(
            "nothing behind this stage draws at random, so that repeats are equal; put augmentation behind it to see \
             each repeat differently"
                .into(),
        );
    }
    notes
}

/// A remark on uses of examples that fill no batch.
pub(crate) fn of_dropped(plan: &PipelinePlan, left: u64, places: u64) -> Note {
    let position = plan.stages.iter().position(|stage| matches!(stage, StagePlan::Batch(_))).unwrap_or(0);
    let text =
        format!("the last {left} of {places} uses of examples in an epoch fill no batch and are dropped");
    Note { position, stage: "batch", text }
}

/// Remarks on a shuffle stage: what became of it over data that can only be read from front to back (second), and how
/// well its buffer mixes.
pub(crate) fn of_shuffle(
    position: usize,
    (kind, sequential): (ShuffleKind, bool),
    mixing: Option<&Mixing>,
) -> Vec<Note> {
    let mut texts = Vec::new();
    if sequential && kind == ShuffleKind::Epoch {
        texts.push(format!(
            "these shards are read from front to back: shards come in a random order, and examples are drawn from a buffer \
             of {}",
            ShuffleKind::BUFFER
        ));
    }
    if let Some(mixing) = mixing.filter(|mixing| mixing.is_poor()) {
        texts.push(format!(
            "labels come in runs: a mean of {:.1} examples of one class follow each other behind a buffer of {}, and {:.1} \
             would in random order; pack the shards in shuffled order (`sooner data pack`), or take a larger buffer",
            mixing.mean_run, mixing.buffer, mixing.mean_run_shuffled
        ));
    }
    texts.into_iter().map(|text| Note { position, stage: "shuffle", text }).collect()
}
