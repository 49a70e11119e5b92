//! The command on the authors' own files. `SOONER_DATA` names a folder that holds `mnist/`, `fashion-mnist/` and
//! `cifar-10-batches-bin/`; without it these tests skip, loudly. Lines go to stdout past the test harness's capture,
//! so that a log shows which of them ran.

mod support;

use serde_json::Value;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use support::{real_data, say};

/// Trains, checks what every run must satisfy, and returns the JSON object.
fn train(words: &[&str], folder: &std::path::Path) -> Value {
    let out = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_sooner"))
        .arg("train")
        .args(words)
        .arg("--data")
        .arg(folder)
        .arg("--out")
        .arg(out.path().join("run"))
        .arg("--json")
        .output()
        .expect("the command starts");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let result: Value = serde_json::from_str(stdout.trim_end()).expect("exactly one JSON object");
    assert_eq!(result["status"], "reached", "{result}");
    let time = result["time"].as_object().expect("time");
    let sum: f64 = time.values().map(|v| v.as_f64().expect("seconds")).sum();
    let wall = result["position"]["wall_seconds"].as_f64().expect("wall_seconds");
    assert!((sum - wall).abs() < 1e-6 * wall.max(1.0), "{sum} {wall}");
    say(&format!(
        "REAL DATA result: {} {} reached at epoch {} in {:.1} s of training, {:.0} examples/s, share {:.2}",
        words.join(" "),
        result["target"].as_str().unwrap_or(""),
        result["reached_at"]["epochs"],
        result["reached_at"]["training_seconds"].as_f64().unwrap_or(f64::NAN),
        result["examples_per_second"].as_f64().unwrap_or(f64::NAN),
        result["ceiling"]["share"].as_f64().unwrap_or(f64::NAN),
    ));
    result
}

/// Runs use all cores: one at a time, or each is slower for nothing.
static ALONE: Mutex<()> = Mutex::new(());

fn check(test: &str, set: &str, workload: &str, (target, epochs): (&str, f64)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(folder) = real_data(test, set).map(|root| root.join(set)) else { return };
    let result = train(&[workload, "--target", target, "--epochs", &epochs.to_string()], &folder);
    let reached = result["reached_at"]["epochs"].as_f64().expect("epochs");
    assert!(reached <= epochs, "{result}");
}

#[test]
fn mnist_cnn_is_under_two_percent_within_two_epochs() {
    check("mnist-cnn", "mnist", "mnist-cnn", ("val.error<0.02", 2.0));
}

#[test]
fn fashion_cnn_is_under_thirteen_percent_within_four_epochs() {
    check("fashion-cnn", "fashion-mnist", "fashion-cnn", ("val.error<0.13", 4.0));
}

#[test]
fn resnet8_on_cifar10_is_under_forty_percent_within_three_epochs() {
    check("cifar10-resnet8", "cifar-10-batches-bin", "cifar10-resnet8", ("val.error<0.40", 3.0));
}
