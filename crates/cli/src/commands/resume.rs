//! `sooner train --resume DIR`: a run goes on as if it had never been stopped.

use crate::args::TrainArgs;
use crate::commands::train::{begin_unless, drive, interrupts, report};
use crate::fail::Failure;
use crate::machine;
use crate::ready::Ready;
use crate::settle::quoted;
use crate::shelf::Shelf;
use sooner_engine::native::Kernels;
use sooner_plan::{Plan, Setting};
use sooner_record::{
    Change, Checkpoint, CheckpointAbout, Line, Log, PLAN_FILE, Resumed, RunReader, RunWriter, Status,
    Summary, WEIGHTS_FILE,
};
use sooner_train::{MAY_CHANGE, PARTS, ResumeError, Start, TrainError, check_resumable};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(args: &TrainArgs, folder: &Path) -> anyhow::Result<ExitCode> {
    let summary = go_on(folder, &changes(args)?, (&Shelf::default(), &interrupts()?))?;
    report(&summary, &RunReader::open_started(folder)?.plan, args.plan.json)
}

/// Goes on with a run to its end, with these changes to its plan; what a run that is over came to.
pub(crate) fn go_on(
    folder: &Path,
    settings: &[Setting],
    (shelf, interrupted): (&Shelf, &Arc<AtomicBool>),
) -> anyhow::Result<Summary> {
    let record = RunReader::open_started(folder)?;
    let mut typed = record.plan.clone();
    typed.apply(settings)?;
    typed.check_without_data()?;
    if let Some(summary) = finished(&record, &typed)? {
        eprintln!("the run in `{}` is over: there is nothing to go on with", folder.display());
        return Ok(summary.clone());
    }

    let checkpoint = Checkpoint::find(folder)?;
    if let (None, Some(summary)) = (&checkpoint, over(&record)) {
        return Err(kept_none(folder, summary, settings).into());
    }
    if let Some(checkpoint) = &checkpoint {
        check_resumable(&typed, &checkpoint.about)?;
        typed.run.threads.get_or_insert(checkpoint.about.threads);
    }
    let before = Before::of(checkpoint.as_ref().map(|c| &c.about), &record.log);
    let kernels = before.kernels.and_then(machine::kernels).unwrap_or(Kernels::Auto);
    let spent = checkpoint.as_ref().map(|c| (c.about.time, c.about.preprocess));
    let unwanted = || interrupted.load(Ordering::Relaxed);
    let (mut ready, watch) = Ready::on_shelf(&typed, kernels, spent, (shelf, &unwanted))?;
    let weights = match checkpoint {
        Some(_) => None,
        None => ready.read_init()?,
    };

    let updates = checkpoint.as_ref().map(|c| c.about.position.updates).unwrap_or_default();
    match updates.0 {
        0 => eprintln!("`{}` has no checkpoint with updates: starting over", folder.display()),
        n => eprintln!("going on from update {n} of {}", ready.total_updates()),
    }
    before.warnings(&ready).iter().for_each(|warning| eprintln!("note: {warning}"));
    let evaluations = record.log.lines.iter().filter_map(|line| match line {
        Line::Evaluation(evaluation) if evaluation.at.updates <= updates => Some(evaluation.clone()),
        _ => None,
    });
    // Without `auto` there is none, and none is asked for.
    let fresh = record.log.fresh(updates).unwrap_or_default();
    let replay = ready.read_replay()?;
    let start = Start { model: None, weights, checkpoint, evaluations: evaluations.collect(), fresh, replay };
    begin_unless(interrupted)?;
    let differences = record.plan.differences(&ready.plan).into_iter();
    let changed = differences.map(|d| Change { key: d.key, from: d.this, to: d.other }).collect();
    let header = ready.header();
    let resumed = Resumed { updates, run: Some(header.clone()), changed };
    let writer = RunWriter::resume(folder, &ready.plan, &header, &resumed)?;
    drive(&ready, watch, start, writer, interrupted)
}

/// The settings that may come with `--resume`; anything else is a usage error that says why.
fn changes(args: &TrainArgs) -> Result<Vec<Setting>, anyhow::Error> {
    let refuse = |option: &str, given: Option<String>| match given {
        Some(given) => Err(not_with_resume(option, &given)),
        None => Ok(()),
    };
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|p| p.display().to_string());
    refuse("WORKLOAD", args.plan.workload.clone())?;
    refuse("--data", path(&args.plan.data))?;
    refuse("--seed", args.seed.map(|seed| seed.to_string()))?;
    refuse("--init", path(&args.init))?;
    refuse("--out", path(&args.out))?;
    let mut settings = args.plan.set.iter().map(|s| Setting::parse(s)).collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = settings.iter().find(|s| !MAY_CHANGE.contains(&&*s.key) && !PARTS.contains(&&*s.key))
    {
        return Err(not_with_resume("--set", &format!("{}={}", other.key, other.value)).into());
    }
    if let Some(target) = &args.target {
        settings.push(Setting::option("--target", "run.target", &quoted(target)));
    }
    if let Some(epochs) = args.epochs {
        // The end alone moves: the resolved plan's horizon is its own key.
        settings.push(Setting::option("--epochs", "run.epochs", &format!("{epochs:?}")));
    }
    if let Some(threads) = args.plan.threads {
        settings.push(Setting::option("--threads", "run.threads", &threads.to_string()));
    }
    if let Some(replicas) = args.plan.replicas {
        settings.push(Setting::option("--replicas", "run.replicas", &replicas.to_string()));
    }
    Ok(settings)
}

fn not_with_resume(option: &str, given: &str) -> Failure {
    let hint = match option {
        "--out" => "the run goes on in its own folder; to keep the old state, copy the folder first",
        "--data" => "the record's plan says where the data are (data.path in plan.toml): bring them there",
        _ => {
            "another value makes another run: start a new one, with --init DIR if its weights are to be the beginning"
        }
    };
    Failure::usage(
        "the run's own plan decides this",
        &format!("{option} {given}"),
        [
            "with --resume only --target, --epochs, --threads, --replicas (with --set run.accumulate=N, so that batches \
             have as many parts), --set pipeline.threads=N, --set pipeline.on_bad=skip, --set run.noise_scale=N and --json",
            option,
            hint,
        ],
    )
}

/// What a run came to that has ended by itself and left its weights; those that somebody removed are made again.
fn over(record: &RunReader) -> Option<&Summary> {
    let ended = |summary: &&Summary| summary.status != Status::Interrupted;
    record.log.summary().filter(ended).filter(|_| record.folder.join(WEIGHTS_FILE).exists())
}

/// Starting over would take a finished run's record away before there is another.
fn kept_none(folder: &Path, summary: &Summary, settings: &[Setting]) -> Failure {
    let place = folder.display().to_string();
    let changes: Vec<String> = settings
        .iter()
        .map(|setting| match &*setting.key {
            // The end alone moves, as it would have here.
            "run.epochs" => format!("--set run.epochs={}", setting.value),
            _ => setting.from.clone(),
        })
        .collect();
    let found =
        format!("none: it ended after {} updates, too soon to be worth one", summary.position.updates);
    let hint = format!(
        "`sooner train {place}/{PLAN_FILE} {} --out ANOTHER` trains it anew; its record is left as it is",
        changes.join(" ")
    );
    let fields = ["a checkpoint to go on from", &*found, &*hint];
    Failure::world("the run is over and kept no checkpoint", &place, fields)
}

/// What a run that is over came to, unless the plan now gives it something to go on to.
fn finished<'r>(record: &'r RunReader, plan: &Plan) -> Result<Option<&'r Summary>, TrainError> {
    let Some(summary) = over(record) else { return Ok(None) };
    let changed = record.plan.run.target != plan.run.target || record.plan.run.epochs != plan.run.epochs;
    if summary.status == Status::Diverged || !changed {
        return Ok(Some(summary));
    }
    if plan.run.epochs < summary.position.epochs.0 {
        return Err(ResumeError::Over { end: plan.run.epochs, at: summary.position.epochs.0 }.into());
    }
    Ok(None)
}

/// What the run so far was computed with, where that may decide bits.
struct Before<'a> {
    sooner: Option<&'a str>,
    threads: Option<usize>,
    kernels: Option<&'a str>,
}

impl<'a> Before<'a> {
    fn of(checkpoint: Option<&'a CheckpointAbout>, log: &'a Log) -> Before<'a> {
        match (checkpoint, &log.header) {
            (Some(c), _) => {
                Before { sooner: Some(&c.sooner), threads: Some(c.threads), kernels: Some(&c.kernels) }
            }
            // Starting over, there is nothing that bits could differ from; the same kernels are still the best guess.
            (None, Some(header)) => Before {
                sooner: None,
                threads: None,
                kernels: header.kernels.get("native").map(String::as_str),
            },
            (None, None) => Before { sooner: None, threads: None, kernels: None },
        }
    }

    /// What of it is another now.
    fn warnings(&self, ready: &Ready) -> Vec<String> {
        let (threads, kernels) = (ready.engine.pool.threads(), ready.engine.kernel_name());
        let mut changes = Vec::new();
        if let Some(before) = self.threads.filter(|before| *before != threads) {
            changes.push(format!("{threads} engine threads instead of {before}"));
        }
        if let Some(before) = self.kernels.filter(|before| *before != kernels) {
            changes.push(format!("{kernels} kernels instead of {before}, which this machine cannot execute"));
        }
        let version = sooner_train::PROGRAM;
        if let Some(before) = self.sooner.filter(|before| *before != version) {
            changes.push(format!("program {version} instead of {before}"));
        }
        let end = "the last bits may differ from those of a run that was never stopped";
        changes.into_iter().map(|change| format!("{change}: {end}")).collect()
    }
}
