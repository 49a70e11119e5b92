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
