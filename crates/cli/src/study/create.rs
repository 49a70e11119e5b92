//! `sooner study new`: a study's folder, and what its trials will cost.

use super::args::NewArgs;
use super::cost::{Cost, PointCost, cost};
use super::folder::{Folder, Kept};
use super::presets::{PRESETS, preset};
use anyhow::Context;
use serde_json::{Value, json};
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
    let path = args.out.clone().unwrap_or_else(|| Path::new("studies").join(&plan.name));
    if !args.extend {
        Folder::must_not_be(&path)?;
    }
    if !args.json && plan.exec.is_none() {
        eprintln!("measuring what updates cost at each point");
    }
    let cost = cost(&plan)?;
    let (folder, kept) = if args.extend {
        let mut folder = Folder::open(&path)?;
        let kept = folder.redefine(plan)?;
        (folder, kept)
    } else {
        (Folder::create(&path, plan)?, Kept::default())
    };
    let trials = folder.points.len() as u64 * folder.plan.trials;
    if args.json {
        let hours = cost.as_ref().map(Cost::core_hours);
        let points = cost.map(|c| c.points.iter().map(PointCost::json).collect::<Vec<Value>>());
        println!(
            "{}",
            json!({ "study": path.display().to_string(), "points": folder.points.len(), "trials": trials,
                "most_core_hours": hours, "costs": points, "cut_by_another_budget": kept.short,
                "judged_by_another_target": kept.target })
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
        tell(&cost);
    }
    if let Some(target) = kept.target {
        println!(
            "trials that ended when they reached {target} are judged by {} now, from the evaluations that they have",
            folder.plan.target
        );
    }
    for label in kept.short {
        println!(
            "at {label} trials that did not reach the target ended by the budget of before and stay as they are; \
             another study (--out DIR) would run them by this one"
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

fn hours(hours: f64) -> String {
    if hours < 0.1 { format!("{:.0} core-seconds", 3600.0 * hours) } else { format!("{hours:.1} core-hours") }
}

fn tell(cost: &Cost) {
    let width = cost.points.iter().map(|p| p.label.len()).max().unwrap_or(5).max(5);
    println!(
        "{:width$}  {:>6} {:>9} {:>9} {:>12} {:>9} {:>11}",
        "point", "trials", "updates", "ms each", "evaluations", "s each", "core-hours"
    );
    for p in &cost.points {
        println!(
            "{:width$}  {:>6} {:>9} {:>9.2} {:>12} {:>9.2} {:>11.2}",
            p.label,
            p.trials,
            p.updates,
            1e3 * p.seconds_per_update,
            p.evaluations,
            p.seconds_per_evaluation,
            p.core_hours()
        );
    }
    println!(
        "at most {}, by the CPU time of updates made just now on this machine; trials that reach the target, diverge or cannot be the \
         best any more end sooner, and for each that diverges another is run",
        hours(cost.core_hours())
    );
}
