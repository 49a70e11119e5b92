//! The training loop: batches from the pipeline, updates on the engine, evaluations at the plan's points, and an honest
//! account of time. **Invariant:** nothing here prints, and time is an argument.

mod evaluate;
mod job;
mod programs;
mod run;
mod stopwatch;

pub use evaluate::Evaluator;
pub use job::{Control, Job, Observer, Progress};
pub use programs::{Programs, UpdateOutcome};
pub use run::{LAYOUTS, train};
pub use stopwatch::{Phase, Stopwatch};

use sooner_engine::EngineError;
use sooner_models::ModelError;
use sooner_pipeline::PipelineError;
use sooner_plan::PlanError;
use sooner_record::RecordError;

/// What can end a run without a result.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The network.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The data.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
}
