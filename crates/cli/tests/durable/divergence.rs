//! Divergence is a status with the last finite loss, and the guard chooses when.

use crate::bench::Bench;
use serde_json::Value;
use sooner_record::RunReader;

/// A rate at which no network learns.
const WILD: [&str; 4] = ["--set", "schedule.learning_rate=1e6", "--set", "model.kind=softmax"];

fn run(bench: &Bench, name: &str, words: &[&str]) -> (i32, Value) {
    let out = format!("@{name}");
    bench.run(&[&["train", "@durable.toml", "--out", &out], words].concat())
}

#[test]
fn a_loss_that_is_not_finite() {
    let bench = Bench::new();
    let words = [&WILD[..], &["--set", "optimizer.weight_decay=1"]].concat();
    let (code, result) = run(&bench, "wild", &words);
    assert_eq!((code, result["status"].as_str()), (4, Some("diverged")), "{result}");
    let diverged = &result["diverged"];
    assert_eq!(diverged["updates"], result["position"]["updates"]);
    assert_eq!(diverged["loss"], Value::Null);
    let last = &diverged["last_finite"];
    assert!(last["loss"].as_f64().is_some_and(f64::is_finite), "{result}");
    assert_eq!(
        last["updates"].as_u64().expect("updates") + 1,
        diverged["updates"].as_u64().expect("updates")
    );
    let summary = RunReader::open(&bench.path("wild")).expect("a record").log.summary().cloned();
    let kept = summary.and_then(|s| s.diverged).expect("it is in the record too");
    assert_eq!(kept.last_finite.map(|l| l.loss), last["loss"].as_f64());
    // A diverged run is over.
    let (code, again) = bench.resume("wild", &["--epochs", "9"]);
    assert_eq!((code, again["status"].as_str()), (4, Some("diverged")), "{again}");
}

#[test]
fn the_guard_chooses() {
    let bench = Bench::new();
    // The loss of ten classes begins near 2.3.
    let (code, result) = run(&bench, "bound", &["--set", "guard={ loss = 1.0 }"]);
    assert_eq!((code, result["diverged"]["updates"].as_u64()), (4, Some(1)), "{result}");
    assert!(result["diverged"]["loss"].as_f64() > Some(1.0), "{result}");
    assert_eq!(result["diverged"]["last_finite"], Value::Null);
    let (code, result) = run(&bench, "wide", &["--set", "run.guard.loss=1e4"]);
    assert_eq!((code, result.get("diverged")), (0, None), "{result}");
    let words = [&WILD[..], &["--set", "optimizer.weight_decay=1", "--set", "guard=off"]].concat();
    let (code, result) = run(&bench, "off", &words);
    assert_eq!((code, result["status"].as_str()), (0, Some("done")), "{result}");
    assert_eq!(result["final"]["loss"], Value::Null);
}

#[test]
fn a_network_that_broke_down_reaches_nothing() {
    let bench = Bench::new();
    let words =
        [&WILD[..], &["--set", "optimizer.weight_decay=1", "--set", "guard=off", "--target", "val.error<=1"]]
            .concat();
    // The first evaluations may still see finite losses, and any error is at most 1: only the end is judged.
    let words = [&words[..], &["--set", "run.stop=end"]].concat();
    let (code, result) = run(&bench, "broken", &words);
    assert_eq!((code, result["status"].as_str()), (3, Some("budget")), "{result}");
    assert_eq!(result["final"]["loss"], Value::Null);
}

#[test]
fn whole_updates_may_be_more_than_was_asked_for() {
    let bench = Bench::new();
    let result = bench.train("part", &["--epochs", "0.01"]);
    assert_eq!(
        (result["position"]["updates"].as_u64(), result["rounded_from"].as_f64()),
        (Some(1), Some(0.01))
    );
    assert_eq!(bench.train("whole", &[]).get("rounded_from"), None);
}
