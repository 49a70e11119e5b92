//! `sooner train`: plan, data, run, summary.

use crate::args::TrainArgs;
use crate::machine::Engine;
use crate::progress::{Bar, duration};
use crate::{machine, settle};
use anyhow::Context;
use sooner_base::{Clock, MonotonicClock, Seconds};
use sooner_models::Model;
use sooner_pipeline::Pipeline;
use sooner_plan::Plan;
use sooner_record::{RunWriter, Status, Summary};
use sooner_train::{Job, Stopwatch, train};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    let typed = settle::train_plan(args)?;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let expected = settle::peek(&typed)?;
    let plan = typed.resolve(&expected, machine::cores())?;
    let engine = Engine::new(plan.run.threads.unwrap_or(1));
    let peak = engine.measure_peak(clock.as_ref());

    let watch = Stopwatch::start(clock.clone());
    let splits = sooner_pipeline::load(&plan.data, engine.pool.threads(), clock.as_ref())?;
    let facts = settle::facts(&splits);
    // The authors' sets have the expected sizes; the user's own files of the same format may not.
    let plan = if facts == expected { plan } else { typed.resolve(&facts, machine::cores())? };

    // What cannot be built fails before the record's folder is made.
    let pipeline = Pipeline::new(&plan.pipeline, splits.train.clone(), plan.seed, clock.clone())?;
    settle::check_model(&Model::new(&plan.model, pipeline.shape(), facts.classes)?)?;

    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => unused_folder(&plan.name),
    };
    let header = engine.header(&plan, peak.gflops, unix_seconds());
    let mut writer = RunWriter::create(&folder, &plan, &header)?;
    let total = plan.total_updates(facts.train_examples).0;
    if !args.plan.json {
        eprintln!("{}", opening(&plan, &engine, peak.gflops));
    }
    let mut bar = Bar::new(total, interrupts()?);
    let job = Job {
        plan: &plan,
        facts,
        splits: &splits,
        pool: engine.pool.clone(),
        kernels: engine.kernels,
        peak_gflops: peak.gflops,
        clock,
        watch,
    };
    let summary = train(job, &mut writer, &mut bar);
    bar.clear();
    let summary = summary.with_context(|| format!("the run in `{}` ended early", folder.display()))?;
    if args.plan.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!("{}", closing(&summary));
    }
    Ok(exit_code(summary.status))
}

/// Exit codes: 0 target reached (or nothing to reach and done), 3 budget ended before the target, 4 diverged, 130
/// interrupted.
fn exit_code(status: Status) -> ExitCode {
    ExitCode::from(match status {
        Status::Reached | Status::Done => 0,
        Status::Budget => 3,
        Status::Diverged => 4,
        Status::Interrupted => 130,
    })
}

/// Set by Ctrl-C; a second one ends the process at once.
pub(crate) fn interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    ctrlc::set_handler(move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(flag)
}

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// `runs/NAME-TIME`, with a number behind it if two runs start within the same second.
fn unused_folder(name: &str) -> PathBuf {
    let time = machine::timestamp(unix_seconds());
    let base = Path::new("runs").join(format!("{name}-{time}"));
    let numbered = (2..).map(|n| Path::new("runs").join(format!("{name}-{time}-{n}")));
    std::iter::once(base).chain(numbered).find(|f| !f.exists()).expect("some number is free")
}

fn opening(plan: &Plan, engine: &Engine, peak: f64) -> String {
    let target = plan.run.target.as_deref().unwrap_or("the end of its schedule");
    format!(
        "{}: to {target}, at most {} epochs of batch {}, on {} threads ({}, peak {peak:.0} GFLOP/s)",
        plan.name,
        plan.run.epochs,
        plan.batch_size(),
        engine.pool.threads(),
        engine.kernel_name(),
    )
}

/// What a person reads at the end.
fn closing(s: &Summary) -> String {
    let mut lines = Vec::new();
    let target = s.target.as_deref().unwrap_or("no target");
    lines.push(match (s.status, &s.reached_at) {
        (Status::Reached, Some(at)) => format!(
            "reached {target} after {} updates ({:.2} epochs), {} of training",
            at.updates,
            at.epochs.0,
            duration(at.training_seconds.0)
        ),
        (Status::Done, _) => {
            format!("done: {} updates, {:.2} epochs", s.position.updates, s.position.epochs.0)
        }
        (Status::Budget, Some(at)) => format!(
            "budget ended; {target} was met after {} updates, but not by the final weights",
            at.updates
        ),
        (Status::Diverged, _) => {
            format!("diverged after {} updates: the loss is not finite", s.position.updates)
        }
        (Status::Interrupted, _) => format!("interrupted after {} updates", s.position.updates),
        _ => format!("budget ended before {target}: {:.2} epochs", s.position.epochs.0),
    });
    let metrics = |name: &str, m: &Option<sooner_record::Metrics>| {
        m.map(|m| {
            format!(
                "  {name:<9} {} loss {:.4}, error {:.4}, accuracy {:.4}",
                m.split, m.loss, m.error, m.accuracy
            )
        })
    };
    lines.extend(metrics("final", &s.last));
    if s.best != s.last {
        lines.extend(metrics("best", &s.best));
    }
    let t = &s.time;
    let part = |name: &str, seconds: Seconds| format!("{name} {:.2} s", seconds.0);
    let parts = [
        part("prepare", t.prepare),
        part("wait", t.wait),
        part("train", t.train),
        part("evaluate", t.evaluate),
        part("checkpoint", t.checkpoint),
        part("log", t.log),
    ];
    lines.push(format!("  time      {} = {:.2} s", parts.join(" + "), t.wall().0));
    lines.push(format!("  speed     {:.0} examples/s", s.examples_per_second));
    lines.push(format!(
        "  ceiling   {:.0} % of this machine's {:.0} GFLOP/s; at 100 % these updates take {}",
        100.0 * s.ceiling.share,
        s.ceiling.peak_gflops,
        duration(s.ceiling.seconds_at_peak.0)
    ));
    if let Some(record) = &s.record {
        lines.push(format!("  record    {record}"));
    }
    lines.join("\n")
}
