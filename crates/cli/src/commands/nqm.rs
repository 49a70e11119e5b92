//! `sooner nqm`: the noisy quadratic model, solved exactly over batch sizes and echo factors.

use crate::args::NqmArgs;
use crate::machine;
use crate::progress::Counter;
use serde::Serialize;
use sooner_study::nqm::{NqmOptimizer, NqmSpec, solve};
use std::num::NonZeroUsize;
use std::process::ExitCode;

/// One batch size and echo factor; the rest is null where no rate and momentum of the grid reach the goal.
#[derive(Debug, Serialize)]
struct Cell {
    batch: u64,
    echo: u32,
    fresh_batches: Option<u64>,
    updates: Option<u64>,
    learning_rate: Option<f64>,
    momentum: Option<f64>,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    dims: usize,
    goal: f64,
    optimizer: NqmOptimizer,
    cells: Vec<Cell>,
}

pub(crate) fn run(args: &NqmArgs) -> anyhow::Result<ExitCode> {
    let report = solve_all(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(ExitCode::SUCCESS)
}

fn solve_all(args: &NqmArgs) -> anyhow::Result<Report> {
    let NqmArgs { dims, goal, .. } = *args;
    let optimizer: NqmOptimizer = args.optimizer.parse()?;
    let points = args.batch.iter().flat_map(|&batch| args.echo.iter().map(move |&echo| (batch, echo)));
    let specs: Vec<NqmSpec> =
        points.map(|(batch, echo)| NqmSpec { dims, goal, optimizer, batch, echo }).collect();
    // All of them before the first is solved, which may take a while.
    specs.iter().try_for_each(NqmSpec::check)?;
    let threads = args.threads.or(NonZeroUsize::new(machine::cores())).unwrap_or(NonZeroUsize::MIN);
    let counter = Counter::of_items(specs.len() as u64, "cells");
    let mut cells = Vec::new();
    for spec in &specs {
        let best = solve(spec, threads)?;
        cells.push(Cell {
            batch: spec.batch,
            echo: spec.echo,
            fresh_batches: best.map(|cell| cell.fresh_batches),
            updates: best.map(|cell| cell.updates),
            learning_rate: best.map(|cell| cell.learning_rate),
            momentum: best.map(|cell| cell.momentum),
        });
        counter.advance(1);
    }
    counter.clear();
    Ok(Report { dims, goal, optimizer, cells })
}

/// For people. F is fresh(e) / fresh(1) at the same batch size: the share of fresh batches that echoing leaves.
fn table(report: &Report) -> String {
    let head =
        ["batch", "echo", "fresh batches", "updates", "learning rate", "momentum", "F"].map(String::from);
    let mut rows = vec![head];
    for cell in &report.cells {
        let once = report.cells.iter().find(|c| c.batch == cell.batch && c.echo == 1);
        let share = once.and_then(|c| c.fresh_batches).zip(cell.fresh_batches);
        let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
        rows.push([
            cell.batch.to_string(),
            cell.echo.to_string(),
            cell.fresh_batches.map_or("not reached".to_string(), |n| n.to_string()),
            shown(cell.updates.map(|n| n.to_string())),
            shown(cell.learning_rate.map(|rate| format!("{rate:.6}"))),
            shown(cell.momentum.map(|g| g.to_string())),
            shown(share.map(|(once, echoed)| format!("{:.3}", echoed as f64 / once as f64))),
        ]);
    }
    let widths: [usize; 7] = std::array::from_fn(|k| rows.iter().map(|row| row[k].len()).max().unwrap_or(0));
    let mut text = format!(
        "noisy quadratic model, {} dimensions, {}, to below {} of the initial loss\n",
        report.dims,
        report.optimizer.name(),
        report.goal
    );
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, w)| format!("{cell:>w$}")).collect();
        text += &cells.join("  ");
        text.push('\n');
    }
    text
}
