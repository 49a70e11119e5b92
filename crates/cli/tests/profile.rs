//! `sooner profile`, and what a run says would shorten it.

mod support;

use serde_json::Value;
use std::fs;
use support::{folder, run, tiny};

/// A linear model on a few drawings, which come over a line of so many bytes a second if any.
fn words<'a>(rate: Option<&'a str>, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["profile", "shapes-cnn", "--threads", "1", "--seconds", "0.05"];
    for set in ["model={kind=\"softmax\"}", "data.train=120", "data.validation=40", "data.test=30"] {
        words.extend(["--set", set]);
    }
    words.extend(["--set", "pipeline.stages.batch=20"]);
    if let Some(rate) = rate {
        words.extend(["--set", rate]);
    }
    words.extend(more);
    words
}

fn numbers(rows: &Value, key: &str) -> Vec<f64> {
    rows.as_array().expect("a list").iter().map(|row| row[key].as_f64().expect("a number")).collect()
}

#[test]
fn a_slow_source_is_measured_advised_on_verified_and_drawn() {
    let here = folder();
    let words = words(Some("data.rate=1MiB"), &["--json", "--verify", "-o", "lanes.svg"]);
    let done = run(here.path(), &words);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let value = done.json();
    let stages: Vec<&str> =
        value["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["read", "decode", "shuffle", "augment", "batch", "update"]);
    for key in ["items", "busy", "blocked_in", "blocked_out", "items_per_second", "bytes"] {
        assert!(value["stages"][0][key].is_number(), "{key} of {}", value["stages"][0]);
    }
    let cuts = &value["cuts"];
    let (up, down, ratio) = (numbers(cuts, "t_upstream"), numbers(cuts, "t_downstream"), numbers(cuts, "R"));
    assert_eq!(cuts[0]["position"], "after decode");
    assert_eq!(cuts[cuts.as_array().unwrap().len() - 1]["position"], "after batch");
    assert!(up.is_sorted() && down.iter().rev().is_sorted() && ratio.is_sorted(), "{cuts}");
    for k in 0..up.len() {
        assert!((ratio[k] - up[k] / down[k]).abs() <= 1e-9 * ratio[k], "{cuts}");
    }
    // 3072 bytes at 1 MiB/s are 2.93 ms; a linear model's update is far below.
    assert!(up[0] > 0.0025, "{cuts}");
    let advice = value["advice"].as_array().unwrap();
    assert!(!advice.is_empty() && value.get("reason").is_none(), "{value}");
    for row in advice {
        let of = |key: &str| row[key].as_f64().expect("a number");
        assert!(
            of("echo") > 1.0 && of("speedup_low") <= of("speedup") && of("speedup") <= of("speedup_high")
        );
        assert!(row["position"].is_string() && row["stage"].as_str().unwrap().contains("echo"), "{row}");
    }
    assert!(value["verified"]["measured"].as_f64().unwrap() > 0.0);
    assert!(value["instead"].as_array().unwrap().len() >= 3, "{value}");
    let picture = fs::read_to_string(here.path().join("lanes.svg")).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("downstream") && picture.contains("echo"));
}

#[test]
fn people_read_it_in_a_hundred_columns() {
    let here = folder();
    for rate in [Some("data.rate=1MiB"), None] {
        let done = run(here.path(), &words(rate, &[]));
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        let widest = done.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{widest} columns:\n{}", done.stdout);
        assert!(
            done.stdout.contains("an echo stage here") && done.stdout.contains("advice"),
            "{}",
            done.stdout
        );
    }
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let here = folder();
    let check = |more: &[&str]| {
        let done = run(here.path(), &words(None, &[more, &["--json"]].concat()));
        assert_eq!(done.code, Some(if more[0] == "-o" { 1 } else { 2 }), "{more:?}: {}", done.stdout);
        done.error();
    };
    check(&["--seconds=0"]);
    check(&["--seconds=nan"]);
    check(&["--set", "pipeline.tune=0"]);
    check(&["-o", "no/such/folder/lanes.svg"]);
}

/// Threads and queue are chosen before the run, recorded, and change no bit of it.
#[test]
fn tuning_is_recorded_and_changes_nothing() {
    let here = folder();
    let plain = run(here.path(), &tiny(&["--threads", "1", "--out", "plain"]));
    let tuned = run(here.path(), &tiny(&["--threads", "1", "--out", "tuned", "--set", "pipeline.tune=2"]));
    assert_eq!((plain.code, tuned.code), (tuned.code, plain.code), "{}{}", tuned.stdout, tuned.stderr);
    assert!(tuned.stderr.contains("tuned: pipeline.threads = "), "{}", tuned.stderr);
    let plan = fs::read_to_string(here.path().join("tuned/plan.toml")).expect("a plan");
    assert!(plan.contains("queue = ") && !plan.contains("tune = "), "{plan}");
    let log = fs::read_to_string(here.path().join("tuned/run.jsonl")).expect("a log");
    let first: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    let told = first["tuned"].as_str().expect("what was measured");
    assert!(told.contains("an update takes") && told.contains("with 1 thread"), "{told}");
    let tensors = |name: &str| {
        let bytes = fs::read(here.path().join(name).join("weights.safetensors")).expect("weights");
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(tensors("plain") == tensors("tuned"), "other bits");
}

/// A run that waits for data says so at its end.
#[test]
fn a_run_says_what_would_shorten_it() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--set", "data.rate=256KiB", "--json", "--target", "none"]));
    let value = done.json();
    let advice = value["advice"].as_array().expect("a list");
    assert!(advice[0].as_str().unwrap().contains("updates waited for data"), "{value}");
    let told = run(here.path(), &tiny(&["--set", "data.rate=256KiB", "--target", "none"]));
    assert!(told.stdout.contains("shorter   updates waited for data"), "{}", told.stdout);
    let mut lines = told.stdout.lines().skip_while(|line| !line.starts_with("  shorter"));
    assert!(lines.all(|line| line.chars().count() <= 100), "{}", told.stdout);
}
