//! Worker threads that fill buffers, and a consumer that takes them in order.
//!
//! Design note. The unit of work is a whole batch. The consumer owns the order: it issues jobs (number, empty buffer)
//! into one bounded channel; any free worker takes the next job, fills the buffer and sends it back through a second
//! bounded channel; the consumer puts what arrives into a ring until the number that is due is there. At most
//! `depth` jobs are out at any time and both channels hold `depth` items, so no send ever blocks, which leaves two
//! places to wait: workers for a job, the consumer for the batch that is due. That batch has been issued (the consumer
//! issues before it waits), and a worker that has it never waits for anything but a pause, which the consumer ends
//! before it waits itself; so there is no cycle to deadlock in. The only back edge is the buffers' return, by which
//! memory is bounded too: a batch exists for each job, and those the consumer holds.
//!
//! A worker that fails or panics sends its error in its batch's place and goes on; what follows is the consumer's
//! business. Dropping the consumer cancels: workers look at the flag once a slice (inside `fill`), the closed job channel wakes
//! idle ones, and all are joined, so that no thread outlives its stream. Nothing here depends on what is
//! filled, on how many threads there are, or on time.

use crate::PipelineError;
use crate::control::{AtQueue, Control, Lane, Place};
use sooner_base::{Bytes, Seconds, StageStats};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Fills a buffer with the batch of a number. Must ask `Control::go_on` now and then and leave when told to; what it
/// leaves behind then is thrown away. Each thread calls its own.
pub(crate) trait Fill<T>:
    FnMut(u64, &mut T, &AtomicBool) -> Result<(), PipelineError> + Send + 'static
{
}
impl<T, F: FnMut(u64, &mut T, &AtomicBool) -> Result<(), PipelineError> + Send + 'static> Fill<T> for F {}

/// The consumer's end.
#[derive(Debug)]
pub(crate) struct Workers<T> {
    /// `None` once closed.
    jobs: Option<SyncSender<(u64, T)>>,
    filled: Receiver<(u64, Result<T, PipelineError>)>,
    /// What arrived early; number k lies at k modulo the ring's length.
    ring: Vec<Option<Result<T, PipelineError>>>,
    issued: u64,
    taken: u64,
    threads: Vec<JoinHandle<()>>,
    control: Arc<Control>,
    cancelled: Arc<AtomicBool>,
    /// Batches sent by workers and not yet taken.
    ready: Arc<AtomicU64>,
    timeout: Option<(Duration, String)>,
    item: Bytes,
}

/// What every worker thread owns a copy of.
struct Worker<T> {
    jobs: Arc<Mutex<Receiver<(u64, T)>>>,
    filled: SyncSender<(u64, Result<T, PipelineError>)>,
    control: Arc<Control>,
    cancelled: Arc<AtomicBool>,
    ready: Arc<AtomicU64>,
    item: Bytes,
}

/// The bounds of the queue between workers and consumer.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    /// The most batches that are issued and not yet taken.
    pub(crate) depth: usize,
    /// Bytes of a batch, for the statistics.
    pub(crate) item: Bytes,
    /// How long the consumer waits for a batch, and whom it then names.
    pub(crate) timeout: Option<(Duration, String)>,
}

impl<T: Send + 'static> Workers<T> {
    /// Starts threads, each with its own filler. An error if the system has no thread left; those started are joined.
    pub(crate) fn spawn<F: Fill<T>>(
        Queue { depth, item, timeout }: Queue,
        control: Arc<Control>,
        fillers: impl IntoIterator<Item = F>,
    ) -> Result<Workers<T>, PipelineError> {
        let (job_in, job_out) = sync_channel(depth);
        let (filled_in, filled_out) = sync_channel(depth);
        let job_out = Arc::new(Mutex::new(job_out));
        let mut workers = Workers {
            jobs: Some(job_in),
            filled: filled_out,
            ring: std::iter::repeat_with(|| None).take(depth).collect(),
            issued: 0,
            taken: 0,
            threads: Vec::new(),
            control,
            cancelled: Arc::default(),
            ready: Arc::default(),
            timeout,
            item,
        };
        for (thread, fill) in fillers.into_iter().enumerate() {
            let worker = Worker {
                jobs: job_out.clone(),
                filled: filled_in.clone(),
                control: workers.control.clone(),
                cancelled: workers.cancelled.clone(),
                ready: workers.ready.clone(),
                item,
            };
            let name = format!("pipeline-{thread}");
            match Builder::new().name(name).spawn(move || worker.run(fill)) {
                Ok(handle) => workers.threads.push(handle),
                Err(source) => return Err(PipelineError::Spawn { thread, source }),
            }
        }
        Ok(workers)
    }

    /// Whether another job may be issued now.
    pub(crate) fn has_room(&self) -> bool {
        self.issued - self.taken < self.ring.len() as u64
    }

    /// The number of the next job to issue.
    pub(crate) fn next_job(&self) -> u64 {
        self.issued
    }

    /// Issues the next job. Panics without room: the consumer counts.
    pub(crate) fn issue(&mut self, buffer: T) {
        assert!(self.has_room(), "more jobs than the ring has places");
        let jobs = self.jobs.as_ref().expect("jobs are open until drop");
        self.control.tell(Place::Jobs, AtQueue::Sends);
        // Fails only when every worker is gone, which `take` then reports.
        let _ = jobs.send((self.issued, buffer));
        self.issued += 1;
    }

    /// How many of the next ones in order are there already, without waiting.
    pub(crate) fn ready_now(&mut self) -> usize {
        let len = self.ring.len() as u64;
        while let Ok((number, result)) = self.filled.try_recv() {
            self.control.tell(Place::Filled, AtQueue::Took);
            self.ring[(number % len) as usize] = Some(result);
        }
        (self.taken..self.issued).take_while(|number| self.ring[(number % len) as usize].is_some()).count()
    }

    /// The next batch in order. Waits for it, and ends a pause if it must. Panics if no such job was issued.
    pub(crate) fn take(&mut self) -> Result<T, PipelineError> {
        self.take_unless(&|| false).expect("it is wanted")
    }

    /// The same, or none once whoever waits finds it `unwanted`, of which it is asked ten times a second: the batch is the
    /// next one still.
    pub(crate) fn take_unless(&mut self, unwanted: &dyn Fn() -> bool) -> Option<Result<T, PipelineError>> {
        assert!(self.taken < self.issued, "batch {} was never issued", self.taken);
        let place = (self.taken % self.ring.len() as u64) as usize;
        let started = self.control.now();
        let mut blocked = Seconds(0.0);
        while self.ring[place].is_none() {
            let arrived = match self.filled.try_recv() {
                Ok(arrived) => {
                    self.control.tell(Place::Filled, AtQueue::Took);
                    Some(arrived)
                }
                Err(_) => {
                    self.control.resume();
                    let since = self.control.now();
                    self.control.tell(Place::Filled, AtQueue::Waits);
                    let waited = self.wait(unwanted);
                    self.control.tell(Place::Filled, AtQueue::Woken);
                    blocked += self.control.now() - since;
                    match waited {
                        Waited::Arrived(arrived) => Some(arrived),
                        Waited::Ended => None,
                        Waited::Unwanted => return None,
                        Waited::Stalled(seconds, name) => {
                            return Some(Err(PipelineError::Stalled { name, batch: self.taken, seconds }));
                        }
                    }
                }
            };
            let Some((number, result)) = arrived else {
                // Not reachable while workers catch their panics; kept so that a fault here is an error, not a hang.
                let message = "every worker has ended".to_string();
                return Some(Err(PipelineError::Panicked { batch: self.taken, message }));
            };
            let len = self.ring.len() as u64;
            self.ring[(number % len) as usize] = Some(result);
        }
        self.ready.fetch_sub(1, Ordering::Relaxed);
        self.taken += 1;
        let busy = self.control.now() - started - blocked;
        self.control.book(
            Lane::Batch,
            StageStats { items: 1, busy, blocked_in: blocked, bytes: self.item, ..StageStats::default() },
        );
        Some(self.ring[place].take().expect("the loop above filled this place"))
    }

    /// Waits for any batch, as long as one is wanted and the plan allows.
    fn wait(&self, unwanted: &dyn Fn() -> bool) -> Waited<T> {
        let began = Instant::now();
        loop {
            let left = self.timeout.as_ref().map(|(most, _)| most.saturating_sub(began.elapsed()));
            match self.filled.recv_timeout(left.map_or(LOOK, |left| left.min(LOOK))) {
                Ok(arrived) => return Waited::Arrived(arrived),
                Err(RecvTimeoutError::Disconnected) => return Waited::Ended,
                Err(RecvTimeoutError::Timeout) if unwanted() => return Waited::Unwanted,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some((most, name)) = self.timeout.as_ref().filter(|(most, _)| began.elapsed() >= *most) {
                return Waited::Stalled(most.as_secs_f64(), name.clone());
            }
        }
    }
}

/// How often whoever waits for a batch is asked whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// How waiting ended.
enum Waited<T> {
    Arrived((u64, Result<T, PipelineError>)),
    /// Every worker has.
    Ended,
    Unwanted,
    /// After so many seconds, and whose fault it is.
    Stalled(f64, String),
}

/// How long a dropped stream waits for its threads.
const STUCK: Duration = Duration::from_secs(1);

impl<T> Drop for Workers<T> {
    fn drop(&mut self) {
        self.control.cancel(&self.cancelled);
        self.control.release_source();
        self.jobs = None;
        // Workers look at the flag once a slice, sources ten times a second. One that is stuck in the system, as on a
        // dead network file system, is left behind: waiting for it would hang whoever drops the stream.
        let deadline = Instant::now() + STUCK;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::park_timeout(Duration::from_micros(200));
            }
            if thread.is_finished() {
                // A panic inside has been reported in its batch's place.
                let _ = thread.join();
            }
        }
    }
}

impl<T> Worker<T> {
    fn run(self, mut fill: impl Fill<T>) {
        loop {
            let since = self.control.now();
            self.control.tell(Place::Jobs, AtQueue::Waits);
            let job = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, mut buffer)) = job else { return };
            self.control.tell(Place::Jobs, AtQueue::Woken);
            // While a job is held, everything that could panic runs in here: a job lost is a consumer that waits.
            let result = attempt(number, || {
                if !self.control.go_on(&self.cancelled) {
                    return Ok(()); // Nobody takes it any more.
                }
                let blocked_out = self.control.now() - since;
                let filled = fill(number, &mut buffer, &self.cancelled);
                let queue_bytes = Bytes((self.ready.load(Ordering::Relaxed) + 1) * self.item.0);
                self.control
                    .book(Lane::Augment, StageStats { blocked_out, queue_bytes, ..StageStats::default() });
                filled
            });
            self.ready.fetch_add(1, Ordering::Relaxed);
            self.control.tell(Place::Filled, AtQueue::Sends);
            if self.filled.send((number, result.map(|()| buffer))).is_err() {
                return;
            }
        }
    }
}

/// Runs a filler; a panic becomes an error that tells its message.
pub(crate) fn attempt(
    batch: u64,
    fill: impl FnOnce() -> Result<(), PipelineError>,
) -> Result<(), PipelineError> {
    // The buffer is thrown away and a filler's scratch is rewritten from its start, so neither can be seen half done.
    catch_unwind(AssertUnwindSafe(fill)).unwrap_or_else(|panic| {
        let message = panic_message(&*panic);
        Err(PipelineError::Panicked { batch, message })
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}

#[cfg(test)]
mod tests;
