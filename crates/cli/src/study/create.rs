//! `sooner study new`: a study's folder, and what its trials will cost.

use super::args::NewArgs;
use super::folder::Folder;
use super::native::trial_plan;
use super::presets::{PRESETS, preset};
use crate::machine::{self, Engine};
use crate::progress::duration;
use anyhow::Context;
use serde_json::json;
use sooner_base::MonotonicClock;
use sooner_models::Model;
use sooner_study::definition::StudyPlan;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let Some(from) = &args.from else {
        return Ok(list(args.json));
    };
    let plan = if from.ends_with(".toml") {
        let text = std::fs::read_to_string(from)
            .with_context(|| format!("cannot read the study's file `{from}`"))?;
        StudyPlan::parse(&text).with_context(|| from.clone())?
    } else {
        StudyPlan::parse(preset(from)?.toml)?
    };
    let cost = cost(&plan)?;
    let path = args.out.clone().unwrap_or_else(|| Path::new("studies").join(&plan.name));
    let folder = if args.extend {
        let mut folder = Folder::open(&path)?;
        folder.redefine(plan)?;
        folder
    } else {
        Folder::create(&path, plan)?
    };
    let trials = folder.points.len() as u64 * folder.plan.trials;
    if args.json {
        let hours = cost.map(|c| c.core_seconds / 3600.0);
        println!(
            "{}",
            json!({ "study": path.display().to_string(), "points": folder.points.len(), "trials": trials,
                "most_core_hours": hours })
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{}: {} points, {trials} feasible trials, to {}",
        path.display(),
        folder.points.len(),
        folder.plan.target
    );
    if let Some(cost) = cost {
        println!(
            "at most {} of one core at {:.0} % of its {:.0} GFLOP/s, evaluations not counted; trials that reach the \
             target or diverge end sooner, those that diverge are run beside",
            duration(cost.core_seconds),
            100.0 * SHARE,
            cost.peak_gflops
        );
    }
    println!("run it with: sooner study run {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> ExitCode {
    if json {
        let list: Vec<_> = PRESETS.iter().map(|p| json!({ "name": p.name, "about": p.about })).collect();
        println!("{}", json!({ "presets": list }));
    } else {
        let width = PRESETS.iter().map(|p| p.name.len()).max().unwrap_or(0);
        for p in PRESETS {
            println!("{:width$}  {}", p.name, p.about);
        }
    }
    ExitCode::SUCCESS
}

struct Cost {
    core_seconds: f64,
    peak_gflops: f64,
}

/// The share of the peak that small networks reach here, for an estimate of order; a run says what it was.
const SHARE: f64 = 0.4;

/// What all trials cost if each used its whole budget; none of commands. Finds out whether every point's plan is
/// possible at all, before anything is made.
fn cost(plan: &StudyPlan) -> anyhow::Result<Option<Cost>> {
    if plan.exec.is_some() {
        return Ok(None);
    }
    let mut flops = 0.0;
    for (id, point) in plan.points()?.iter().enumerate() {
        let values = plan.draw(point, 0).context("the sequence has no first trial")?;
        let typed = trial_plan(plan, point, &values, plan.trial_seed(id as u64, 0).0)
            .with_context(|| point.label())?;
        let facts = typed.data.expected_facts();
        let resolved = typed.resolve(&facts, machine::cores()).with_context(|| point.label())?;
        let model = Model::new(&resolved.model, resolved.pipeline.image_shape(facts.image), facts.classes)?;
        let examples = resolved.total_examples(facts.train_examples).0 as f64;
        flops += plan.trials as f64 * examples * model.flops_per_example()? as f64;
    }
    let peak_gflops = Engine::new(1).measure_peak(&MonotonicClock::start()).gflops;
    Ok(Some(Cost { core_seconds: flops / (SHARE * peak_gflops * 1e9), peak_gflops }))
}
