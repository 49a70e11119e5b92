//! Trials that train a workload of this program, in this process.

use super::workers::{Ended, Held};
use crate::fail::Failure;
use crate::machine::{self, Engine};
use crate::settle;
use crate::shelf::Shelf;
use anyhow::Context;
use sooner_base::{Clock, MonotonicClock, Seed};
use sooner_engine::native::Kernels;
use sooner_plan::{Plan, Setting};
use sooner_record::{Line, Outcome, RunReader, RunWriter, Status, TrialEvaluation, TrialState, Values};
use sooner_report::NOISE_SCALE;
use sooner_study::definition::{AxisValue, PointPlan, StudyPlan, TrialBudget, WORKLOAD};
use sooner_study::space::Range;
use sooner_train::{Checkpoints, Control, Job, Observer, Progress, Start, Stopwatch, train};
use std::path::Path;
use std::sync::Arc;

/// Short names of axes and metaparameters, and the keys of plans that they stand for; other names are keys themselves.
const NAMES: &[(&str, &str)] = &[
    ("batch", "pipeline.stages.batch"),
    ("learning_rate", "schedule.learning_rate"),
    ("end_factor", "schedule.end_factor"),
    ("decay_updates", "schedule.decay_updates"),
    ("optimizer", "optimizer.kind"),
    ("momentum", "optimizer.momentum"),
    ("weight_decay", "optimizer.weight_decay"),
    ("label_smoothing", "optimizer.label_smoothing"),
    ("train_examples", "data.train"),
];

/// Axes that no single key of a plan stands for: the echo stage is put into the pipeline, a workload is the whole plan.
const WHOLE: [&str; 4] = ["echo", "echo_place", "echo_buffer", WORKLOAD];

fn key(name: &str) -> &str {
    NAMES.iter().find(|(short, _)| *short == name).map_or(name, |(_, key)| key)
}

/// The plan that a trial trains, before it is resolved.
pub(crate) fn trial_plan(
    study: &StudyPlan,
    point: &PointPlan,
    values: &Values,
    seed: u64,
) -> anyhow::Result<Plan> {
    let mut plan = base_plan(study.workload_at(point).expect("a study without a command has a workload"))?;
    let fixed = study.settings();
    let named = |name: &str, value: String| Setting::option(&format!("study's {name}"), key(name), &value);
    // What varies is laid over what is fixed, so the two are no contradiction where they meet.
    let same: Vec<Setting> = fixed.iter().map(|(name, value)| named(name, value.to_string())).collect();
    plan.apply(&same)?;
    let mut settings = Vec::new();
    for (name, value) in point.axes.iter().filter(|(name, _)| !WHOLE.contains(&name.as_str())) {
        let text = match value {
            AxisValue::Whole(n) => n.to_string(),
            AxisValue::Number(x) => format!("{x:?}"),
            AxisValue::Word(word) => toml::Value::String(word.clone()).to_string(),
        };
        settings.push(named(name, text));
    }
    for parameter in &point.tune {
        let value = values.get(&parameter.name).with_context(|| format!("no value of {}", parameter.name))?;
        let whole = matches!(parameter.range, Range::Integer { .. });
        settings
            .push(named(&parameter.name, if whole { format!("{value:.0}") } else { format!("{value:?}") }));
    }
    if !fixed.iter().any(|(name, _)| name == "seed") {
        settings.push(named("seed", seed.to_string()));
    }
    let momentum = point.tune.iter().any(|p| key(&p.name) == "optimizer.momentum");
    let plain = |(name, value): &(String, AxisValue)| {
        key(name) == "optimizer.kind" && *value == AxisValue::Word("sgd".into())
    };
    if point.axes.iter().any(plain) && !momentum {
        // The workload's own momentum is of its own optimiser.
        settings.push(named("momentum", "0.0".into()));
    }
    settings.push(named("run.target", toml::Value::String(study.target.clone()).to_string()));
    if let (Some(_), Some(confirm)) = (&point.confirms, &study.confirm) {
        if confirm.to_the_end {
            settings.push(named("run.stop", "\"end\"".into()));
        }
        settings.extend(confirm.settings().iter().map(|(name, value)| named(name, value.to_string())));
    }
    settings.push(named("run.threads", study.threads.to_string()));
    plan.apply(&settings)?;
    let plan = with_echo(plan, point)?;
    Ok(within(plan, &point.budget))
}

fn base_plan(name: &str) -> anyhow::Result<Plan> {
    if !name.ends_with(".toml") {
        return Ok(Plan::parse(settle::builtin(name)?.toml)?);
    }
    let text =
        std::fs::read_to_string(name).with_context(|| format!("cannot read the plan file `{name}`"))?;
    Ok(Plan::parse(&text).map_err(|e| e.in_file(name))?)
}

/// The plan with the echo stage that the point asks for.
fn with_echo(plan: Plan, point: &PointPlan) -> anyhow::Result<Plan> {
    let number = |axis: &str| point.value(axis).and_then(AxisValue::number);
    let factor = number("echo").unwrap_or(1.0);
    if factor == 1.0 {
        return Ok(plan);
    }
    let mut table: toml::Table = plan.to_toml().parse().context("a plan is TOML")?;
    let stages = table
        .get_mut("pipeline")
        .and_then(|p| p.get_mut("stages"))
        .and_then(toml::Value::as_array_mut)
        .context("a plan has stages")?;
    let of = |name: &str| stages.iter().position(|s| s.get(name).is_some());
    let batch = of("batch").context("a plan has a batch stage")?;
    let place = match point.value("echo_place") {
        None => batch + 1,
        Some(AxisValue::Word(word)) => match word.as_str() {
            "before-augment" => of("shuffle").map_or(0, |i| i + 1),
            "after-augment" => batch,
            "after-batch" => batch + 1,
            other => anyhow::bail!(
                "echo_place: expected before-augment, after-augment or after-batch, found `{other}`"
            ),
        },
        Some(other) => anyhow::bail!("echo_place: expected a word, found {other}"),
    };
    let whole = factor.fract() == 0.0;
    let factor = if whole { toml::Value::Integer(factor as i64) } else { toml::Value::Float(factor) };
    let stage = match number("echo_buffer") {
        None => toml::Table::from_iter([("echo".to_string(), factor)]),
        Some(buffer) => {
            let inner =
                [("factor".to_string(), factor), ("buffer".to_string(), toml::Value::Integer(buffer as i64))];
            toml::Table::from_iter([("echo".to_string(), toml::Value::Table(toml::Table::from_iter(inner)))])
        }
    };
    stages.insert(place, toml::Value::Table(stage));
    Ok(Plan::parse(&toml::to_string(&table)?)?)
}

/// The plan with the length that a budget allows; seconds are watched while it runs.
fn within(plan: Plan, budget: &TrialBudget) -> Plan {
    let examples = plan.data.expected_facts().train_examples;
    let pace = plan.pace(examples);
    let per_epoch = pace.updates_per_epoch();
    let of_updates = |updates: u64| {
        let (whole, rest) = ((updates / per_epoch) as f64, updates % per_epoch);
        // Whole batches are exact where each update reads one; with echo, an epoch's share is near enough.
        let exact = whole + (rest * pace.batch) as f64 / examples as f64;
        let share = whole + rest as f64 / per_epoch as f64;
        if pace.updates(exact) == updates { exact } else { share }
    };
    let limits = [
        budget.updates.map(of_updates),
        budget.examples.map(|n| n as f64 / pace.examples_after(per_epoch) as f64),
        budget.epochs,
    ];
    match limits.into_iter().flatten().min_by(f64::total_cmp) {
        Some(epochs) => plan.with_epochs(epochs),
        None => plan,
    }
}

/// What native trials share: data by the section of the plan that names it, and the measured peak.
pub(crate) struct Shared {
    data: Option<String>,
    shelf: Shelf,
    peak_gflops: f64,
    keep: bool,
}

impl Shared {
    pub(crate) fn new(data: Option<String>, threads: usize, keep: bool) -> Shared {
        let clock = MonotonicClock::start();
        let peak_gflops = Engine::new(threads).measure_peak(&clock).peak.gflops;
        Shared { data, shelf: Shelf::default(), peak_gflops, keep }
    }

    /// Trains one trial. Err if it cannot be trained at all: another would fail alike.
    pub(crate) fn run(
        &self,
        study: &StudyPlan,
        point: &PointPlan,
        held: &Held,
        folder: &Path,
    ) -> anyhow::Result<Ended> {
        let lease = &held.lease;
        let Seed(seed) = study.trial_seed(lease.point, lease.number);
        let mut typed = trial_plan(study, point, &lease.parameters, seed)?;
        if let Some(data) = &self.data {
            typed.data.path = Some(data.clone());
        }
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
        let plan = typed.resolve(&typed.data.expected_facts(), machine::cores())?;
        let engine = Engine::for_plan(&plan, study.threads, Kernels::Auto);
        let watch = Stopwatch::start(clock.clone());
        let splits = match self.shelf.get(&typed.data, machine::cores(), &clock, &|| held.dropped()) {
            Err(error) if Failure::is_interruption(&error) => return Ok(Ended::Dropped),
            splits => splits?,
        };
        let facts = settle::facts(&splits);
        let plan = typed.resolve(&facts, machine::cores())?;
        // What a lost attempt left behind.
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        let header = engine.header(&plan, self.peak_gflops, machine::unix_seconds());
        let mut writer = RunWriter::create(folder, &plan, &header)?;
        let job = Job {
            plan: &plan,
            facts,
            splits: &splits,
            start: Start::default(),
            checkpoints: Checkpoints::Never,
            pool: engine.pool.clone(),
            kernels: engine.kernels,
            peak_gflops: self.peak_gflops,
            clock,
            watch,
        };
        let mut watcher = Watcher { held, seconds: point.budget.seconds, cut: None };
        let summary = train(job, &mut writer, &mut watcher)?;
        let cut = watcher.cut;
        drop(writer);
        let lines = RunReader::open(folder)?.log.lines;
        if !self.keep {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let state = match (summary.status, &cut) {
            (Status::Reached | Status::Done, _) => TrialState::Complete,
            (Status::Budget, _) | (Status::Interrupted, Some(Cut::Settled(_))) => TrialState::Censored,
            (Status::Diverged, _) => TrialState::Diverged,
            (Status::Interrupted, _) => return Ok(Ended::Dropped),
        };
        let note = match cut {
            Some(Cut::Settled(why)) if state == TrialState::Censored => why,
            _ => String::new(),
        };
        let (evaluations, last_loss) = measured(&lines);
        Ok(Ended::Result(Outcome { state, note, last_loss }, evaluations))
    }
}

/// A run's evaluations, and its last finite training loss.
fn measured(lines: &[Line]) -> (Vec<TrialEvaluation>, Option<f64>) {
    let (mut evaluations, mut last_loss, mut noise_scale) = (Vec::new(), None, None);
    for line in lines {
        match line {
            Line::Progress(p) => {
                last_loss = Some(p.loss).filter(|loss| loss.is_finite()).or(last_loss);
                noise_scale = p.gradient.as_ref().and_then(|g| g.scale).or(noise_scale);
            }
            Line::Evaluation(e) => {
                let m = &e.metrics;
                let named = [("loss", m.loss), ("error", m.error), ("accuracy", m.accuracy)];
                let mut metrics: Values = named.map(|(name, v)| (format!("{}.{name}", m.split), v)).into();
                metrics.extend(noise_scale.map(|scale| (NOISE_SCALE.to_string(), scale)));
                evaluations.push(TrialEvaluation {
                    updates: e.at.updates.0,
                    examples: e.at.examples.0,
                    fresh: e.at.fresh_examples.0,
                    epochs: Some(e.at.epochs.0),
                    seconds: Some(e.at.training_seconds.0),
                    metrics,
                });
            }
            _ => {}
        }
    }
    (evaluations, last_loss)
}

enum Cut {
    /// The result is settled.
    Settled(String),
    /// The lease was lost, or the driver is to stop.
    Dropped,
}

/// Ends a trial whose result is settled, or that is no longer wanted.
struct Watcher<'a> {
    held: &'a Held,
    seconds: Option<f64>,
    cut: Option<Cut>,
}

impl Observer for Watcher<'_> {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        let updates = progress.updates.0;
        if self.held.dropped() {
            self.cut = Some(Cut::Dropped);
        } else if let Some(why) = self.held.beyond(updates) {
            self.cut = Some(Cut::Settled(why));
        } else if let Some(limit) = self.seconds.filter(|limit| self.held.seconds() > *limit) {
            self.cut = Some(Cut::Settled(format!("budget of {limit} s")));
        }
        if self.cut.is_some() { Control::Stop } else { Control::Continue }
    }

    fn stops_waiting(&self) -> bool {
        self.held.dropped()
    }
}
