//! `sooner train`: plan, data, run, summary.

use crate::args::TrainArgs;
use crate::closing::closing;
use crate::commands::{resume, seeds};
use crate::fail::Failure;
use crate::machine;
use crate::progress::Bar;
use crate::ready::Ready;
use crate::settle;
use crate::shelf::Shelf;
use crate::shorten::{Told, advice};
use anyhow::Context;
use sooner_engine::native::Kernels;
use sooner_plan::Plan;
use sooner_plan::RunPlan;
use sooner_record::{RunWriter, Status, Summary};
use sooner_train::{Checkpoints, Start, Stopwatch, train};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.resume {
        return resume::run(args, folder);
    }
    if let Some(list) = &args.seeds {
        return seeds::run(args, list);
    }
    let typed = settle::train_plan(args)?;
    let summary = start(&typed, args.out.as_deref(), args.plan.json, (&Shelf::default(), &interrupts()?))?;
    report(&summary, &typed, args.plan.json)
}

/// Begins a run and goes to its end.
pub(crate) fn start(
    typed: &Plan,
    folder: Option<&Path>,
    quiet: bool,
    (shelf, interrupted): (&Shelf, &Arc<AtomicBool>),
) -> anyhow::Result<Summary> {
    let unwanted = || interrupted.load(Ordering::Relaxed);
    let (mut ready, watch) = Ready::on_shelf(typed, Kernels::Auto, None, (shelf, &unwanted))?;
    let (weights, replay) = (ready.read_init()?, ready.read_replay()?);
    begin_unless(interrupted)?;
    let folder = folder.map_or_else(|| unused_folder(&ready.plan.name), Path::to_path_buf);
    let writer = RunWriter::create(&folder, &ready.plan, &ready.header())?;
    if let Some(note) = machine::oversubscribed(ready.engine.pool.threads()) {
        eprintln!("note: {note}");
    }
    if !quiet {
        eprintln!("{}", opening(&ready));
        ready.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    drive(&ready, watch, Start { weights, replay, ..Start::default() }, writer, interrupted)
}

/// Refuses to begin where the user has asked to end while data were read.
pub(crate) fn begin_unless(interrupted: &AtomicBool) -> Result<(), Failure> {
    if interrupted.load(Ordering::Relaxed) { Err(Failure::interrupted()) } else { Ok(()) }
}

/// Runs to the end, with a progress bar.
pub(crate) fn drive(
    ready: &Ready,
    watch: Stopwatch,
    start: Start,
    mut writer: RunWriter,
    interrupted: &Arc<AtomicBool>,
) -> anyhow::Result<Summary> {
    let mut bar = Bar::new(ready.total_updates(), interrupted.clone());
    let summary = train(ready.job(watch, start, Checkpoints::Auto), &mut writer, &mut bar);
    bar.clear();
    summary.with_context(|| {
        let folder = writer.folder().display();
        format!("the run in `{folder}` ended early (`sooner train --resume {folder}` goes on from its last checkpoint)")
    })
}

/// Prints what a run of a plan came to, and returns the exit code of its status.
pub(crate) fn report(summary: &Summary, plan: &Plan, json: bool) -> anyhow::Result<ExitCode> {
    let advice = advice(summary, plan);
    if json {
        println!("{}", serde_json::to_string(&Told { advice, summary })?);
    } else {
        println!("{}", closing(summary, &advice));
    }
    Ok(exit_code(summary.status))
}

/// Exit codes: 0 target reached (or nothing to reach and done), 3 budget ended before the target, 4 diverged, 130
/// interrupted.
pub(crate) fn exit_code(status: Status) -> ExitCode {
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
        eprintln!("interrupted: ending as soon as what is under way is done; once more ends at once");
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(flag)
}

/// `runs/NAME-TIME`, with a number behind it if two runs start within the same second.
pub(crate) fn unused_folder(name: &str) -> PathBuf {
    let time = machine::timestamp(machine::unix_seconds());
    let base = Path::new("runs").join(format!("{name}-{time}"));
    let numbered = (2..).map(|n| Path::new("runs").join(format!("{name}-{time}-{n}")));
    std::iter::once(base).chain(numbered).find(|f| !f.exists()).expect("some number is free")
}

/// How batches are cut; nothing if they are not.
pub(crate) fn parts(run: &RunPlan) -> String {
    match (run.replicas, run.accumulate) {
        (1, 1) => String::new(),
        (replicas, 1) => format!(" in {replicas} replicas"),
        (1, accumulate) => format!(" in {accumulate} parts, one after the other"),
        (replicas, accumulate) => format!(" in {} parts on {replicas} replicas", replicas * accumulate),
    }
}

fn opening(ready: &Ready) -> String {
    let Ready { plan, engine, peak_gflops, .. } = ready;
    let target = plan.run.target.as_deref().unwrap_or("the end of its schedule");
    let parts = parts(&plan.run);
    format!(
        "{}: to {target}, at most {} epochs of batch {}{parts}, on {} threads ({}, peak {peak_gflops:.0} GFLOP/s)",
        plan.name,
        plan.run.epochs,
        plan.batch_size(),
        engine.pool.threads(),
        engine.kernel_name(),
    )
}
