//! The pipeline: a checked plan over a data set, from which streams of batches start at any place.

use crate::budget;
use crate::control::{Control, Lane};
use crate::evaluation::Evaluation;
use crate::recipe::{Position, Recipe};
use crate::stream::Stream;
use crate::{Dataset, PipelineError};
use sooner_base::{Batch, Bytes, Clock, Origin, Seed, Shape, StageStats};
use sooner_plan::PipelinePlan;
use std::sync::{Arc, Mutex, PoisonError};

/// A data set and the checked stages of a plan; cheap to clone.
///
/// Batch k of an epoch depends on the plan, the data and the seed alone: not on the number of threads, on time, or on
/// where the stream began.
///
/// ```
/// use sooner_base::{MonotonicClock, Seed};
/// use sooner_pipeline::{Dataset, DatasetInfo, Pipeline};
/// use sooner_plan::{PipelinePlan, ShuffleKind, Split, StagePlan};
/// use std::sync::Arc;
///
/// let info = DatasetInfo {
///     name: "dots".into(),
///     split: Split::Train,
///     shape: [2, 2, 1],
///     classes: vec!["dark".into(), "light".into()],
/// };
/// let data = Dataset::new(info, vec![0, 0, 0, 0, 255, 255, 255, 255, 9, 9, 9, 9], vec![0, 1, 0])?;
/// let plan = PipelinePlan {
///     stages: vec![StagePlan::Shuffle(ShuffleKind::Epoch), StagePlan::Batch(2)],
///     threads: 1,
///     budget: "1MiB".into(),
///     on_bad: Default::default(),
/// };
/// let pipeline = Pipeline::new(&plan, Arc::new(data), Seed(1), Arc::new(MonotonicClock::start()))?;
/// let mut examples = 0;
/// for batch in pipeline.epoch(0) {
///     let batch = batch?;
///     examples += batch.len();
///     pipeline.recycle(batch);
/// }
/// assert_eq!(examples, 3);
/// # Ok::<(), sooner_pipeline::PipelineError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

/// What a pipeline and its streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) recipe: Recipe,
    pub(crate) control: Arc<Control>,
    pub(crate) threads: usize,
    /// The most batches issued to workers and not yet taken; 0 inline.
    pub(crate) depth: usize,
    pub(crate) batch_bytes: Bytes,
    pool: Mutex<Vec<Batch>>,
}

impl Shared {
    /// An empty buffer: a recycled one, or a new one with room for a full batch.
    pub(crate) fn buffer(&self) -> Batch {
        let recycled = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        recycled.unwrap_or_else(|| {
            let n = self.recipe.batch().min(self.recipe.data().len());
            let [h, w, c] = self.recipe.shape();
            Batch {
                features: Vec::with_capacity(n * h * w * c),
                shape: Shape::from([0, h, w, c]),
                labels: Vec::with_capacity(n),
                origins: Vec::<Origin>::with_capacity(n),
            }
        })
    }
}

impl Pipeline {
    /// Checks the plan's stages against the data and against each other, and its budget against the batches.
    /// No thread starts before a stream does. The clock only measures; it decides nothing.
    pub fn new(
        plan: &PipelinePlan,
        data: Arc<Dataset>,
        seed: Seed,
        clock: Arc<dyn Clock>,
    ) -> Result<Pipeline, PipelineError> {
        if data.is_empty() {
            return Err(PipelineError::Arrays {
                name: format!("{} ({})", data.info().name, data.info().split),
                expected: "at least one example".into(),
                found: "none".into(),
            });
        }
        let recipe = Recipe::new(plan, data, seed)?;
        let batch_bytes = recipe.batch_bytes().unwrap_or(Bytes(u64::MAX));
        let depth = budget::depth(plan, &recipe, batch_bytes)?;
        let control = Arc::new(Control::new(clock));
        let pool = Mutex::new(Vec::with_capacity(depth + 1));
        let shared = Shared { recipe, control, threads: plan.threads, depth, batch_bytes, pool };
        Ok(Pipeline { shared: Arc::new(shared) })
    }

    /// Height, width and channels of every example in a batch.
    pub fn shape(&self) -> [usize; 3] {
        self.shared.recipe.shape()
    }

    /// The data set that is read.
    pub fn data(&self) -> &Arc<Dataset> {
        self.shared.recipe.data()
    }

    /// Examples of a full batch, as the plan has it. The last batch of an epoch is smaller where the division leaves
    /// a rest: no example is dropped.
    pub fn batch_size(&self) -> usize {
        self.shared.recipe.batch()
    }

    /// Batches of an epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.shared.recipe.batches()
    }

    /// The batches of one epoch. Worker threads start with it and end with it; a training run wants `stream`.
    pub fn epoch(&self, epoch: u32) -> Stream {
        let from = Position { epoch, batch: 0 };
        Stream::new(self.shared.clone(), from, Some(self.batches_per_epoch()))
    }

    /// The batches of all epochs from one place on. Worker threads live as long as the stream, and the next epoch's
    /// first batches are under way while this one's last are used. Panics if the epoch has no such batch; the place
    /// after an epoch's last batch is the next epoch's first.
    pub fn stream(&self, from: Position) -> Stream {
        let batches = self.batches_per_epoch();
        assert!(from.batch < batches, "{from:?} is beyond an epoch of {batches} batches");
        Stream::new(self.shared.clone(), from, None)
    }

    /// Takes a used batch back, so that its memory serves a later one. Without this everything works, slower.
    pub fn recycle(&self, batch: Batch) {
        let mut pool = self.shared.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() <= self.shared.depth {
            pool.push(batch);
        }
    }

    /// Stops worker threads at their next slice of examples, so that what happens outside the training clock is no
    /// head start; their clock stands still too. Asking a stream for a batch that is not ready resumes by itself.
    pub fn pause(&self) {
        self.shared.control.pause();
    }

    /// Lets worker threads go on.
    pub fn resume(&self) {
        self.shared.control.resume();
    }

    /// A whole data set in its own order for evaluation, with this pipeline's normalisation and no augmentation.
    pub fn evaluation(&self, data: Arc<Dataset>, batch: usize) -> Result<Evaluation, PipelineError> {
        Evaluation::of(&self.shared.recipe, data, batch)
    }

    /// What each stage did so far, over all streams and threads, in stream order. Reading and decoding happened before
    /// (`Splits::read`, `Splits::decode`).
    pub fn stats(&self) -> Vec<(&'static str, StageStats)> {
        Lane::ALL.iter().map(|&(lane, name)| (name, self.shared.control.stats(lane))).collect()
    }

    /// The most batches that a stream keeps under way or ready: by the budget, at most two a thread and two more.
    pub fn depth(&self) -> usize {
        self.shared.depth
    }

    /// Bytes of a full batch with its labels and origins.
    pub fn batch_bytes(&self) -> Bytes {
        self.shared.batch_bytes
    }
}
