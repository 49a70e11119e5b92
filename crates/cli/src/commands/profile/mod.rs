//! `sooner profile`: measures the plan's own pipeline and update, and says what would shorten the time: where and how
//! often to echo, and what faster reading, more threads or caching would give instead.

mod instead;
mod report;
pub(crate) mod text;
mod worth;

use crate::args::ProfileArgs;
use crate::fail::Failure;
use crate::machine;
use crate::progress::Counter;
use crate::ready::Ready;
use crate::settle;
use instead::Instead;
use report::{Advice, Report, Verified};
use sooner_base::Batch;
use sooner_engine::State;
use sooner_engine::native::Kernels;
use sooner_pipeline::{CutTimes, Gauge, Profile, Side};
use sooner_plan::{EchoFactor, EchoPlan, PipelinePlan, Plan, StagePlan};
use sooner_report::{LanePair, lanes_picture};
use sooner_study::{EchoPlace, PlaceAdvice, SharedCores, TimeLaw, advise};
use std::path::Path;
use std::process::ExitCode;
use worth::Worths;

/// The most uses that are advised: in the paper more than 4 to 8 need more fresh examples again (Choi et al., 2019).
const MOST_ECHO: u32 = EchoFactor::DEFAULT_MAX;

pub(crate) fn run(args: &ProfileArgs) -> anyhow::Result<ExitCode> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        let fields = ["seconds above 0, at most 3600", &*args.seconds.to_string(), ""];
        return Err(Failure::usage("value cannot be used", "--seconds", fields).into());
    }
    let unwritable = |path: &Path, found: &str| {
        let fields = ["a file in a folder that is there", found, ""];
        Failure::world("cannot write the picture", &path.display().to_string(), fields)
    };
    if let Some(path) = &args.out {
        // Before minutes of measuring.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(unwritable(path, "no such folder, or a folder of that name").into());
        }
    }
    let typed = settle::plan(&args.plan, &[])?;
    let worths = Worths::of(&args.records)?;
    let (ready, _) = Ready::new(&typed, Kernels::Auto, None)?;
    ready.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let report = measure(&ready, args, &worths)?;
    if let Some(path) = &args.out {
        std::fs::write(path, picture(&report)).map_err(|error| unwritable(path, &error.to_string()))?;
    }
    if args.plan.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", text::text(&report));
        if let Some(path) = &args.out {
            println!("picture: {}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything that is measured, and what follows from it.
fn measure(ready: &Ready, args: &ProfileArgs, worths: &Worths) -> anyhow::Result<Report> {
    let plan = &ready.plan;
    let mut programs = ready.programs()?;
    // All sizes of batches before any of them is timed.
    let sizes = plan.pace(ready.facts.train_examples).batch_sizes();
    let sizes: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
    let vars = programs.compile(&sizes, &plan.optimizer)?;
    let mut state = State::init(&vars, plan.seed);
    // A rate of zero keeps the values finite however long this takes; the work is the same.
    let mut update = |batch: &Batch| -> anyhow::Result<()> {
        programs.run_still(&mut state, batch, plan)?;
        Ok(())
    };
    let gauge = ready.gauge(args.seconds);
    let more = instead::more_threads(plan.pipeline.threads, machine::cores());
    let total = gauge.measurements()? + more.len() + usize::from(args.verify);
    let bar = Counter::of_items(total as u64, "measurements");
    let profile = gauge.profile(&mut update, &mut || bar.advance(1));
    let profile = profile.inspect_err(|_| bar.clear())?;
    // Bytes from a network, or of a line held to a rate, go on arriving while a worker does something else.
    let arrives =
        plan.data.rate.is_some() || plan.data.path.as_ref().is_some_and(|path| path.contains("://"));
    let laws = laws(&profile, plan.pipeline.threads, arrives);
    let advice = advised(&profile, &laws, &plan.pipeline, worths);
    let instead = instead::all(&gauge, &profile, more, &mut || bar.advance(1));
    let instead = instead.inspect_err(|_| bar.clear())?;
    let stages: Vec<EchoPlan> = advice.iter().map(|advice| stage(advice, &profile, &gauge)).collect();
    let verified = match (args.verify, advice.first()) {
        (true, Some(best)) => {
            let cut = &profile.cuts[best.place].cut;
            let plan = echoed(&plan.pipeline, cut.index, stages[0]);
            let (side, idle, _) = gauge.together(&plan, &mut update).inspect_err(|_| bar.clear())?;
            Some(Verified::new(&profile, best, side, idle))
        }
        _ => None,
    };
    bar.clear();
    let advice = advice.into_iter().zip(stages);
    let advice = advice.map(|(advice, echo)| Advice::new(advice, echo, &profile, plan)).collect();
    Ok(Report::new(ready, &profile, Outcome { laws, advice, instead, verified, worths: worths.clone() }))
}

/// What follows from a profile.
struct Outcome {
    laws: Vec<TimeLaw>,
    advice: Vec<Advice>,
    instead: Vec<Instead>,
    verified: Option<Verified>,
    worths: Worths,
}

/// The time law at each cut, on this machine's cores and the plan's pipeline threads.
fn laws(profile: &Profile, threads: usize, arrives: bool) -> Vec<TimeLaw> {
    let cores = machine::cores() as f64;
    // What updates alone take: the last cut that has nothing of the pipeline behind it.
    let update = profile.cuts.last().map_or(Side::default(), |last| last.downstream);
    let law = |cut: &CutTimes| {
        let (up, down) = (cut.upstream, cut.downstream);
        // Busy seconds grow where threads wait for cores; CPU seconds do not, but are the difference of larger ones.
        let behind = down.workers.0.min((down.work - update.work).0.max(0.0));
        let workers = match threads {
            // Everything in the trainer's thread, one after the other.
            0 => SharedCores { cores: 1.0, up_work: up.seconds.0, down_work: down.seconds.0 },
            n => {
                let up_work = if arrives { up.work.0 } else { up.workers.0 };
                SharedCores { cores: n as f64, up_work, down_work: behind }
            }
        };
        let shared = SharedCores { cores, up_work: up.work.0, down_work: down.work.0 };
        TimeLaw { up: up.seconds.0, down: down.seconds.0, shared: Some(shared), workers: Some(workers) }
    };
    profile.cuts.iter().map(law).collect()
}

/// Where echo pays; places are cuts. Ahead of a shuffle it never is advised: repeats would then be spread over the whole
/// epoch, and all of it held.
fn advised(profile: &Profile, laws: &[TimeLaw], plan: &PipelinePlan, worths: &Worths) -> Vec<PlaceAdvice> {
    let stages = sooner_pipeline::without_echo(plan).stages;
    let shuffle = stages.iter().position(|stage| matches!(stage, StagePlan::Shuffle(_)));
    let behind = |cut: &CutTimes| shuffle.is_none_or(|at| cut.cut.index > at);
    let first = profile.cuts.iter().position(behind).unwrap_or(profile.cuts.len());
    let place = |(cut, law): (&CutTimes, &TimeLaw)| EchoPlace {
        position: cut.cut.position.clone(),
        value: worths.at(cut.cut.repeats).value,
        law: *law,
    };
    let places: Vec<EchoPlace> = profile.cuts.iter().zip(laws).skip(first).map(place).collect();
    let mut advice = advise(&places, MOST_ECHO);
    advice.iter_mut().for_each(|advice| advice.place += first);
    advice
}

/// The echo stage to add: with a buffer that spreads repeats over some batches, as far as the budget allows.
fn stage(advice: &PlaceAdvice, profile: &Profile, gauge: &Gauge) -> EchoPlan {
    let cut = &profile.cuts[advice.place];
    let factor = EchoFactor::Fixed(advice.echo);
    let budget = gauge.plan.budget_bytes().map_or(0, |bytes| bytes.0) / 4;
    let fit = (budget / cut.item.0.max(1)) as usize;
    let batch = gauge.plan.batch_size().unwrap_or(1);
    let wanted = match cut.cut.repeats {
        sooner_pipeline::Repeats::Batches => 0,
        // Eight batches: then the repeats of an example are about as many batches apart.
        _ => (8 * batch).min(gauge.data.len()),
    };
    let buffer = wanted.min(fit.saturating_mul(advice.echo as usize));
    EchoPlan { factor, buffer: if buffer < 2 { 0 } else { buffer } }
}

/// The pipeline with an echo stage at a place of it; one that was there is gone.
fn echoed(plan: &PipelinePlan, index: usize, echo: EchoPlan) -> PipelinePlan {
    let mut plan = sooner_pipeline::without_echo(plan);
    plan.stages.insert(index, StagePlan::Echo(echo));
    plan
}

/// The setting that makes this plan's stages those with echo.
fn setting(plan: &Plan, index: usize, echo: EchoPlan) -> String {
    let stages = echoed(&plan.pipeline, index, echo).stages;
    format!("pipeline.stages=[{}]", stages.iter().map(inline).collect::<Vec<_>>().join(", "))
}

/// A stage as it is written in a plan.
fn inline(stage: &StagePlan) -> String {
    toml::Value::try_from(stage).expect("stages are tables").to_string()
}

/// The two lanes as they are, and as advised.
fn picture(report: &Report) -> String {
    let heading = |echo: f64, position: &str, seconds: f64, idle: f64| {
        let what = if echo == 1.0 { "as it is".to_string() } else { format!("echo {echo} {position}") };
        format!("{what}: {} a fresh example, downstream idle {:.0} %", text::short(seconds), 100.0 * idle)
    };
    let pair = |cut: &report::Cut, echo: f64, seconds: f64| {
        let pair =
            LanePair { heading: String::new(), up: cut.t_upstream, down: cut.t_downstream, echo, seconds };
        LanePair { heading: heading(echo, &cut.position, seconds, pair.idle()), ..pair }
    };
    // Without advice, the cut at which most could be gained is shown as it is.
    let best = report.advice.first();
    let at = best.map_or(report.cuts.len().saturating_sub(1), |advice| advice.cut);
    let Some(cut) = report.cuts.get(at) else { return lanes_picture(&report.workload, &[]) };
    let mut pairs = vec![pair(cut, 1.0, cut.seconds)];
    pairs.extend(best.map(|advice| pair(cut, advice.echo, advice.seconds)));
    let title = format!("{}: R = {} {}", report.workload, text::digits(cut.ratio), cut.position);
    lanes_picture(&title, &pairs)
}
