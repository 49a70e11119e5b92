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
    since: Seconds,
    phase: Phase,
    spent: [f64; PHASES],
}

impl Stopwatch {
    /// Starts in [`Phase::Prepare`].
    pub fn start(clock: Arc<dyn Clock>) -> Stopwatch {
        let now = clock.now();
        Stopwatch { clock, since: now, phase: Phase::Prepare, spent: [0.0; PHASES] }
    }

    /// Starts in [`Phase::Prepare`] with what an earlier process had spent: a resumed run's time goes on from its
    /// checkpoint. `preprocess` is the part of `split.prepare` that was [`Phase::Preprocess`].
    pub fn resume(clock: Arc<dyn Clock>, split: &TimeSplit, preprocess: Seconds) -> Stopwatch {
        let mut watch = Stopwatch::start(clock);
        watch.spent = [
            split.prepare - preprocess,
            preprocess,
            split.wait,
            split.train,
            split.evaluate,
            split.checkpoint,
            split.log,
        ]
        .map(|seconds| seconds.0);
        watch
    }

    /// Ends the current phase and begins another. Should the clock jump backwards against its contract, the phase
    /// took no time: the partition stays one, with no negative part.
    pub fn enter(&mut self, phase: Phase) {
        let now = self.clock.now();
        self.spent[self.phase as usize] += (now - self.since).0.max(0.0);
        self.since = now;
        self.phase = phase;
    }

    /// Seconds from the start to the last change of phase: the sum of all phases.
    pub fn wall(&self) -> Seconds {
        self.split().wall()
    }

    /// The training clock at the last change of phase: preprocessing, waiting, updates and the log are in it;
    /// loading, building, evaluations and checkpoints are not (DAWNBench's rule).
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
        assert_eq!(watch.wall(), Seconds(127.0));
        // Loading (1), evaluation (16) and the checkpoint (32) are outside the training clock.
        assert_eq!(watch.training(), Seconds(127.0 - 1.0 - 16.0 - 32.0));
    }

    #[test]
    fn a_resumed_watch_goes_on() {
        let clock = Arc::new(ManualClock::default());
        let split = TimeSplit {
            prepare: Seconds(3.0),
            wait: Seconds(4.0),
            train: Seconds(8.0),
            evaluate: Seconds(16.0),
            checkpoint: Seconds(32.0),
            log: Seconds(64.0),
        };
        clock.advance(Seconds(1000.0));
        let mut watch = Stopwatch::resume(clock.clone(), &split, Seconds(2.0));
        assert_eq!((watch.split(), watch.wall(), watch.training()), (split, Seconds(127.0), Seconds(78.0)));
        clock.advance(Seconds(0.5));
        watch.enter(Phase::Train);
        clock.advance(Seconds(0.25));
        watch.enter(Phase::Log);
        assert_eq!((watch.wall(), watch.training()), (Seconds(127.75), Seconds(78.25)));
    }

    /// A clock that runs backwards half of the time.
    struct Jumping(std::sync::atomic::AtomicU64);

    impl Clock for Jumping {
        fn now(&self) -> Seconds {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Seconds(if n.is_multiple_of(2) { 1e6 - n as f64 } else { n as f64 })
        }
    }

    #[test]
    fn a_clock_that_jumps_back_leaves_a_partition() {
        let mut watch = Stopwatch::start(Arc::new(Jumping(Default::default())));
        for phase in [Phase::Train, Phase::Log, Phase::Evaluate, Phase::Wait, Phase::Train] {
            watch.enter(phase);
        }
        let s = watch.split();
        let parts = [s.prepare, s.wait, s.train, s.evaluate, s.checkpoint, s.log];
        assert!(parts.iter().all(|part| part.0 >= 0.0), "{s:?}");
        assert_eq!(parts.iter().map(|part| part.0).sum::<f64>(), watch.wall().0);
    }
}
