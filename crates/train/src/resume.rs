//! What may change when a run is resumed, and what may not.

use sooner_plan::{Complaint, Difference, Plan};
use sooner_record::CheckpointAbout;
use std::fmt;

/// Keys of the plan that may have another value when a run is resumed: none of them decides what an update does,
/// threads apart, which may decide its last bits. (What is done about bad examples decides nothing before the first of
/// them, and where they fail a run that is where it ends.)
pub const MAY_CHANGE: [&str; 6] =
    ["run.target", "run.epochs", "run.threads", "run.noise_scale", "pipeline.threads", "pipeline.on_bad"];

/// Keys whose values may change together, as long as batches are cut into as many parts: updates then have the same bits.
pub const PARTS: [&str; 2] = ["run.replicas", "run.accumulate"];

/// Why a plan cannot go on from a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum ResumeError {
    /// The checkpoint is of a run with another value of a key that decides what updates do.
    AnotherPlan {
        /// The first such key; `this` is the record's plan, `other` the checkpoint's.
        difference: Difference,
    },
    /// Batches would be cut into another number of parts.
    Parts {
        /// Parts in the checkpoint's plan.
        expected: usize,
        /// Parts in the plan.
        found: usize,
    },
    /// The run's end lies before the checkpoint.
    Over {
        /// The end, in epochs.
        end: f64,
        /// The checkpoint, in epochs.
        at: f64,
    },
    /// The checkpoint's place in the stream of batches is not the one that its updates lead to.
    Place {
        /// Epoch and batch that its updates lead to with these data.
        expected: (u32, u64),
        /// Epoch and batch that it says.
        found: (u32, u64),
    },
    /// The record's schedule of repeats does not lead to the checkpoint, or is not that of the record that is followed.
    Schedule {
        /// Batches and fresh examples at the checkpoint.
        expected: (u64, u64),
        /// Those of the schedule.
        found: (u64, u64),
    },
}

impl ResumeError {
    /// The error in the five fields that every error of the project can be told in.
    pub fn complaint(&self) -> Complaint {
        let tell = |what: &str, place: String, expected: String, found: String, hint: &str| Complaint {
            what: what.to_string(),
            place,
            expected,
            found,
            hint: hint.to_string(),
        };
        match self {
            ResumeError::AnotherPlan { difference: Difference { key, this, other } } => {
                let value = |v: &Option<String>| v.clone().unwrap_or("no such key".to_string());
                tell(
                    "checkpoint is of another plan",
                    key.clone(),
                    format!("{}, as in the record's plan", value(this)),
                    format!("{} in the checkpoint", value(other)),
                    "was plan.toml edited, or the checkpoint copied from another run? Remove the checkpoint to start over",
                )
            }
            ResumeError::Parts { expected, found } => tell(
                "batches would be cut into another number of parts",
                "run.replicas x run.accumulate".to_string(),
                format!("{expected}, as in the checkpoint"),
                found.to_string(),
                "the number of parts decides the bits of updates, how many are computed at a time does not: replicas may \
                 change if accumulate makes good for it",
            ),
            ResumeError::Over { end, at } => tell(
                "the run is already further",
                "run.epochs".to_string(),
                format!("at least {at}, where the checkpoint is"),
                end.to_string(),
                "a shorter run is another run: start a new one",
            ),
            ResumeError::Place { expected, found } => tell(
                "checkpoint is of other data",
                "checkpoint".to_string(),
                format!("epoch {} and batch {} after its updates", expected.0, expected.1),
                format!("epoch {} and batch {}", found.0, found.1),
                "have the data changed since the run began?",
            ),
            ResumeError::Schedule { expected, found } => tell(
                "record does not say what was repeated",
                "run.jsonl".to_string(),
                format!("a schedule of {} batches with {} fresh examples", expected.0, expected.1),
                format!("{} batches with {}", found.0, found.1),
                "were run.jsonl and the checkpoint copied from different runs? Remove the checkpoint to start over",
            ),
        }
    }
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.complaint().fmt(f)
    }
}

impl std::error::Error for ResumeError {}

/// Whether a run with this resolved plan can go on from that checkpoint: the first key that forbids it is the error.
pub fn check_resumable(plan: &Plan, checkpoint: &CheckpointAbout) -> Result<(), ResumeError> {
    let (expected, found) = (checkpoint.plan.run.parts(), plan.run.parts());
    if expected != found {
        return Err(ResumeError::Parts { expected, found });
    }
    let differences = plan.differences(&checkpoint.plan);
    match differences.into_iter().find(|d| !MAY_CHANGE.contains(&&*d.key) && !PARTS.contains(&&*d.key)) {
        Some(difference) => Err(ResumeError::AnotherPlan { difference }),
        None => Ok(()),
    }
}
