//! The trainer thread's time, partitioned: it is always in exactly one phase, so the phases sum to wall time.

use sooner_base::{Clock, Seconds};
use sooner_record::TimeSplit;
use std::sync::Arc;

/// What the trainer thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Loading files, building programs, initial values.
    Prepare,
    /// Work on the data that is done once before training, such as whitening; listed inside prepare.
    Preprocess,
    /// Waiting for a batch.
    Wait,
    /// Updates.
    Train,
    /// Evaluations.
    Evaluate,
    /// Writing checkpoints and weights.
    Checkpoint,
    /// Writing the record and telling the observer.
    Log,
}

const PHASES: usize = 7;

/// A clock that is read at every change of phase, and only there.
pub struct Stopwatch {
    clock: Arc<dyn Clock>,
    start: Seconds,
    since: Seconds,
    phase: Phase,
    spent: [f64; PHASES],
}

impl Stopwatch {
    /// Starts in [`Phase::Prepare`].
    pub fn start(clock: Arc<dyn Clock>) -> Stopwatch {
        let now = clock.now();
        Stopwatch { clock, start: now, since: now, phase: Phase::Prepare, spent: [0.0; PHASES] }
    }

    /// Ends the current phase and begins another.
    pub fn enter(&mut self, phase: Phase) {
        let now = self.clock.now();
        self.spent[self.phase as usize] += (now - self.since).0;
        self.since = now;
        self.phase = phase;
    }

    /// Seconds from the start to the last change of phase.
    pub fn wall(&self) -> Seconds {
        self.since - self.start
    }

    /// The training clock at the last change of phase: preprocessing, waiting, updates and the log are in it;
    /// loading, building, evaluations and checkpoints are not (DAWNBench's rule; FACTS C1).
    pub fn training(&self) -> Seconds {
        let counted = [Phase::Preprocess, Phase::Wait, Phase::Train, Phase::Log];
        Seconds(counted.iter().map(|p| self.spent[*p as usize]).sum())
    }

    /// Seconds spent in one phase up to the last change.
    pub fn spent(&self, phase: Phase) -> Seconds {
        Seconds(self.spent[phase as usize])
    }

    /// The partition of wall time up to the last change of phase.
    pub fn split(&self) -> TimeSplit {
        TimeSplit {
            prepare: self.spent(Phase::Prepare) + self.spent(Phase::Preprocess),
            wait: self.spent(Phase::Wait),
            train: self.spent(Phase::Train),
            evaluate: self.spent(Phase::Evaluate),
            checkpoint: self.spent(Phase::Checkpoint),
            log: self.spent(Phase::Log),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::ManualClock;

    #[test]
    fn phases_sum_to_wall_time() {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Seconds(5.0));
        let mut watch = Stopwatch::start(clock.clone());
        let phases = [
            Phase::Preprocess,
            Phase::Wait,
            Phase::Train,
            Phase::Evaluate,
            Phase::Checkpoint,
            Phase::Log,
            Phase::Train,
        ];
        for (i, phase) in phases.into_iter().enumerate() {
            clock.advance(Seconds((1 << i) as f64));
            watch.enter(phase);
        }
        let s = watch.split();
        assert_eq!((s.prepare, s.wait, s.train), (Seconds(3.0), Seconds(4.0), Seconds(8.0)));
        assert_eq!((s.evaluate, s.checkpoint, s.log), (Seconds(16.0), Seconds(32.0), Seconds(64.0)));
        let sum = s.prepare + s.wait + s.train + s.evaluate + s.checkpoint + s.log;
        assert_eq!(sum, watch.wall());
        assert_eq!(watch.wall(), Seconds(127.0));
        // Loading (1), evaluation (16) and the checkpoint (32) are outside the training clock.
        assert_eq!(watch.training(), Seconds(127.0 - 1.0 - 16.0 - 32.0));
    }
}
