//! `sooner submit`: what a racer hands in. DAWNBench's description and table, the plan, the machine, the whole log.

use crate::args::SubmitArgs;
use crate::fail::Failure;
use crate::settle;
use serde_json::json;
use sooner_plan::{Plan, Split, Views};
use sooner_record::{Evaluation, Header, LOG_FILE, Line, Log, PLAN_FILE, Position, RunReader, Seen};
use sooner_study::{first_at_goal, parse_dawnbench};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    settle::goal(args.goal)?;
    if args.author.trim().is_empty() {
        let fields = ["a name", &*format!("`{}`", args.author), ""];
        return Err(Failure::usage("the author has no name", "--author", fields).into());
    }
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
    let (rows, apart) = of_one_kind(&rows);
    let table = table(&rows);
    let name = entry_name(&record.plan, header);
    let time = first_at_goal(&parse_dawnbench(&name, &table)?, args.goal).map(|row| row.time.0);
    // The final weights may meet the goal only as they are judged.
    let judged = apart.filter(|end| end.metrics.accuracy >= args.goal);
    let time = time.or(judged.map(|end| end.at.training_seconds.0));

    let folder = args.out.clone().unwrap_or_else(|| args.record.join("submission"));
    prepare(&folder)?;
    let mut description = description(args, &record.plan, header, &name);
    description["misc"]["views"] = json!(rows[0].views);
    if let Some(end) = apart {
        description["misc"]["final"] = json!({
            "views": end.seen.map(|seen| seen.views), "top1Accuracy": percent(end.metrics.accuracy),
            "epoch": end.at.epochs, "hours": hours(&end.at),
        });
    }
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
            "final": summary.last, "rows": rows.len(), "views": rows[0].views,
        });
        println!("{report}");
    } else {
        let time = time.map_or("not reached".to_string(), |seconds| format!("{seconds:.1} s"));
        println!("{}\n  time to {} test accuracy: {time}", folder.display(), args.goal);
        if let Some(Seen { views, one }) = apart.and_then(|end| end.seen) {
            let accuracy = apart.map_or(0.0, |end| end.metrics.accuracy);
            println!(
                "  the end: {accuracy:.4} by {} views of each image; {:.4} by one, as all rows of the table are",
                views.count(),
                one.accuracy
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A row of the table: an accuracy, when it was measured, and from how many views of each image.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    at: Position,
    accuracy: f64,
    views: Views,
}

/// The evaluations as rows that can be compared: by the views that all of them had, or each by one view. Where the last
/// had more, it comes back to be told apart.
fn of_one_kind<'e>(rows: &[&'e Evaluation]) -> (Vec<Measured>, Option<&'e Evaluation>) {
    let views = |row: &Evaluation| row.seen.map_or(Views::One, |seen| seen.views);
    let all = rows.first().map_or(Views::One, |row| views(row));
    let alike = rows.iter().all(|row| views(row) == all);
    let measured = |row: &&Evaluation| match row.seen {
        Some(seen) if !alike => Measured { at: row.at, accuracy: seen.one.accuracy, views: Views::One },
        _ => Measured { at: row.at, accuracy: row.metrics.accuracy, views: views(row) },
    };
    let apart = rows.last().copied().filter(|last| !alike && last.seen.is_some());
    (rows.iter().map(measured).collect(), apart)
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
fn table(rows: &[Measured]) -> String {
    let mut text = "epoch\thours\ttop1Accuracy\n".to_string();
    for Measured { at, accuracy, .. } in rows {
        text += &format!("{}\t{:.8}\t{}\n", at.epochs.0, hours(at), percent(*accuracy));
    }
    text
}

fn hours(at: &Position) -> f64 {
    at.training_seconds.0 / 3600.0
}

/// Rounding down, so that no goal is met that the run did not meet.
fn percent(accuracy: f64) -> f64 {
    (accuracy * 1e6 + 1e-6).floor() / 1e4
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
    // Drawings are made anew.
    let data = if plan.data.kind.has_files() { " --data DIR" } else { "" };
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
            "commandLine": format!("sooner train {PLAN_FILE}{data}"),
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
