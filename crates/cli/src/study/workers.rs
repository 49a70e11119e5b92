//! What workers of a driver share: who they are to the store, whose leases are kept alive, and when a trial is settled.

use crate::machine::unix_seconds;
use sooner_record::{Hold, Lease, Outcome, Store, TrialEvaluation, TrialState};
use sooner_study::Target;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a lease lasts that nobody renews: a driver that was killed costs no more than this.
pub(crate) const LEASE_SECONDS: f64 = 60.0;
const RENEW: Duration = Duration::from_secs(10);
/// A trial whose worker was lost this often has failed.
pub(crate) const MOST_ATTEMPTS: u64 = 3;

/// How a trial ended for its worker.
pub(crate) enum Ended {
    /// With a result.
    Result(Outcome, Vec<TrialEvaluation>),
    /// Its process was killed: it is leased again.
    Killed,
    /// Nobody wants it any more.
    Dropped,
}

/// A trial that a worker of this driver runs.
pub(crate) struct Held {
    pub(crate) lease: Lease,
    started: Instant,
    lost: AtomicBool,
    shared: Arc<Crowd>,
}

impl Held {
    /// Whether to end at once, without a result.
    pub(crate) fn dropped(&self) -> bool {
        self.lost.load(Ordering::Relaxed) || self.shared.stop.load(Ordering::Relaxed)
    }

    /// Seconds since the trial began.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Why a trial that is not done after so many updates cannot be its point's best; none while it can.
    pub(crate) fn beyond(&self, updates: u64) -> Option<String> {
        let factor = self.shared.beyond_best?;
        let best = *self.shared.best.lock().expect("no holder panics").get(&self.lease.point)?;
        (updates as f64 > factor * best)
            .then(|| format!("beyond {factor} times the best trial's {best} updates"))
    }
}

/// The workers of one driver.
pub(crate) struct Crowd {
    /// What the store knows this driver by.
    pub(crate) name: String,
    /// Set to end.
    pub(crate) stop: Arc<AtomicBool>,
    beyond_best: Option<f64>,
    target: Target,
    /// Updates to the target of the best trial of each point.
    best: Mutex<HashMap<u64, f64>>,
    active: Mutex<Vec<Arc<Held>>>,
    ended: Condvar,
}

impl Crowd {
    pub(crate) fn new(stop: Arc<AtomicBool>, beyond_best: Option<f64>, target: Target) -> Arc<Crowd> {
        Arc::new(Crowd {
            name: worker_name(),
            stop,
            beyond_best,
            target,
            best: Mutex::default(),
            active: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    fn active(&self) -> MutexGuard<'_, Vec<Arc<Held>>> {
        self.active.lock().expect("no holder panics")
    }

    /// Begins a trial.
    pub(crate) fn begin(self: &Arc<Self>, lease: Lease) -> Arc<Held> {
        let (started, lost) = (Instant::now(), AtomicBool::new(false));
        let held = Arc::new(Held { lease, started, lost, shared: self.clone() });
        self.active().push(held.clone());
        held
    }

    /// Ends a trial, whatever came of it.
    pub(crate) fn end(&self, held: &Held) {
        held.lost.store(true, Ordering::Relaxed);
        self.active().retain(|other| !std::ptr::eq(&**other, held));
        self.ended.notify_all();
    }

    /// Notes a result, from which later trials may be settled.
    pub(crate) fn note(&self, point: u64, state: TrialState, evaluations: &[TrialEvaluation]) {
        let metric =
            |e: &&TrialEvaluation| e.metrics.get(&self.target.metric).is_some_and(|v| self.target.met(*v));
        if let (TrialState::Complete, Some(first)) = (state, evaluations.iter().find(metric)) {
            let mut best = self.best.lock().expect("no holder panics");
            let least = best.entry(point).or_insert(f64::INFINITY);
            *least = least.min(first.updates as f64);
        }
    }

    /// Waits until a trial of this driver ends, at most a second; false if none is running.
    pub(crate) fn wait(&self) -> bool {
        let active = self.active();
        if active.is_empty() {
            return false;
        }
        drop(self.ended.wait_timeout(active, Duration::from_secs(1)).expect("no holder panics"));
        true
    }

    /// Renews the leases of what is running, until `done`; stops everything at the deadline. A lease that cannot be renewed
    /// is lost.
    pub(crate) fn keep_alive(&self, store: &Mutex<dyn Store>, done: &AtomicBool, deadline: Option<Instant>) {
        let mut next = Instant::now() + RENEW;
        while !done.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(200));
            if deadline.is_some_and(|d| Instant::now() >= d) {
                self.stop.store(true, Ordering::Relaxed);
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + RENEW;
            for held in self.active().clone() {
                let mut store = store.lock().expect("no holder panics");
                // Ended, and perhaps given back, while this waited for the store.
                if held.lost.load(Ordering::Relaxed) {
                    continue;
                }
                let renewed = store.renew(&held.lease, unix_seconds() + LEASE_SECONDS, &[]);
                // A store that cannot be written now may be again before the lease runs out.
                if matches!(renewed, Ok(Hold::Lost)) {
                    held.lost.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// HOST:PID:START, so that another driver on this machine can tell that this one is gone.
fn worker_name() -> String {
    let pid = std::process::id();
    format!("{}:{pid}:{}", host(), process_start(pid).unwrap_or_default())
}

fn host() -> String {
    // A container may share its host's name with others; the boot tells them apart as little, the namespace does.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", name.trim(), namespace.display()).replace(':', "-")
}

/// When a process started, in ticks since the machine did: a number that is used again would have another.
fn process_start(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may hold anything; what follows the last one is plain.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_string)
}

/// Whether a worker was a process of this machine that is no more.
pub(crate) fn is_gone(worker: &str) -> bool {
    let mut parts = worker.split(':');
    let (Some(at), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    at == host() && !start.is_empty() && process_start(pid).as_deref() != Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_worker_is_not_gone() {
        let name = worker_name();
        assert!(!is_gone(&name), "{name}");
        if cfg!(target_os = "linux") {
            let (rest, _) = name.rsplit_once(':').unwrap();
            assert!(is_gone(&format!("{rest}:1")), "the same number, started at another time");
        }
        assert!(!is_gone("elsewhere:1:1") && !is_gone("") && !is_gone("a:b:c"));
    }
}
