//! `sooner data`: the published sets, whether files are what was published, fetching them; what
//! any data hold, and packing them.

mod fetch;
mod get;
mod pack;
mod stat;

pub(crate) use get::run as get;
pub(crate) use pack::run as pack;
pub(crate) use stat::run as stat;

use crate::args::{DataListArgs, DataSetArgs};
use crate::fail::Failure;
use serde_json::{Value, json};
use sooner_pipeline::published::{Checked, PublishedSet, sets};
use std::process::ExitCode;

/// The set of this name, or an error that names the nearest.
fn set_named(name: &str) -> Result<&'static PublishedSet, Failure> {
    sets().iter().find(|set| set.name == name).ok_or_else(|| {
        let names: Vec<&str> = sets().iter().map(|set| set.name).collect();
        let hint = match sooner_plan::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`sooner data list` says more about them".to_string(),
        };
        let expected = format!("one of {}", names.join(", "));
        Failure::usage("no such data set", "NAME", [&expected, &format!("`{name}`"), &hint])
    })
}

pub(crate) fn list(args: &DataListArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        println!("{}", json!({ "sets": sets().iter().map(describe).collect::<Vec<_>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    let width = sets().iter().map(|set| set.name.len()).max().unwrap_or(0);
    for set in sets() {
        println!("{:width$}  {}", set.name, set.about);
        println!("{:width$}  {} to download; terms: {}", "", megabytes(download_bytes(set)), set.terms);
    }
    println!("\n`sooner data get NAME DIR` fetches one; `--data DIR` then trains on it.");
    Ok(ExitCode::SUCCESS)
}

fn describe(set: &PublishedSet) -> Value {
    let files: Vec<Value> = set
        .files
        .iter()
        .map(|file| json!({ "name": file.name, "bytes": file.bytes, "md5": file.md5, "sha256": file.sha256 }))
        .collect();
    let downloads: Vec<Value> = set
        .downloads
        .iter()
        .map(|download| {
            let addresses: Vec<String> =
                download.addresses.iter().map(|address| format!("{address}{}", download.name)).collect();
            json!({ "name": download.name, "bytes": download.bytes, "md5": download.md5, "addresses": addresses })
        })
        .collect();
    json!({
        "name": set.name, "about": set.about, "terms": set.terms, "folder": set.folder,
        "files": files, "downloads": downloads,
    })
}

pub(crate) fn check(args: &DataSetArgs) -> anyhow::Result<ExitCode> {
    let set = set_named(&args.name)?;
    let checked = set.check(&args.dir)?;
    if args.json {
        println!("{}", report(set, &checked));
    } else {
        let sum = |counts: &[usize]| counts.iter().sum::<usize>();
        for file in &checked.files {
            println!("{}  {}  {} bytes", file.md5, file.path.display(), file.bytes);
        }
        println!(
            "{}: all {} files are as their authors published them: {} training and {} test examples of {} classes",
            set.name,
            checked.files.len(),
            sum(&checked.train),
            sum(&checked.test),
            checked.classes.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The JSON object of `check`, and of `get` once all is there.
fn report(set: &PublishedSet, checked: &Checked) -> Value {
    let files: Vec<Value> = checked
        .files
        .iter()
        .map(|file| {
            let path = file.path.display().to_string();
            json!({ "path": path, "bytes": file.bytes, "md5": file.md5, "sha256": file.sha256 })
        })
        .collect();
    let classes: Vec<Value> = checked
        .classes
        .iter()
        .zip(&checked.train)
        .zip(&checked.test)
        .map(|((name, train), test)| json!({ "name": name, "train": train, "test": test }))
        .collect();
    json!({
        "name": set.name, "ok": true, "files": files, "classes": classes,
        "train_examples": checked.train.iter().sum::<usize>(),
        "test_examples": checked.test.iter().sum::<usize>(),
    })
}

fn download_bytes(set: &PublishedSet) -> u64 {
    set.downloads.iter().map(|download| download.bytes).sum()
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
