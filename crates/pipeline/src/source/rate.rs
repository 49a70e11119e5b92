//! Holding a source to so many bytes a second, so that the cost of reading can be set: a slow disk or network to order,
//! for experiments and tests.

use crate::{DatasetInfo, Image, PipelineError, Source};
use sooner_base::{Bytes, Clock, Seconds};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Unused time that may be made up for. Sleeping is exact to a tenth of a millisecond or so; without this, what every
/// sleep takes too long would be lost and small reads would stay below the rate.
const CREDIT: Seconds = Seconds(0.01);
/// The same of what is fetched ahead from the network: a real line goes on into the receiver's buffer while the thread that
/// empties it is kept from its turn, as by updates on all cores; without this, such a thread would slow the line down.
const BUFFERED: Seconds = Seconds(0.25);
/// How often a wait looks at whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// A limit on bytes a second, shared by everything that reads from one source.
pub struct Rate {
    bytes_a_second: f64,
    clock: Arc<dyn Clock>,
    line: Mutex<Line>,
}

/// A line's state, by a clock that stands still while it is held up.
#[derive(Debug)]
struct Line {
    /// When everything booked so far has arrived.
    free: Seconds,
    /// Since when it is held up.
    held: Option<Seconds>,
    /// How long it was held up before.
    total: Seconds,
}

impl Line {
    fn now(&self, clock: &dyn Clock) -> Seconds {
        self.held.unwrap_or_else(|| clock.now()) - self.total
    }
}

impl Rate {
    /// A limit that begins now. Panics if it is 0.
    pub fn new(bytes_a_second: Bytes, clock: Arc<dyn Clock>) -> Rate {
        assert!(bytes_a_second.0 > 0, "a rate of no bytes a second");
        Rate::of(bytes_a_second.0 as f64, clock)
    }

    /// No limit, but a line that can be held up.
    pub(super) fn unlimited(clock: Arc<dyn Clock>) -> Rate {
        Rate::of(f64::INFINITY, clock)
    }

    fn of(bytes_a_second: f64, clock: Arc<dyn Clock>) -> Rate {
        let line = Line { free: clock.now(), held: None, total: Seconds(0.0) };
        Rate { bytes_a_second, clock, line: Mutex::new(line) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the line up, so that nothing arrives while training stands still, or lets it go on.
    pub fn hold_up(&self, held: bool) {
        let (now, mut line) = (self.clock.now(), self.line());
        match (held, line.held) {
            (true, None) => line.held = Some(now),
            (false, Some(since)) => {
                line.held = None;
                line.total += now - since;
            }
            _ => {}
        }
    }

    /// Books so many bytes after those already booked, and says when they have arrived, by the line's own clock.
    pub fn book(&self, bytes: u64) -> Seconds {
        self.book_late(bytes, CREDIT)
    }

    /// The same where so much unused time may be made up for.
    fn book_late(&self, bytes: u64, credit: Seconds) -> Seconds {
        let mut line = self.line();
        let earliest = line.now(self.clock.as_ref()) - credit;
        let start = if line.free.0 > earliest.0 { line.free } else { earliest };
        line.free = start + Seconds(bytes as f64 / self.bytes_a_second);
        line.free
    }

    fn is_held(&self) -> bool {
        self.line().held.is_some()
    }

    /// Books so many bytes and waits for them; false if it was cancelled before.
    pub fn wait(&self, bytes: u64, cancelled: &AtomicBool) -> bool {
        self.wait_until(self.book(bytes), cancelled)
    }

    /// The same for a thread that fetches ahead.
    pub(super) fn wait_ahead(&self, bytes: u64) {
        self.wait_until(self.book_late(bytes, BUFFERED), &AtomicBool::new(false));
    }

    fn wait_until(&self, due: Seconds, cancelled: &AtomicBool) -> bool {
        while !cancelled.load(Ordering::Relaxed) {
            let left = (due - self.line().now(self.clock.as_ref())).0;
            if left <= 0.0 && !self.is_held() {
                return true;
            }
            std::thread::sleep(Duration::from_secs_f64(left.clamp(0.001, 1.0)).min(LOOK));
        }
        false
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rate({} bytes/s)", self.bytes_a_second)
    }
}

/// Any source, held to a rate: reading takes as long as its bytes would over such a line.
#[derive(Debug)]
pub struct Throttled<S> {
    source: S,
    rate: Rate,
}

impl<S: Source> Throttled<S> {
    /// The same source behind a limit.
    pub fn new(source: S, rate: Rate) -> Throttled<S> {
        Throttled { source, rate }
    }
}

impl<S: Source> Source for Throttled<S> {
    fn info(&self) -> &DatasetInfo {
        self.source.info()
    }

    fn len(&self) -> usize {
        self.source.len()
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        self.source.read(index, into, cancelled)?;
        match self.rate.wait(into.len() as u64, cancelled) {
            true => Ok(()),
            false => Err(cancelled_at(&self.info().name)),
        }
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        self.source.decode(index, bytes, at_least, into)
    }

    fn shards(&self) -> Option<&[u64]> {
        self.source.shards()
    }

    fn label(&self, index: u64) -> Option<u32> {
        self.source.label(index)
    }

    fn hold_up(&self, held: bool) {
        self.rate.hold_up(held);
        self.source.hold_up(held);
    }
}

/// What a read that was cancelled returns; nobody looks at it.
pub(super) fn cancelled_at(name: &str) -> PipelineError {
    PipelineError::Read { path: PathBuf::from(name), source: std::io::ErrorKind::Interrupted.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::ManualClock;

    #[test]
    fn bytes_arrive_at_the_rate() {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Seconds(5.0));
        let rate = Rate::new(Bytes(1000), clock.clone());
        assert_eq!(rate.book(500).0, 5.5);
        assert_eq!(rate.book(500).0, 6.0);
        clock.advance(Seconds(0.25));
        assert_eq!(rate.book(1000).0, 7.0);
        // After a long pause only the credit is left of the time that was not used.
        clock.advance(Seconds(10.0));
        assert!((rate.book(100).0 - (15.25 - CREDIT.0 + 0.1)).abs() < 1e-12);
    }

    /// Whoever fetches ahead loses nothing of the line by coming late, up to what a buffer holds.
    #[test]
    fn a_line_goes_on_while_its_reader_is_kept_away() {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Seconds(5.0));
        let rate = Rate::new(Bytes(1000), clock.clone());
        let late = |seconds, credit| {
            clock.advance(Seconds(seconds));
            rate.book_late(100, credit).0
        };
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}, {expected}");
        close(late(0.0, BUFFERED), 5.1);
        // The reader comes 0.2 s after that: two more were under way meanwhile.
        close(late(0.3, BUFFERED), 5.2);
        close(late(0.0, BUFFERED), 5.3);
        close(late(0.0, BUFFERED), 5.4);
        // After longer the buffer was full.
        close(late(8.7, BUFFERED), 14.0 - BUFFERED.0 + 0.1);
        // A reader that does not fetch ahead loses the time.
        close(late(1.0, CREDIT), 15.0 - CREDIT.0 + 0.1);
    }

    /// Half the rate is twice the time, exactly.
    #[test]
    fn time_is_inverse_to_the_rate() {
        let total = |bytes_a_second| {
            let rate = Rate::new(Bytes(bytes_a_second), Arc::new(ManualClock::default()));
            (0..100).map(|k| rate.book(k * 10)).last().unwrap().0
        };
        assert!((total(500) / total(1000) - 2.0).abs() < 1e-9);
    }

    /// While training stands still nothing arrives, and nothing is made up for afterwards.
    #[test]
    fn a_line_that_is_held_up() {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Seconds(1.0));
        let rate = Arc::new(Rate::new(Bytes(100), clock.clone()));
        let due = rate.book(100);
        rate.hold_up(true);
        rate.hold_up(true);
        clock.advance(Seconds(50.0));
        assert_eq!((due.0, rate.book(100).0), (2.0, 3.0));
        rate.hold_up(false);
        rate.hold_up(false);
        clock.advance(Seconds(0.5));
        assert_eq!(rate.book(100).0, 4.0);
        let go = AtomicBool::new(false);
        let open = Rate::unlimited(clock.clone());
        assert!(open.wait(1 << 40, &go));
        open.hold_up(true);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| open.wait(1, &go));
            std::thread::yield_now();
            assert!(!waiting.is_finished() || go.load(Ordering::Relaxed));
            open.hold_up(false);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn waiting_ends_with_time_or_when_cancelled() {
        let clock = Arc::new(ManualClock::default());
        let rate = Rate::new(Bytes(10), clock.clone());
        let go = AtomicBool::new(false);
        clock.advance(Seconds(1.0));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| rate.wait(100, &go));
            while rate.line().free.0 == 0.0 {
                std::thread::yield_now();
            }
            clock.advance(Seconds(100.0));
            assert!(waiting.join().unwrap());
            let waiting = scope.spawn(|| rate.wait(100, &go));
            go.store(true, Ordering::Relaxed);
            assert!(!waiting.join().unwrap());
        });
    }
}
