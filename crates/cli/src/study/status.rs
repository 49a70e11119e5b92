//! `sooner study status`: how far a study is, point by point.

use super::args::StatusArgs;
use super::folder::Folder;
use super::workers::is_gone;
use crate::machine::unix_seconds;
use serde_json::{Value, json};
use sooner_record::{StoredTrial, TrialState};
use sooner_report::{FEWEST, number, study_trials};
use sooner_study::{Measure, to_target};
use std::process::ExitCode;

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let mut folder = Folder::open_to_read(&args.study)?;
    print(&mut folder, args.json, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints where a study stands; `ran` is how many trials this call has finished.
pub(crate) fn print(folder: &mut Folder, json: bool, ran: Option<u64>) -> anyhow::Result<()> {
    let trials = folder.trials()?;
    let points = points(folder, &trials)?;
    let wanted = folder.plan.trials;
    let finished = points.iter().all(|p| folder.is_done(p.id, &trials));
    if json {
        let list: Vec<Value> = points.iter().map(Row::json).collect();
        println!(
            "{}",
            json!({ "study": folder.plan.name, "target": folder.plan.target, "trials": wanted, "finished": finished,
                "ran": ran, "points": list })
        );
        return Ok(());
    }
    println!("{}: to {}, {wanted} feasible trials a point", folder.plan.name, folder.plan.target);
    let width = points.iter().map(|p| p.label.len()).max().unwrap_or(5).max(5);
    println!(
        "{:width$}  {:>8} {:>8} {:>8} {:>7} {:>8} {:>11}  best",
        "point", "complete", "censored", "diverged", "failed", "running", "interrupted"
    );
    for p in &points {
        let [complete, censored, diverged, failed, running, interrupted] = p.counts;
        let best = match &p.best {
            Some((trial, updates)) => format!("{updates} updates (trial {trial})"),
            None if complete + censored == 0 => "no trial yet".to_string(),
            None => "target not reached".to_string(),
        };
        println!(
            "{:width$}  {complete:>8} {censored:>8} {diverged:>8} {failed:>7} {running:>8} {interrupted:>11}  {best}",
            p.label
        );
        for edge in &p.edges {
            println!("{:width$}  the best trial is at an edge: {edge}; `study run --widen` extends it", "");
        }
    }
    println!("{}", if finished { "finished" } else { "not finished: `sooner study run` goes on" });
    Ok(())
}

struct Row {
    id: u64,
    label: String,
    /// Complete, censored, diverged, failed, running, interrupted.
    counts: [usize; 6],
    best: Option<(u64, f64)>,
    edges: Vec<String>,
}

impl Row {
    fn json(&self) -> Value {
        let [complete, censored, diverged, failed, running, interrupted] = self.counts;
        json!({ "point": self.id, "label": self.label, "complete": complete, "censored": censored,
            "diverged": diverged, "failed": failed, "running": running, "interrupted": interrupted,
            "best_trial": self.best.map(|b| b.0), "updates_to_target": self.best.map(|b| b.1), "edges": self.edges })
    }
}

/// Whether somebody runs the trial now; if not, its worker was interrupted or lost, and whoever comes next runs it again.
fn is_held(trial: &StoredTrial, now: f64) -> bool {
    trial.lease_until.is_some_and(|until| until > now) && !is_gone(&trial.worker)
}

fn points(folder: &Folder, trials: &[StoredTrial]) -> anyhow::Result<Vec<Row>> {
    let (target, now) = (folder.plan.target()?, unix_seconds());
    let mut rows = Vec::new();
    for (id, point) in &folder.points {
        let of = |state| trials.iter().filter(move |t| t.point == *id && t.state == state);
        use TrialState::*;
        let [diverged, failed] = [Diverged, Failed].map(|state| of(state).count());
        let running = of(Running).filter(|trial| is_held(trial, now)).count();
        let here = study_trials(trials, *id);
        let reached = to_target(&here, &target, Measure::Updates)?;
        // By the target as it is now, which need not be the one that trials ended by.
        let (best, complete, censored) = (reached.best, reached.reached, reached.censored);
        let counts = [complete, censored, diverged, failed, running, of(Running).count() - running];
        let edges = match best {
            Some(best) if point.confirms.is_none() && complete + censored >= FEWEST => {
                let found = here.iter().find(|t| t.number == best.trial).expect("the best is one of them");
                let edges = point.space().tight_edges(&found.parameters);
                edges.iter().map(|e| format!("{} = {}", e.name, number(e.value))).collect()
            }
            _ => Vec::new(),
        };
        rows.push(Row {
            id: *id,
            label: point.label(),
            counts,
            best: best.map(|b| (b.trial, b.amount)),
            edges,
        });
    }
    Ok(rows)
}
