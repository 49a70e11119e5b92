//! What a pipeline's threads share beside the data: a clock that can be stopped, and what each stage did by it.

use crate::Source;
use sooner_base::{Clock, Seconds, StageStats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The stages that a stream's time is booked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Waiting for examples' bytes; items are examples.
    Read,
    /// From bytes to pixels, and what is done once for all repeats; items are examples.
    Decode,
    /// Order and origins; items are examples.
    Shuffle,
    /// Crop, flip and normalise, one write a pixel; items are examples.
    Augment,
    /// Handing over in order; items are batches.
    Batch,
}

impl Lane {
    pub(crate) const ALL: [(Lane, &'static str); 5] = [
        (Lane::Read, "read"),
        (Lane::Decode, "decode"),
        (Lane::Shuffle, "shuffle"),
        (Lane::Augment, "augment"),
        (Lane::Batch, "batch"),
    ];
}

/// Shares of work that are booked together: a lock for each example would cost more than some examples do.
#[derive(Debug, Default)]
pub(crate) struct Tally([StageStats; 5]);

impl Tally {
    /// Adds to one stage's share.
    pub(crate) fn add(&mut self, lane: Lane, share: StageStats) {
        self.0[lane as usize].merge(&share);
    }
}

/// What a thread of a stream does at one of its two queues: jobs for workers, and filled batches for the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtQueue {
    /// It is about to put something in.
    Sends,
    /// It has taken something out without waiting.
    Took,
    /// It is about to wait for something.
    Waits,
    /// It has waited and taken something out.
    Woken,
}

/// The two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Jobs,
    Filled,
}

/// One for each pipeline.
pub(crate) struct Control {
    clock: Arc<dyn Clock>,
    /// Told of queues, so that a test's clock knows when all threads wait and time may go on.
    #[cfg(test)]
    witness: Option<Arc<crate::virtual_time::VirtualTime>>,
    /// A copy of `stop.since.is_some()` that costs working threads no lock.
    paused: AtomicBool,
    /// Pauses begun and ended so far: odd while paused. `stood` is read between two looks at it.
    turns: AtomicU64,
    /// The bits of `stop.total`.
    stood: AtomicU64,
    stop: Mutex<Stop>,
    changed: Condvar,
    stats: Mutex<[StageStats; 5]>,
    /// What is read, which may fetch ahead by itself.
    source: Option<Arc<dyn Source>>,
}

/// When the clock stands still.
#[derive(Debug, Default)]
struct Stop {
    since: Option<Seconds>,
    total: Seconds,
}

/// A panic elsewhere leaves these plain numbers usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    pub(crate) fn new(clock: Arc<dyn Clock>, source: Option<Arc<dyn Source>>) -> Control {
        Control {
            clock,
            source,
            #[cfg(test)]
            witness: None,
            paused: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            stood: AtomicU64::new(0f64.to_bits()),
            stop: Mutex::default(),
            changed: Condvar::new(),
            stats: Mutex::default(),
        }
    }

    /// The same on a test's time, which has to know what threads wait for.
    #[cfg(test)]
    pub(crate) fn witnessed(time: Arc<crate::virtual_time::VirtualTime>) -> Control {
        Control { witness: Some(time.clone()), ..Control::new(time, None) }
    }

    /// Says what a thread does at a queue; only tests listen.
    #[inline]
    pub(crate) fn tell(&self, place: Place, what: AtQueue) {
        #[cfg(test)]
        if let Some(witness) = &self.witness {
            witness.at_queue(place, what);
        }
        #[cfg(not(test))]
        let _ = (place, what);
    }

    /// The clock's seconds less those of all pauses, so that a pause is neither busy nor blocked time of anyone.
    pub(crate) fn now(&self) -> Seconds {
        // Several looks for each example that is read: a lock here would make workers wait for each other.
        let before = self.turns.load(Ordering::Acquire);
        if before.is_multiple_of(2) {
            let now = self.clock.now() - Seconds(f64::from_bits(self.stood.load(Ordering::Acquire)));
            if self.turns.load(Ordering::Acquire) == before {
                return now;
            }
        }
        let stop = lock(&self.stop);
        stop.since.unwrap_or_else(|| self.clock.now()) - stop.total
    }

    /// Stops working threads at their next slice.
    pub(crate) fn pause(&self) {
        let mut stop = lock(&self.stop);
        if stop.since.is_none() {
            stop.since = Some(self.clock.now());
            self.turns.fetch_add(1, Ordering::AcqRel);
        }
        self.paused.store(true, Ordering::Release);
        self.source.iter().for_each(|source| source.hold_up(true));
    }

    /// Lets them go on.
    pub(crate) fn resume(&self) {
        let mut stop = lock(&self.stop);
        if let Some(since) = stop.since.take() {
            stop.total += self.clock.now() - since;
            self.stood.store(stop.total.0.to_bits(), Ordering::Release);
            self.turns.fetch_add(1, Ordering::AcqRel);
            self.paused.store(false, Ordering::Release);
            self.changed.notify_all();
            self.source.iter().for_each(|source| source.hold_up(false));
        }
    }

    /// Waits while paused. False once `cancelled`, also in the middle of a pause.
    pub(crate) fn go_on(&self, cancelled: &AtomicBool) -> bool {
        if self.paused.load(Ordering::Acquire) {
            let mut stop = lock(&self.stop);
            while stop.since.is_some() && !cancelled.load(Ordering::Acquire) {
                stop = self.changed.wait(stop).unwrap_or_else(PoisonError::into_inner);
            }
        }
        !cancelled.load(Ordering::Acquire)
    }

    /// Sets the flag and wakes whoever waits in `go_on`.
    pub(crate) fn cancel(&self, cancelled: &AtomicBool) {
        // Under the lock, or a thread that has just looked at the flag would sleep through the notice.
        let _stop = lock(&self.stop);
        cancelled.store(true, Ordering::Release);
        self.changed.notify_all();
        #[cfg(test)]
        if let Some(witness) = &self.witness {
            witness.close();
        }
    }

    /// Lets the source go on, also in a pause: a thread that waits for it could not see that nobody wants it any more.
    pub(crate) fn release_source(&self) {
        self.source.iter().for_each(|source| source.hold_up(false));
    }

    /// Books a share of work on one stage.
    pub(crate) fn book(&self, lane: Lane, share: StageStats) {
        lock(&self.stats)[lane as usize].merge(&share);
    }

    /// Books shares of work on several stages, and empties them.
    pub(crate) fn book_all(&self, tally: &mut Tally) {
        let shares = std::mem::take(tally);
        let mut stats = lock(&self.stats);
        stats.iter_mut().zip(&shares.0).for_each(|(stats, share)| stats.merge(share));
    }

    /// What one stage did so far.
    pub(crate) fn stats(&self, lane: Lane) -> StageStats {
        lock(&self.stats)[lane as usize]
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("stop", &self.stop)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::ManualClock;

    #[test]
    fn the_clock_stands_still_while_paused() {
        let clock = Arc::new(ManualClock::default());
        let control = Control::new(clock.clone(), None);
        let mut now = Vec::new();
        let mut after = |act: &dyn Fn(&Control)| {
            act(&control);
            clock.advance(Seconds(1.0));
            now.push(control.now().0);
        };
        after(&|_| ());
        after(&|control| control.pause());
        after(&|control| control.pause());
        after(&|control| control.resume());
        after(&|control| control.resume());
        assert_eq!(now, [1.0, 1.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn cancelling_ends_a_pause_for_its_stream_only() {
        let control = Control::new(Arc::new(ManualClock::default()), None);
        let (cancelled, other) = (AtomicBool::new(false), AtomicBool::new(false));
        control.pause();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| control.go_on(&cancelled));
            let other = scope.spawn(|| control.go_on(&other));
            control.cancel(&cancelled);
            assert!(!waiting.join().unwrap());
            control.resume();
            assert!(other.join().unwrap());
        });
    }
}
