//! A store in memory: the definition of what a store does, in plain vectors.

use super::{
    Ask, Draw, Hold, Lease, Outcome, Store, StoredStudy, StoredTrial, TrialEvaluation, TrialState,
    check_insert,
};
use crate::RecordError;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A study that is gone when the process ends.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    study: Option<StoredStudy>,
    trials: BTreeMap<(u64, u64), StoredTrial>,
}

impl MemoryStore {
    /// Nothing yet.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn fault(reason: String) -> RecordError {
        RecordError::Store { path: PathBuf::from("memory"), reason }
    }

    /// The trial, if this is the attempt that holds it.
    fn held(&mut self, lease: &Lease) -> Option<&mut StoredTrial> {
        let trial = self.trials.get_mut(&(lease.point, lease.number))?;
        (trial.state == TrialState::Running && trial.attempt == lease.attempt).then_some(trial)
    }

    fn lease_again(&mut self, ask: &Ask<'_>) -> Option<Lease> {
        for trial in self.trials.values_mut() {
            if trial.state != TrialState::Running || trial.lease_until.is_some_and(|until| until > ask.now) {
                continue;
            }
            trial.evaluations.clear();
            trial.lease_until = None;
            if trial.attempt >= ask.most_attempts {
                trial.state = TrialState::Failed;
                trial.note = lost_note(trial.attempt);
                trial.worker.clear();
                continue;
            }
            trial.attempt += 1;
            trial.worker = ask.worker.to_string();
            trial.lease_until = Some(ask.until);
            let StoredTrial { point, number, attempt, .. } = *trial;
            return Some(Lease { point, number, attempt, parameters: trial.parameters.clone() });
        }
        None
    }
}

pub(super) fn lost_note(attempts: u64) -> String {
    format!("its worker was lost {attempts} times")
}

impl Store for MemoryStore {
    fn define(&mut self, study: &StoredStudy) -> Result<(), RecordError> {
        if let Some((point, _)) =
            self.trials.keys().find(|(point, _)| study.points.iter().all(|p| p.id != *point))
        {
            return Err(MemoryStore::fault(gone(*point)));
        }
        self.study = Some(study.clone());
        Ok(())
    }

    fn study(&mut self) -> Result<StoredStudy, RecordError> {
        self.study.clone().ok_or_else(|| MemoryStore::fault("it has no definition yet".into()))
    }

    fn lease(&mut self, ask: &Ask<'_>, draw: Draw<'_>) -> Result<Option<Lease>, RecordError> {
        if let Some(lease) = self.lease_again(ask) {
            return Ok(Some(lease));
        }
        let study = self.study()?;
        let mut open: Vec<(u64, u64, usize)> = Vec::new();
        for (index, point) in study.points.iter().enumerate() {
            let here: Vec<&StoredTrial> = self.trials.values().filter(|t| t.point == point.id).collect();
            let counted = here.iter().filter(|t| t.state.counts()).count() as u64;
            if counted < point.wanted && here.len() as u64 - counted < point.most_lost {
                open.push((counted, here.last().map_or(0, |t| t.number + 1), index));
            }
        }
        open.sort_by_key(|(counted, _, index)| (*counted, *index));
        for (_, number, index) in open {
            let point = &study.points[index];
            let Some(parameters) = draw(point, number) else { continue };
            let trial = StoredTrial {
                point: point.id,
                number,
                attempt: 1,
                state: TrialState::Running,
                parameters: parameters.clone(),
                note: String::new(),
                last_loss: None,
                worker: ask.worker.to_string(),
                lease_until: Some(ask.until),
                evaluations: Vec::new(),
            };
            self.trials.insert((point.id, number), trial);
            return Ok(Some(Lease { point: point.id, number, attempt: 1, parameters }));
        }
        Ok(None)
    }

    fn renew(&mut self, lease: &Lease, until: f64, more: &[TrialEvaluation]) -> Result<Hold, RecordError> {
        let Some(trial) = self.held(lease) else { return Ok(Hold::Lost) };
        trial.lease_until = Some(until);
        trial.evaluations.extend_from_slice(more);
        Ok(Hold::Held)
    }

    fn finish(
        &mut self,
        lease: &Lease,
        outcome: &Outcome,
        more: &[TrialEvaluation],
    ) -> Result<Hold, RecordError> {
        assert!(outcome.state != TrialState::Running, "a trial that ends is not running");
        let Some(trial) = self.held(lease) else { return Ok(Hold::Lost) };
        trial.evaluations.extend_from_slice(more);
        trial.state = outcome.state;
        trial.note = outcome.note.clone();
        trial.last_loss = outcome.last_loss;
        trial.worker.clear();
        trial.lease_until = None;
        Ok(Hold::Held)
    }

    fn release(&mut self, worker: &str) -> Result<u64, RecordError> {
        let mut count = 0;
        for trial in self.trials.values_mut() {
            if trial.state == TrialState::Running && trial.worker == worker {
                trial.lease_until = None;
                count += 1;
            }
        }
        Ok(count)
    }

    fn insert(&mut self, trials: &[StoredTrial]) -> Result<(), RecordError> {
        let study = self.study()?;
        for trial in trials {
            let existing = self.trials.get(&(trial.point, trial.number));
            let known = study.points.iter().any(|p| p.id == trial.point);
            check_insert(existing, trial, known).map_err(MemoryStore::fault)?;
        }
        for trial in trials {
            let key = (trial.point, trial.number);
            let running = |there: &StoredTrial| there.state == TrialState::Running;
            if self.trials.get(&key).is_none_or(running) {
                self.trials.insert(key, trial.clone());
            }
        }
        Ok(())
    }

    fn trials(&mut self) -> Result<Vec<StoredTrial>, RecordError> {
        Ok(self.trials.values().cloned().collect())
    }
}

pub(super) fn gone(point: u64) -> String {
    format!("point {point} has trials and is not in the new definition")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_contract() {
        super::super::check_store(&mut || Box::new(MemoryStore::new()));
    }
}
