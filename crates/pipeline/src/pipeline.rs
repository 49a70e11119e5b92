//! The pipeline: a checked plan over a data set, from which streams of batches start at any place.

use crate::auto::AutoStream;
use crate::budget;
use crate::control::{Control, Lane};
use crate::evaluation::Evaluation;
use crate::fill::Duplicates;
use crate::items::{BadExample, BadList, Kept, Session};
use crate::notes::Note;
use crate::recipe::{Position, Recipe, Share};
use crate::stages::Mixing;
use crate::store::StoreStats;
use crate::stream::Stream;
use crate::{Dataset, PipelineError};
use sooner_base::{
    Batch, Bytes, Clock, Examples, FreshExamples, Key, Origin, Purpose, Seed, Shape, StageStats,
};
use sooner_plan::{Keep, OnBad, PipelinePlan, WorkerLife};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
///     ..PipelinePlan::new(vec![])
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
    /// Bytes over everything.
    pub(crate) budget: Bytes,
    /// Bytes of what an echo stage holds.
    pub(crate) held_budget: Bytes,
    pub(crate) kept: Option<Kept>,
    /// Decides what `echo = "auto"` repeats.
    echo_key: Key,
    pub(crate) bad: BadList,
    pub(crate) duplicates: Duplicates,
    held: Mutex<StoreStats>,
    timeout: Option<Duration>,
    workers: WorkerLife,
    /// The most batches issued to workers and not yet taken; 0 inline.
    pub(crate) depth: usize,
    /// The most of them that the budget has room for.
    room: usize,
    pub(crate) batch_bytes: Bytes,
    pool: Mutex<Vec<Batch>>,
}

impl Shared {
    /// Whether bad examples are left out.
    pub(crate) fn skips(&self) -> bool {
        self.recipe.on_bad == OnBad::Skip
    }

    /// How long a batch may take, and what is then named.
    pub(crate) fn timeout(&self) -> Option<(Duration, String)> {
        self.timeout.map(|most| (most, self.recipe.data.info().name.clone()))
    }

    /// Whether each epoch has threads of its own.
    pub(crate) fn renews_workers(&self) -> bool {
        self.workers == WorkerLife::Epoch
    }

    /// Adds what a stream has held to what is known.
    pub(crate) fn note_held(&self, session: &Session) {
        let of_items = session.items.as_ref().map(|store| store.stats());
        let of_batches = session.batches.as_ref().map(|store| store.stats());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for stats in of_items.into_iter().chain(of_batches) {
            held.most = held.most.max(stats.most);
            held.remade += stats.remade;
        }
    }

    /// An empty buffer: a recycled one, or a new one with room for a full batch.
    pub(crate) fn buffer(&self) -> Batch {
        let recycled = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        recycled.unwrap_or_else(|| {
            let n = self.recipe.batch().min(self.recipe.order.places() as usize);
            let [h, w, c] = self.recipe.shape();
            Batch {
                features: Vec::with_capacity(n * h * w * c),
                labels: Vec::with_capacity(n),
                origins: Vec::<Origin>::with_capacity(n),
                ..Batch::empty(Shape::from([0, h, w, c]))
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
        let budget::Spending { depth, room, held, kept } = budget::spend(plan, &recipe, batch_bytes)?;
        let kept =
            (plan.keep == Keep::Memory && !recipe.is_direct()).then(|| Kept::new(recipe.data.len(), kept));
        let shared = Shared {
            control: Arc::new(Control::new(clock, recipe.data().source().cloned())),
            threads: plan.threads,
            budget: plan.budget_bytes()?,
            held_budget: held,
            kept,
            echo_key: seed.key(Purpose::Echo, 0),
            bad: BadList::default(),
            duplicates: Duplicates::default(),
            held: Mutex::default(),
            timeout: plan.timeout.filter(|seconds| *seconds > 0.0).map(Duration::from_secs_f64),
            workers: plan.workers,
            depth,
            room,
            batch_bytes,
            pool: Mutex::new(Vec::with_capacity(depth + 1)),
            recipe,
        };
        Ok(Pipeline { shared: Arc::new(shared) })
    }

    /// The same pipeline on a test's time.
    #[cfg(test)]
    pub(crate) fn on(mut self, time: &Arc<crate::virtual_time::VirtualTime>) -> Pipeline {
        let shared = Arc::get_mut(&mut self.shared).expect("nobody else has it yet");
        shared.control = Arc::new(Control::witnessed(time.clone()));
        time.set_workers(shared.threads);
        self
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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
    /// a rest, unless the plan drops what fills no batch.
    pub fn batch_size(&self) -> usize {
        self.shared.recipe.batch()
    }

    /// The same pipeline for one of several ranks that train together: of every batch it gives only this rank's share,
    /// sizes differing by at most one, so that all ranks' shares in order are the whole stream whatever their number.
    /// Panics unless `rank` is below `ranks`.
    pub fn for_rank(
        plan: &PipelinePlan,
        data: Arc<Dataset>,
        seed: Seed,
        clock: Arc<dyn Clock>,
        [rank, ranks]: [u64; 2],
    ) -> Result<Pipeline, PipelineError> {
        assert!(rank < ranks, "rank {rank} of {ranks}");
        let mut pipeline = Pipeline::new(plan, data, seed, clock)?;
        let shared = Arc::get_mut(&mut pipeline.shared).expect("nobody else has it yet");
        shared.recipe.share = Share { rank, ranks };
        Ok(pipeline)
    }

    /// What should be known about this order of stages: that repeats are equal, or save nothing, or fill a batch.
    pub fn notes(&self) -> &[Note] {
        self.shared.recipe.notes()
    }

    /// How well a shuffle buffer mixes classes; none without one, or where labels are not known before they are read.
    pub fn mixing(&self) -> Option<Mixing> {
        self.shared.recipe.mixing()
    }

    /// Examples, and those read afresh, that the stream uses before one place, exactly and without reading anything.
    /// Of all ranks together.
    pub fn counts(&self, at: Position) -> (Examples, FreshExamples) {
        self.shared.recipe.counts(at)
    }

    /// Examples that were left out because they could not be read or decoded, in the order of their indices.
    pub fn bad(&self) -> Vec<BadExample> {
        self.shared.bad.list()
    }

    /// Of the examples in all batches made so far, those that show what an earlier one of the same batch shows, and all.
    /// Counted only where an echo stage repeats examples.
    pub fn duplicates(&self) -> (Examples, Examples) {
        let Duplicates { examples, duplicates } = &self.shared.duplicates;
        (Examples(duplicates.load(Ordering::Relaxed)), Examples(examples.load(Ordering::Relaxed)))
    }

    /// What echo stages of streams that have ended held at most in bytes, and how many items had to be made again
    /// because the budget had no room for them: more than a few, and repeats are not for free.
    pub fn held(&self) -> (Bytes, u64) {
        let held = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        (held.most, held.remade)
    }

    /// Bytes of images kept over epochs.
    pub fn kept(&self) -> Bytes {
        self.shared.kept.as_ref().map_or(Bytes(0), Kept::bytes)
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

    /// The batches of a plan with `echo = "auto"`, after those of `done`: the number of fresh examples of each batch so
    /// far, `Batch::fresh`, which is all that must be recorded to go on. With a `schedule` of further such numbers the
    /// stream is the one that they were recorded from, and ends with them; without, time decides and it does not end.
    /// Batches are augmented in the consumer's thread; reading and decoding have threads, at least one. `None` if the
    /// plan has no such stage.
    pub fn auto(
        &self,
        done: &[u32],
        schedule: Option<Vec<u32>>,
    ) -> Option<Result<AutoStream, PipelineError>> {
        self.shared.recipe.auto?;
        Some(AutoStream::new(self.shared.clone(), self.shared.echo_key, done, schedule))
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
        Evaluation::of(&self.shared.recipe, data, batch, self.shared.budget)
    }

    /// What each stage did so far, over all streams and threads, in stream order. Where examples are in memory as the
    /// stages want them, reading and decoding happened before (`Splits::read`, `Splits::decode`) and are not listed.
    pub fn stats(&self) -> Vec<(&'static str, StageStats)> {
        let direct = self.shared.recipe.is_direct();
        let made_before = |lane: Lane| direct && matches!(lane, Lane::Read | Lane::Decode);
        let lanes = Lane::ALL.iter().filter(|(lane, _)| !made_before(*lane));
        lanes.map(|&(lane, name)| (name, self.shared.control.stats(lane))).collect()
    }

    /// The most batches that a stream keeps under way or ready: by the budget, at most two a thread and two more.
    pub fn depth(&self) -> usize {
        self.shared.depth
    }

    pub(crate) fn room(&self) -> usize {
        self.shared.room
    }

    /// Bytes of a full batch with its labels and origins.
    pub fn batch_bytes(&self) -> Bytes {
        self.shared.batch_bytes
    }
}
