//! What a run is given, and what its observer is told.

use crate::{Checkpoints, Stopwatch};
use sooner_base::{Clock, Epochs, Seconds, Updates};
use sooner_engine::native::{Kernels, Pool};
use sooner_models::Model;
use sooner_pipeline::Splits;
use sooner_plan::{DataFacts, Plan};
use sooner_record::{Checkpoint, Evaluation, Weights};
use std::sync::Arc;

/// What a run is given.
pub struct Job<'a> {
    /// The resolved plan.
    pub plan: &'a Plan,
    /// The sizes that it was resolved against.
    pub facts: DataFacts,
    /// The data, loaded.
    pub splits: &'a Splits,
    /// What its weights start from, and where in its course it starts.
    pub start: Start,
    /// When to write checkpoints.
    pub checkpoints: Checkpoints,
    /// The engine's threads.
    pub pool: Arc<Pool>,
    /// The engine's kernels.
    pub kernels: Kernels,
    /// The machine's measured peak on those threads, in 1e9 FLOPs a second.
    pub peak_gflops: f64,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Started when the plan was resolved; loading is on it already, as preparation. A resumed run's goes on from its
    /// checkpoint.
    pub watch: Stopwatch,
}

/// Where a run starts.
#[derive(Debug, Default)]
pub struct Start {
    /// The network, where the program brings its own; else the plan names it.
    pub model: Option<Model>,
    /// The weights that the plan's `run.init` names, read.
    pub weights: Option<Weights>,
    /// A checkpoint of this plan. The plan may differ from the checkpoint's in the keys of [`crate::MAY_CHANGE`].
    pub checkpoint: Option<Checkpoint>,
    /// The evaluations up to the checkpoint, so that another target can be judged by them.
    pub evaluations: Vec<Evaluation>,
    /// With `echo = "auto"`, how many examples of each batch up to the checkpoint were read afresh.
    pub fresh: Vec<u32>,
    /// The same of all batches of a record, from its first one on, that this run is to follow instead of time.
    pub replay: Option<Vec<u32>>,
}

/// What an observer is told after each update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Updates made.
    pub updates: Updates,
    /// Passes over the training split.
    pub epochs: Epochs,
    /// Mean loss of the last batch, with smoothed labels.
    pub loss: f64,
    /// The last evaluation's value of the metric that the target names (or of accuracy), after its name.
    pub metric: Option<(&'a str, f64)>,
    /// Examples a second of the training clock.
    pub examples_per_second: f64,
    /// Share of the machine's measured peak.
    pub share: f64,
    /// Estimated seconds to the end of the schedule, evaluations included; a run that reaches its target ends sooner.
    pub seconds_left: Seconds,
}

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// It does.
    Continue,
    /// It ends after this update, as interrupted.
    Stop,
}

/// Looks on.
pub trait Observer {
    /// Called after every update, on the trainer's thread: the time it takes is the run's.
    fn observe(&mut self, progress: &Progress<'_>) -> Control;

    /// Asked before the first update and between the batches of an evaluation: whether the run is to end as
    /// interrupted now. An evaluation that is broken off is made anew when the run is resumed.
    fn interrupted(&self) -> bool {
        false
    }

    /// Asked ten times a second while a batch is waited for: whether the run is to end as interrupted rather than wait any
    /// longer.
    fn stops_waiting(&self) -> bool {
        self.interrupted()
    }
}
