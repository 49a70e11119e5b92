//! Running the real command.

// Each test that includes this file uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod server;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What a finished command left behind.
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The command in a folder of its own, without a proxy that the environment may name: servers are on this machine.
pub fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sooner"));
    command.current_dir(folder).args(words);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

/// Runs the command to its end.
pub fn run(folder: &Path, words: &[&str]) -> Done {
    let output = command(folder, words).output().expect("the command starts");
    Done {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: without_the_busy(&String::from_utf8(output.stderr).expect("stderr is UTF-8")),
    }
}

impl Done {
    /// The one JSON object: exactly one line, and nothing else, on stdout.
    pub fn json(&self) -> Value {
        assert!(self.stdout.ends_with('\n'), "{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.stdout.lines().count(), 1, "{}\n{}", self.stdout, self.stderr);
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON");
        assert!(value.is_object(), "{value}");
        value
    }

    /// The five fields of an error, each a text, where the first four say something.
    pub fn error(&self) -> Value {
        let value = self.json();
        let error = &value["error"];
        assert_eq!(value.as_object().expect("an object").len(), 1, "{value}");
        assert_eq!(error.as_object().expect("an object").len(), 5, "{value}");
        for field in ["what", "where", "expected", "found"] {
            assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {value}");
        }
        assert!(error["hint"].is_string(), "{value}");
        error.clone()
    }
}

/// To stdout past the test harness's capture, so that a log shows what ran.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\n{line}");
}

/// The folder named by `SOONER_DATA`, if it holds this set's folder of the authors' files; else a loud skip.
pub fn real_data(test: &str, set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SOONER_DATA").map(PathBuf::from).filter(|root| root.join(set).is_dir());
    match root {
        Some(_) => say(&format!("REAL DATA {test}: {set}")),
        None => say(&format!("SKIPPED {test}: set SOONER_DATA to a folder that holds {set}")),
    }
    root
}

/// A run of seconds: a linear model on a few drawings.
pub const TINY: [&str; 14] = [
    "train",
    "shapes-cnn",
    "--set",
    "model={kind=\"softmax\"}",
    "--set",
    "data.train=120",
    "--set",
    "data.validation=40",
    "--set",
    "data.test=30",
    "--set",
    "pipeline.stages.batch=20",
    "--epochs",
    "2",
];

/// `TINY` and more words.
pub fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TINY.iter().chain(more).copied().collect()
}

/// A folder for one test.
pub fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Everything in a folder, below it too.
pub fn contents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(contents(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Without the note that other work was on the machine while the peak was measured: tests run side by side, so it comes and goes.
fn without_the_busy(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("note: other work had ")).collect()
}
