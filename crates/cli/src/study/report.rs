//! `sooner study report`: a study's page and its figures.

use super::args::ReportArgs;
use super::exchange::read_export;
use super::files::{assets, write};
use super::folder::{Folder, read};
use crate::fail::Failure;
use serde_json::json;
use sooner_record::StoredTrial;
use sooner_report::{StudyView, study_page};
use std::collections::BTreeSet;
use std::process::ExitCode;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let (mut plan, points, trials) = if args.study.is_file() {
        let export = read_export(&args.study)?;
        let (plan, points) = read(&export.study)?;
        (plan, points, export.trials)
    } else {
        let mut folder = Folder::open_to_read(&args.study)?;
        let trials = folder.trials()?;
        (folder.plan, folder.points, trials)
    };
    if let Some(target) = &args.target {
        plan.target = target.clone();
        must_be_measured(&plan.target()?.metric, &trials)?;
    }
    let view = StudyView::new(&plan, &points, &trials)?;
    let page = study_page(&view);
    write(&args.out, &page.html)?;
    let written = if args.assets { assets(&args.out, &page.assets)? } else { Vec::new() };
    if args.json {
        println!("{}", json!({ "page": args.out.display().to_string(), "assets": written }));
    } else {
        println!("{}", args.out.display());
        for path in written {
            println!("{path}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Err if trials measured other things and never this.
fn must_be_measured(metric: &str, trials: &[StoredTrial]) -> anyhow::Result<()> {
    let all = trials.iter().flat_map(|t| &t.evaluations).flat_map(|e| e.metrics.keys());
    let names: BTreeSet<&str> = all.map(String::as_str).collect();
    if names.is_empty() || names.contains(metric) {
        return Ok(());
    }
    let expected = format!("one of {}", Vec::from_iter(names).join(", "));
    let fields = [&*expected, &format!("`{metric}`"), "`study export` has all that was measured"];
    Err(Failure::usage("no trial measured it", "--target", fields).into())
}
