//! The main job of the README, and what makes it worth its name: a linear model cannot do it.

use serde_json::Value;
use std::process::Command;

fn train(words: &[&str]) -> (Option<i32>, Value) {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_sooner"))
        .arg("train")
        .args(words)
        .arg("--out")
        .arg(out.path().join("run"))
        .arg("--json")
        .output()
        .expect("the command starts");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let result = serde_json::from_str(stdout.trim_end()).expect("one JSON object");
    (output.status.code(), result)
}

#[test]
fn the_default_workload_reaches_its_target() {
    let (code, result) = train(&[]);
    assert_eq!((code, result["status"].as_str()), (Some(0), Some("reached")), "{result}");
    assert_eq!(result["target"], "val.accuracy>=0.90");
    assert!(result["reached_at"]["epochs"].as_f64().expect("epochs") >= 1.0, "{result}");
}

/// The best accuracy of softmax regression on one split.
fn softmax_accuracy(split: &str) -> f64 {
    let target = format!("{split}.accuracy>=0.99");
    let rate = "schedule.learning_rate=0.003";
    let words = ["--set", "model.kind=softmax", "--set", rate, "--epochs", "20", "--target", &target];
    let (code, result) = train(&words);
    assert_eq!((code, result["status"].as_str()), (Some(3), Some("budget")), "{result}");
    result["best"]["accuracy"].as_f64().expect("accuracy")
}

#[test]
fn softmax_regression_does_not_come_near() {
    let (seen, unseen) = (softmax_accuracy("train"), softmax_accuracy("val"));
    assert!(seen > 0.25, "it was trained well above chance on what it saw: {seen}");
    assert!(unseen < 0.50, "the drawings need more than a linear model: {unseen}");
}
