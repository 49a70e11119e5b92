//! What may change when a run is resumed, and what may not.

use crate::bench::{Bench, PER_EPOCH, refusal};
use crate::kill::{Moment, go, killed, plan_of};
use serde_json::Value;
use sooner_record::{CHECKPOINT_FILE, Checkpoint, CheckpointAbout, Status, TensorRef, write_checkpoint};
use sooner_train::{Control, Observer, Progress};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

struct Quiet;

impl Observer for Quiet {
    fn observe(&mut self, _: &Progress<'_>) -> Control {
        Control::Continue
    }
}

fn updates(result: &Value) -> u64 {
    result["position"]["updates"].as_u64().expect("updates")
}

#[test]
fn more_epochs_move_the_end_and_not_the_schedule() {
    let bench = Bench::new();
    bench.train("plan", &["--epochs", "2"]);
    // Through the library, so that there is a checkpoint at the end of this very short run too.
    go(&bench.path("short"), &plan_of(&bench, "plan"), 1, &mut Quiet).expect("a run");
    assert_eq!(plan_of(&bench, "short").schedule.horizon(), Some(2.0));
    let settings = ["--set", "schedule.horizon=2", "--set", "run.epochs=3.5"];
    let long = bench.train("long", &settings);
    let (code, result) = bench.resume("short", &["--epochs", "3.5"]);
    assert_eq!((code, updates(&result)), (0, updates(&long)), "{result}");
    let weights = |name: &str| std::fs::read(bench.path(name).join("weights.safetensors")).expect("weights");
    assert!(weights("short") == weights("long"));
    assert_eq!(plan_of(&bench, "short").schedule, plan_of(&bench, "long").schedule);
    let (code, result) = bench.resume("short", &["--epochs", "1"]);
    let text = refusal((code, result), 2);
    assert!(text.contains("already further"), "{text}");
}

#[test]
fn another_target_is_judged_by_what_was_measured() {
    let bench = Bench::new();
    bench.train("plan", &["--epochs", "3"]);
    let mut plan = plan_of(&bench, "plan");
    plan.set("run.target=val.accuracy>=0.999").expect("a target");
    // Through the library, so that there is a checkpoint at the end of this very short run too.
    let first = go(&bench.path("run"), &plan, 1, &mut Quiet).expect("a run");
    assert_eq!(first.status, Status::Budget);
    // The last evaluation meets this one: there is nothing to train.
    let accuracy = first.last.expect("an evaluation").accuracy;
    let target = format!("val.accuracy>={accuracy}");
    let (code, reached) = bench.resume("run", &["--target", &target]);
    assert_eq!((code, &reached["status"]), (0, &Value::from("reached")), "{reached}");
    assert_eq!(updates(&reached), 3 * PER_EPOCH);
    // Another split has not been evaluated yet; now it is.
    let (code, other) = bench.resume("run", &["--target", "test.loss<1000"]);
    assert_eq!((code, &other["final"]["split"]), (0, &Value::from("test")), "{other}");
    // And a hard one again needs more epochs to try.
    let (code, longer) = bench.resume("run", &["--target", "val.accuracy>=0.999", "--epochs", "4"]);
    assert!([0, 3].contains(&code), "{longer}");
    assert!(updates(&longer) > 3 * PER_EPOCH, "{longer}");
    assert!(longer["best"]["accuracy"].as_f64() >= Some(accuracy), "{longer}");
}

#[test]
fn a_run_that_is_over_says_so() {
    let bench = Bench::new();
    let first = bench.train("run", &[]);
    let before = std::fs::read(bench.log("run")).expect("a log");
    let output = bench.command(&["train", "--resume", "@run", "--threads", "1"]).output().expect("starts");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is over"), "{output:?}");
    let (code, again) = crate::bench::judge(output);
    assert_eq!((code, again), (0, first));
    assert_eq!(std::fs::read(bench.log("run")).expect("a log"), before, "the record is left alone");
}

/// Everything that a folder holds, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let named = |path: PathBuf| (path.display().to_string(), std::fs::read(&path).expect("readable"));
    entries.map(named).collect()
}

#[test]
fn a_finished_run_without_a_checkpoint_is_left_alone() {
    let bench = Bench::new();
    bench.train("run", &["--epochs", "1"]);
    assert!(!bench.checkpoint("run").exists(), "too short for one");
    let before = files(&bench.path("run"));
    for (words, again) in [
        (["--epochs", "2"], "--set run.epochs=2.0"),
        (["--target", "val.accuracy>=0.9"], "--target \"val.accuracy>=0.9\""),
    ] {
        let text = refusal(bench.resume("run", &words), 1);
        assert!(text.starts_with("the run is over and kept no checkpoint"), "{text}");
        let hint = format!("sooner train {}/plan.toml {again} --out ANOTHER", bench.path("run").display());
        assert!(text.contains(&hint), "{text}");
        assert!(files(&bench.path("run")) == before, "{words:?} changed the record");
    }
    // What the hint says works.
    let plan = format!("{}/plan.toml", bench.path("run").display());
    let (code, longer) = bench.run(&["train", &plan, "--set", "run.epochs=2.0", "--out", "@another"]);
    assert_eq!((code, updates(&longer)), (0, 2 * PER_EPOCH), "{longer}");
}

#[test]
fn what_cannot_go_on_leaves_the_record_alone() {
    let bench = Bench::new();
    bench.train("plan", &[]);
    killed(&bench.path("run"), &plan_of(&bench, "plan"), 1, Moment::After(2 * PER_EPOCH));
    let before = files(&bench.path("run"));
    let text = refusal(bench.resume("run", &["--epochs", "1"]), 2);
    assert!(text.contains("already further"), "{text}");
    assert!(files(&bench.path("run")) == before, "the plan that was refused is not the record's");
    bench.resume_to_equal("run", &[], "plan");
}

#[test]
fn anything_else_is_refused_with_a_reason() {
    let bench = Bench::new();
    bench.train("run", &[]);
    let check = |words: &[&str], expect: &str| {
        let text = refusal(bench.resume("run", words), 2);
        assert!(text.contains(expect), "{words:?}: {text}");
        assert!(text.contains("the run's own plan decides this"), "{words:?}: {text}");
    };
    check(&["@durable.toml"], "WORKLOAD");
    check(&["--seed", "5"], "--seed 5");
    check(&["--data", "somewhere"], "bring them there");
    check(&["--out", "elsewhere"], "its own folder");
    check(&["--init", "w"], "--init w");
    check(&["--set", "optimizer.momentum=0.5"], "--set optimizer.momentum=0.5");
    check(&["--set", "guard=off"], "--set guard=off");
    check(&["--set", "schedule.horizon=9"], "start a new one");
    let text = refusal(bench.resume("nothing-there", &[]), 1);
    assert!(text.starts_with("no record"), "{text}");
    let text = refusal(bench.resume("run", &["--epochs", "nan"]), 2);
    assert!(text.contains("run.epochs"), "{text}");
}

#[test]
fn other_threads_say_that_bits_may_differ() {
    let bench = Bench::new();
    bench.train("plan", &["--epochs", "1"]);
    go(&bench.path("run"), &plan_of(&bench, "plan"), 1, &mut Quiet).expect("a run");
    let words = ["train", "--resume", "@run", "--epochs", "2", "--threads", "1"];
    let output = bench.command(&words).output().expect("the command starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(crate::bench::judge(output).0, 0, "{stderr}");
    assert!(stderr.contains("1 engine threads instead of 2: the last bits may differ"), "{stderr}");
    assert_eq!(plan_of(&bench, "run").run.threads, Some(1));
}

#[test]
fn another_program_says_that_bits_may_differ() {
    let bench = Bench::new();
    bench.train("plan", &["--epochs", "1"]);
    let mut plan = plan_of(&bench, "plan");
    plan.set("run.epochs=2").expect("a length");
    killed(&bench.path("run"), &plan, 1, Moment::After(5));
    let path = bench.path("run").join(CHECKPOINT_FILE);
    let notes = || {
        let output = bench.command(&["train", "--resume", "@run"]).output().expect("the command starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(crate::bench::judge(output).0, 0, "{stderr}");
        stderr
    };
    let written = std::fs::read(&path).expect("a checkpoint");
    bench.copy("run", "kept");
    assert!(!notes().contains("may differ"), "the same program");
    std::fs::remove_dir_all(bench.path("run")).expect("removed");
    bench.copy("kept", "run");
    std::fs::write(&path, written).expect("written");

    // As another build of the same version would have written it.
    let Checkpoint { about, tensors } = Checkpoint::read(&path).expect("a checkpoint");
    let tensors: Vec<TensorRef<'_>> = tensors
        .iter()
        .map(|(name, tensor)| TensorRef { name, shape: &tensor.shape, values: &tensor.values })
        .collect();
    let before = format!("{}+00000000", env!("CARGO_PKG_VERSION"));
    let about = CheckpointAbout { sooner: before.clone(), ..about };
    write_checkpoint(&path, &about, &tensors).expect("written");
    let stderr = notes();
    let told = format!("program {} instead of {before}: the last bits may differ", sooner_train::PROGRAM);
    assert!(stderr.contains(&told), "{stderr}");
}
