//! `sooner submit`: what a racer hands in. DAWNBench's description and table, the plan, the machine, the whole log.

use crate::args::SubmitArgs;
use crate::fail::Failure;
use crate::settle;
use serde_json::json;
use sooner_plan::{Plan, Split};
use sooner_record::{Evaluation, Header, LOG_FILE, Line, Log, PLAN_FILE, RunReader};
use sooner_study::{first_at_goal, parse_dawnbench};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    settle::goal(args.goal)?;
    let record = RunReader::open(&args.record)?;
    let place = args.record.display().to_string();
    let (Some(header), Some(summary)) = (&record.log.header, record.log.summary()) else {
        let hint = format!("`sooner train --resume {place}` ends it");
        let fields = ["a run that has ended", "a log without an end", &hint];
        return Err(Failure::world("the run is not over", &place, fields).into());
    };
    let rows = test_evaluations(&record.log);
    if rows.is_empty() {
        let hint = "train with a target on it, e.g. --target 'test.accuracy>=0.94'";
        let fields = ["evaluations of the test split", "none", hint];
        return Err(Failure::world("nothing to hand in", &place, fields).into());
    }
    let table = table(&rows);
    let name = entry_name(&record.plan, header);
    let time = first_at_goal(&parse_dawnbench(&name, &table)?, args.goal).map(|row| row.time.0);

    let folder = args.out.clone().unwrap_or_else(|| args.record.join("submission"));
    prepare(&folder)?;
    let description = description(args, &record.plan, header, &name);
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(|error| {
            let fields = ["a file that can be written", &error.to_string(), ""];
            Failure::world("cannot write", &path.display().to_string(), fields)
        })
    };
    write(&format!("{name}.tsv"), &table)?;
    write(&format!("{name}.json"), &format!("{}\n", serde_json::to_string_pretty(&description)?))?;
    for file in [PLAN_FILE, LOG_FILE] {
        let (from, to) = (record.folder.join(file), folder.join(file));
        fs::copy(&from, &to).map_err(|error| {
            let fields = ["a file that can be copied", &error.to_string(), ""];
            Failure::world("cannot copy", &from.display().to_string(), fields)
        })?;
    }
    if args.json {
        let whole = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone());
        let report = json!({
            "folder": whole.display().to_string(), "name": name, "goal": args.goal, "seconds": time,
            "final": summary.last, "rows": rows.len(),
        });
        println!("{report}");
    } else {
        let time = time.map_or("not reached".to_string(), |seconds| format!("{seconds:.1} s"));
        println!("{}\n  time to {} test accuracy: {time}", folder.display(), args.goal);
    }
    Ok(ExitCode::SUCCESS)
}

fn test_evaluations(log: &Log) -> Vec<&Evaluation> {
    let evaluations = log.lines.iter().filter_map(|line| match line {
        Line::Evaluation(e) if e.metrics.split == Split::Test => Some(e),
        _ => None,
    });
    evaluations.collect()
}

/// One row an evaluation. The hours are those of the training clock: preparing the data is in them, evaluation and
/// checkpoints are not, as DAWNBench's rules have it.
fn table(rows: &[&Evaluation]) -> String {
    let mut text = "epoch\thours\ttop1Accuracy\n".to_string();
    for row in rows {
        // Rounding down, so that no goal is met that the run did not meet.
        let percent = ((row.metrics.accuracy * 1e6 + 1e-6).floor() / 1e4).to_string();
        let hours = row.at.training_seconds.0 / 3600.0;
        text += &format!("{}\t{hours:.8}\t{percent}\n", row.at.epochs.0);
    }
    text
}

/// A name for files: the plan's and the kind of machine.
fn entry_name(plan: &Plan, header: &Header) -> String {
    let text =
        format!("{}_{}core-{}_sooner-{}", plan.name, header.threads, header.machine.arch, header.sooner);
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}

fn description(args: &SubmitArgs, plan: &Plan, header: &Header, name: &str) -> serde_json::Value {
    let machine = &header.machine;
    let hardware = args.hardware.clone().unwrap_or_else(|| {
        format!("{}, {} cores, {} threads used", machine.cpu, machine.cores, header.threads)
    });
    json!({
        "version": "v1.0",
        "author": args.author,
        "authorEmail": args.email,
        "framework": format!("sooner {}", header.sooner),
        "codeURL": args.code_url,
        "model": plan.name,
        "hardware": hardware,
        "costPerHour": args.cost_per_hour,
        "timestamp": header.started_unix.map(date),
        "logFilename": format!("{name}.tsv"),
        "misc": {
            "os": machine.os,
            "architecture": machine.arch,
            "kernels": header.kernels,
            "threads": header.threads,
            "seed": header.seed,
            "peakGFLOPs": header.peak_gflops,
            "commandLine": format!("sooner train {PLAN_FILE} --data DIR"),
            "plan": plan,
        },
    })
}

/// The UTC date of a time in seconds since 1970.
fn date(unix: f64) -> String {
    jiff::Timestamp::from_second(unix as i64).unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Makes the folder; one that holds something is left alone.
fn prepare(folder: &Path) -> Result<(), Failure> {
    let place = folder.display().to_string();
    let refuse = |found: &str, hint: &str| {
        Failure::world(
            "cannot write a submission there",
            &place,
            ["an empty folder, or none yet", found, hint],
        )
    };
    fs::create_dir_all(folder).map_err(|error| refuse(&error.to_string(), ""))?;
    match fs::read_dir(folder).map_err(|error| refuse(&error.to_string(), ""))?.next() {
        None => Ok(()),
        Some(_) => Err(refuse("files in it", "choose another --out")),
    }
}
