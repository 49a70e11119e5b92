//! `sooner bench`: the speed of exactly the program that `train` runs, on made-up batches, and where its time goes.

use super::roofline::{Ceilings, OpReport, table, time_operations};
use crate::args::BenchArgs;
use crate::commands::train::parts;
use crate::machine::Engine;
use crate::{machine, settle};
use serde::Serialize;
use sooner_base::{Batch, Clock, MonotonicClock, Origin, Purpose, Seed, Shape, median};
use sooner_engine::{Kernels, State, measure_bandwidth};
use sooner_models::Model;
use sooner_plan::{Plan, Setting};
use sooner_train::Programs;
use std::process::ExitCode;

/// Seconds of measured updates, and the fewest of them.
const SECONDS: f64 = 3.0;
const UPDATES: usize = 5;

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    workload: String,
    batch: usize,
    threads: usize,
    /// By the median update.
    examples_per_second: f64,
    gflops: f64,
    peak_gflops: f64,
    share: f64,
    /// Measured memory bandwidth; null if the time to measure was given.
    peak_gigabytes_per_second: Option<f64>,
    updates: usize,
    kernels: &'static str,
    resident_bytes: u64,
    /// Every operation of an update, in order; none where batches are cut into parts, or the time to measure was given.
    ops: Vec<OpReport>,
    replicas: usize,
    accumulate: usize,
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    args.seconds.map_or(Ok(()), |seconds| settle::positive("--seconds", seconds))?;
    let batch = args.batch.map(|n| Setting::option("--batch", "pipeline.stages.batch", &n.to_string()));
    let plan = settle::plan(&args.plan, batch.as_slice())?;
    plan.check_without_data()?;
    let report = measure(&plan, args.seconds)?;
    if args.plan.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!(
            "{}: batch {}{}, {} threads, {}: {:.1} examples/s, {:.1} GFLOP/s, {:.0} % of the peak of {:.0} GFLOP/s \
             (median of {} updates), {:.0} MiB",
            report.workload,
            report.batch,
            parts(&plan.run),
            report.threads,
            report.kernels,
            report.examples_per_second,
            report.gflops,
            100.0 * report.share,
            report.peak_gflops,
            report.updates,
            report.resident_bytes as f64 / f64::from(1 << 20),
        );
        match report.peak_gigabytes_per_second {
            Some(bandwidth) if !report.ops.is_empty() => print!("{}", table(&report.ops, bandwidth)),
            Some(_) => println!(
                "operations are timed one by one only where batches are whole: without replicas and accumulate"
            ),
            None => (),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Given a time to measure, updates alone: what an outsider sees of the process's memory is then the update's.
fn measure(plan: &Plan, given: Option<f64>) -> anyhow::Result<Report> {
    let clock = MonotonicClock::start();
    let threads = plan.run.threads.unwrap_or_else(machine::cores);
    if let Some(note) = machine::oversubscribed(threads) {
        eprintln!("note: {note}");
    }
    let engine = Engine::for_plan(plan, threads, Kernels::Auto);
    let peak = engine.measure_peak(&clock).tell();
    let bandwidth = given.is_none().then(|| measure_bandwidth(&engine.pool, &clock));
    let facts = plan.data.expected_facts();
    let input = plan.pipeline.image_shape(facts.image);
    let batch = made_up(plan.batch_size(), input, facts.classes);
    let model = Model::new(&plan.model, input, facts.classes)?;
    let flops = model.flops_per_example()? as f64;
    let mut programs = Programs::for_plan(plan, model, engine.kernels, engine.pool.clone());
    let vars = programs.compile(&[batch.len()], &plan.optimizer)?;
    let mut state = State::init(&vars, plan.seed);

    programs.run_still(&mut state, &batch, plan)?;
    let (enough, least) = given.map_or((SECONDS, UPDATES), |seconds| (seconds, 1));
    let mut seconds = Vec::new();
    let start = clock.now();
    while seconds.len() < least || (clock.now() - start).0 < enough {
        let before = clock.now();
        programs.run_still(&mut state, &batch, plan)?;
        seconds.push((clock.now() - before).0);
    }
    let typical = median(&seconds).expect("updates were measured");
    let examples_per_second = batch.len() as f64 / typical;
    let gflops = examples_per_second * flops / 1e9;
    // Of a batch that is cut there is no one program to look into.
    let ops = match (programs.whole(batch.len()), bandwidth) {
        (Some(native), Some(bytes)) => {
            let ceilings = Ceilings { flops: peak.gflops * 1e9, bytes };
            time_operations(native, &mut state, &batch, ceilings, &clock)?
        }
        _ => Vec::new(),
    };
    Ok(Report {
        workload: plan.name.clone(),
        batch: batch.len(),
        threads,
        examples_per_second,
        gflops,
        peak_gflops: peak.gflops,
        share: gflops / peak.gflops,
        peak_gigabytes_per_second: bandwidth.map(|bytes| bytes * 1e-9),
        updates: seconds.len(),
        kernels: programs.kernel_name(),
        resident_bytes: programs.resident_bytes().0,
        replicas: plan.run.replicas,
        accumulate: plan.run.accumulate,
        ops,
    })
}

/// A batch of noise: time does not depend on values, as long as they are ordinary numbers.
pub(crate) fn made_up(examples: usize, [h, w, c]: [usize; 3], classes: usize) -> Batch {
    let mut rng = Seed(0).key(Purpose::Synthesis, 0).at(0, 0, 0);
    Batch {
        features: (0..examples * h * w * c).map(|_| rng.range(-1.0, 1.0)).collect(),
        shape: Shape::from([examples, h, w, c]),
        labels: (0..examples).map(|_| rng.below(classes as u32)).collect(),
        mixes: Vec::new(),
        origins: (0..examples).map(|i| Origin { epoch: 0, index: i as u64, echo: 0 }).collect(),
        fresh: examples,
    }
}
