//! `sooner eval`: the metrics of stored weights.

use crate::args::EvalArgs;
use crate::fail::Failure;
use crate::machine::{self, Engine};
use crate::settle;
use serde_json::json;
use sooner_base::{MonotonicClock, Seed};
use sooner_engine::State;
use sooner_models::Model;
use sooner_pipeline::Evaluation;
use sooner_plan::{Split, Views};
use sooner_record::{Metrics, RunReader, Status, WEIGHTS_FILE, Weights};
use sooner_train::{Evaluated, Evaluator, Programs};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<ExitCode> {
    let split = split(args)?;
    let file = if args.weights.is_dir() { args.weights.join(WEIGHTS_FILE) } else { args.weights.clone() };
    let weights = Weights::read(&file)?;
    if let Some(note) = state_of(&args.weights) {
        eprintln!("note: {note}");
    }
    let Some(about) = &weights.about else {
        let what = "these weights do not say which network they are of";
        let expected = "a weights file written by sooner";
        return Err(Failure::usage(what, &file.display().to_string(), [expected, "no metadata", ""]).into());
    };
    about.model.check().map_err(|e| e.in_file(&file.display().to_string()))?;
    let mut data = about.data.clone();
    if let Some(folder) = &args.data {
        let place = settle::place(folder)?;
        if !data.kind.has_files() {
            let (found, hint) = (format!("`{place}`"), "leave --data out: the same drawings are made again");
            let fields = ["no folder, for weights that were trained on drawings", &found, hint];
            return Err(Failure::usage("data drawn by code have no folder", "--data", fields).into());
        }
        data.path = Some(place);
    }
    let threads = args.threads.unwrap_or_else(machine::cores);
    if !(1..=sooner_plan::MOST_THREADS).contains(&threads) {
        let expected = format!("1 to {}", sooner_plan::MOST_THREADS);
        let fields = [expected.as_str(), &threads.to_string(), ""];
        return Err(Failure::usage("value cannot be used", "--threads", fields).into());
    }
    let engine = Engine::new(threads);
    let clock = MonotonicClock::start();
    let splits = sooner_pipeline::load(&data, threads, &clock)?;
    let facts = settle::facts(&splits);
    if facts.examples_of(split) == 0 {
        let found = format!("{split} of {}", file.display());
        let expected = "a split with examples";
        let other = [Split::Test, Split::Val, Split::Train].into_iter().find(|s| facts.examples_of(*s) > 0);
        let hint = other.map_or(String::new(), |other| format!("try --split {other}"));
        return Err(Failure::usage("nothing to evaluate", "--split", [expected, &found, &hint]).into());
    }

    let examples = Evaluation::new(&about.pipeline, splits.get(split).clone(), Evaluator::BATCH)?;
    let mut model = Model::new(&about.model, examples.shape(), facts.classes)?;
    settle::check_model(&model)?;
    // The evaluation program declares every variable that weights hold.
    model.eval_program(1)?;
    let mut state = State::init(model.vars(), Seed(0));
    for id in model.vars().ids() {
        let var = model.vars().get(id);
        state.values[id.index()].copy_from_slice(weights.get(&var.name, &var.shape)?);
    }
    let mut evaluator = Evaluator::new(examples);
    let mut programs = Programs::whole_batches(model, engine.kernels, engine.pool.clone());
    let views = views(args)?.unwrap_or(about.views);
    let Evaluated { metrics, seen } = evaluator.run(&mut programs, &mut state, views)?;
    let values = |m: Metrics| json!({ "loss": m.loss, "error": m.error, "accuracy": m.accuracy });
    let words = |m: Metrics| format!("loss {:.4}, error {:.4}, accuracy {:.4}", m.loss, m.error, m.accuracy);
    if args.json {
        let mut line = json!({ "workload": about.workload, "split": split, "metrics": values(metrics) });
        if let Some(seen) = seen {
            line["views"] = json!(seen.views);
            line["one_view"] = values(seen.one);
        }
        println!("{line}");
    } else {
        let examples = facts.examples_of(split);
        println!("{}, {split} ({examples} examples): {}", about.workload, words(metrics));
        if let Some(seen) = seen {
            println!("  {} views of each image; one view alone: {}", views.count(), words(seen.one));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to know about weights whose run did not go to its end.
fn state_of(record: &Path) -> Option<String> {
    if !record.is_dir() {
        return None;
    }
    // Weights can be evaluated without a readable log.
    let run = RunReader::open(record).ok()?;
    match run.log.summary() {
        None => Some("the run is not over: these weights are of an earlier end".to_string()),
        Some(s) => match s.status {
            Status::Diverged | Status::Interrupted => {
                Some(format!("the run was {} after {} updates", word(s.status), s.position.updates))
            }
            Status::Reached | Status::Done | Status::Budget => None,
        },
    }
}

fn word(status: Status) -> &'static str {
    if status == Status::Diverged { "given up as diverged" } else { "interrupted" }
}

fn views(args: &EvalArgs) -> Result<Option<Views>, Failure> {
    let Some(word) = &args.views else { return Ok(None) };
    Views::parse(word).map(Some).ok_or_else(|| {
        Failure::usage("no such views", "--views", ["one, flips or flips-shifts", &format!("`{word}`"), ""])
    })
}

fn split(args: &EvalArgs) -> Result<Split, Failure> {
    match args.split.as_deref() {
        None | Some("test") => Ok(Split::Test),
        Some("val") => Ok(Split::Val),
        Some("train") => Ok(Split::Train),
        Some(other) => {
            Err(Failure::usage("no such split", "--split", ["test, val or train", &format!("`{other}`"), ""]))
        }
    }
}
