//! Files that were cut, changed, exchanged or removed, and disks that are full.

use crate::bench::{Bench, judge, refusal, without};
use crate::kill::{go, plan_of};
use sooner_record::{RecordError, RunReader};
use sooner_train::{Control, Observer, Progress, TrainError};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Stops, or does something, after an update.
struct After<'a>(u64, &'a dyn Fn() -> Control);

impl Observer for After<'_> {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        if progress.updates.0 == self.0 { self.1() } else { Control::Continue }
    }
}

/// A whole run, and one that stopped after 20 updates and has a checkpoint there.
fn stopped() -> Bench {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    go(&bench.path("stopped"), &plan, 20, &mut After(20, &|| Control::Stop)).expect("a stopped run");
    bench
}

#[test]
fn a_record_cut_anywhere_goes_on() {
    let bench = stopped();
    let log = fs::read(bench.log("stopped")).expect("a log");
    let first = log.iter().position(|b| *b == b'\n').expect("a line");
    for (i, cut) in [0, 1, first, first + 1, first + 30, log.len() - 1].into_iter().enumerate() {
        let name = format!("cut-{i}");
        bench.copy("stopped", &name);
        fs::write(bench.log(&name), &log[..cut]).expect("a cut log");
        let (code, result) = bench.resume(&name, &[]);
        assert_eq!(code, 0, "cut at {cut}: {result}");
        let weights = |name: &str| fs::read(bench.path(name).join("weights.safetensors")).expect("weights");
        assert!(weights(&name) == weights("whole"), "cut at {cut}");
        let log = RunReader::open(&bench.path(&name)).expect("a record").log;
        assert!(log.header.is_some() && log.partial.is_none() && log.summary().is_some());
    }
    // Damage that no kill leaves is named.
    bench.copy("stopped", "damaged");
    let mut damaged = log.clone();
    damaged[first + 1] = b'#';
    fs::write(bench.log("damaged"), damaged).expect("a damaged log");
    let text = refusal(bench.resume("damaged", &[]), 1);
    assert!(text.contains("line 2") && text.contains("run.jsonl"), "{text}");
}

#[test]
fn a_damaged_checkpoint_is_refused_and_never_taken_for_whole() {
    let bench = stopped();
    let whole = fs::read(bench.checkpoint("stopped")).expect("a checkpoint");
    let mut damages: Vec<Vec<u8>> =
        [0, 10, 21, 100, whole.len() / 2, whole.len() - 1].iter().map(|cut| whole[..*cut].to_vec()).collect();
    for at in [0, 5, 25, 200, whole.len() / 2, whole.len() - 2] {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        damages.push(flipped);
    }
    bench.copy("stopped", "damaged");
    for damage in damages {
        fs::write(bench.checkpoint("damaged"), &damage).expect("a damaged checkpoint");
        let text = refusal(bench.resume("damaged", &[]), 1);
        assert!(text.contains("remove it to start the run over"), "{text}");
    }
    fs::remove_file(bench.checkpoint("damaged")).expect("the checkpoint");
    bench.resume_to_equal("damaged", &[], "whole");
}

#[test]
fn a_checkpoint_of_another_plan_model_or_version_is_refused() {
    let bench = stopped();
    let check = |edit: &dyn Fn(&str), expect: &[&str]| {
        let name = format!("other-{}", expect[0].replace([' ', '.'], "-"));
        bench.copy("stopped", &name);
        edit(&name);
        let text = refusal(bench.resume(&name, &[]), 1);
        assert!(expect.iter().all(|e| text.contains(e)), "{}", without(&text, bench.folder.path()));
    };
    let edit_plan = |name: &str, from: &str, to: &str| {
        let path = bench.path(name).join("plan.toml");
        let text = fs::read_to_string(&path).expect("a plan");
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).expect("another plan");
    };
    check(&|name| edit_plan(name, "seed = 5", "seed = 6"), &["seed", "6, as in", "5 in the checkpoint"]);
    check(&|name| edit_plan(name, "0.0005", "0.001"), &["optimizer.weight_decay"]);
    check(&|name| edit_plan(name, "[4, 4, 8, 8]", "[4, 4, 8, 16]"), &["model.channels"]);
    let later = |name: &str| {
        let mut bytes = fs::read(bench.checkpoint(name)).expect("a checkpoint");
        let digit = "sooner-checkpoint-".len();
        assert_eq!(bytes[digit], b'1');
        bytes[digit] = b'2';
        fs::write(bench.checkpoint(name), bytes).expect("a later checkpoint");
    };
    check(&later, &["later version", "sooner-checkpoint-2", "use a newer sooner"]);
}

#[test]
fn a_full_disk_ends_the_run_with_an_error_and_loses_nothing() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let binary = env!("CARGO_BIN_EXE_sooner");
    // Files may have so many blocks of 512 or 1024 bytes; with the signal ignored, writing more is an error.
    let limited = |name: &str, blocks: u32| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, binary, "train"]).arg(bench.path("durable.toml"));
        command.arg("--out").arg(bench.path(name)).arg("--json");
        judge(command.output().expect("sh starts"))
    };
    // Room for the log, of some 5 kB, and not for the weights, of 14.7, whichever the blocks are.
    let text = refusal(limited("full", 14), 1);
    assert!(text.starts_with("cannot write") && text.contains("weights.safetensors"), "{text}");
    let left: Vec<_> = fs::read_dir(bench.path("full"))
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    assert!(left.iter().all(|name| ["plan.toml", "run.jsonl"].contains(&name.as_str())), "{left:?}");
    bench.resume_to_equal("full", &[], "whole");
    // So full that not even the plan fits: then nothing is left behind.
    let text = refusal(limited("fuller", 0), 1);
    assert!(text.starts_with("cannot write"), "{text}");
    assert!(!bench.path("fuller").exists());
}

#[test]
fn a_folder_that_cannot_be_written_or_vanishes_is_an_error() {
    let bench = Bench::new();
    let text = refusal(bench.run(&["train", "@durable.toml", "--out", "/proc/sooner-run"]), 1);
    assert!(text.starts_with("cannot write | /proc/sooner-run"), "{text}");

    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    let folder: PathBuf = bench.path("gone");
    let remove = || {
        fs::remove_dir_all(&folder).expect("a folder");
        Control::Continue
    };
    let error = go(&folder, &plan, 5, &mut After(12, &remove)).expect_err("no folder to write to");
    assert!(matches!(error, TrainError::Record(RecordError::Vanished { .. })), "{error}");
    assert!(!folder.exists(), "nothing is made anew in its place");
    let text = refusal(bench.resume("gone", &[]), 1);
    assert!(text.starts_with("no record"), "{text}");
}

#[test]
fn two_processes_do_not_write_one_record() {
    let bench = stopped();
    let folder = bench.path("stopped");
    let plan = plan_of(&bench, "stopped");
    let held = |updates: u64| {
        let meanwhile = || {
            let text = refusal(bench.resume("stopped", &[]), 1);
            assert!(text.contains("another process writes this record"), "{text}");
            Control::Stop
        };
        go(&folder, &plan, 100, &mut After(updates, &meanwhile)).expect("the first run is not disturbed");
    };
    held(23);
    bench.resume_to_equal("stopped", &[], "whole");
}
