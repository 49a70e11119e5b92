//! Time as an argument, so that everything that measures can be tested with a clock that is set by hand.

use crate::Seconds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A monotonic clock; only differences of its readings mean anything.
pub trait Clock: Send + Sync {
    /// Seconds since the clock's own origin. Never decreases.
    fn now(&self) -> Seconds;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone)]
pub struct MonotonicClock(Instant);

impl MonotonicClock {
    /// A clock whose origin is now.
    pub fn start() -> MonotonicClock {
        MonotonicClock(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Seconds {
        Seconds(self.0.elapsed().as_secs_f64())
    }
}

/// A clock that stands still until told to advance.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock on, to the nanosecond.
    pub fn advance(&self, by: Seconds) {
        self.0.fetch_add((by.0 * 1e9).round() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Seconds {
        Seconds(self.0.load(Ordering::SeqCst) as f64 / 1e9)
    }
}
