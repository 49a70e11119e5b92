//! Time that a test makes, for the pipeline's own threads: it stands still while any thread of a stream can go on, and
//! jumps to the next end of somebody's work once all of them work or wait. So a run has exact times whatever the
//! machine does meanwhile, and what is timed are the very threads, queues and buffers of a stream, not a model of them.
//!
//! Work is either waiting (a disk, a network, an accelerator: it takes its seconds) or computing, on cores that all who
//! compute share evenly, as an operating system does: with more threads than cores everyone gets slower alike.

use crate::control::{AtQueue, Place};
use sooner_base::{Clock, Seconds};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Below this, rounding has left a rest of work that is none.
const NOTHING: f64 = 1e-12;

#[derive(Debug)]
pub(crate) struct VirtualTime {
    cores: f64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now: f64,
    /// Threads that take part: the workers and the consumer.
    actors: usize,
    /// Who waits at each queue, and what was put in and not yet taken out.
    waiting: [usize; 2],
    inside: [usize; 2],
    tasks: Vec<Task>,
    numbers: u64,
    /// CPU seconds spent computing.
    computed: f64,
    /// Nobody's work takes time any more, so that threads can end.
    closed: bool,
}

#[derive(Debug)]
struct Task {
    number: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Wait {
        until: f64,
    },
    /// CPU seconds that are left, on at most so many cores.
    Compute {
        left: f64,
        threads: f64,
    },
}

impl VirtualTime {
    /// Time for so many worker threads and a consumer, on so many cores.
    pub(crate) fn new(workers: usize, cores: f64) -> VirtualTime {
        let state = State { actors: workers + 1, closed: true, ..State::default() };
        VirtualTime { cores, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Another pipeline with so many worker threads, while no stream of another one exists.
    pub(crate) fn set_workers(&self, workers: usize) {
        let mut state = self.lock();
        *state = State { now: state.now, computed: state.computed, actors: workers + 1, ..State::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// CPU seconds that all threads have computed so far.
    pub(crate) fn computed(&self) -> Seconds {
        Seconds(self.lock().computed)
    }

    /// Waits for something that needs no core.
    pub(crate) fn wait(&self, seconds: f64, cancelled: &AtomicBool) {
        let until = self.lock().now + seconds;
        self.wait_until(until, cancelled);
    }

    /// The consumer's work on a batch: so many seconds of waiting, and CPU seconds on so many cores at most. Where no
    /// stream is, it has all cores for itself.
    pub(crate) fn consume(&self, wait: f64, (work, threads): (f64, usize)) {
        let mut state = self.lock();
        if state.closed {
            state.now += wait + work / (threads as f64).min(self.cores);
            state.computed += work;
            return;
        }
        drop(state);
        let never = AtomicBool::new(false);
        if wait > 0.0 {
            self.wait(wait, &never);
        }
        if work > 0.0 {
            self.compute(work, threads, &never);
        }
    }

    /// The same until a moment.
    pub(crate) fn wait_until(&self, until: f64, cancelled: &AtomicBool) {
        self.go_through(Kind::Wait { until }, cancelled);
    }

    /// Computes so many CPU seconds on at most so many cores.
    pub(crate) fn compute(&self, work: f64, threads: usize, cancelled: &AtomicBool) {
        self.go_through(Kind::Compute { left: work, threads: threads as f64 }, cancelled);
    }

    /// The stream is being dropped: lets its threads run to their ends.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn go_through(&self, kind: Kind, cancelled: &AtomicBool) {
        let mut state = self.lock();
        let number = state.numbers;
        state.numbers += 1;
        state.tasks.push(Task { number, kind });
        self.go_on(&mut state);
        let at_work = |state: &State| state.tasks.iter().any(|task| task.number == number) && !state.closed;
        while at_work(&state) && !cancelled.load(Ordering::Acquire) {
            // A source is cancelled without a notice to this.
            let waited = self.changed.wait_timeout(state, Duration::from_millis(5));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.tasks.retain(|task| task.number != number);
    }

    pub(crate) fn at_queue(&self, place: Place, what: AtQueue) {
        let (mut state, at) = (self.lock(), place as usize);
        match what {
            AtQueue::Sends => state.inside[at] += 1,
            AtQueue::Took => state.inside[at] -= 1,
            AtQueue::Waits => state.waiting[at] += 1,
            AtQueue::Woken => {
                state.waiting[at] -= 1;
                state.inside[at] -= 1;
            }
        }
        self.go_on(&mut state);
    }

    /// Jumps to the next end of work if every thread is at work or waits for a queue that is empty.
    fn go_on(&self, state: &mut State) {
        let someone_wakes = (0..2).any(|at| state.waiting[at] > 0 && state.inside[at] > 0);
        if someone_wakes || state.tasks.len() + state.waiting[0] + state.waiting[1] < state.actors {
            return;
        }
        let wanted: f64 = state.tasks.iter().map(|task| task.kind.threads()).sum();
        let share = (self.cores / wanted).min(1.0);
        let now = state.now;
        let ends = state.tasks.iter().map(|task| match &task.kind {
            Kind::Wait { until } => *until,
            Kind::Compute { left, threads } => now + left / (threads * share),
        });
        let next = ends.fold(f64::INFINITY, f64::min).max(now);
        if next.is_infinite() {
            return;
        }
        for task in &mut state.tasks {
            if let Kind::Compute { left, threads } = &mut task.kind {
                let done = (next - now) * *threads * share;
                *left -= done;
                state.computed += done;
            }
        }
        state.now = next;
        state.tasks.retain(|task| match task.kind {
            Kind::Wait { until } => until > next + NOTHING,
            Kind::Compute { left, .. } => left > NOTHING,
        });
        self.changed.notify_all();
    }
}

impl Kind {
    fn threads(&self) -> f64 {
        match self {
            Kind::Wait { .. } => 0.0,
            Kind::Compute { threads, .. } => *threads,
        }
    }
}

impl Clock for VirtualTime {
    fn now(&self) -> Seconds {
        Seconds(self.lock().now)
    }
}
