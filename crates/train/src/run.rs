//! The loop. What is inside the training clock is visible here: every phase of the stopwatch is entered by name.

use crate::programs::UpdateOutcome;
use crate::{Control, Evaluator, Job, Observer, Phase, Programs, Progress, TrainError};
use sooner_base::{Epochs, Examples, FreshExamples, Seconds, Updates};
use sooner_engine::State;
use sooner_models::Model;
use sooner_pipeline::{Pipeline, Position as Place};
use sooner_plan::{Metric, Pace, Stop, Target};
use sooner_record::{
    Ceiling, Evaluation, Line, Metrics, Position, Progress as ProgressLine, RunWriter, Status, Summary,
    TensorRef, WeightsAbout, write_weights,
};
use std::collections::BTreeMap;

/// Seconds of the training clock between two progress lines of a record.
const PROGRESS_SECONDS: f64 = 1.0;

/// How tensors lie in weight files; in their metadata.
pub const LAYOUTS: &str = "row-major f32; images [N, H, W, C]; convolution weights [KH, KW, C, K]; linear weights [I, O], \
     inputs flattened from [H, W, C]; NAME.running is [2, C]: mean, then variance";

/// Trains as the plan says, writes the record, and returns what came of it. Divergence, an ended budget and an
/// interruption are results, not errors.
pub fn train(
    job: Job<'_>,
    writer: &mut RunWriter,
    observer: &mut dyn Observer,
) -> Result<Summary, TrainError> {
    let train = job.splits.train.clone();
    let pipeline = Pipeline::new(&job.plan.pipeline, train, job.plan.seed, job.clock.clone())?;
    let model = Model::new(&job.plan.model, pipeline.shape(), job.facts.classes)?;
    let target = job.plan.target()?;
    let metric = target.as_ref().map_or(Metric::Accuracy, |t| t.metric);
    let run = Run {
        pace: job.plan.pace(job.facts.train_examples),
        total: job.plan.total_updates(job.facts.train_examples).0,
        flops_per_example: model.flops_per_example()?,
        metric_name: format!("{}.{metric}", job.plan.evaluation_split()),
        metric,
        target,
        job,
        writer,
        updates: 0,
        examples: 0,
        fresh: 0,
        since_log: SinceLog::default(),
        best: None,
        last: None,
        reached_at: None,
    };
    run.go(model, &pipeline, observer)
}

/// One run in progress.
struct Run<'a, 'w> {
    job: Job<'a>,
    writer: &'w mut RunWriter,
    pace: Pace,
    /// Updates until the run's end.
    total: u64,
    flops_per_example: u64,
    target: Option<Target>,
    /// What the target names; accuracy without a target.
    metric: Metric,
    metric_name: String,
    updates: u64,
    /// Examples that went into them, and those of them that were read afresh: an echo stage makes the two differ.
    examples: u64,
    fresh: u64,
    since_log: SinceLog,
    best: Option<Metrics>,
    last: Option<Metrics>,
    reached_at: Option<Position>,
}

/// What happened since the last progress line.
#[derive(Default)]
struct SinceLog {
    training: f64,
    examples: u64,
    updates: u64,
    loss: f64,
}

impl Run<'_, '_> {
    fn go(
        mut self,
        model: Model,
        pipeline: &Pipeline,
        observer: &mut dyn Observer,
    ) -> Result<Summary, TrainError> {
        let plan = self.job.plan;
        let splits = self.job.splits;
        let horizon = plan.horizon_updates(self.job.facts.train_examples).0;
        let points = plan.evaluation_points(&self.job.facts);
        let mut programs = Programs::new(model, self.job.kernels, self.job.pool.clone());
        let vars = programs.compile(&self.batch_sizes(), &plan.optimizer)?;
        let mut state = State::init(&vars, plan.seed);
        let split = plan.evaluation_split();
        let mut evaluator = Evaluator::new(pipeline.evaluation(splits.get(split).clone(), Evaluator::BATCH)?);
        evaluator.compile(&mut programs)?;
        let mut stream = pipeline.stream(Place::default());

        let mut status = None;
        while self.updates < self.total && status.is_none() {
            self.job.watch.enter(Phase::Wait);
            let batch = stream.next().expect("a stream over all epochs does not end")?;
            self.job.watch.enter(Phase::Train);
            let rate = plan.schedule.learning_rate(self.updates, horizon);
            let outcome = programs.run_update(&mut state, &batch, plan, rate)?;
            self.examples += batch.len() as u64;
            self.fresh += batch.fresh as u64;
            pipeline.recycle(batch);
            self.updates += 1;
            self.job.watch.enter(Phase::Log);
            let diverged = !outcome.loss.is_finite();
            if diverged {
                status = Some(Status::Diverged);
            }
            self.note(outcome, rate, diverged)?;
            if !diverged && points.is_due(Updates(self.updates)) {
                pipeline.pause();
                self.job.watch.enter(Phase::Evaluate);
                let metrics = evaluator.run(&mut programs, &mut state)?;
                self.job.watch.enter(Phase::Log);
                status = self.judge(metrics)?;
                pipeline.resume();
            }
            if observer.observe(&self.progress(outcome)) == Control::Stop && status.is_none() {
                status = Some(Status::Interrupted);
            }
        }
        drop(stream);

        self.job.watch.enter(Phase::Checkpoint);
        self.save_weights(&programs, &state)?;
        self.job.watch.enter(Phase::Log);
        let mut stages = BTreeMap::new();
        stages.insert("read".to_string(), splits.read.busy);
        stages.insert("decode".to_string(), splits.decode.busy);
        for (name, stats) in pipeline.stats() {
            stages.insert(name.to_string(), stats.busy);
        }
        let ended = if self.target.is_some() { Status::Budget } else { Status::Done };
        self.finish(status.unwrap_or(ended), stages)
    }

    /// The batch sizes that updates will have: the plan's, and that of the last batch of an epoch where it is smaller.
    fn batch_sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.pace.batch_sizes().iter().map(|&size| size as usize).collect();
        // Where batches are repeated in a shuffled order the smaller one may come at any time.
        let early = matches!(self.pace.echo, sooner_plan::Echo::Batches(_));
        if self.total < self.pace.updates_per_epoch() && !early {
            sizes.truncate(1);
        }
        sizes
    }

    /// Adds an update to what the next progress line says, and writes that line when it is time.
    fn note(&mut self, outcome: UpdateOutcome, learning_rate: f64, now: bool) -> Result<(), TrainError> {
        let at = self.position();
        self.since_log.updates += 1;
        self.since_log.loss += outcome.loss;
        let seconds = at.training_seconds.0 - self.since_log.training;
        if now || seconds >= PROGRESS_SECONDS {
            let examples = at.examples.0 - self.since_log.examples;
            let line = ProgressLine {
                at,
                loss: self.since_log.loss / self.since_log.updates as f64,
                learning_rate,
                examples_per_second: examples as f64 / seconds,
            };
            self.writer.append(&Line::Progress(line))?;
            self.since_log =
                SinceLog { training: at.training_seconds.0, examples: at.examples.0, updates: 0, loss: 0.0 };
        }
        Ok(())
    }

    /// Records an evaluation and says whether it ends the run.
    fn judge(&mut self, metrics: Metrics) -> Result<Option<Status>, TrainError> {
        let met = self.target.as_ref().is_some_and(|target| metrics.meets(target));
        let at = self.position();
        self.writer.append(&Line::Evaluation(Evaluation { at, metrics, met }))?;
        let value = metrics.get(self.metric);
        if self.best.is_none_or(|best| self.metric.is_better(value, best.get(self.metric))) {
            self.best = Some(metrics);
        }
        self.last = Some(metrics);
        if met && self.reached_at.is_none() {
            self.reached_at = Some(at);
        }
        if !metrics.loss.is_finite() {
            return Ok(Some(Status::Diverged));
        }
        let judged = match self.job.plan.run.stop {
            Stop::Target => true,
            Stop::End => self.updates == self.total,
        };
        Ok((met && judged).then_some(Status::Reached))
    }

    fn position(&self) -> Position {
        Position {
            updates: Updates(self.updates),
            epochs: Epochs(self.fresh as f64 / self.pace.train_examples as f64),
            fresh_examples: FreshExamples(self.fresh),
            examples: Examples(self.examples),
            training_seconds: self.job.watch.training(),
            wall_seconds: self.job.watch.wall(),
        }
    }

    /// Seconds that this many examples' updates take at the machine's measured peak.
    fn seconds_at_peak(&self, examples: Examples) -> Seconds {
        Seconds(examples.0 as f64 * self.flops_per_example as f64 / (self.job.peak_gflops * 1e9))
    }

    fn progress(&self, outcome: UpdateOutcome) -> Progress<'_> {
        let at = self.position();
        let training = at.training_seconds.0;
        let beside = self.job.watch.spent(Phase::Evaluate).0;
        let left = self.total - self.updates;
        Progress {
            updates: at.updates,
            epochs: Epochs(at.epochs.0),
            loss: outcome.loss,
            metric: self.last.map(|m| (self.metric_name.as_str(), m.get(self.metric))),
            examples_per_second: at.examples.0 as f64 / training,
            share: self.seconds_at_peak(at.examples).0 / training,
            seconds_left: Seconds((training + beside) / self.updates as f64 * left as f64),
        }
    }

    /// Writes the model's variables; those of the optimiser belong to checkpoints.
    fn save_weights(&self, programs: &Programs, state: &State) -> Result<(), TrainError> {
        let vars = programs.model().vars();
        let tensors: Vec<TensorRef<'_>> = vars
            .ids()
            .map(|id| (vars.get(id), &state.values[id.index()]))
            .filter(|(var, _)| var.role != sooner_engine::Role::Slot)
            .map(|(var, values)| TensorRef { name: &var.name, shape: &var.shape, values })
            .collect();
        let about = WeightsAbout::of(self.job.plan, LAYOUTS);
        Ok(write_weights(&self.writer.weights_path(), &about, &tensors)?)
    }

    fn finish(mut self, status: Status, stages: BTreeMap<String, Seconds>) -> Result<Summary, TrainError> {
        self.writer.sync()?;
        // The last reading of the clock: what follows, one line of the log, is in no phase.
        self.job.watch.enter(Phase::Log);
        let position = self.position();
        let training = position.training_seconds.0;
        let seconds_at_peak = self.seconds_at_peak(position.examples);
        let summary = Summary {
            workload: self.job.plan.name.clone(),
            status,
            target: self.job.plan.run.target.clone(),
            reached_at: self.reached_at,
            best: self.best,
            last: self.last,
            diverged: None,
            position,
            examples_per_second: position.examples.0 as f64 / training,
            time: self.job.watch.split(),
            stages,
            ceiling: Ceiling {
                flops_per_example: self.flops_per_example,
                peak_gflops: self.job.peak_gflops,
                seconds_at_peak,
                share: seconds_at_peak.0 / training,
            },
            record: Some(self.writer.folder().display().to_string()),
        };
        self.writer.append(&Line::End(Box::new(summary.clone())))?;
        self.writer.sync()?;
        Ok(summary)
    }
}
