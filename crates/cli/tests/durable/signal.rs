//! Ctrl-C.

use crate::bench::{Bench, judge};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Waits for something, within a deadline.
pub(crate) fn wait_for(what: &str, seconds: u64, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !holds() {
        assert!(Instant::now() < deadline, "no {what} within {seconds} s");
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_ends_after_the_update_and_the_run_goes_on() {
    let bench = Bench::new();
    // Long enough to be interrupted on any machine.
    let words = ["train", "@durable.toml", "--out", "@run", "--epochs", "40"];
    let mut command = bench.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    wait_for("evaluation", 120, || {
        std::fs::read_to_string(bench.log("run")).is_ok_and(|log| log.contains("\"evaluation\""))
    });
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    let (code, result) = judge(child.wait_with_output().expect("the command ends"));
    assert_eq!((code, result["status"].as_str()), (130, Some("interrupted")), "{result}");
    let stopped = result["position"]["updates"].as_u64().expect("updates");
    assert!(bench.checkpoint("run").exists() && stopped > 0);

    bench.train("whole", &["--epochs", "40"]);
    bench.resume_to_equal("run", &[], "whole");
    assert_eq!(bench.resumptions("run"), [stopped]);
}

/// While data are read there is no run yet, and nothing that could be kept.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_before_the_run_leaves_nothing() {
    let bench = Bench::new();
    // Drawing so many takes longer than noticing the signal.
    let words = ["train", "@durable.toml", "--out", "@run", "--set", "data.train=200000"];
    let child = bench
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let pid = child.id();
    // Bit 1 of the caught signals is SIGINT's, once the command listens for it.
    let listens = |status: &str| {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0)
    };
    wait_for("listening for Ctrl-C", 60, || {
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| listens(&status))
    });
    Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill starts");
    let output = child.wait_with_output().expect("the command ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let (code, result) = judge(output);
    assert_eq!(code, 130, "{result}");
    assert_eq!(result["error"]["what"], "interrupted before the run began", "{result}");
    assert!(stderr.contains("once more ends at once"), "{stderr}");
    assert!(!bench.path("run").exists());
}
