//! `sooner ceiling`: the arithmetic of a run, and the time it would take at 100 % of a peak.

use crate::args::CeilingArgs;
use crate::machine::{self, Engine};
use crate::progress::duration;
use crate::settle;
use serde::Serialize;
use sooner_base::MonotonicClock;
use sooner_models::Model;
use sooner_plan::Plan;
use std::process::ExitCode;

/// The JSON object. FLOPs count 2 for a multiply-add, three forward passes an update, convolution and linear only.
#[derive(Debug, Serialize)]
struct Report {
    workload: String,
    parameters: u64,
    flops_per_example: u64,
    examples_per_epoch: u64,
    epochs: f64,
    /// Examples that all updates use, repeats included.
    examples: u64,
    total_flops: f64,
    peak_gflops: f64,
    /// Whether the peak is this machine's, measured just now on these threads; null if it was given.
    measured_on_threads: Option<usize>,
    seconds_at_peak: f64,
}

pub(crate) fn run(args: &CeilingArgs) -> anyhow::Result<ExitCode> {
    for (option, value) in [("--peak", args.peak), ("--epochs", args.epochs)] {
        value.map_or(Ok(()), |value| settle::positive(option, value))?;
    }
    let mut plan = settle::plan(&args.plan, &[])?;
    if let Some(epochs) = args.epochs {
        plan = plan.with_epochs(epochs);
    }
    plan.check_without_data()?;
    let report = count(&plan, args.peak)?;
    match args.plan.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => println!("{}", page(&report)),
    }
    Ok(ExitCode::SUCCESS)
}

fn count(plan: &Plan, peak: Option<f64>) -> anyhow::Result<Report> {
    // The files decide how many examples there are; without them, what their authors published.
    let facts = match plan.data.path {
        Some(_) => settle::peek(plan)?,
        None => plan.data.expected_facts(),
    };
    let input = plan.pipeline.image_shape(facts.image);
    let model = Model::new(&plan.model, input, facts.classes)?;
    let flops = model.flops_per_example()?;
    let pace = plan.pace(facts.train_examples);
    let examples = pace.examples_after(pace.updates(plan.run.epochs));
    let total_flops = flops as f64 * examples as f64;
    let (peak_gflops, measured_on_threads) = match peak {
        Some(peak) => (peak, None),
        None => {
            let threads = plan.run.threads.unwrap_or_else(machine::cores);
            let peak = Engine::new(threads).measure_peak(&MonotonicClock::start()).tell();
            (peak.gflops, Some(threads))
        }
    };
    Ok(Report {
        workload: plan.name.clone(),
        parameters: model.vars().parameter_count() as u64,
        flops_per_example: flops,
        examples_per_epoch: facts.train_examples as u64,
        epochs: plan.run.epochs,
        examples,
        total_flops,
        peak_gflops,
        measured_on_threads,
        seconds_at_peak: total_flops / (peak_gflops * 1e9),
    })
}

fn page(r: &Report) -> String {
    let peak = match r.measured_on_threads {
        Some(1) => "measured here on 1 thread".to_string(),
        Some(threads) => format!("measured here on {threads} threads"),
        None => "as given".to_string(),
    };
    let seconds = match r.seconds_at_peak {
        s if s < 3600.0 => format!("{s:.1} s"),
        s => format!("{s:.0} s ({})", duration(s)),
    };
    [
        format!("{}: the time at 100 % of the arithmetic", r.workload),
        format!("  parameters         {}", grouped(r.parameters)),
        format!(
            "  update             {} an example: forward and backward, layers alone",
            flop(r.flops_per_example as f64)
        ),
        format!(
            "  run                {} epochs of {} examples = {}",
            r.epochs,
            grouped(r.examples_per_epoch),
            flop(r.total_flops)
        ),
        format!("  peak               {:.0} GFLOP/s, {peak}", r.peak_gflops),
        format!("  time at that peak  {seconds}"),
    ]
    .join("\n")
}

/// FLOPs with the prefix that leaves one to three digits before the point.
fn flop(count: f64) -> String {
    let units = [(1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")];
    let (unit, name) = units.into_iter().find(|(unit, _)| count >= *unit).unwrap_or((1.0, "FLOP"));
    format!("{:.2} {name}", count / unit)
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 5_200_000].map(grouped), ["0", "999", "1,000", "5,200,000"]);
        let said = [0.0, 12.0, 2.5e6, 4.83e15, 9.9e18].map(flop);
        assert_eq!(said, ["0.00 FLOP", "12.00 FLOP", "2.50 MFLOP", "4.83 PFLOP", "9900.00 PFLOP"]);
    }
}
