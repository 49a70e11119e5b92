//! What a run is told, as data: the plan. A plan is read from TOML, changed by `key=value` settings, checked, and
//! resolved; the resolved plan is written beside the results and a run is a function of it.
//! **Invariant:** no I/O here; text comes in and goes out as strings.

mod augment;
mod data;
mod echo;
mod images;
mod initial;
mod model;
mod optimizer;
mod pipeline;
mod run;
mod select;

mod target;

mod schema;
mod text;

mod keys;
mod nearest;
mod settings;
mod words;

mod error;
mod validate;

mod difference;
mod evaluation;
mod numbers;
mod pace;
mod resolve;
mod schedule;

#[cfg(test)]
mod testing;

pub use augment::{JitterPlan, RandomResizedCropPlan};
pub use data::{DataFacts, DataKind, DataPlan, Split};
pub use difference::Difference;
pub use echo::{EchoFactor, EchoPlan, echoed};
pub use error::{Complaint, PlanError};
pub use evaluation::EvaluationPoints;
pub use images::{Alpha, Duplicates, ImagesPlan, KeyRule, Orientation, ShardsPlan, Truncated, Unsorted};
pub use initial::{InitialKind, InitialPlan};
pub use model::{
    ActivationPlan, BackboneHead, Downsampling, Extra, GainPlan, ModelPlan, NormPlan, PoolPlace, Prep,
    StatisticsPlan, WhitenPlan, Whitening,
};
pub use nearest::nearest;
pub use numbers::Moment;
pub use optimizer::{
    AverageKind, AveragePlan, CycleShape, Decay, Group, GroupMatch, Norms, OptimizerKind, OptimizerPlan,
    SchedulePlan, Units,
};
pub use pace::{Echo, Pace};
pub use pipeline::{
    CropPlan, Draws, FlipKind, Keep, LastBatch, NormalizePlan, OnBad, Padding, PipelinePlan, ShuffleKind,
    StagePlan, WorkerLife,
};
pub use run::{Activations, Convolutions, EvaluatePlan, GuardPlan, InitPlan, RunPlan, Stop, Views};
pub use select::SelectPlan;
pub use settings::Setting;
pub use target::{Metric, Op, Target};
pub use validate::MOST_THREADS;

use serde::{Deserialize, Serialize};
use sooner_base::Seed;

/// Everything that decides a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The workload's name: built-in, or the user's.
    pub name: String,
    /// Decides initial values, order and augmentation.
    pub seed: Seed,
    /// Where examples come from.
    pub data: DataPlan,
    /// The network.
    pub model: ModelPlan,
    /// From examples to batches.
    pub pipeline: PipelinePlan,
    /// The update rule.
    pub optimizer: OptimizerPlan,
    /// The learning rate over time.
    pub schedule: SchedulePlan,
    /// Length, target, evaluation.
    pub run: RunPlan,
}
