//! Threads for kernels. A job is a number of tasks, of which every thread has a run of its own: the first thread the first
//! ones, and so on. Whoever is done with its own takes those that others have not begun, their last one first. So jobs that
//! cut the same values into tasks in the same order find them in the caches of the threads that had them before, and no
//! thread waits while there is work. Which thread runs a task is left to chance all the same: a task's result may depend
//! on its index only, never on its worker.
//!
//! Design: every worker owns a slot. To start a job the caller writes the job, then bumps the slots of as many workers
//! as there are tasks for, then wakes them; a worker whose slot did not change never looks at the job. Each
//! participant reports when it is done, and `run` returns only after all have, so the job and everything it borrows
//! outlives their use. Idle workers spin for some time, since the next operation of a program usually follows at once, and
//! then park: a pool that is not in use costs nothing.

#![allow(unsafe_code)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Looks at the slot this often before parking: some 70 microseconds, 14 nanoseconds each, as long as it takes to wake a
/// thread on a virtual machine, where the one who wakes it loses 25 itself; a meeting of threads that spin takes 0.6.
const SPINS: u32 = 5000;

/// One piece of a job, and who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The piece, from 0.
    pub index: usize,
    /// The running thread's number, below [`Pool::threads`]; no two tasks run with the same one at the same time.
    pub worker: usize,
}

/// A fixed number of threads, the caller's own included. One job runs at a time; a second caller waits.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    slots: Vec<Slot>,
    job: UnsafeCell<Option<Job>>,
    /// By thread, the caller first.
    runs: Vec<Run>,
    running: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    closing: AtomicBool,
}

/// On its own cache line, because its worker spins on it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// The tasks of a thread that nobody has begun, from the first to the end, which are halves of the number. On a cache line
/// of its own, because others seldom look at it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Run(AtomicU64);

impl Run {
    fn set(&self, [first, end]: [usize; 2]) {
        self.0.store((first as u64) << 32 | end as u64, Ordering::Relaxed);
    }

    /// The first task, for the thread itself, or the last, for another.
    fn take(&self, last: bool) -> Option<usize> {
        let change = |run: u64| {
            let (first, end) = (run >> 32, run & u64::from(u32::MAX));
            (first < end).then(|| if last { run - 1 } else { run + (1 << 32) })
        };
        let run = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).ok()?;
        Some(if last { (run & u64::from(u32::MAX)) as usize - 1 } else { (run >> 32) as usize })
    }
}

struct Job {
    run: *const (dyn Fn(Task) + Sync),
    /// Threads that have tasks of their own.
    threads: usize,
    caller: Thread,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("threads", &self.threads).finish_non_exhaustive()
    }
}

// SAFETY: `job` is written only by the caller that holds `turn`, while `running` is 0, and read only by participants
// between the release store to their slot and their decrement of `running`, which the caller waits for. The closure
// that it points to is Sync and outlives the job for the same reason.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is not used by any thread that is not a participant of a running job.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of this many threads; one means the caller's alone.
    pub fn new(threads: NonZeroUsize) -> Pool {
        let helpers = threads.get() - 1;
        let shared = Arc::new(Shared {
            slots: (0..helpers).map(|_| Slot::default()).collect(),
            job: UnsafeCell::new(None),
            runs: (0..=helpers).map(|_| Run::default()).collect(),
            running: AtomicUsize::new(0),
            panic: Mutex::new(None),
            closing: AtomicBool::new(false),
        });
        let spawn = |i: usize| {
            let shared = shared.clone();
            let named = std::thread::Builder::new().name(format!("engine-{}", i + 1));
            named.spawn(move || work(&shared, i)).expect("the system can start a thread")
        };
        let workers = (0..helpers).map(spawn).collect();
        Pool { shared, workers, turn: Mutex::new(()) }
    }

    /// The number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs tasks 0..tasks and returns when all are done. If one panics, tasks not yet begun may be skipped, and the
    /// first panic continues here. `run` must not use the pool itself.
    pub fn run(&self, tasks: usize, run: &(dyn Fn(Task) + Sync)) {
        let helpers = self.workers.len().min(tasks.saturating_sub(1));
        if helpers == 0 {
            (0..tasks).for_each(|index| run(Task { index, worker: 0 }));
            return;
        }
        assert!(u32::try_from(tasks).is_ok(), "{tasks} tasks");
        let threads = helpers + 1;
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the lifetime changes; this function does not return before every participant has reported
        // that it will not touch the closure again.
        let run: &'static (dyn Fn(Task) + Sync) = unsafe { std::mem::transmute(run) };
        let shared = &*self.shared;
        // SAFETY: this thread holds `turn` and no participant is left of the job before: see `Shared`'s Sync.
        unsafe { *shared.job.get() = Some(Job { run, threads, caller: std::thread::current() }) };
        for (i, run) in shared.runs[..threads].iter().enumerate() {
            run.set([i, i + 1].map(|i| i * tasks / threads));
        }
        shared.running.store(helpers, Ordering::Relaxed);
        for i in 0..helpers {
            shared.slots[i].0.fetch_add(1, Ordering::Release);
            self.workers[i].thread().unpark();
        }
        shared.take_tasks(run, threads, 0);
        let mut spins = 0;
        while shared.running.load(Ordering::Acquire) > 0 {
            wait(&mut spins);
        }
        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turn);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Calls `run` for consecutive parts of `out` of `length` values each, the last one shorter; parts are numbered
    /// from 0.
    pub(crate) fn parts(&self, out: &mut [f32], length: usize, run: &(dyn Fn(Task, &mut [f32]) + Sync)) {
        let length = length.max(1);
        let tasks = out.len().div_ceil(length);
        let out = Disjoint::new(out);
        self.run(tasks, &|task| {
            let start = task.index * length;
            let end = out.len().min(start + length);
            // SAFETY: tasks have different indices, so their ranges do not overlap.
            run(task, unsafe { out.range(start, end - start) });
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        for (slot, worker) in self.shared.slots.iter().zip(&self.workers) {
            slot.0.fetch_add(1, Ordering::Release);
            worker.thread().unpark();
        }
        for worker in self.workers.drain(..) {
            worker.join().expect("a worker catches every panic of its tasks");
        }
    }
}

impl Shared {
    /// Runs the tasks of this worker, then what the others have left.
    fn take_tasks(&self, run: &(dyn Fn(Task) + Sync), threads: usize, worker: usize) {
        let runs = &self.runs[..threads];
        let take = || {
            while let Some(index) = runs[worker].take(false) {
                run(Task { index, worker });
            }
            for other in (worker + 1..threads).chain(0..worker) {
                while let Some(index) = runs[other].take(true) {
                    run(Task { index, worker });
                }
            }
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(take)) {
            runs.iter().for_each(|run| run.set([0, 0]));
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }
}

fn work(shared: &Shared, worker: usize) {
    let mut done = 0;
    loop {
        let mut spins = 0;
        while shared.slots[worker].0.load(Ordering::Acquire) == done {
            wait(&mut spins);
        }
        done += 1;
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: the slot changed, so the caller has written the job and waits for this thread's decrement below.
        let job = unsafe { &*shared.job.get() }.as_ref().expect("a job is written before slots change");
        let caller = job.caller.clone();
        // SAFETY: the closure outlives the job; see `Pool::run`.
        shared.take_tasks(unsafe { &*job.run }, job.threads, worker + 1);
        if shared.running.fetch_sub(1, Ordering::Release) == 1 {
            caller.unpark();
        }
    }
}

/// Spins at first, then parks. Whoever changes what the caller waits for must unpark it afterwards; a wake-up that is
/// not meant for it is harmless, because it looks again.
fn wait(spins: &mut u32) {
    if *spins < SPINS {
        *spins += 1;
        std::hint::spin_loop();
    } else {
        std::thread::park();
    }
}

/// A mutable slice that several tasks write different parts of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disjoint<'a> {
    start: *mut f32,
    len: usize,
    slice: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: it only hands out parts through `range` and `pointer`, whose callers promise that no two threads use
// overlapping ones.
unsafe impl Sync for Disjoint<'_> {}
// SAFETY: as above.
unsafe impl Send for Disjoint<'_> {}

impl<'a> Disjoint<'a> {
    pub(crate) fn new(slice: &'a mut [f32]) -> Disjoint<'a> {
        Disjoint { start: slice.as_mut_ptr(), len: slice.len(), slice: std::marker::PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the slice starts, for kernels that address it themselves.
    pub(crate) fn pointer(&self) -> *mut f32 {
        self.start
    }

    /// Part of the slice; panics if it has no such part.
    ///
    /// # Safety
    /// No other part that overlaps with it may be in use at the same time.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn range(&self, start: usize, len: usize) -> &'a mut [f32] {
        assert!(start <= self.len && len <= self.len - start, "{start}+{len} of {}", self.len);
        // SAFETY: inside the slice, and not shared by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZeroUsize::new(threads).expect("tests ask for at least one"))
    }

    #[test]
    fn every_task_runs_once() {
        for threads in 1..=4 {
            let pool = pool(threads);
            for tasks in [0, 1, 2, 3, 7, 100] {
                for _ in 0..200 {
                    let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                    pool.run(tasks, &|task| {
                        assert!(task.worker < threads);
                        counts[task.index].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{threads} {tasks}");
                }
            }
        }
    }

    #[test]
    fn runs_are_taken_from_both_ends() {
        let run = Run::default();
        assert_eq!([run.take(false), run.take(true)], [None; 2]);
        run.set([3, 7]);
        let taken = [false, true, true, false, false, true].map(|last| run.take(last));
        assert_eq!(taken, [Some(3), Some(6), Some(5), Some(4), None, None]);
    }

    /// Waits until so many have come, or fails after a while.
    fn until(come: &AtomicUsize, count: usize) {
        let start = std::time::Instant::now();
        while come.load(Ordering::Acquire) < count {
            assert!(start.elapsed().as_secs() < 60, "others come");
            std::thread::yield_now();
        }
    }

    #[test]
    fn threads_begin_with_their_own_tasks() {
        let pool = pool(3);
        for _ in 0..20 {
            let come = AtomicUsize::new(0);
            pool.run(3, &|task| {
                come.fetch_add(1, Ordering::Release);
                until(&come, 3);
                assert_eq!(task.worker, task.index);
            });
        }
    }

    #[test]
    fn tasks_that_are_left_are_taken_by_others() {
        let pool = pool(2);
        for slow in [0, 5] {
            let done = AtomicUsize::new(0);
            pool.run(10, &|task| {
                // All of the slow one's run but itself: the other thread must take them.
                if task.index == slow {
                    until(&done, 9);
                }
                done.fetch_add(1, Ordering::Release);
            });
            assert_eq!(done.into_inner(), 10);
        }
    }

    #[test]
    fn workers_wake_after_parking() {
        // Each job is long enough for an idle worker to use up its spins and park before the next one.
        let pool = pool(3);
        let sum = AtomicUsize::new(0);
        for _ in 0..50 {
            pool.run(1, &|_| (0..4 * SPINS).for_each(|_| std::hint::spin_loop()));
            pool.run(5, &|task| {
                sum.fetch_add(task.index, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.load(Ordering::Relaxed), 500);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        for threads in [1, 2, 4] {
            let pool = pool(threads);
            for bad in [0, 3, 9] {
                let run = || pool.run(10, &|task| assert_ne!(task.index, bad, "told to"));
                let caught = catch_unwind(AssertUnwindSafe(run)).expect_err("one task panics");
                let message = caught.downcast_ref::<String>().expect("a formatted panic");
                assert!(message.contains("told to"), "{message}");
            }
            let sum = AtomicUsize::new(0);
            pool.run(10, &|task| {
                sum.fetch_add(task.index, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), 45);
        }
    }

    #[test]
    fn callers_take_turns() {
        let pool = pool(3);
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.run(4, &|task| {
                            sum.fetch_add(task.index, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 3 * 100 * 6);
    }

    #[test]
    fn parts_cover_the_slice() {
        let pool = pool(2);
        for (len, length) in [(0, 4), (1, 4), (8, 4), (9, 4), (3, 100), (5, 1)] {
            let mut out = vec![0.0; len];
            pool.parts(&mut out, length, &|task, part| {
                part.iter_mut().for_each(|v| *v += 1.0 + task.index as f32);
            });
            let expected: Vec<f32> = (0..len).map(|i| 1.0 + (i / length) as f32).collect();
            assert_eq!(out, expected);
        }
    }
}
