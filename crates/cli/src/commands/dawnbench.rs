//! `sooner dawnbench`: the result of each DAWNBench table, the time of its first row at or over the goal.

use crate::args::DawnbenchArgs;
use crate::fail::Failure;
use crate::settle;
use serde::Serialize;
use sooner_study::{DawnBenchRow, first_at_goal, parse_dawnbench};
use std::path::Path;
use std::process::ExitCode;

/// One file's result. All but the file are null where the goal is not reached.
#[derive(Debug, Serialize)]
struct Entry {
    file: String,
    seconds: Option<f64>,
    epoch: Option<f64>,
    accuracy: Option<f64>,
    line: Option<usize>,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    goal: f64,
    entries: Vec<Entry>,
}

pub(crate) fn run(args: &DawnbenchArgs) -> anyhow::Result<ExitCode> {
    settle::goal(args.goal)?;
    // Every file is read before anything is printed: a malformed one must not hide behind a partial answer.
    let results = args
        .files
        .iter()
        .map(|file| Ok((file.as_path(), first_at_goal(&read(file)?, args.goal).copied())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        let entries = results.iter().map(|(file, row)| entry(file, row.as_ref())).collect();
        println!("{}", serde_json::to_string(&Report { goal: args.goal, entries })?);
    } else {
        for (file, row) in &results {
            let alike = results.iter().filter(|(other, _)| other.file_name() == file.file_name()).count();
            let time = row.map_or("not reached".to_string(), |row| format!("{:.1}", row.time.0));
            println!("{}\t{time}", label(file, alike > 1));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> anyhow::Result<Vec<DawnBenchRow>> {
    let name = file.display().to_string();
    let unreadable = |found: &str| {
        Failure::world("cannot read the table", &name, ["a text file, tab-separated", found, ""])
    };
    let bytes = std::fs::read(file).map_err(|error| unreadable(&error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| unreadable(&error.utf8_error().to_string()))?;
    Ok(parse_dawnbench(&name, &text)?)
}

fn entry(file: &Path, row: Option<&DawnBenchRow>) -> Entry {
    Entry {
        file: file.display().to_string(),
        seconds: row.map(|row| row.time.0),
        epoch: row.map(|row| row.epoch.0),
        accuracy: row.map(|row| row.accuracy),
        line: row.map(|row| row.line),
    }
}

/// The file's name without its folder, unless another of the files has the same name.
fn label(file: &Path, whole: bool) -> String {
    match file.file_name() {
        Some(name) if !whole => name.to_string_lossy().into_owned(),
        _ => file.display().to_string(),
    }
}
