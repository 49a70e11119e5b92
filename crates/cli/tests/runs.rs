//! Runs of the real command, from its words to its exit code.

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{command, folder, run, tiny};

#[test]
fn exit_codes_say_how_it_ended() {
    let check = |more: &[&str], code: i32, status: &str| {
        let here = folder();
        let done = run(here.path(), &tiny(&[more, &["--out", "run", "--json"]].concat()));
        assert_eq!(done.code, Some(code), "{more:?}: {}{}", done.stdout, done.stderr);
        assert_eq!(done.json()["status"], status, "{more:?}: {}", done.stdout);
        assert_eq!(done.stderr, "", "{more:?}");
        assert!(here.path().join("run/plan.toml").is_file());
    };
    check(&["--target", "val.loss<1e9"], 0, "reached");
    check(&["--set", "run.target=none"], 0, "done");
    check(&["--target", "val.loss<1e-9"], 3, "budget");
    check(&["--target", "val.loss<1e-9", "--set", "schedule.learning_rate=1e30"], 4, "diverged");
}

#[test]
fn a_wrong_place_for_the_record_is_an_error_of_the_world() {
    let here = folder();
    fs::write(here.path().join("file"), "").expect("written");
    fs::create_dir(here.path().join("full")).expect("made");
    fs::write(here.path().join("full/plan.toml"), "").expect("written");
    for place in ["file", "file/below"] {
        let done = run(here.path(), &tiny(&["--out", place, "--json"]));
        assert_eq!(done.code, Some(1), "{place}: {}", done.stdout);
        done.json();
    }
}

/// A long run, interrupted as from the keyboard once it has begun.
#[test]
fn an_interruption_ends_cleanly() {
    let here = folder();
    let mut words = tiny(&["--target", "val.loss<1e-9", "--out", "run"]);
    let at = words.iter().position(|word| *word == "2").expect("tiny runs take 2 epochs");
    words[at] = "1e6";
    let mut child = command(here.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut opening = String::new();
    stderr.read_line(&mut opening).expect("the opening line");
    assert!(opening.starts_with("shapes-cnn: to val.loss<1e-9"), "{opening}");
    // The run log's first line is written before the opening line; what matters is that the handler is set by now or
    // that the signal ends the process, so ask until it has ended.
    let deadline = Instant::now() + Duration::from_secs(60);
    let id = child.id().to_string();
    while !here.path().join("run/run.jsonl").metadata().is_ok_and(|meta| meta.len() > 2000) {
        assert!(Instant::now() < deadline, "the run log does not grow");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(stdout.contains("interrupted after "), "{stdout}");
}

#[test]
fn stderr_is_quiet_when_nobody_watches() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--set", "run.target=none", "--out", "run"]));
    assert_eq!(done.code, Some(0));
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    let odd = |c: char| c.is_control() && c != '\n';
    assert!(!done.stderr.contains(odd) && !done.stdout.contains(odd), "{:?}{:?}", done.stderr, done.stdout);
    assert!(done.stdout.starts_with("done: "), "{}", done.stdout);
}

#[test]
fn stored_weights_have_the_metrics_of_the_run() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--set", "run.target=none", "--out", "run", "--json"]));
    let summary = done.json();
    let last = &summary["final"];
    assert_eq!(last["split"], "val", "{summary}");
    for place in ["run", "run/weights.safetensors"] {
        let done = run(here.path(), &["eval", place, "--split", "val", "--json"]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{place}");
        let eval = done.json();
        for metric in ["loss", "error", "accuracy"] {
            assert_eq!(eval["metrics"][metric], last[metric], "{place} {metric}: {eval} {last}");
        }
        assert_eq!((&eval["split"], &eval["workload"]), (&last["split"], &Value::from("shapes-cnn")));
    }
    let test = run(here.path(), &["eval", "run", "--json"]).json();
    assert_eq!(test["split"], "test");
    for (words, code) in [
        (&["eval", "nowhere", "--json"][..], 1),
        (&["eval", ".", "--json"], 1),
        (&["eval", "run/plan.toml", "--json"], 1),
        (&["eval", "run", "--split", "dev", "--json"], 2),
    ] {
        let done = run(here.path(), words);
        assert_eq!(done.code, Some(code), "{words:?} {}", done.stdout);
        done.error();
    }
}

/// Labels of mixed examples are distributions: training takes them, and what they are counts.
#[test]
fn mixed_labels_are_trained_on() {
    let stages = |mix: &str| {
        format!(
            "pipeline.stages=[{{shuffle='epoch'}},{{normalize={{mean=[0.5,0.5,0.5],std=[0.25,0.25,0.25]}}}},{{batch=20}}{mix}]"
        )
    };
    let here = folder();
    let words = ["train", "shapes-cnn", "--set", "model={kind='softmax'}", "--set", "data.train=120"];
    let more = [
        "--set",
        "data.validation=40",
        "--set",
        "data.test=30",
        "--epochs",
        "2",
        "--set",
        "run.target=none",
        "--set",
        "schedule.learning_rate=0.01",
    ];
    let loss = |name: &str, mix: &str| {
        let stages = stages(mix);
        let all = [&words[..], &more, &["--set", &stages, "--out", name, "--json"]].concat();
        let done = run(here.path(), &all);
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        done.json()["final"]["loss"].as_f64().expect("a loss")
    };
    let (plain, mixup, cutmix) =
        (loss("plain", ""), loss("mixup", ",{mixup=1.0}"), loss("cutmix", ",{cutmix=1.0}"));
    assert!([plain, mixup, cutmix].iter().all(|loss| (0.0..10.0).contains(loss)), "{plain} {mixup} {cutmix}");
    assert!(plain != mixup && mixup != cutmix && plain != cutmix, "{plain} {mixup} {cutmix}");
    let done = run(here.path(), &["rerun", "cutmix", "--json"]);
    assert_eq!(done.json()["agree"].as_bool(), Some(true), "{}", done.stdout);
}

#[test]
fn speed_is_measured() {
    let here = folder();
    let words = [
        "bench",
        "shapes-cnn",
        "--set",
        "model={kind=\"softmax\"}",
        "--batch",
        "16",
        "--threads",
        "1",
        "--json",
    ];
    let done = run(here.path(), &words);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    let bench = done.json();
    assert_eq!((&bench["batch"], &bench["threads"]), (&Value::from(16), &Value::from(1)), "{bench}");
    for key in ["examples_per_second", "gflops", "peak_gflops", "share", "updates", "resident_bytes"] {
        assert!(bench[key].as_f64().is_some_and(|value| value > 0.0), "{key} of {bench}");
    }
    assert!(bench["ops"].as_array().is_some_and(|ops| !ops.is_empty()), "{bench}");
    let brief = run(here.path(), &[&words[..], &["--seconds", "0.1"]].concat()).json();
    assert!(brief["updates"].as_f64() < bench["updates"].as_f64(), "{brief}");
    assert_eq!(
        (&brief["ops"], &brief["peak_gigabytes_per_second"]),
        (&Value::from([0; 0]), &Value::Null),
        "{brief}"
    );
    assert!(support::contents(here.path()).is_empty());
}

#[test]
fn the_first_updates_have_a_line_each() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--set", "run.target=none", "--out", "run", "--json"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let log = fs::read_to_string(here.path().join("run/run.jsonl")).expect("a log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<u64> =
        lines.iter().filter(|l| l["line"] == "progress").filter_map(|l| l["updates"].as_u64()).collect();
    let made = done.json()["position"]["updates"].as_u64().expect("a count");
    assert!(told.starts_with(&(1..=made.min(10)).collect::<Vec<_>>()), "{made} updates, lines of {told:?}");
}

/// The folder of a series is no record, and says which it holds; drawings have no folder.
#[test]
fn what_a_record_is_not() {
    let here = folder();
    let done = run(here.path(), &tiny(&["--seeds", "9,10", "--out", "s", "--target", "none"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for words in [
        &["eval", "s"][..],
        &["rerun", "s"],
        &["submit", "s", "--author", "A"],
        &["report", "s"],
        &["train", "--resume", "s"],
        &["train", "--init", "s"],
    ] {
        let done = run(here.path(), words);
        assert_eq!(done.code, Some(1), "{words:?}: {}{}", done.stdout, done.stderr);
        let json = run(here.path(), &[words, &["--json"]].concat()).error();
        let hint = json["hint"].as_str().expect("a text");
        // Settings hold paths that mean the same from any folder.
        assert!(
            hint.starts_with("it holds 2 records: name one of them") && hint.ends_with("s/seed-9`"),
            "{hint}"
        );
        assert!(done.stderr.contains(&format!("hint: {hint}")), "{words:?}: {}", done.stderr);
    }
    let done = run(here.path(), &["eval", "s/seed-9", "--data", "s"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("data drawn by code have no folder"), "{}", done.stderr);
}

/// Ctrl-C within the first run of a series, and between two of them.
#[test]
fn an_interrupted_series_says_what_it_came_to() {
    let here = folder();
    let series = |out: &str, epochs: &str, heard: &str| {
        let mut words = tiny(&["--target", "val.loss<1e-9", "--seeds", "1..2", "--out", out]);
        let at = words.iter().position(|word| *word == "2").expect("tiny runs take 2 epochs");
        words[at] = epochs;
        let mut child = command(here.path(), &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        while !said.contains(heard) {
            assert!(stderr.read_line(&mut said).expect("UTF-8") > 0, "{said}");
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("UTF-8");
        let output = child.wait_with_output().expect("it ends");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(130), "{stdout}{said}");
        assert!(said.contains(&format!("with --out {out} goes on")), "{said}");
        assert!(!said.contains("nothing was written"), "{said}");
        stdout
    };
    // Its opening line is said when its record is there.
    let first = series("first", "1e6", "shapes-cnn: to ");
    assert!(first.contains("interrupted") && !first.contains("mean") && !first.contains("n = 0"), "{first}");
    let second = series("second", "2", "seed 1: ");
    assert!(second.contains("reached by 0 of 1 that have ended"), "{second}");
    assert!(second.contains("n = 1") && !second.contains("meet"), "{second}");
    let words = tiny(&["--target", "val.loss<1e-9", "--seeds", "1..2", "--out", "second", "--json"]);
    let whole = run(here.path(), &words).json();
    assert_eq!((&whole["interrupted"], &whole["final"]["n"]), (&false.into(), &2.into()), "{whole}");
}
