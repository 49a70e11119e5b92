//! What a study keeps: its definition, the points of its axes, and the trials at each of them. Any number of workers lease
//! trials, renew their leases while they run, and finish them; a lease that ran out is given to another worker under a new
//! attempt, and whatever the first one still sends is refused. So a kill at any moment costs at most the running trials.
//!
//! [`MemoryStore`] defines what a store does, [`SqliteStore`] keeps it on disk, and [`check_store`] is the contract that
//! both pass and any other must. **Invariant:** no clock here: whoever calls says what time it is.

mod contract;
mod export;
mod memory;
mod sqlite;

pub use contract::check_store;
pub use export::{STUDY_FORMAT, StudyExport};
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;

use crate::RecordError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values of metaparameters, or of metrics, by name.
pub type Values = BTreeMap<String, f64>;

/// A study as it was defined: a text that the store does not read, and where its trials are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredStudy {
    /// The study's file.
    pub definition: String,
    /// The points of its axes, in order of their numbers.
    pub points: Vec<StudyPoint>,
}

/// One point of a study's axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyPoint {
    /// Its number in the study.
    pub id: u64,
    /// What it is: a text that the store does not read.
    pub about: String,
    /// How many feasible trials it gets.
    pub wanted: u64,
    /// How many trials may diverge or fail before no more are drawn here, so that a hopeless point ends.
    pub most_lost: u64,
}

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// A worker holds it.
    Running,
    /// It met the target, or went to its end where there was none.
    Complete,
    /// Its budget ended before the target.
    Censored,
    /// It diverged: infeasible.
    Diverged,
    /// It came to no result: the command failed, or its workers were lost too often.
    Failed,
}

impl TrialState {
    /// Whether the trial counts among those that a point wants.
    pub fn counts(self) -> bool {
        matches!(self, TrialState::Running | TrialState::Complete | TrialState::Censored)
    }

    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            TrialState::Running => "running",
            TrialState::Complete => "complete",
            TrialState::Censored => "censored",
            TrialState::Diverged => "diverged",
            TrialState::Failed => "failed",
        }
    }

    fn parse(name: &str) -> Option<TrialState> {
        use TrialState::*;
        [Running, Complete, Censored, Diverged, Failed].into_iter().find(|state| state.name() == name)
    }
}

/// One evaluation of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialEvaluation {
    /// Updates made.
    pub updates: u64,
    /// Examples in them, repeats included.
    pub examples: u64,
    /// Examples read.
    pub fresh: u64,
    /// Passes over the training split, where its size is known.
    pub epochs: Option<f64>,
    /// The training clock, where there was one.
    pub seconds: Option<f64>,
    /// What was measured, named `SPLIT.METRIC`. What is no finite number is null in files and read as NaN.
    #[serde(with = "crate::number::map")]
    pub metrics: Values,
}

/// A trial as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTrial {
    /// The number of its point.
    pub point: u64,
    /// Its number at that point, from 0.
    pub number: u64,
    /// How often it was leased.
    pub attempt: u64,
    /// Where it stands.
    pub state: TrialState,
    /// Its metaparameters.
    pub parameters: Values,
    /// Why it ended as it did, where there is more to say than its state; where its logs are.
    pub note: String,
    /// The last finite training loss.
    pub last_loss: Option<f64>,
    /// Who holds it; empty if nobody does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worker: String,
    /// When its lease runs out, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<f64>,
    /// Its evaluations, in order.
    pub evaluations: Vec<TrialEvaluation>,
}

/// Who asks for a trial, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask<'a> {
    /// A name that no other process has.
    pub worker: &'a str,
    /// Seconds since 1970.
    pub now: f64,
    /// When the lease runs out.
    pub until: f64,
    /// How often a trial is leased before it has failed for good.
    pub most_attempts: u64,
}

/// A trial that a worker holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    /// The number of its point.
    pub point: u64,
    /// Its number at that point.
    pub number: u64,
    /// Which attempt this is, from 1; what an earlier one sends is refused.
    pub attempt: u64,
    /// Its metaparameters.
    pub parameters: Values,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Any state but running.
    pub state: TrialState,
    /// Why, where there is more to say.
    pub note: String,
    /// The last finite training loss.
    pub last_loss: Option<f64>,
}

/// Whether a worker still holds its trial.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It does, and what it sent was taken.
    Held,
    /// The lease ran out and went to another; nothing was taken.
    Lost,
}

/// The metaparameters of a new trial, as a function of its point and number and nothing else; `None` past the last. Called
/// inside the transaction that gives out the number, so that no two trials can be the same.
pub type Draw<'a> = &'a mut dyn FnMut(&StudyPoint, u64) -> Option<Values>;

/// Where studies are kept.
pub trait Store: Send {
    /// Writes or replaces the definition. Points keep their trials by number; a point that has trials cannot go.
    fn define(&mut self, study: &StoredStudy) -> Result<(), RecordError>;

    /// The definition.
    fn study(&mut self) -> Result<StoredStudy, RecordError>;

    /// Gives out a trial: first one whose lease ran out, under a new attempt; else a new one at the point that has fewest
    /// and wants more, of equal ones the first. `None` if there is nothing to do now, though running trials may still come
    /// back.
    fn lease(&mut self, ask: &Ask<'_>, draw: Draw<'_>) -> Result<Option<Lease>, RecordError>;

    /// Prolongs a lease, and adds evaluations made since.
    fn renew(&mut self, lease: &Lease, until: f64, more: &[TrialEvaluation]) -> Result<Hold, RecordError>;

    /// Ends a trial, adding the evaluations not sent yet. Panics if the outcome is running.
    fn finish(
        &mut self,
        lease: &Lease,
        outcome: &Outcome,
        more: &[TrialEvaluation],
    ) -> Result<Hold, RecordError>;

    /// Lets the leases of a worker that is known to be gone run out now, and returns how many there were.
    fn release(&mut self, worker: &str) -> Result<u64, RecordError>;

    /// Adds finished trials from elsewhere: one that is here already must be the same, or nothing is added. One that is
    /// running here is taken from its worker.
    fn insert(&mut self, trials: &[StoredTrial]) -> Result<(), RecordError>;

    /// All trials at one moment, by point and number.
    fn trials(&mut self) -> Result<Vec<StoredTrial>, RecordError>;
}

/// What is wrong with finished trials that are to be added, whatever the store.
fn check_insert(existing: Option<&StoredTrial>, trial: &StoredTrial, known: bool) -> Result<(), String> {
    let name = format!("trial {} of point {}", trial.number, trial.point);
    if trial.state == TrialState::Running {
        return Err(format!("{name} is still running"));
    }
    if !known {
        return Err(format!("{name} is at a point that this study does not have"));
    }
    match existing {
        Some(other) if other.state != TrialState::Running => {
            let same = other.state == trial.state
                && other.parameters == trial.parameters
                && other.evaluations.len() == trial.evaluations.len();
            if same { Ok(()) } else { Err(format!("{name} is here already, and not the same")) }
        }
        _ => Ok(()),
    }
}
