//! `sooner rerun`: a record's own plan, run again, and whether the bits agree.

use crate::args::RerunArgs;
use crate::commands::train::interrupts;
use crate::fail::Failure;
use crate::machine;
use crate::progress::Bar;
use crate::ready::Ready;
use anyhow::Context;
use serde::Serialize;
use sooner_base::Updates;
use sooner_engine::native::Kernels;
use sooner_plan::Stop;
use sooner_record::{Line, Log, Metrics, RunReader, RunWriter, Status, WEIGHTS_FILE};
use sooner_train::{Checkpoints, Control, Observer, Progress, Start, train};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(args: &RerunArgs) -> anyhow::Result<ExitCode> {
    let record = RunReader::open(&args.record)?;
    let Some(until) = record.log.last_update() else {
        let (place, found) = (args.record.display().to_string(), "a run that stopped before its first line");
        let expected = "a record with progress, evaluations or an end";
        return Err(Failure::world("nothing to compare", &place, [expected, found, ""]).into());
    };
    let conditions = Conditions::of(&record.log);
    let mut plan = record.plan.clone();
    plan.run.threads = conditions.threads.or(plan.run.threads);
    // The record says where its run ended, also where a target, or a person, ended it.
    // With several views the plan's own rule stays: which evaluations have them depends on it.
    if plan.run.views.is_one() {
        plan.run.stop = Stop::End;
    }
    let kernels = conditions.kernels.as_deref().and_then(machine::kernels);
    let (mut ready, watch) = Ready::new(&plan, kernels.unwrap_or(Kernels::Auto), None)?;
    let weights = ready.read_init()?;
    // What depended on time is done as it was done.
    let replay = record.log.fresh(until);

    let folder = Folder::new(args.out.as_deref());
    let mut writer = RunWriter::create(&folder.path, &ready.plan, &ready.header())?;
    let mut observer = Second { bar: Bar::new(until.0, interrupts()?), until, losses: Vec::new() };
    let start = Start { weights, replay, ..Start::default() };
    let again = train(ready.job(watch, start, Checkpoints::Never), &mut writer, &mut observer);
    observer.bar.clear();
    let again =
        again.with_context(|| format!("the second run of `{}` ended early", args.record.display()))?;
    if again.status == Status::Interrupted && again.position.updates < until {
        return Ok(ExitCode::from(130));
    }

    let mut verdict = compare(&record.log, &RunReader::open(&folder.path)?.log, &observer.losses);
    verdict.weights = same_weights(&args.record, &folder.path, &record.log)?;
    verdict.agree = verdict.agrees();
    verdict.record = args.record.display().to_string();
    (verdict.threads, verdict.kernels) = (ready.engine.pool.threads(), ready.engine.kernel_name());
    verdict.notes = conditions.notes(ready.engine.kernel_name());
    if args.json {
        println!("{}", serde_json::to_string(&verdict)?);
    } else {
        println!("{}", verdict.text());
    }
    Ok(ExitCode::from(if verdict.agree { 0 } else { 1 }))
}

/// What a record was made with, where that may decide bits.
#[derive(Default)]
struct Conditions {
    threads: Option<usize>,
    kernels: Option<String>,
    /// Whether they were not the same throughout.
    changed: bool,
    sooner: Option<String>,
}

impl Conditions {
    fn of(log: &Log) -> Conditions {
        let resumed = log.lines.iter().filter_map(|line| match line {
            Line::Resumed(resumed) => resumed.run.as_ref(),
            _ => None,
        });
        let mut conditions = Conditions::default();
        for header in log.header.iter().chain(resumed) {
            let (threads, kernels) = (Some(header.threads), header.kernels.get("native").cloned());
            let known = conditions.threads.is_some();
            conditions.changed |= known && (conditions.threads != threads || conditions.kernels != kernels);
            (conditions.threads, conditions.kernels) = (threads, kernels);
            conditions.sooner = Some(header.sooner.clone());
        }
        conditions
    }

    fn notes(&self, kernels: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.changed {
            notes.push("the record was resumed with other threads or kernels: bits may differ".to_string());
        }
        if let Some(before) = self.kernels.as_deref().filter(|before| *before != kernels) {
            notes.push(format!(
                "{kernels} kernels instead of {before}, which cannot run here: bits may differ"
            ));
        }
        let version = sooner_train::PROGRAM;
        if let Some(before) = self.sooner.as_deref().filter(|before| *before != version) {
            notes.push(format!("program {version} instead of {before}: bits may differ"));
        }
        notes
    }
}

/// Keeps every loss, and ends the second run where the first one ended.
struct Second {
    bar: Bar,
    until: Updates,
    /// Of each update's batch.
    losses: Vec<f64>,
}

impl Observer for Second {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        self.losses.push(progress.loss);
        let end = progress.updates >= self.until;
        if end { Control::Stop } else { self.bar.observe(progress) }
    }

    fn interrupted(&self) -> bool {
        self.bar.interrupted()
    }

    fn stops_waiting(&self) -> bool {
        self.bar.stops_waiting()
    }
}

/// The folder of the second record; removed again unless the user has named it.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(out: Option<&Path>) -> Folder {
        let own = || std::env::temp_dir().join(format!("sooner-rerun-{}", std::process::id()));
        Folder { path: out.map_or_else(own, Path::to_path_buf), keep: out.is_some() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing depends on it; whoever cleans the system's temporary folder finds the rest.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// How many there were to compare, and how many were the same.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Count {
    compared: usize,
    equal: usize,
}

/// The first thing that is not the same.
#[derive(Debug, PartialEq, Serialize)]
struct First {
    updates: Updates,
    what: &'static str,
    record: Option<f64>,
    rerun: Option<f64>,
}

/// The JSON object.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    record: String,
    /// Whether everything that could be compared is the same, to the bit.
    agree: bool,
    /// Updates made again.
    updates: u64,
    /// Whether the weights' files are the same; null if the record has none of its end.
    weights: Option<bool>,
    /// Progress lines: means of training losses.
    losses: Count,
    evaluations: Count,
    first_difference: Option<First>,
    threads: usize,
    kernels: &'static str,
    notes: Vec<String>,
}

impl Verdict {
    fn agrees(&self) -> bool {
        let compared = self.losses.compared + self.evaluations.compared > 0 || self.weights.is_some();
        let equal = self.losses.compared == self.losses.equal
            && self.evaluations.compared == self.evaluations.equal
            && self.weights != Some(false);
        compared && equal
    }

    fn count(&mut self, at: Updates, what: &'static str, [record, rerun]: [f64; 2]) -> bool {
        let equal = record.to_bits() == rerun.to_bits() || (record.is_nan() && !rerun.is_finite());
        if !equal && self.first_difference.as_ref().is_none_or(|first| at < first.updates) {
            let finite = |value: f64| value.is_finite().then_some(value);
            self.first_difference =
                Some(First { updates: at, what, record: finite(record), rerun: finite(rerun) });
        }
        equal
    }

    fn text(&self) -> String {
        let weights = match self.weights {
            Some(true) => "weights equal",
            Some(false) => "weights DIFFER",
            None => "no weights to compare",
        };
        let Count { compared: l, equal: le } = self.losses;
        let Count { compared: e, equal: ee } = self.evaluations;
        let say = if self.agree { "the bits agree" } else { "the bits do not agree" };
        let mut lines = vec![format!(
            "{say}: {} updates on {} threads ({}): {weights}, {le} of {l} losses equal, {ee} of {e} evaluations equal",
            self.updates, self.threads, self.kernels
        )];
        if let Some(first) = &self.first_difference {
            let value = |v: Option<f64>| v.map_or("not finite".to_string(), |v| format!("{v:?}"));
            let (record, rerun) = (value(first.record), value(first.rerun));
            let First { updates, what, .. } = first;
            lines.push(format!("  first difference: {what} at update {updates}: {record}, now {rerun}"));
        }
        lines.extend(self.notes.iter().map(|note| format!("  note: {note}")));
        lines.join("\n")
    }
}

/// Compares every evaluation, and the mean loss of every progress line over just the updates that it speaks of.
fn compare(record: &Log, again: &Log, losses: &[f64]) -> Verdict {
    let mut verdict = Verdict { updates: losses.len() as u64, ..Verdict::default() };
    let evaluated: BTreeMap<Updates, Metrics> = again
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Evaluation(e) => Some((e.at.updates, e.metrics)),
            _ => None,
        })
        .collect();
    let mut since = 0;
    for line in &record.lines {
        match line {
            Line::Resumed(resumed) => since = resumed.updates.0 as usize,
            Line::Progress(progress) => {
                let until = progress.at.updates.0 as usize;
                if let Some(own) = losses.get(since..until).filter(|own| !own.is_empty()) {
                    let mean = own.iter().sum::<f64>() / own.len() as f64;
                    let equal = verdict.count(progress.at.updates, "loss", [progress.loss, mean]);
                    verdict.losses.compared += 1;
                    verdict.losses.equal += usize::from(equal);
                }
                since = until;
            }
            Line::Evaluation(e) => {
                let same_split = |m: &&Metrics| m.split == e.metrics.split;
                if let Some(own) = evaluated.get(&e.at.updates).filter(same_split) {
                    let mut pair = |what, of: fn(&Metrics) -> f64| {
                        verdict.count(e.at.updates, what, [of(&e.metrics), of(own)])
                    };
                    let equal = pair("evaluation's loss", |m| m.loss) & pair("error", |m| m.error);
                    verdict.evaluations.compared += 1;
                    verdict.evaluations.equal += usize::from(equal);
                }
            }
            Line::Run(_) | Line::Fresh(_) | Line::End(_) => {}
        }
    }
    verdict
}

/// Whether both folders' weights are the same file; none if the record's are not those of its last line.
fn same_weights(record: &Path, again: &Path, log: &Log) -> anyhow::Result<Option<bool>> {
    let path = record.join(WEIGHTS_FILE);
    if log.summary().is_none() || !path.exists() {
        return Ok(None);
    }
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
    Ok(Some(read(&path)? == read(&again.join(WEIGHTS_FILE))?))
}
