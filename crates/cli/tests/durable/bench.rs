//! A small workload, the command, and what every test here needs of them.

use serde_json::Value;
use sooner_record::{CHECKPOINT_FILE, LOG_FILE, Line, RunReader, WEIGHTS_FILE};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Batches of unequal size, augmentation, batch normalisation, a velocity, a schedule, evaluations off the epochs' ends.
pub(crate) const PLAN: &str = r#"
name = "durable"
seed = 5
data = { kind = "shapes", train = 330, validation = 70, test = 20 }
model = { kind = "resnet9", channels = [4, 4, 8, 8], logit_scale = 0.25 }
pipeline = { threads = 2, stages = [
  { shuffle = "epoch" },
  { crop = { size = 32, pad = 4 } },
  { flip = "random" },
  { normalize = { mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25] } },
  { batch = 32 },
] }
optimizer = { kind = "nesterov", momentum = 0.9, weight_decay = 0.0005, label_smoothing = 0.1 }
schedule = { kind = "linear", learning_rate = 0.05, end_factor = 0.1 }
run = { epochs = 3, evaluate = { updates = 7 }, threads = 2 }
"#;

/// Updates of an epoch of [`PLAN`], the last of them on 10 examples.
pub(crate) const PER_EPOCH: u64 = 11;

/// A temporary folder with the plan in it.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("durable.toml"), PLAN).expect("a plan");
        Bench { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `sooner WORDS... --json` in the folder; words that begin with `@` are names in it.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sooner"));
        for word in words {
            match word.strip_prefix('@') {
                Some(name) => command.arg(self.path(name)),
                None => command.arg(word),
            };
        }
        command.arg("--json").current_dir(self.folder.path());
        command
    }

    /// Runs the command and returns its exit code and its JSON object.
    pub(crate) fn run(&self, words: &[&str]) -> (i32, Value) {
        judge(self.command(words).output().expect("the command starts"))
    }

    /// A run of the plan, with changes, that nothing disturbs.
    pub(crate) fn train(&self, name: &str, words: &[&str]) -> Value {
        let name = format!("@{name}");
        let words = [&["train", "@durable.toml", "--out", &name], words].concat();
        let (code, result) = self.run(&words);
        assert_eq!(code, 0, "{result}");
        result
    }

    pub(crate) fn resume(&self, name: &str, words: &[&str]) -> (i32, Value) {
        let name = format!("@{name}");
        self.run(&[&["train", "--resume", &name], words].concat())
    }

    /// Resumes a run to its end, and asserts that its weights are those of the other run, byte for byte.
    pub(crate) fn resume_to_equal(&self, name: &str, words: &[&str], other: &str) -> Value {
        let (code, result) = self.resume(name, words);
        assert_eq!(code, 0, "{result}");
        assert_eq!(result["status"], "done", "{result}");
        self.assert_equal(name, other);
        let time = result["time"].as_object().expect("time");
        let sum: f64 = time.values().map(|v| v.as_f64().expect("seconds")).sum();
        let wall = result["position"]["wall_seconds"].as_f64().expect("wall_seconds");
        assert!((sum - wall).abs() < 1e-6 * wall.max(1.0), "{result}");
        result
    }

    pub(crate) fn assert_equal(&self, name: &str, other: &str) {
        let weights = |name: &str| fs::read(self.path(name).join(WEIGHTS_FILE)).expect("weights");
        assert!(weights(name) == weights(other), "`{name}` and `{other}` have other weights");
        let evaluations = |name: &str| {
            let log = RunReader::open(&self.path(name)).expect("a record").log;
            assert!(log.partial.is_none() && log.summary().is_some());
            let found = log.lines.into_iter().filter_map(|line| match line {
                Line::Evaluation(e) => Some((e.at.updates, format!("{:?}", e.metrics))),
                _ => None,
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!(evaluations(name), evaluations(other), "`{name}` and `{other}` measured other things");
    }

    /// The updates of each resumption that the record tells of.
    pub(crate) fn resumptions(&self, name: &str) -> Vec<u64> {
        let log = RunReader::open(&self.path(name)).expect("a record").log;
        let found = log.lines.iter().filter_map(|line| match line {
            Line::Resumed(resumed) => Some(resumed.updates.0),
            _ => None,
        });
        found.collect()
    }

    /// A copy of a run's folder under another name.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        fs::create_dir(self.path(to)).expect("a new folder");
        for entry in fs::read_dir(self.path(from)).expect("a folder").map(|e| e.expect("an entry")) {
            fs::copy(entry.path(), self.path(to).join(entry.file_name())).expect("a copy");
        }
    }

    pub(crate) fn checkpoint(&self, name: &str) -> PathBuf {
        self.path(name).join(CHECKPOINT_FILE)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path(name).join(LOG_FILE)
    }
}

/// Exit code and JSON object, which must be one line and the last.
pub(crate) fn judge(output: Output) -> (i32, Value) {
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap_or_else(|| panic!("{}: {stdout}\n{stderr}", output.status));
    let result = serde_json::from_str(stdout.trim_end());
    (code, result.unwrap_or_else(|e| panic!("{e}: {stdout}\n{stderr}")))
}

/// Asserts that the command refused with this exit code, and returns the error's fields as one text.
pub(crate) fn refusal((code, result): (i32, Value), expect: i32) -> String {
    assert_eq!(code, expect, "{result}");
    let fields = result["error"].as_object().unwrap_or_else(|| panic!("no error: {result}"));
    let text = |key: &str| fields[key].as_str().expect("text").to_string();
    ["what", "where", "expected", "found", "hint"].map(text).join(" | ")
}

/// A path with the folder's own name taken out.
pub(crate) fn without(text: &str, folder: &Path) -> String {
    text.replace(&folder.display().to_string(), "DIR")
}
