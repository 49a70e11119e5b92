//! Kills at exact moments, and chains of them.

use crate::bench::{Bench, PER_EPOCH};
use sooner_base::{Clock, MonotonicClock, Updates};
use sooner_engine::native::{Kernels, Pool};
use sooner_plan::Plan;
use sooner_record::{Checkpoint, FORMAT, Header, Line, Machine, Resumed, RunReader, RunWriter};
use sooner_train::{Checkpoints, Control, Job, Observer, Progress, Start, Stopwatch, TrainError, train};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// When a child kills itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After this update and its evaluation, before a checkpoint that may be due.
    After(u64),
    /// Before this batch, from 0, of the evaluation that is due after this update.
    In(u64, u32),
    /// Never.
    End,
}

impl Moment {
    fn to_text(self) -> String {
        match self {
            Moment::After(update) => format!("after {update} 0"),
            Moment::In(update, batch) => format!("in {update} {batch}"),
            Moment::End => "end 0 0".to_string(),
        }
    }

    fn from_text(text: &str) -> Moment {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |i: usize| words[i].parse().expect("a number");
        match words[0] {
            "after" => Moment::After(number(1)),
            "in" => Moment::In(number(1), number(2) as u32),
            _ => Moment::End,
        }
    }
}

/// Kills its own process.
struct Killer {
    moment: Moment,
    updates: u64,
    asked: Cell<u32>,
}

impl Killer {
    fn new(moment: Moment, updates: u64) -> Killer {
        Killer { moment, updates, asked: Cell::new(0) }
    }
}

/// SIGKILL, as `kill -9` sends it: no destructor runs, nothing is flushed.
fn kill_me() -> ! {
    let me = std::process::id().to_string();
    Command::new("kill").args(["-9", &me]).status().expect("kill starts");
    unreachable!("the kernel is done with this process")
}

impl Observer for Killer {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        self.updates = progress.updates.0;
        self.asked.set(0);
        if self.moment == Moment::After(self.updates) {
            kill_me();
        }
        Control::Continue
    }

    fn interrupted(&self) -> bool {
        let asked = self.asked.replace(self.asked.get() + 1);
        // During the evaluation after update n the last update observed is n - 1.
        if let Moment::In(update, batch) = self.moment
            && self.updates + 1 == update
            && asked == batch
        {
            kill_me();
        }
        false
    }

    // Waiting for a batch is no batch of an evaluation.
    fn stops_waiting(&self) -> bool {
        false
    }
}

/// Trains through the library, from where a checkpoint left it if there is one, with a checkpoint every few updates.
pub(crate) fn go(
    folder: &Path,
    plan: &Plan,
    every: u64,
    observer: &mut dyn Observer,
) -> Result<sooner_record::Summary, TrainError> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let threads = plan.run.threads.expect("a resolved plan");
    let splits = sooner_pipeline::load(&plan.data, threads, clock.as_ref())?;
    let checkpoint = Checkpoint::find(folder)?;
    let header = header(plan, threads);
    let updates = checkpoint.as_ref().map(|c| c.about.position.updates).unwrap_or_default();
    let schedule = |folder: &Path, until: Option<Updates>| {
        let log = RunReader::open(folder).ok()?.log;
        log.fresh(until.or(log.last_update())?)
    };
    let fresh = schedule(folder, Some(updates)).unwrap_or_default();
    let replay = plan.run.replay.as_ref().and_then(|record| schedule(Path::new(record), None));
    let mut writer = if RunReader::open_started(folder).is_ok() {
        let resumed = Resumed { updates, run: None, changed: Vec::new() };
        RunWriter::resume(folder, plan, &header, &resumed)?
    } else {
        RunWriter::create(folder, plan, &header)?
    };
    let watch = match &checkpoint {
        Some(c) => Stopwatch::resume(clock.clone(), &c.about.time, c.about.preprocess),
        None => Stopwatch::start(clock.clone()),
    };
    let job = Job {
        plan,
        facts: splits.facts(),
        splits: &splits,
        start: Start { checkpoint, fresh, replay, ..Start::default() },
        checkpoints: Checkpoints::Every(Updates(every)),
        pool: Arc::new(Pool::new(NonZeroUsize::new(threads).expect("threads"))),
        kernels: Kernels::Auto,
        peak_gflops: 1.0,
        clock,
        watch,
    };
    train(job, &mut writer, observer)
}

fn header(plan: &Plan, threads: usize) -> Header {
    let kernels = Kernels::available().last().map_or("portable", |k| k.name());
    Header {
        format: FORMAT,
        sooner: sooner_train::PROGRAM.to_string(),
        machine: Machine { cpu: "test".into(), cores: threads, os: "test".into(), arch: "test".into() },
        features: Vec::new(),
        kernels: BTreeMap::from([("native".to_string(), kernels.to_string())]),
        threads,
        seed: plan.seed,
        peak_gflops: 1.0,
        started_unix: None,
        tuned: None,
    }
}

const FOLDER: &str = "SOONER_TEST_FOLDER";
const MOMENT: &str = "SOONER_TEST_MOMENT";
const EVERY: &str = "SOONER_TEST_EVERY";
const PLAN: &str = "SOONER_TEST_PLAN";

/// No test of its own: what the other tests start, with what to do in its environment.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let value = |name: &str| std::env::var(name).expect("set by the parent");
    let plan = Plan::parse(&value(PLAN)).expect("a plan");
    let folder = Path::new(&folder);
    let at = Checkpoint::find(folder).expect("readable").map_or(0, |c| c.about.position.updates.0);
    let mut killer = Killer::new(Moment::from_text(&value(MOMENT)), at);
    go(folder, &plan, value(EVERY).parse().expect("a number"), &mut killer).expect("a run");
}

/// A child that trains and dies at the moment; with a checkpoint every so many updates.
pub(crate) fn killed(folder: &Path, plan: &Plan, every: u64, moment: Moment) {
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["kill::child", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(MOMENT, moment.to_text())
        .env(EVERY, every.to_string())
        .env(PLAN, plan.to_toml())
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let signal = if moment == Moment::End { None } else { Some(9) };
    assert_eq!(output.status.signal(), signal, "{moment:?}: {}: {text}", output.status);
    if moment == Moment::End {
        assert!(output.status.success(), "{text}");
    }
}

/// The resolved plan of a run.
pub(crate) fn plan_of(bench: &Bench, name: &str) -> Plan {
    RunReader::open(&bench.path(name)).expect("a record").plan
}

#[test]
fn a_run_killed_at_any_moment_goes_on_with_the_same_bits() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    let moments = [
        // Before anything is kept: the run starts over.
        (100, Moment::After(1)),
        // Just before, at and just after the end of an epoch, and in the next one's first updates.
        (1, Moment::After(PER_EPOCH - 1)),
        (1, Moment::After(PER_EPOCH)),
        (1, Moment::After(PER_EPOCH + 1)),
        (PER_EPOCH, Moment::After(PER_EPOCH + 2)),
        // At the very beginning of an evaluation, with the checkpoint before it and a few updates before that.
        (1, Moment::In(7, 0)),
        (4, Moment::In(14, 0)),
        // At the last update, before and after the evaluation at the end.
        (5, Moment::In(3 * PER_EPOCH, 0)),
        (5, Moment::After(3 * PER_EPOCH)),
    ];
    for (i, (every, moment)) in moments.into_iter().enumerate() {
        let name = format!("killed-{i}");
        killed(&bench.path(&name), &plan, every, moment);
        bench.resume_to_equal(&name, &[], "whole");
        let last = match moment {
            // The checkpoint of update n is written after n has been observed, and so not by a run that dies then.
            Moment::After(n) | Moment::In(n, _) => (n - 1) / every * every,
            Moment::End => unreachable!("no kill"),
        };
        assert_eq!(bench.resumptions(&name), [last], "{moment:?}");
    }
}

#[test]
fn chains_of_resumes_with_other_pipeline_threads_keep_the_bits() {
    let bench = Bench::new();
    let whole = bench.train("whole", &[]);
    let mut plan = plan_of(&bench, "whole");
    let chain = [
        (3, Moment::After(5), 1),
        (1, Moment::In(14, 0), 0),
        (2, Moment::After(2 * PER_EPOCH), 5),
        (4, Moment::After(31), 2),
    ];
    for (every, moment, threads) in chain {
        plan.pipeline.threads = threads;
        killed(&bench.path("chain"), &plan, every, moment);
    }
    let result = bench.resume_to_equal("chain", &["--set", "pipeline.threads=3"], "whole");
    assert_eq!(bench.resumptions("chain"), [3, 13, 20, 28]);
    assert_eq!(plan_of(&bench, "chain").pipeline.threads, 3);
    for key in ["updates", "epochs", "fresh_examples", "examples"] {
        assert_eq!(result["position"][key], whole["position"][key]);
    }
}

/// What else is random in an update, and what keeps statistics in groups: dropout by the examples' origins, labels mixed
/// within batches.
#[test]
fn dropout_mixed_labels_and_ghost_statistics_keep_the_bits() {
    let stages = "pipeline.stages=[{shuffle='epoch'},{flip='random'},\
                  {normalize={mean=[0.5,0.5,0.5],std=[0.25,0.25,0.25]}},{batch=32},{cutmix=1.0}]";
    let models = [
        "model={kind='simple-cnn',channels=[4,6],dropout=0.5}",
        "model={kind='vgg11',channels=[4,4,4,4,6,6,6,6],hidden=[8],dropout=0.5,norm={statistics={ghost=5}}}",
    ];
    for model in models {
        let bench = Bench::new();
        bench.train("whole", &["--set", stages, "--set", model]);
        let plan = plan_of(&bench, "whole");
        for (i, (every, moment)) in
            [(4, Moment::After(PER_EPOCH + 2)), (1, Moment::In(14, 0))].into_iter().enumerate()
        {
            let name = format!("killed-{i}");
            killed(&bench.path(&name), &plan, every, moment);
            bench.resume_to_equal(&name, &[], "whole");
        }
        // Another seed leaves out other units, or dropout does nothing here.
        let words = ["--set", stages, "--set", model, "--seed", "6"];
        bench.train("other", &words);
        let weights = |name: &str| fs::read(bench.path(name).join("weights.safetensors")).expect("weights");
        assert_ne!(weights("whole"), weights("other"));
    }
}

/// Killed in the middle of writing a checkpoint, a run leaves the checkpoint before it and a part of the new one under
/// another name; killed while writing its plan or the first line, next to nothing.
#[test]
fn what_a_kill_while_writing_leaves() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    killed(&bench.path("one"), &plan, 6, Moment::After(10));
    killed(&bench.path("two"), &plan, 9, Moment::After(10));
    let later = fs::read(bench.checkpoint("two")).expect("a later checkpoint");
    for (i, part) in [0, 1, later.len() / 2, later.len()].into_iter().enumerate() {
        let name = format!("writing-{i}");
        bench.copy("one", &name);
        fs::write(bench.path(&name).join(".checkpoint.tmp"), &later[..part]).expect("a part");
        fs::write(bench.path(&name).join(".weights.safetensors.tmp"), b"part").expect("a part");
        bench.resume_to_equal(&name, &[], "whole");
        assert_eq!(bench.resumptions(&name), [6]);
    }

    fs::create_dir(bench.path("plan-only")).expect("a folder");
    fs::copy(bench.path("one").join("plan.toml"), bench.path("plan-only/plan.toml")).expect("the plan");
    bench.resume_to_equal("plan-only", &[], "whole");
    assert_eq!(bench.resumptions("plan-only"), [0]);
}

/// The weights of the end, the last line, and what lies between them.
#[test]
fn killed_at_the_very_end() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    killed(&bench.path("end"), &plan, 4, Moment::End);
    let log = fs::read_to_string(bench.log("end")).expect("a log");
    // Without its last line the run is not over, whatever weights there are.
    let cut = log.trim_end().rfind('\n').expect("lines") + 1;
    fs::write(bench.log("end"), &log[..cut + 20]).expect("a cut log");
    bench.resume_to_equal("end", &[], "whole");
    // With it, but without weights, they are made again.
    fs::remove_file(bench.path("end").join("weights.safetensors")).expect("weights");
    bench.resume_to_equal("end", &[], "whole");
}

/// Time goes on where the checkpoint left it: what a kill has undone is not counted twice.
#[test]
fn the_clock_goes_on_from_the_checkpoint() {
    let bench = Bench::new();
    bench.train("whole", &[]);
    let plan = plan_of(&bench, "whole");
    killed(&bench.path("clock"), &plan, 5, Moment::After(18));
    let before = Checkpoint::read(&bench.checkpoint("clock")).expect("a checkpoint").about;
    assert_eq!((before.position.updates, before.next), (Updates(15), (1, 4)));
    let result = bench.resume_to_equal("clock", &[], "whole");
    let log = RunReader::open(&bench.path("clock")).expect("a record").log;
    let positions: Vec<_> = log
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Evaluation(e) => Some(e.at),
            Line::Progress(p) => Some(p.at),
            _ => None,
        })
        .collect();
    for pair in positions.windows(2) {
        assert!(pair[0].training_seconds <= pair[1].training_seconds, "{pair:?}");
        assert!(pair[0].wall_seconds <= pair[1].wall_seconds, "{pair:?}");
    }
    let next = positions.iter().find(|at| at.updates > Updates(15)).expect("later lines");
    assert!(next.training_seconds > before.position.training_seconds, "{next:?}");
    let total = result["position"]["training_seconds"].as_f64().expect("seconds");
    assert!(total > before.position.training_seconds.0, "{total}");
    let prepare = result["time"]["prepare"].as_f64().expect("seconds");
    assert!(prepare > before.time.prepare.0, "the second process prepared too");
}
