//! Nothing lost, on real CIFAR-10: augmentation, shuffle, dropout, batch normalisation, momentum, an average of the
//! weights; killed at random times, which are logged, in chains of resumes. `SOONER_DATA` as in `real_data.rs`: without it this skips, loudly.

mod support;

use serde_json::Value;
use sooner_base::{Purpose, Rng, Seed};
use sooner_record::{CHECKPOINT_FILE, Line, RunReader, WEIGHTS_FILE};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{real_data, say};

const PLAN: &str = r#"
name = "real-durable"
seed = 3
data = { kind = "cifar10", path = "PATH", train = 2000, validation = 500, test = 100 }
model = { kind = "vgg11", channels = [8, 16, 16, 16, 32, 32, 32, 32], hidden = [32], dropout = 0.2, norm = {} }
pipeline = { threads = 1, stages = [
  { shuffle = "epoch" },
  { crop = { size = 32, pad = 4, padding = "reflect" } },
  { flip = "random" },
  { cutout = 8 },
  { normalize = { mean = [0.4914, 0.4822, 0.4465], std = [0.2470, 0.2435, 0.2616] } },
  { batch = 64 },
] }
optimizer = { kind = "nesterov", momentum = 0.9, weight_decay = 0.0005, label_smoothing = 0.1, average = { kind = "ema", decay = 0.98 } }
schedule = { kind = "linear", learning_rate = 0.1, end_factor = 0.01 }
run = { epochs = 72, evaluate = "epoch" }
"#;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn spawn(&self, words: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sooner"));
        command.arg("train").args(words).arg("--json").current_dir(self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    /// A run of the plan with so many pipeline threads.
    fn start(&self, name: &str, threads: usize) -> Child {
        self.start_with(name, &["--set", &format!("pipeline.threads={threads}")])
    }

    fn start_with(&self, name: &str, words: &[&str]) -> Child {
        self.spawn(&[&["plan.toml", "--out", name], words].concat())
    }

    fn resume(&self, name: &str, threads: usize) -> Child {
        self.resume_with(name, &["--set", &format!("pipeline.threads={threads}")])
    }

    fn resume_with(&self, name: &str, words: &[&str]) -> Child {
        self.spawn(&[&["--resume", name], words].concat())
    }

    /// The updates at which a run was taken up again.
    fn resumed(&self, name: &str) -> Vec<u64> {
        let log = RunReader::open(&self.path(name)).expect("a record").log;
        let updates = |line: &Line| if let Line::Resumed(r) = line { Some(r.updates.0) } else { None };
        log.lines.iter().filter_map(updates).collect()
    }

    fn weights(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name).join(WEIGHTS_FILE)).expect("weights")
    }

    fn evaluations(&self, name: &str) -> Vec<String> {
        let log = RunReader::open(&self.path(name)).expect("a record").log;
        let found = log.lines.into_iter().filter_map(|line| match line {
            Line::Evaluation(e) => Some(format!("{} {:?}", e.at.updates, e.metrics)),
            _ => None,
        });
        found.collect()
    }
}

fn finish(child: Child) -> Value {
    let output = child.wait_with_output().expect("the command ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{text}");
    serde_json::from_str(text.trim_end()).expect("exactly one JSON object")
}

/// Waits until something holds; false if the process ended before.
fn wait_until(child: &mut Child, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        if holds() {
            return true;
        }
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        assert!(Instant::now() < deadline, "nothing within 300 s");
        std::thread::yield_now();
    }
}

/// SIGKILL after a random time, counted from the first checkpoint that is newer than the process.
fn kill_at_random(mut child: Child, checkpoint: &Path, rng: &mut Rng) -> String {
    let modified = || checkpoint.metadata().and_then(|m| m.modified()).ok();
    let before = modified();
    let alive = wait_until(&mut child, || modified() != before);
    assert!(alive, "the run is too short for a checkpoint: make it longer");
    let delay = Duration::from_secs_f64(2.0 * rng.f64());
    let since = Instant::now();
    wait_until(&mut child, || since.elapsed() >= delay);
    child.kill().expect("SIGKILL");
    let status = child.wait().expect("a dead child");
    format!("killed {:.3} s after its first checkpoint ({status})", delay.as_secs_f64())
}

/// SIGKILL as soon as a checkpoint that is being written is seen.
fn kill_while_writing(mut child: Child, checkpoint: &Path) -> String {
    let temporary = checkpoint.with_file_name(format!(".{CHECKPOINT_FILE}.tmp"));
    // Left by a kill before, it would be seen at once.
    let _ = fs::remove_file(&temporary);
    let alive = wait_until(&mut child, || temporary.exists());
    child.kill().expect("SIGKILL");
    child.wait().expect("a dead child");
    let left = if temporary.exists() { "half-written" } else { "already in place" };
    format!("killed during a checkpoint (alive: {alive}; the new one was {left})")
}

/// What random kill times are drawn from; logged.
fn kill_seed(test: &str) -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    say(&format!("REAL DATA {test}: kill times from seed {nanos}"));
    nanos
}

#[test]
fn cifar10_killed_at_random_times_ends_with_the_same_bits() {
    let test = "real-durable";
    let set = "cifar-10-batches-bin";
    let Some(data) = real_data(test, set).map(|root| root.join(set)) else { return };
    let bench = Bench { folder: tempfile::tempdir().expect("a temporary folder") };
    fs::write(bench.path("plan.toml"), PLAN.replace("PATH", &data.display().to_string())).expect("a plan");
    let whole = finish(bench.start("whole", 1));
    let time = |key: &str| whole["time"][key].as_f64().expect("seconds");
    let wall = whole["position"]["wall_seconds"].as_f64().expect("seconds");
    say(&format!(
        "REAL DATA {test}: {wall:.1} s, checkpoints {:.2} % of it",
        100.0 * time("checkpoint") / wall
    ));

    let nanos = kill_seed(test);
    // The same number of pipeline threads throughout, then another for every process.
    for (name, threads) in [("same", [1, 1, 1, 1]), ("other", [3, 0, 2, 7])] {
        let mut rng = Seed(nanos).key(Purpose::Synthesis, threads[0] as u64).at(0, 0, 0);
        let checkpoint = bench.path(name).join(CHECKPOINT_FILE);
        let kills = [
            kill_at_random(bench.start(name, threads[0]), &checkpoint, &mut rng),
            kill_while_writing(bench.resume(name, threads[1]), &checkpoint),
            kill_at_random(bench.resume(name, threads[2]), &checkpoint, &mut rng),
        ];
        let result = finish(bench.resume(name, threads[3]));
        let resumed = bench.resumed(name);
        let equal = bench.weights(name) == bench.weights("whole");
        say(&format!(
            "REAL DATA {test} {name}: {}; went on from updates {resumed:?} of {}; weights equal: {equal}",
            kills.join("; "),
            result["position"]["updates"],
        ));
        assert!(equal, "{kills:?}");
        assert!(resumed.iter().any(|updates| *updates > 0), "{resumed:?}");
        assert_eq!(bench.evaluations(name), bench.evaluations("whole"));
    }
}

/// ResNet-8 in two replicas; then the same parts one after the other, and again in two replicas.
#[test]
fn replicas_on_cifar10_killed_and_resumed_end_with_the_same_bits() {
    let test = "real-durable-replicas";
    let set = "cifar-10-batches-bin";
    let Some(data) = real_data(test, set).map(|root| root.join(set)) else { return };
    let bench = Bench { folder: tempfile::tempdir().expect("a temporary folder") };
    let built_in = sooner_models::workload("cifar10-resnet8").expect("built in").toml;
    let path = data.display().to_string();
    let plan = built_in.replace(
        "validation = 5000",
        &format!("path = {path:?}\ntrain = 6000\nvalidation = 500\ntest = 100"),
    );
    let length = "epochs = 3\ntarget = \"val.error<0.40\"";
    assert!(plan.contains(length));
    let plan = plan.replace(length, "epochs = 6\nreplicas = 2\nnoise_scale = 50");
    fs::write(bench.path("plan.toml"), plan).expect("a plan");
    let whole = finish(bench.start_with("whole", &[]));

    let mut rng = Seed(kill_seed(test)).key(Purpose::Synthesis, 0).at(0, 0, 0);
    let checkpoint = bench.path("run").join(CHECKPOINT_FILE);
    let kills = [
        kill_at_random(bench.start_with("run", &[]), &checkpoint, &mut rng),
        kill_at_random(
            bench.resume_with("run", &["--replicas", "1", "--set", "run.accumulate=2"]),
            &checkpoint,
            &mut rng,
        ),
    ];
    let result = finish(bench.resume_with("run", &["--replicas", "2", "--set", "run.accumulate=1"]));
    let resumed = bench.resumed("run");
    let equal = bench.weights("run") == bench.weights("whole");
    say(&format!(
        "REAL DATA {test}: {}; went on from updates {resumed:?} of {}; weights equal: {equal}; noise scale {}",
        kills.join("; "),
        result["position"]["updates"],
        result["gradient"],
    ));
    assert!(equal && resumed.iter().any(|updates| *updates > 0), "{kills:?} {resumed:?}");
    assert_eq!(bench.evaluations("run"), bench.evaluations("whole"));
    assert_eq!(result["gradient"], whole["gradient"]);
}
