//! From what a store keeps to what the analysis takes.

use sooner_base::{Epochs, Examples, FreshExamples, Seconds, Updates};
use sooner_record::{StoredTrial, TrialState};
use sooner_study::{Progress, Series, Status, Trial};

/// The trials of one point. A censored trial is complete: its budget ended, and it did not reach the target. What is
/// running or failed has no result and is left out of everything but the counts.
pub fn study_trials(trials: &[StoredTrial], point: u64) -> Vec<Trial> {
    trials.iter().filter(|trial| trial.point == point).map(study_trial).collect()
}

fn study_trial(stored: &StoredTrial) -> Trial {
    let mut series = Series::default();
    for e in &stored.evaluations {
        let progress = Progress {
            updates: Updates(e.updates),
            examples: Examples(e.examples),
            fresh: FreshExamples(e.fresh),
            epochs: e.epochs.map(Epochs),
            seconds: e.seconds.map(Seconds),
        };
        series.push(progress, e.metrics.iter().map(|(name, value)| (name.as_str(), *value)));
    }
    Trial {
        number: stored.number,
        status: match stored.state {
            TrialState::Complete | TrialState::Censored => Status::Complete,
            TrialState::Diverged => Status::Infeasible,
            TrialState::Running | TrialState::Failed => Status::Incomplete,
        },
        parameters: stored.parameters.clone(),
        series,
    }
}
