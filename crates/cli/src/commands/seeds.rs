//! `sooner train --seeds`: the same plan once for each seed, and what they come to together.

use crate::args::TrainArgs;
use crate::commands::resume::go_on;
use crate::commands::train::{exit_code, interrupts, start, unused_folder};
use crate::fail::Failure;
use crate::machine;
use crate::progress::duration;
use crate::settle;
use crate::shelf::Shelf;
use serde::Serialize;
use sooner_base::{Clock, MonotonicClock, Seed, mean, sample_sd};
use sooner_plan::{DataFacts, Metric, Plan, Stop, Target};
use sooner_record::{RecordError, RunReader, Status, Summary};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most seeds of one series.
const MOST: usize = 1000;

pub(crate) fn run(args: &TrainArgs, list: &str) -> anyhow::Result<ExitCode> {
    let seeds = parse(list)?;
    let plan = settle::train_plan(args)?;
    let series = args.out.clone().unwrap_or_else(|| unused_folder(&plan.name));
    let plans: Vec<Plan> = seeds.iter().map(|&seed| Plan { seed: Seed(seed), ..plan.clone() }).collect();
    let folders: Vec<_> = seeds.iter().map(|seed| series.join(format!("seed-{seed}"))).collect();
    // All of them before the first run starts: hours later is too late to find another plan's runs here.
    let records = folders.iter().map(|folder| begun(folder)).collect::<Result<Vec<_>, _>>()?;
    let begun: Vec<(&Plan, &RunReader)> =
        plans.iter().zip(&records).filter_map(|(plan, record)| Some((plan, record.as_ref()?))).collect();
    let shelf = Shelf::default();
    let interrupted = interrupts()?;
    check_all(&plan, &begun, (&shelf, &interrupted))?;
    let mut runs = Vec::new();
    for ((plan, folder), record) in plans.iter().zip(&folders).zip(&records) {
        let over = record.as_ref().and_then(|record| record.log.summary());
        let ran = match over.filter(|summary| summary.status != Status::Interrupted) {
            Some(summary) => Ok(summary.clone()),
            None if record.is_some() => go_on(folder, &[], (&shelf, &interrupted)),
            None => {
                let quiet = args.plan.json || !runs.is_empty();
                start(plan, Some(folder), quiet, (&shelf, &interrupted))
            }
        };
        let summary = match ran {
            // Between two runs there is nothing of the next one, and what the others came to is there.
            Err(error) if Failure::is_interruption(&error) && !(runs.is_empty() && begun.is_empty()) => break,
            ran => ran?,
        };
        if !args.plan.json {
            eprintln!("seed {}: {}", plan.seed.0, said(&summary));
        }
        let stopped = summary.status == Status::Interrupted;
        runs.push(Run { seed: plan.seed.0, summary });
        if stopped {
            break;
        }
    }
    let together = Together::of(&plan, series.display().to_string(), runs, seeds.len())?;
    if together.interrupted {
        eprintln!("interrupted: the same command with --out {} goes on", series.display());
    }
    match args.plan.json {
        true => println!("{}", serde_json::to_string(&together)?),
        false => println!("{}", together.table()),
    }
    Ok(together.exit_code(plan.run.stop))
}

/// Seeds as `1..5`, both ends included, or separated by commas.
fn parse(list: &str) -> Result<Vec<u64>, Failure> {
    let refuse = |hint: &str| {
        let expected = "seeds as 1..5 (both ends included) or 1,2,7, each once";
        Failure::usage("seeds cannot be used", "--seeds", [expected, &format!("`{list}`"), hint])
    };
    let mut seeds = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let number = |text: &str| {
            crate::args::seed(text.trim().trim_start_matches('=')).map_err(|expected| refuse(&expected))
        };
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(refuse("the smaller seed comes first"));
        }
        if last - first >= MOST as u64 || seeds.len() as u64 + (last - first) >= MOST as u64 {
            return Err(refuse(&format!("at most {MOST} seeds")));
        }
        seeds.extend(first..=last);
    }
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < seeds.len() { Err(refuse("a seed is there twice")) } else { Ok(seeds) }
}

/// The run that a folder holds, over or not; none if it holds none.
fn begun(folder: &Path) -> Result<Option<RunReader>, RecordError> {
    match RunReader::open_started(folder) {
        Err(RecordError::NoRecord { .. }) => Ok(None),
        record => record.map(Some),
    }
}

/// Refuses runs of another plan. The files' headers say enough of most data; of the user's own files only reading them
/// tells how many examples a plan is resolved to.
fn check_all(
    plan: &Plan,
    begun: &[(&Plan, &RunReader)],
    (shelf, interrupted): (&Shelf, &AtomicBool),
) -> anyhow::Result<()> {
    let check = |facts: &DataFacts| -> anyhow::Result<()> {
        begun.iter().try_for_each(|(plan, record)| check_same(plan, facts, record))
    };
    if begun.is_empty() || check(&settle::peek(plan)?).is_ok() {
        return Ok(());
    }
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let unwanted = || interrupted.load(Ordering::Relaxed);
    let splits = shelf.get(&plan.data, machine::cores(), &clock, &unwanted)?;
    check(&settle::facts(&splits))
}

/// Refuses a run of another plan.
fn check_same(plan: &Plan, facts: &DataFacts, record: &RunReader) -> anyhow::Result<()> {
    // What resolving filled in there is filled in here too, from the same files; the sum of given weights is
    // only known once they are read, and is checked then.
    let mut resolved = plan.resolve(facts, machine::cores())?;
    let tuned = resolved.pipeline.tune.take().is_some();
    let chosen: &[&str] = if tuned { &["pipeline.threads", "pipeline.queue"] } else { &[] };
    // A run goes on with the threads it began with, here as with --resume.
    let may_change = |key: &str| matches!(key, "run.init.crc32" | "run.threads" | "pipeline.threads");
    let differences = resolved.differences(&record.plan);
    let decided_there = |key: &str| may_change(key) || chosen.contains(&key);
    let Some(d) = differences.iter().find(|d| !decided_there(&d.key)) else { return Ok(()) };
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_string());
    let fields = [
        &*format!("a run of the same plan: {} = {}", d.key, shown(&d.this)),
        &format!("{} = {}", d.key, shown(&d.other)),
        "choose another --out, or give the settings that the series began with",
    ];
    Err(Failure::world(
        "the folder holds a run of another plan",
        &record.folder.display().to_string(),
        fields,
    )
    .into())
}

fn said(s: &Summary) -> String {
    let metrics = s.last.map_or(String::new(), |m| format!(", {} accuracy {:.4}", m.split, m.accuracy));
    let time = duration(s.position.training_seconds.0);
    format!("{}{metrics}, {:.2} epochs, {time} of training", s.status, s.position.epochs.0)
}

/// One seed's run.
#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    summary: Summary,
}

impl Run {
    fn has_ended(&self) -> bool {
        self.summary.status != Status::Interrupted
    }
}

/// A sample's size, mean and standard deviation (n - 1); null where there are too few.
#[derive(Debug, Serialize)]
struct Sample {
    n: usize,
    mean: Option<f64>,
    sd: Option<f64>,
}

impl Sample {
    fn of(values: &[f64]) -> Sample {
        Sample { n: values.len(), mean: mean(values), sd: sample_sd(values) }
    }

    fn text(&self, show: impl Fn(f64) -> String) -> String {
        let part = |name: &str, value: Option<f64>| value.map(|v| format!("{name}{}", show(v)));
        let parts: Vec<String> =
            [part("mean ", self.mean), part("sd ", self.sd), Some(format!("n = {}", self.n))]
                .into_iter()
                .flatten()
                .collect();
        parts.join(", ")
    }
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Together {
    workload: String,
    folder: String,
    target: Option<String>,
    /// What `final` is of: the target's, or accuracy.
    metric: String,
    #[serde(skip)]
    of: Metric,
    runs: Vec<Run>,
    /// Whether the series ended before all of its seeds had their runs.
    interrupted: bool,
    /// Runs whose status is `reached`.
    reached: usize,
    diverged: usize,
    /// Of the weights that each run ended with, those that diverged left out.
    #[serde(rename = "final")]
    last: Sample,
    /// Whether the mean meets the target; null without one, and while not all runs have ended.
    mean_meets_target: Option<bool>,
    /// Over the runs that reached it.
    updates_to_target: Sample,
    training_seconds: Sample,
    wall_seconds: Sample,
    /// Share of the ceiling.
    share: Sample,
}

impl Together {
    fn of(plan: &Plan, folder: String, runs: Vec<Run>, wanted: usize) -> anyhow::Result<Together> {
        let target = plan.target()?;
        let metric = target.as_ref().map_or(Metric::Accuracy, |t| t.metric);
        let interrupted = runs.iter().filter(|run| run.has_ended()).count() < wanted;
        let over = |r: &&Run| r.has_ended() && r.summary.status != Status::Diverged;
        let sample = |value: &dyn Fn(&Summary) -> Option<f64>| {
            Sample::of(&runs.iter().filter(over).filter_map(|r| value(&r.summary)).collect::<Vec<_>>())
        };
        let count = |status| runs.iter().filter(|r| r.summary.status == status).count();
        let last = sample(&|s| s.last.map(|m| m.get(metric)));
        let met = |target: &Target| last.mean.filter(|_| !interrupted).map(|mean| target.met(mean));
        Ok(Together {
            workload: plan.name.clone(),
            folder,
            mean_meets_target: target.as_ref().and_then(met),
            interrupted,
            of: metric,
            metric: format!("{}.{metric}", plan.evaluation_split()),
            target: plan.run.target.clone(),
            reached: count(Status::Reached),
            diverged: count(Status::Diverged),
            updates_to_target: sample(&|s| {
                s.reached_at.filter(|_| s.status == Status::Reached).map(|at| at.updates.0 as f64)
            }),
            training_seconds: sample(&|s| Some(s.position.training_seconds.0)),
            wall_seconds: sample(&|s| Some(s.position.wall_seconds.0)),
            share: sample(&|s| Some(s.ceiling.share)),
            last,
            runs,
        })
    }

    /// With the end judged, the mean decides, as in a race over seeds; else every run has to reach the target.
    fn exit_code(&self, stop: Stop) -> ExitCode {
        let has = |status| self.runs.iter().any(|r| r.summary.status == status);
        let met = stop == Stop::End && self.mean_meets_target == Some(true);
        let worst = [Status::Diverged, Status::Budget].into_iter().find(|s| has(*s));
        match worst {
            _ if self.interrupted => exit_code(Status::Interrupted),
            Some(Status::Budget) if met => ExitCode::SUCCESS,
            worst => exit_code(worst.unwrap_or(Status::Done)),
        }
    }

    fn table(&self) -> String {
        let mut lines = vec![format!(
            "{:>6}  {:<11}  {:>14}  {:>8}  {:>12}  {:>12}  {:>6}",
            "seed", "status", self.metric, "epochs", "training", "wall", "share"
        )];
        for Run { seed, summary: s } in &self.runs {
            let value = s.last.map_or("-".to_string(), |m| format!("{:.4}", m.get(self.of)));
            lines.push(format!(
                "{seed:>6}  {:<11}  {value:>14}  {:>8.2}  {:>12}  {:>12}  {:>4.0} %",
                s.status.to_string(),
                s.position.epochs.0,
                duration(s.position.training_seconds.0),
                duration(s.position.wall_seconds.0),
                100.0 * s.ceiling.share,
            ));
        }
        let ended = self.runs.iter().filter(|run| run.has_ended()).count();
        if self.last.n > 0 {
            lines.push(format!("  final     {} {}", self.metric, self.last.text(|v| format!("{v:.4}"))));
        }
        if let Some(target) = self.target.as_ref().filter(|_| ended > 0) {
            let mean = match (self.mean_meets_target, self.interrupted) {
                (_, true) => " that have ended",
                (Some(true), false) => "; the mean meets it",
                (Some(false), false) => "; the mean does not meet it",
                (None, false) => "",
            };
            lines.push(format!("  target    {target} reached by {} of {ended}{mean}", self.reached));
        }
        if self.diverged > 0 {
            lines.push(format!(
                "  diverged  {} of {}, left out of the means",
                self.diverged,
                self.runs.len()
            ));
        }
        if self.updates_to_target.n > 0 {
            lines.push(format!(
                "  updates   to target: {}",
                self.updates_to_target.text(|v| format!("{v:.0}"))
            ));
        }
        if self.last.n > 0 {
            lines.push(format!("  training  {}", self.training_seconds.text(duration)));
            lines.push(format!("  wall      {}", self.wall_seconds.text(duration)));
        }
        lines.push(format!("  records   {}", self.folder));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn seeds_are_listed() {
        assert_eq!(parse("1..5").unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(parse("7").unwrap(), [7]);
        assert_eq!(parse("3, 1 ,8..9").unwrap(), [3, 1, 8, 9]);
        for wrong in [
            "",
            "5..1",
            "1,1",
            "1..3,2",
            "a",
            "-1",
            "1..",
            "0..1000",
            "0..9223372036854775807",
            "1.5",
            "9223372036854775808",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("0..999").unwrap().len(), 1000);
        assert_eq!(parse("9223372036854775807").unwrap(), [i64::MAX as u64]);
        assert!(parse("0..998,1000..1001").is_err(), "1001 seeds");
    }
}
