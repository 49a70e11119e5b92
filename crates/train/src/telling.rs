//! What a run tells: lines of its log, checkpoints, weights, the summary.

use crate::programs::UpdateOutcome;
use crate::run::{Machinery, Run};
use crate::{Evaluated, Phase, Progress, TrainError};
use sooner_base::{Epochs, Examples, FreshExamples, NoiseScale, Seconds, Updates};
use sooner_engine::Role;
use sooner_pipeline::{Oddities, Pipeline, Splits};
use sooner_plan::Orientation;
use sooner_record::{
    BadExample, Ceiling, CheckpointAbout, DataReport, Evaluation, GradientNoise, Line, Position,
    Progress as ProgressLine, Status, Summary, TensorRef, WeightsAbout, write_weights,
};
use std::collections::BTreeMap;

/// Seconds of the training clock between two progress lines of a record.
const PROGRESS_SECONDS: f64 = 1.0;

/// So many first updates have a line each, whatever they take: their losses can be compared with those of another program
/// that starts from the same weights.
const FIRST_UPDATES: u64 = 10;

/// The share of the averages of signal and noise that each estimate leaves: they go over about 100 of them.
const NOISE_DECAY: f64 = 0.99;

/// How tensors lie in weight files; in their metadata.
pub const LAYOUTS: &str = "row-major f32; images [N, H, W, C]; convolution weights [KH, KW, C, K]; linear weights [I, O], \
     inputs flattened from [H, W, C]; NAME.running is [2, C]: mean, then variance";

/// What happened since the last progress line.
#[derive(Default)]
pub(crate) struct SinceLog {
    training: f64,
    examples: u64,
    updates: u64,
    loss: f64,
}

impl SinceLog {
    /// Nothing yet since this moment.
    pub(crate) fn starting(at: &Position) -> SinceLog {
        SinceLog { training: at.training_seconds.0, examples: at.examples.0, updates: 0, loss: 0.0 }
    }
}

impl Run<'_, '_> {
    /// Adds an update to what the next progress line says, and writes that line when it is time.
    pub(crate) fn note(
        &mut self,
        outcome: UpdateOutcome,
        learning_rate: f64,
        now: bool,
    ) -> Result<(), TrainError> {
        if let Some(pair) = outcome.noise {
            self.noise.get_or_insert(NoiseScale::new(NOISE_DECAY)).push(pair);
        }
        let at = self.position();
        self.since_log.updates += 1;
        self.since_log.loss += outcome.loss;
        let seconds = at.training_seconds.0 - self.since_log.training;
        if now || self.updates <= FIRST_UPDATES || seconds >= PROGRESS_SECONDS {
            let examples = at.examples.0 - self.since_log.examples;
            let line = ProgressLine {
                at,
                loss: self.since_log.loss / self.since_log.updates as f64,
                learning_rate,
                examples_per_second: examples as f64 / seconds,
                gradient: self.noise.as_ref().and_then(GradientNoise::of),
            };
            self.writer.append(&Line::Progress(line))?;
            self.since_log = SinceLog::starting(&at);
        }
        Ok(())
    }

    /// Writes the line of an evaluation.
    pub(crate) fn note_evaluation(&mut self, at: Position, made: Evaluated) -> Result<(), TrainError> {
        let Evaluated { metrics, seen } = made;
        let met = self.target.as_ref().is_some_and(|target| metrics.meets(target));
        Ok(self.writer.append(&Line::Evaluation(Evaluation { at, metrics, met, seen }))?)
    }

    /// How far the run is, by the stopwatch's last change of phase.
    pub(crate) fn position(&self) -> Position {
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

    /// What the observer is told.
    pub(crate) fn progress(&self, outcome: UpdateOutcome) -> Progress<'_> {
        let at = self.position();
        let training = at.training_seconds.0;
        let beside = self.job.watch.spent(Phase::Evaluate).0;
        let share = self.share();
        Progress {
            updates: at.updates,
            epochs: Epochs(at.epochs.0),
            loss: outcome.loss,
            metric: self.last.map(|m| (self.metric_name.as_str(), m.get(self.metric))),
            examples_per_second: at.examples.0 as f64 / training,
            share: self.seconds_at_peak(at.examples).0 / training,
            seconds_left: Seconds((training + beside) * (1.0 - share).max(0.0) / share),
        }
    }

    /// Writes every variable's value, and everything that the loop keeps in mind.
    pub(crate) fn write_checkpoint(&mut self, m: &Machinery<'_>) -> Result<(), TrainError> {
        let about = CheckpointAbout {
            sooner: crate::PROGRAM.to_string(),
            plan: self.job.plan.clone(),
            threads: self.job.pool.threads(),
            kernels: m.programs.kernel_name().to_string(),
            position: self.position(),
            next: self.next_place(m.pipeline),
            time: self.job.watch.split(),
            preprocess: self.job.watch.spent(Phase::Preprocess),
            stages: self.stages(m),
            duplicates: Examples(self.duplicates),
            evaluated: self.evaluated,
            best: self.best,
            last: self.last,
            reached_at: self.reached_at,
            last_finite: self.last_finite,
            noise: self.noise,
        };
        let tensors = tensors(m, |_| true);
        Ok(self.writer.checkpoint(&about, &tensors)?)
    }

    /// Writes the model's variables as they are evaluated; those of the optimiser belong to checkpoints.
    pub(crate) fn write_weights(&mut self, m: &mut Machinery<'_>) -> Result<(), TrainError> {
        self.writer.sync()?;
        let about = WeightsAbout::of(self.job.plan, LAYOUTS);
        m.averages.exchange(&mut m.state);
        let written =
            write_weights(&self.writer.weights_path(), &about, &tensors(m, |role| role != Role::Slot));
        m.averages.exchange(&mut m.state);
        Ok(written?)
    }

    /// Busy seconds of each stage, in this process and those before it.
    fn stages(&self, m: &Machinery<'_>) -> BTreeMap<String, Seconds> {
        let splits = self.job.splits;
        let mut stages = self.stages_before.clone();
        let mut add = |name: &str, busy: Seconds| *stages.entry(name.to_string()).or_default() += busy;
        add("read", splits.read.busy);
        add("decode", splits.decode.busy);
        m.pipeline.stats().into_iter().for_each(|(name, stats)| add(name, stats.busy));
        stages
    }

    /// What a person should know of the data.
    fn data_report(&self, m: &Machinery<'_>) -> DataReport {
        let own = self.job.splits.sources.first();
        let mut notes = data_notes(self.job.splits, m.pipeline);
        let mut odd = Oddities::default();
        self.job.splits.sources.iter().for_each(|own| odd += own.oddities());
        odd -= self.odd_before;
        // Of every decoding, so that repeats and epochs count again.
        if odd.turned > 0 {
            let done = match self.job.plan.data.images().orientation {
                Orientation::Apply => "were turned as",
                Orientation::Ignore => "were not turned, though",
            };
            notes.push(format!("{} decoded images {done} their camera noted", odd.turned));
        }
        if odd.truncated > 0 {
            notes.push(format!(
                "{} decoded images end before their file says; the rest is grey",
                odd.truncated
            ));
        }
        let bad = m.pipeline.bad().into_iter();
        DataReport {
            class_hash: own.map(|own| format!("{:016x}", own.class_hash())),
            example_hash: own.map(|own| format!("{:016x}", own.name_hash())),
            notes,
            duplicates: self.job.plan.pipeline.echo().map(|_| Examples(self.duplicates)),
            bad: bad.map(|b| BadExample { index: b.index, place: b.place, reason: b.reason }).collect(),
        }
    }

    /// Writes the last line of the log and returns what the run came to.
    pub(crate) fn write_end(mut self, status: Status, m: &Machinery<'_>) -> Result<Summary, TrainError> {
        let stages = self.stages(m);
        // The last reading of the clock: what follows, one line of the log, is in no phase.
        self.job.watch.enter(Phase::Log);
        let position = self.position();
        let training = position.training_seconds.0;
        let seconds_at_peak = self.seconds_at_peak(position.examples);
        let asked = self.job.plan.run.epochs;
        let summary = Summary {
            workload: self.job.plan.name.clone(),
            status,
            target: self.job.plan.run.target.clone(),
            reached_at: self.reached_at,
            best: self.best,
            last: self.last,
            seen: self.seen,
            final_evaluation: self.final_evaluation,
            diverged: self.diverged,
            position,
            rounded_from: (self.updates == self.total && position.epochs.0 > asked * (1.0 + 1e-9))
                .then_some(Epochs(asked)),
            examples_per_second: position.examples.0 as f64 / training,
            time: self.job.watch.split(),
            stages,
            data: self.data_report(m),
            ceiling: Ceiling {
                flops_per_example: self.flops_per_example,
                peak_gflops: self.job.peak_gflops,
                seconds_at_peak,
                share: seconds_at_peak.0 / training,
            },
            gradient: self.noise.as_ref().and_then(GradientNoise::of),
            record: Some(self.writer.folder().display().to_string()),
        };
        self.writer.append(&Line::End(Box::new(summary.clone())))?;
        self.writer.sync()?;
        Ok(summary)
    }
}

/// What a person should know of data and stages before a run begins, a sentence each.
pub fn data_notes(splits: &Splits, pipeline: &Pipeline) -> Vec<String> {
    let notices = splits.notices.iter().map(ToString::to_string);
    let notes = pipeline.notes().iter();
    notices
        .chain(notes.map(|note| format!("stage {} ({}): {}", note.position, note.stage, note.text)))
        .collect()
}

/// The values of all variables whose role is wanted.
fn tensors<'m>(m: &'m Machinery<'_>, wanted: impl Fn(Role) -> bool) -> Vec<TensorRef<'m>> {
    let all = m.vars.ids().map(|id| (m.vars.get(id), &m.state.values[id.index()]));
    all.filter(|(var, _)| wanted(var.role))
        .map(|(var, values)| TensorRef { name: &var.name, shape: &var.shape, values })
        .collect()
}
