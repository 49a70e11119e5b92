//! `sooner study run`: workers take trials from the store until there is nothing left to do.

use super::args::RunArgs;
use super::folder::Folder;
use super::native::Shared;
use super::workers::{Crowd, Ended, Held, LEASE_SECONDS, MOST_ATTEMPTS, is_gone};
use super::{exec, status};
use crate::commands::train::interrupts;
use crate::machine;
use crate::machine::unix_seconds;
use crate::progress::Counter;
use crate::settle;
use anyhow::Context;
use sooner_record::{Ask, Hold, SqliteStore, Store, TrialState};
use sooner_report::{number, study_trials};
use sooner_study::definition::{ConfirmPlan, Confirms, PointPlan, StudyPlan};
use sooner_study::{Measure, to_target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// By how much of a range an edge is extended.
const GROWTH: f64 = 0.5;
/// A space that is still too narrow after this many times is a matter for a person.
const MOST_WIDENINGS: u32 = 6;

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut folder = Folder::open(&args.study)?;
    if let Some(trials) = args.trials {
        folder.plan.trials = trials;
    }
    if let Some(runs) = args.confirm {
        let before = folder.plan.confirm.take();
        let (to_the_end, set) = before.map_or_else(Default::default, |c| (c.to_the_end, c.set));
        folder.plan.confirm = (runs > 0).then_some(ConfirmPlan { runs, to_the_end, set });
    }
    if args.trials.is_some() || args.confirm.is_some() {
        folder.save()?;
    }
    let stop = interrupts()?;
    let deadline = args.seconds.map(|s| Instant::now() + Duration::from_secs_f64(s));
    let mut widenings = 0;
    let ran = AtomicU64::new(0);
    let code = loop {
        run_out(&mut folder, args, &stop, deadline, &ran)?;
        if stop.load(Ordering::Relaxed) {
            break if deadline.is_some_and(|d| Instant::now() >= d) { 3 } else { 130 };
        }
        if args.widen && widenings < MOST_WIDENINGS && widen(&mut folder)? {
            widenings += 1;
        } else if !confirm(&mut folder)? {
            break 0;
        }
    };
    status::print(&mut folder, args.json, Some(ran.into_inner()))?;
    Ok(ExitCode::from(code))
}

/// Runs trials until there is nothing left to do, or until told to stop.
fn run_out(
    folder: &mut Folder,
    args: &RunArgs,
    stop: &Arc<AtomicBool>,
    deadline: Option<Instant>,
    ran: &AtomicU64,
) -> anyhow::Result<()> {
    let before = folder.trials()?;
    let workers: BTreeSet<&str> =
        before.iter().filter(|t| t.state == TrialState::Running).map(|t| t.worker.as_str()).collect();
    for worker in workers.into_iter().filter(|w| is_gone(w)) {
        folder.store.release(worker)?;
    }
    if folder.points.iter().all(|(id, _)| folder.is_done(*id, &before)) {
        return Ok(());
    }
    let crowd = Crowd::new(stop.clone(), folder.plan.beyond_best, folder.plan.target()?);
    for trial in &before {
        if folder.points.iter().any(|(id, p)| *id == trial.point && p.confirms.is_none()) {
            crowd.note(trial.point, trial.state, &trial.evaluations);
        }
    }
    let count = args.workers.unwrap_or(machine::cores() / folder.plan.threads).max(1);
    let data = args.data.as_deref().map(settle::place).transpose()?;
    let native = match folder.plan.exec {
        Some(_) => None,
        None => Some(Shared::new(data, folder.plan.threads, args.keep)),
    };
    let left = folder.trials_left(&before);
    let bar = Counter::of_items(left, "trials");
    if !args.json {
        let points = folder.points.len();
        bar.say(&format!(
            "{left} trials to run at {points} points, {count} side by side; a line for each that ends"
        ));
        bar.show();
    }
    let driver = Driver {
        store: Mutex::new(SqliteStore::open(&folder.path.join("study.db"))?),
        crowd: crowd.clone(),
        plan: &folder.plan,
        points: &folder.points,
        path: &folder.path,
        native,
        quiet: args.json,
        bar,
        ran,
    };
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| driver.crowd.keep_alive(&driver.store, &done, deadline));
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(|| driver.work())).collect();
        let results: Vec<anyhow::Result<()>> = workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a trial's thread panicked"))))
            .collect();
        done.store(true, Ordering::Relaxed);
        keeper.thread().unpark();
        results.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    });
    driver.bar.clear();
    // What was running when all stopped is free for whoever comes next.
    driver.store().release(&crowd.name)?;
    result
}

struct Driver<'a> {
    store: Mutex<SqliteStore>,
    crowd: Arc<Crowd>,
    plan: &'a StudyPlan,
    points: &'a [(u64, PointPlan)],
    path: &'a Path,
    native: Option<Shared>,
    quiet: bool,
    /// Over the trials that count; one that diverged has another run in its place.
    bar: Counter,
    ran: &'a AtomicU64,
}

impl Driver<'_> {
    fn store(&self) -> std::sync::MutexGuard<'_, SqliteStore> {
        self.store.lock().expect("no holder panics")
    }

    fn point(&self, id: u64) -> &PointPlan {
        &self.points.iter().find(|(i, _)| *i == id).expect("the store's points are the study's").1
    }

    /// One worker: takes trials until there are none.
    fn work(&self) -> anyhow::Result<()> {
        let result = self.take_trials();
        if result.is_err() {
            // The others would fail alike.
            self.crowd.stop.store(true, Ordering::Relaxed);
        }
        result
    }

    fn take_trials(&self) -> anyhow::Result<()> {
        loop {
            if self.crowd.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let now = unix_seconds();
            let ask = Ask {
                worker: &self.crowd.name,
                now,
                until: now + LEASE_SECONDS,
                most_attempts: MOST_ATTEMPTS,
            };
            let lease = self
                .store()
                .lease(&ask, &mut |point, number| self.plan.draw(self.point(point.id), number))?;
            match lease {
                Some(lease) => {
                    let held = self.crowd.begin(lease);
                    let ended = self.run_trial(&held);
                    self.crowd.end(&held);
                    ended?;
                }
                // A running trial may diverge, and another is wanted in its place.
                None if self.crowd.wait() => {}
                None if self.store().trials()?.iter().any(|t| t.state == TrialState::Running) => {
                    std::thread::park_timeout(Duration::from_secs(1));
                }
                None => return Ok(()),
            }
        }
    }

    fn folder(&self, held: &Held) -> PathBuf {
        let l = &held.lease;
        self.path.join("trials").join(format!("{}-{}-{}", l.point, l.number, l.attempt))
    }

    fn run_trial(&self, held: &Held) -> anyhow::Result<()> {
        let lease = &held.lease;
        let point = self.point(lease.point);
        let folder = self.folder(held);
        let ended = match &self.native {
            Some(shared) => shared.run(self.plan, point, held, &folder),
            None => exec::run(self.plan, point, held, &folder),
        };
        let ended = ended.with_context(|| format!("{}, trial {}", point.label(), lease.number))?;
        let (outcome, evaluations) = match ended {
            Ended::Result(outcome, evaluations) => (outcome, evaluations),
            Ended::Dropped => return Ok(()),
            Ended::Killed => {
                self.crowd.end(held);
                // Its lease runs out now; whoever asks next gets it, under a new attempt.
                let until = unix_seconds();
                let _ = self.store().renew(lease, until, &[])?;
                self.say(&format!("{}: trial {} was killed; it is run again", point.label(), lease.number));
                return Ok(());
            }
        };
        // Runs over seeds tell how often the target is reached within the budget: none of them settles another.
        if point.confirms.is_none() {
            self.crowd.note(lease.point, outcome.state, &evaluations);
        }
        let hold = self.store().finish(lease, &outcome, &evaluations)?;
        let seen = evaluations
            .last()
            .map_or("before its first evaluation".to_string(), |e| format!("after {} updates", e.updates));
        let note = if outcome.note.is_empty() { String::new() } else { format!(" ({})", outcome.note) };
        match hold {
            Hold::Held => {
                self.ran.fetch_add(1, Ordering::Relaxed);
                if outcome.state.counts() {
                    self.bar.advance(1);
                }
                self.say(&format!(
                    "{}: trial {} {} {seen}, {:.1} s{note}",
                    point.label(),
                    lease.number,
                    outcome.state.name(),
                    held.seconds()
                ));
            }
            Hold::Lost => self.say(&format!(
                "{}: trial {} came too late and was refused: its lease had run out",
                point.label(),
                lease.number
            )),
        }
        Ok(())
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.say(line);
        }
    }
}

/// Extends the edges that best trials lie near, and asks for as many trials again there. False if there are none.
fn widen(folder: &mut Folder) -> anyhow::Result<bool> {
    let trials = folder.trials()?;
    let target = folder.plan.target()?;
    let mut wider = false;
    for (id, point) in folder.points.iter_mut().filter(|(_, p)| p.confirms.is_none()) {
        let here = study_trials(&trials, *id);
        let Some(best) = to_target(&here, &target, Measure::Updates)?.best else { continue };
        let found = here.iter().find(|t| t.number == best.trial).expect("the best is one of them");
        let space = point.space();
        let edges = space.tight_edges(&found.parameters);
        if !edges.is_empty() {
            for edge in &edges {
                eprintln!(
                    "{}: the best {} = {} is at the edge; widening",
                    point.label(),
                    edge.name,
                    number(edge.value)
                );
            }
            point.tune = space.widen(&edges, GROWTH).parameters().to_vec();
            wider = true;
        }
    }
    if wider {
        // Half a search more, at every point: each has as many feasible trials as any other, wherever the space grew.
        folder.plan.trials += folder.plan.trials.div_ceil(2);
        folder.save()?;
    }
    Ok(wider)
}

/// Adds a point for each best trial that is to be repeated with other seeds, where there is none yet. False if there are
/// none.
fn confirm(folder: &mut Folder) -> anyhow::Result<bool> {
    if folder.plan.confirm.is_none() {
        return Ok(false);
    }
    let trials = folder.trials()?;
    let target = folder.plan.target()?;
    let mut next = folder.points.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
    let mut more = Vec::new();
    for (id, point) in folder.points.iter().filter(|(_, p)| p.confirms.is_none()) {
        let here = study_trials(&trials, *id);
        let Some(best) = to_target(&here, &target, Measure::Updates)?.best else { continue };
        let found = here.iter().find(|t| t.number == best.trial).expect("the best is one of them");
        let confirms = Some(Confirms { trial: best.trial, values: found.parameters.clone() });
        let repeats = PointPlan { confirms, ..point.clone() };
        if !folder.points.iter().any(|(_, p)| p.is(&repeats)) {
            more.push((next, repeats));
            next += 1;
        }
    }
    let added = !more.is_empty();
    if added {
        folder.points.extend(more);
        folder.save()?;
    }
    Ok(added)
}
