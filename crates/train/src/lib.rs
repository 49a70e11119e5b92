//! The training loop: batches from the pipeline, updates on the engine, evaluations at the plan's points, checkpoints
//! that a killed run goes on from with the same bits, and an honest account of time. **Invariant:** nothing here prints,
//! and time is an argument.

mod averages;
mod evaluate;
mod feed;
mod job;
mod pacing;
pub mod parts;
mod programs;
mod restore;
mod resume;
mod run;
mod save;
mod select;
mod stopwatch;
mod telling;
mod views;
mod whiten;

pub use evaluate::{Evaluated, Evaluator};
pub use job::{Control, Job, Observer, Progress, Start};
pub use pacing::Checkpoints;
pub use programs::{Programs, UpdateOutcome};
pub use restore::{Misfit, start_from};
pub use resume::{MAY_CHANGE, PARTS, ResumeError, check_resumable};
pub use run::train;
pub use save::save_weights;
pub use stopwatch::{Phase, Stopwatch};
pub use telling::{LAYOUTS, data_notes};
pub use whiten::{Patches, whitening_filters};

use sooner_engine::EngineError;
use sooner_models::ModelError;
use sooner_pipeline::PipelineError;
use sooner_plan::PlanError;
use sooner_record::RecordError;

/// The version of this program, and a sum of the sources that decide what it computes: where two records' differ, their
/// bits may.
pub const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("SOONER_SOURCES"));

/// What can end a run without a result.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The network.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// The data.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Weights or a checkpoint of another network.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// A checkpoint that this plan cannot go on from.
    #[error(transparent)]
    Resume(#[from] ResumeError),
}

impl From<ModelError> for TrainError {
    fn from(error: ModelError) -> TrainError {
        TrainError::Model(Box::new(error))
    }
}
