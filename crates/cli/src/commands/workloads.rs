//! `sooner workloads`: the built-in plans.

use crate::args::WorkloadsArgs;
use crate::settle::builtin;
use serde_json::json;
use sooner_models::workloads;
use std::process::ExitCode;

pub(crate) fn run(args: &WorkloadsArgs) -> anyhow::Result<ExitCode> {
    match &args.name {
        Some(name) => {
            let workload = builtin(name)?;
            if args.json {
                let plan = sooner_plan::Plan::parse(workload.toml)?;
                println!("{}", json!({ "workload": workload.name, "about": workload.about, "plan": plan }));
            } else {
                print!("{}", workload.toml);
            }
        }
        None if args.json => {
            let list: Vec<_> =
                workloads().iter().map(|w| json!({ "name": w.name, "about": w.about })).collect();
            println!("{}", json!({ "workloads": list }));
        }
        None => {
            let width = workloads().iter().map(|w| w.name.len()).max().unwrap_or(0);
            for w in workloads() {
                println!("{:width$}  {}", w.name, w.about);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
