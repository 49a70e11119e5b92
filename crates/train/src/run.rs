//! The loop. What is inside the training clock is visible here: every phase of the stopwatch is entered by name.

use crate::averages::Averages;
use crate::feed::AutoRun;
use crate::pacing::Pacer;
use crate::programs::UpdateOutcome;
use crate::resume::check_resumable;
use crate::select::select;
use crate::telling::SinceLog;
use crate::whiten::{WHITEN, whitening_filters};
use crate::{
    Control, Evaluator, Job, Observer, Phase, Programs, ResumeError, TrainError, restore, start_from,
};
use sooner_base::{Bytes, NoiseScale, Purpose, Seconds, Updates};
use sooner_engine::{State, Vars};
use sooner_models::{Model, start_as};
use sooner_pipeline::{Next, Oddities, Pipeline, Position as Place};
use sooner_plan::{EvaluatePlan, EvaluationPoints, Metric, Pace, Stop, Target, Views};
use sooner_record::{
    CHECKPOINT_FILE, Divergence, Evaluation, LossAt, Metrics, Position, RunWriter, Seen, Status, Summary,
};
use std::collections::BTreeMap;

/// Trains as the plan says, writes the record, and returns what came of it. Divergence, an ended budget and an
/// interruption are results, not errors.
///
/// Given a checkpoint it goes on from there, and what it then writes is what a run that was never stopped would have:
/// the same weights, to the bit.
pub fn train(
    mut job: Job<'_>,
    writer: &mut RunWriter,
    observer: &mut dyn Observer,
) -> Result<Summary, TrainError> {
    let train = job.splits.train.clone();
    let pipeline = Pipeline::new(&job.plan.pipeline, train, job.plan.seed, job.clock.clone())?;
    let model = match job.start.model.take() {
        Some(model) => model,
        None => Model::new(&job.plan.model, pipeline.shape(), job.facts.classes)?,
    };
    let mut run = Run::new(job, writer, model.flops_per_example()?)?;
    let mut machinery = run.build(model, &pipeline)?;
    // A run that cannot go on has ended above.
    run.writer.begin()?;
    let status = run.go(&mut machinery, observer)?;
    run.end(status, &mut machinery)
}

/// One run in progress.
pub(crate) struct Run<'a, 'w> {
    pub(crate) job: Job<'a>,
    pub(crate) writer: &'w mut RunWriter,
    pub(crate) pace: Pace,
    /// Updates until the run's end; with `echo = "auto"`, if nothing is repeated.
    pub(crate) total: u64,
    /// Only with `echo = "auto"`.
    pub(crate) auto: Option<AutoRun>,
    /// Whether a schedule that is followed ended before the run's length.
    pub(crate) exhausted: bool,
    pub(crate) flops_per_example: u64,
    pub(crate) points: EvaluationPoints,
    pub(crate) target: Option<Target>,
    /// What the target names; accuracy without a target.
    pub(crate) metric: Metric,
    pub(crate) metric_name: String,
    pub(crate) updates: u64,
    /// Examples that went into them, and those of them that were read afresh: an echo stage makes the two differ.
    pub(crate) examples: u64,
    pub(crate) fresh: u64,
    /// Examples that showed what an earlier one of the same batch showed; not counted without an echo stage.
    pub(crate) duplicates: u64,
    /// Whether the evaluation that is due after this many updates, if one is, has been made.
    pub(crate) evaluated: bool,
    pub(crate) since_log: SinceLog,
    pub(crate) best: Option<Metrics>,
    pub(crate) last: Option<Metrics>,
    /// The last evaluation without its other views of each image.
    pub(crate) seen: Option<Seen>,
    pub(crate) final_evaluation: Option<Seconds>,
    pub(crate) reached_at: Option<Position>,
    pub(crate) last_finite: Option<LossAt>,
    pub(crate) diverged: Option<Divergence>,
    /// The running estimate of the noise of gradients, from the first one on.
    pub(crate) noise: Option<NoiseScale>,
    /// What was odd about images that earlier runs of this process decoded from the same sources.
    pub(crate) odd_before: Oddities,
    /// Busy seconds of stages in earlier processes.
    pub(crate) stages_before: BTreeMap<String, Seconds>,
    pub(crate) pacer: Pacer,
    /// The update of the last checkpoint on disk.
    pub(crate) kept: Option<u64>,
}

/// What a run works with: everything compiled and filled before its first update.
pub(crate) struct Machinery<'p> {
    pub(crate) pipeline: &'p Pipeline,
    pub(crate) programs: Programs,
    pub(crate) vars: Vars,
    pub(crate) state: State,
    pub(crate) averages: Averages,
    evaluator: Evaluator,
}

impl<'a, 'w> Run<'a, 'w> {
    fn new(
        job: Job<'a>,
        writer: &'w mut RunWriter,
        flops_per_example: u64,
    ) -> Result<Run<'a, 'w>, TrainError> {
        let target = job.plan.target()?;
        let metric = target.as_ref().map_or(Metric::Accuracy, |t| t.metric);
        let pacer = Pacer::new(job.checkpoints, Bytes(0));
        let n = job.facts.train_examples;
        // Of data in memory each run tells what was odd; of sources, what it came across itself.
        let mut odd_before = Oddities::default();
        if job.splits.train.source().is_some() {
            job.splits.sources.iter().for_each(|own| odd_before += own.oddities());
        }
        let auto = job.plan.most_uses().map(|_| AutoRun {
            total: job.plan.fresh_of(job.plan.run.epochs, n),
            horizon: job.plan.horizon_fresh(n),
            ..AutoRun::default()
        });
        Ok(Run {
            auto,
            exhausted: false,
            duplicates: 0,
            pace: job.plan.pace(job.facts.train_examples),
            total: job.plan.total_updates(job.facts.train_examples).0,
            flops_per_example,
            points: job.plan.evaluation_points(&job.facts),
            metric_name: format!("{}.{metric}", job.plan.evaluation_split()),
            metric,
            target,
            job,
            writer,
            updates: 0,
            examples: 0,
            fresh: 0,
            evaluated: false,
            since_log: SinceLog::default(),
            best: None,
            last: None,
            seen: None,
            final_evaluation: None,
            reached_at: None,
            last_finite: None,
            diverged: None,
            noise: None,
            odd_before,
            stages_before: BTreeMap::new(),
            pacer,
            kept: None,
        })
    }

    /// Compiles programs and gives every variable its value: the network's own, given weights', or a checkpoint's.
    fn build<'p>(&mut self, model: Model, pipeline: &'p Pipeline) -> Result<Machinery<'p>, TrainError> {
        let plan = self.job.plan;
        let mut programs = Programs::for_plan(plan, model, self.job.kernels, self.job.pool.clone());
        let mut sizes = self.batch_sizes();
        let whole = sizes.len();
        if let Some(part) = &plan.run.select {
            sizes.extend(sizes.clone().into_iter().map(|size| part.kept(size)));
        }
        let mut vars = programs.compile(&sizes, &plan.optimizer)?;
        if plan.run.select.is_some() {
            sizes[..whole].iter().try_for_each(|&size| programs.eval(size).map(drop))?;
        }
        start_as(&mut vars, &plan.run.initial)?;
        let mut state = State::init(&vars, plan.seed);
        let mut given = false;
        if let Some(weights) = self.job.start.weights.take() {
            let except = plan.run.init.as_ref().map_or(&[][..], |init| &init.except);
            start_from(&vars, &mut state, &weights, except)?;
            state.follow(&vars);
            given = !except.iter().any(|prefix| WHITEN.starts_with(prefix.as_str()));
        }
        if self.job.start.checkpoint.is_none() && !given {
            self.whiten(&programs, &vars, &mut state, pipeline)?;
        }
        self.take_up(&vars, &mut state, pipeline)?;
        self.take_up_auto()?;
        self.pacer = Pacer::new(
            self.job.checkpoints,
            Bytes(4 * state.values.iter().map(|v| v.len() as u64).sum::<u64>()),
        );
        let examples = self.job.splits.get(plan.evaluation_split()).clone();
        let mut evaluator = Evaluator::new(pipeline.evaluation(examples, Evaluator::BATCH)?);
        evaluator.compile(&mut programs)?;
        let averages = Averages::new(&vars, &plan.optimizer);
        Ok(Machinery { pipeline, programs, vars, state, averages, evaluator })
    }

    /// Works out the filters that whiten patches of images, where the network begins with them. The training clock runs
    /// meanwhile.
    fn whiten(
        &mut self,
        programs: &Programs,
        vars: &Vars,
        state: &mut State,
        pipeline: &Pipeline,
    ) -> Result<(), TrainError> {
        let Some(whitening) = programs.model().whitening() else { return Ok(()) };
        let Some(var) = vars.find(WHITEN) else { return Ok(()) };
        self.job.watch.enter(Phase::Preprocess);
        let images = pipeline.evaluation(self.job.splits.train.clone(), Evaluator::BATCH)?;
        state.values[var.index()] = whitening_filters(images, whitening, &self.job.pool)?;
        self.job.watch.enter(Phase::Prepare);
        Ok(())
    }

    /// Takes up the thread where a checkpoint left it.
    fn take_up(&mut self, vars: &Vars, state: &mut State, pipeline: &Pipeline) -> Result<(), TrainError> {
        let Some(checkpoint) = self.job.start.checkpoint.take() else { return Ok(()) };
        let (about, plan) = (checkpoint.about, self.job.plan);
        check_resumable(plan, &about)?;
        let updates = about.position.updates.0;
        if self.auto.is_none() && updates > self.total {
            return Err(ResumeError::Over { end: plan.run.epochs, at: about.position.epochs.0 }.into());
        }
        (self.updates, self.fresh) = (updates, about.position.fresh_examples.0);
        let expected = self.next_place(pipeline);
        if about.next != expected {
            return Err(ResumeError::Place { expected, found: about.next }.into());
        }
        restore::restore(vars, state, &checkpoint.tensors, &self.writer.folder().join(CHECKPOINT_FILE))?;
        (self.examples, self.duplicates) = (about.position.examples.0, about.duplicates.0);
        self.kept = Some(updates);
        self.since_log = SinceLog::starting(&about.position);
        self.stages_before = about.stages;
        (self.last_finite, self.noise) = (about.last_finite, about.noise);
        if about.plan.run.target == plan.run.target {
            self.evaluated = about.evaluated;
            (self.best, self.last, self.reached_at) = (about.best, about.last, about.reached_at);
        } else {
            self.judge_again(Updates(updates));
        }
        Ok(())
    }

    /// Sees the evaluations made so far with the eyes of another target.
    fn judge_again(&mut self, now: Updates) {
        let split = self.job.plan.evaluation_split();
        for Evaluation { at, metrics, .. } in std::mem::take(&mut self.job.start.evaluations) {
            if metrics.split == split && at.updates <= now {
                self.see(metrics, at);
                self.evaluated = at.updates == now;
            }
        }
    }

    fn go(
        &mut self,
        m: &mut Machinery<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Status>, TrainError> {
        let plan = self.job.plan;
        // Resumed, the run may be where an evaluation is still to be made, or meet a target that is another now.
        let mut status = self.met_now(self.last.filter(|_| self.evaluated));
        if status.is_none() {
            status = self.evaluate(m, observer)?;
        }
        if status.is_none() && !self.is_over() && observer.interrupted() {
            status = Some(Status::Interrupted);
        }
        if status.is_some() || self.is_over() {
            return Ok(status);
        }
        let echoes = plan.pipeline.echo().is_some();
        let mut feed = self.feed(m.pipeline)?;
        while !self.is_over() && status.is_none() {
            self.job.watch.enter(Phase::Wait);
            let mut batch = match feed.next_unless(&|| observer.stops_waiting())? {
                Next::Batch(batch) => batch,
                Next::Over => {
                    // Streams of a plan do not end; a schedule that is followed does.
                    self.exhausted = true;
                    status = self.evaluate(m, observer)?;
                    continue;
                }
                Next::Unwanted => {
                    status = Some(Status::Interrupted);
                    continue;
                }
            };
            if self.auto.is_some() || echoes {
                self.job.watch.enter(Phase::Log);
                self.note_fresh(&batch)?;
                self.duplicates += batch.duplicates() as u64;
            }
            self.job.watch.enter(Phase::Train);
            if let Some(part) = plan.run.select.filter(|part| part.holds(self.share())) {
                let rng = plan.seed.key(Purpose::Select, 0).at(0, self.updates, 0);
                select(&mut m.programs, &mut m.state, &mut batch, &part, rng)?;
            }
            let mut at = plan.moment(self.job.facts.train_examples, self.updates);
            if let Some(auto) = &self.auto {
                at.schedule = (self.fresh, auto.horizon.0);
            }
            let rate = plan.learning_rate(at);
            m.programs
                .measure_noise(plan.run.noise_scale.is_some_and(|every| self.updates.is_multiple_of(every)));
            let outcome = m.programs.run_update(&mut m.state, &batch, plan, at)?;
            self.examples += batch.len() as u64;
            self.fresh += batch.fresh as u64;
            m.pipeline.recycle(batch);
            (self.updates, self.evaluated) = (self.updates + 1, false);
            self.job.watch.enter(Phase::Log);
            status = self.guard(outcome);
            self.note(outcome, rate, status.is_some())?;
            if status.is_none() {
                status = self.evaluate(m, observer)?;
            }
            if observer.observe(&self.progress(outcome)) == Control::Stop && status.is_none() {
                status = Some(Status::Interrupted);
            }
            let watch = &self.job.watch;
            let due = self.pacer.is_due(Updates(self.updates), watch.spent(Phase::Checkpoint), watch.wall());
            if due && status.is_none() && !self.is_over() {
                self.checkpoint(m)?;
            }
        }
        Ok(status)
    }

    /// Where the stream of batches goes on: epoch and batch, with `echo = "auto"` epoch and example.
    pub(crate) fn next_place(&self, pipeline: &Pipeline) -> (u32, u64) {
        if self.auto.is_some() {
            let n = self.pace.train_examples;
            return ((self.fresh / n) as u32, self.fresh % n);
        }
        let place = place_after(self.updates, pipeline);
        (place.epoch, place.batch)
    }

    /// The batch sizes that updates will have: the plan's, and that of the last batch of an epoch where it is smaller.
    fn batch_sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.pace.batch_sizes().iter().map(|&size| size as usize).collect();
        // Where batches are repeated in a shuffled order the smaller one may come at any time.
        let early = matches!(self.pace.echo, sooner_plan::Echo::Batches(_));
        let short = self.total < self.pace.updates_per_epoch() && !early;
        if short || self.auto.is_some() {
            sizes.truncate(1);
        }
        sizes
    }

    /// Whether the last update's loss is one that the plan accepts.
    fn guard(&mut self, outcome: UpdateOutcome) -> Option<Status> {
        let updates = Updates(self.updates);
        let trips = self.job.plan.run.guard.trips(outcome.loss);
        if trips {
            self.diverged = Some(Divergence { updates, loss: outcome.loss, last_finite: self.last_finite });
        }
        if outcome.loss.is_finite() {
            self.last_finite = Some(LossAt { updates, loss: outcome.loss });
        }
        trips.then_some(Status::Diverged)
    }

    /// Makes the evaluation that is due now, if one is, and says whether it ends the run.
    fn evaluate(
        &mut self,
        m: &mut Machinery<'_>,
        observer: &dyn Observer,
    ) -> Result<Option<Status>, TrainError> {
        if self.evaluated || !self.is_due() {
            return Ok(None);
        }
        m.pipeline.pause();
        self.job.watch.enter(Phase::Evaluate);
        let interrupted = || observer.interrupted();
        let views = if self.may_end() { self.job.plan.run.views } else { Views::One };
        let before = self.job.watch.spent(Phase::Evaluate);
        m.averages.exchange(&mut m.state);
        let evaluated = m.evaluator.run_unless(&mut m.programs, &mut m.state, views, &interrupted);
        m.averages.exchange(&mut m.state);
        let evaluated = evaluated?;
        self.job.watch.enter(Phase::Log);
        let Some(evaluated) = evaluated else { return Ok(Some(Status::Interrupted)) };
        let metrics = evaluated.metrics;
        self.evaluated = true;
        if self.job.plan.run.stop == Stop::End && self.is_over() {
            self.final_evaluation = Some(self.job.watch.spent(Phase::Evaluate) - before);
        }
        self.seen = evaluated.seen;
        let at = self.position();
        self.note_evaluation(at, evaluated)?;
        self.see(metrics, at);
        m.pipeline.resume();
        if self.job.plan.run.guard.trips(metrics.loss) {
            let (updates, last_finite) = (at.updates, self.last_finite);
            self.diverged = Some(Divergence { updates, loss: metrics.loss, last_finite });
            return Ok(Some(Status::Diverged));
        }
        Ok(self.met_now(Some(metrics)))
    }

    /// Whether to evaluate after the updates so far.
    fn is_due(&self) -> bool {
        let by_updates = self.points.is_due(Updates(self.updates));
        if self.auto.is_none() || self.updates == 0 {
            return by_updates;
        }
        // Epochs are of fresh examples, and where they end in updates only time tells.
        let by_epoch = self.job.plan.run.evaluate == EvaluatePlan::Epoch;
        self.is_over() || if by_epoch { self.enters_epoch() } else { by_updates }
    }

    /// Keeps an evaluation in mind.
    fn see(&mut self, metrics: Metrics, at: Position) {
        let value = metrics.get(self.metric);
        if self.best.is_none_or(|best| self.metric.is_better(value, best.get(self.metric))) {
            self.best = Some(metrics);
        }
        self.last = Some(metrics);
        if self.reached_at.is_none() && self.target.as_ref().is_some_and(|target| metrics.meets(target)) {
            self.reached_at = Some(at);
        }
    }

    /// Whether an evaluation made after this very update ends the run.
    fn met_now(&self, metrics: Option<Metrics>) -> Option<Status> {
        let target = self.target.as_ref()?;
        (self.may_end() && metrics?.meets(target)).then_some(Status::Reached)
    }

    /// Whether an evaluation made now may end the run.
    fn may_end(&self) -> bool {
        match self.job.plan.run.stop {
            Stop::Target => true,
            Stop::End => self.is_over(),
        }
    }

    /// Writes a checkpoint; the clock and the pipeline stand still meanwhile.
    fn checkpoint(&mut self, m: &Machinery<'_>) -> Result<(), TrainError> {
        m.pipeline.pause();
        self.job.watch.enter(Phase::Checkpoint);
        let before = self.job.watch.spent(Phase::Checkpoint);
        self.write_checkpoint(m)?;
        self.job.watch.enter(Phase::Log);
        self.pacer.took(self.job.watch.spent(Phase::Checkpoint) - before);
        self.kept = Some(self.updates);
        m.pipeline.resume();
        Ok(())
    }

    fn end(mut self, status: Option<Status>, m: &mut Machinery<'_>) -> Result<Summary, TrainError> {
        let ended = if self.target.is_some() { Status::Budget } else { Status::Done };
        let status = status.unwrap_or(ended);
        let watch = &self.job.watch;
        let keep = match status {
            // Whoever interrupts a run may want to go on from there.
            Status::Interrupted => self.pacer.keeps(),
            // So that the run can be made longer, unless that costs too much of a short one's time.
            Status::Reached | Status::Done | Status::Budget => {
                self.pacer.is_due(Updates(self.updates), watch.spent(Phase::Checkpoint), watch.wall())
            }
            Status::Diverged => false,
        };
        // An interrupted evaluation does not count: the checkpoint says that it is still to be made.
        if keep && self.kept != Some(self.updates) {
            self.checkpoint(m)?;
        }
        self.job.watch.enter(Phase::Checkpoint);
        self.write_weights(m)?;
        self.job.watch.enter(Phase::Log);
        self.write_end(status, m)
    }
}

/// Where the stream of batches goes on after so many updates.
pub(crate) fn place_after(updates: u64, pipeline: &Pipeline) -> Place {
    let per_epoch = pipeline.batches_per_epoch();
    Place { epoch: (updates / per_epoch) as u32, batch: updates % per_epoch }
}
