//! `sooner rerun`.

use crate::bench::{Bench, refusal};
use crate::kill::{go, plan_of};
use serde_json::Value;
use sooner_train::{Control, Observer, Progress};
use std::fs;

fn rerun(bench: &Bench, name: &str) -> (i32, Value) {
    bench.run(&["rerun", &format!("@{name}")])
}

struct StopAt(u64);

impl Observer for StopAt {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        if progress.updates.0 == self.0 { Control::Stop } else { Control::Continue }
    }
}

#[test]
fn a_record_agrees_with_its_second_run() {
    let bench = Bench::new();
    bench.train("run", &["--target", "val.loss<1000"]);
    let (code, verdict) = rerun(&bench, "run");
    assert_eq!((code, &verdict["agree"], &verdict["weights"]), (0, &true.into(), &true.into()), "{verdict}");
    // It ended at the first evaluation, and so does the second run.
    assert_eq!((&verdict["updates"], &verdict["evaluations"]["equal"]), (&7.into(), &1.into()), "{verdict}");
    assert!(!bench.path("run").join("rerun").exists());
    let (code, _) = bench.run(&["rerun", "@run", "--out", "@again"]);
    assert_eq!(code, 0);
    assert!(bench.path("again/weights.safetensors").exists(), "kept where it was asked to be");
}

#[test]
fn a_stopped_and_resumed_record_agrees_too() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    go(&bench.path("run"), &plan, 5, &mut StopAt(17)).expect("a stopped run");
    let (code, verdict) = rerun(&bench, "run");
    assert_eq!((code, &verdict["updates"]), (0, &17.into()), "{verdict}");
    assert_eq!(verdict["weights"], true, "{verdict}");
    bench.resume("run", &["--epochs", "4"]);
    let (code, verdict) = rerun(&bench, "run");
    assert_eq!((code, &verdict["updates"], &verdict["weights"]), (0, &44.into(), &true.into()), "{verdict}");
}

#[test]
fn differences_are_found() {
    let bench = Bench::new();
    bench.train("run", &[]);
    bench.copy("run", "weights");
    let path = bench.path("weights/weights.safetensors");
    let mut bytes = fs::read(&path).expect("weights");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&path, bytes).expect("other weights");
    let (code, verdict) = rerun(&bench, "weights");
    assert_eq!(
        (code, &verdict["agree"], &verdict["weights"]),
        (1, &false.into(), &false.into()),
        "{verdict}"
    );

    bench.copy("run", "seed");
    let plan = fs::read_to_string(bench.path("seed/plan.toml")).expect("a plan");
    fs::write(bench.path("seed/plan.toml"), plan.replace("seed = 5", "seed = 6")).expect("another plan");
    let (code, verdict) = rerun(&bench, "seed");
    assert_eq!((code, &verdict["agree"]), (1, &false.into()), "{verdict}");
    assert_eq!(verdict["evaluations"]["equal"], 0, "{verdict}");
    assert_eq!(verdict["first_difference"]["updates"], 1, "{verdict}");
    let text = refusal(rerun(&bench, "nothing-there"), 1);
    assert!(text.starts_with("no record"), "{text}");
}
