//! The machine: its cores, its name, its calendar, and the engine set up on it.

use sooner_base::{Clock, Seconds};
use sooner_engine::native::{Kernels, Pool};
use sooner_engine::{Peak, measure_peak};
use sooner_plan::{Convolutions, Plan};
use sooner_record::{FORMAT, Header, Machine};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Threads that had less than this share of their cores were not alone: waiting for each other costs an idle machine some
/// hundredths.
const IDLE: f64 = 0.85;

/// Cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// What to say about more engine threads than cores.
pub(crate) fn oversubscribed(threads: usize) -> Option<String> {
    let cores = cores();
    (threads > cores).then(|| {
        format!(
            "{threads} engine threads share {cores} {}: slower than one each, and the peak measured on them means little",
            if cores == 1 { "core" } else { "cores" }
        )
    })
}

/// The processor's name, as the system tells it.
fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split(':').nth(1));
    named.map_or_else(|| format!("unknown {}", std::env::consts::ARCH), |name| name.trim().to_string())
}

/// Bytes of memory, where the system tells.
pub(crate) fn memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The kernels of this name, if this machine executes them.
pub(crate) fn kernels(name: &str) -> Option<Kernels> {
    Kernels::named(name).filter(|kernels| kernels.is_available())
}

/// CPU seconds that all threads of this process have used.
pub(crate) struct CpuClock;

impl Clock for CpuClock {
    fn now(&self) -> Seconds {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Seconds(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    }
}

/// Seconds since 1970, by the system's calendar.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// A UTC time for folder names: `YYYYMMDD-HHMMSS`.
pub(crate) fn timestamp(unix: f64) -> String {
    let time = jiff::Timestamp::from_second(unix as i64).unwrap_or_default();
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

/// A peak with the share of the cores' time that the threads had while it was measured: what others took is missing in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeakHere {
    pub(crate) peak: Peak,
    pub(crate) share: f64,
}

impl PeakHere {
    /// The peak; says on stderr where others took much of it.
    pub(crate) fn tell(self) -> Peak {
        if let Some(note) = self.note() {
            eprintln!("note: {note}");
        }
        self.peak
    }

    /// What to say where other work took so much that the peak, and all that is reckoned from it, means little.
    pub(crate) fn note(&self) -> Option<String> {
        (self.share < IDLE).then(|| {
            format!(
                "other work had {:.0} % of these cores while the peak was measured ({:.0} GFLOP/s): the true peak is higher, \
                 and speeds and advice here are those of a busy machine",
                100.0 * (1.0 - self.share),
                self.peak.gflops
            )
        })
    }
}

/// The engine's threads and kernels on this machine.
pub(crate) struct Engine {
    pub(crate) pool: Arc<Pool>,
    pub(crate) kernels: Kernels,
}

impl Engine {
    /// The engine for what no plan decides.
    pub(crate) fn new(threads: usize) -> Engine {
        Engine::with_kernels(threads, Kernels::Auto)
    }

    /// The same with kernels that this machine is known to execute, exact if the plan says so.
    pub(crate) fn for_plan(plan: &Plan, threads: usize, kernels: Kernels) -> Engine {
        let direct = plan.run.convolutions == Convolutions::Direct;
        Engine::with_kernels(threads, if direct { kernels.exact() } else { kernels })
    }

    fn with_kernels(threads: usize, kernels: Kernels) -> Engine {
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        Engine { pool: Arc::new(Pool::new(threads)), kernels }
    }

    /// The arithmetic peak of exactly these threads, and how much of their cores they had meanwhile.
    pub(crate) fn measure_peak(&self, clock: &dyn Clock) -> PeakHere {
        let (start, cpu) = (clock.now(), CpuClock.now());
        let peak = measure_peak(&self.pool, clock);
        let wall = (clock.now() - start).0 * self.pool.threads().min(cores()) as f64;
        let share = if wall > 0.0 { ((CpuClock.now() - cpu).0 / wall).min(1.0) } else { 1.0 };
        PeakHere { peak, share }
    }

    /// What the kernels come to here.
    pub(crate) fn kernel_name(&self) -> &'static str {
        self.kernels.settled().map_or("none", Kernels::name)
    }

    /// The first line of a run's log.
    pub(crate) fn header(&self, plan: &Plan, peak_gflops: f64, unix: f64) -> Header {
        Header {
            format: FORMAT,
            sooner: sooner_train::PROGRAM.to_string(),
            machine: Machine {
                cpu: cpu(),
                cores: cores(),
                os: std::env::consts::OS.to_string(),
                arch: std::env::consts::ARCH.to_string(),
            },
            features: vec!["native".to_string()],
            kernels: BTreeMap::from([("native".to_string(), self.kernel_name().to_string())]),
            threads: self.pool.threads(),
            seed: plan.seed,
            peak_gflops,
            started_unix: Some(unix),
            tuned: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn folder_names_sort_by_time() {
        assert_eq!(timestamp(0.0), "19700101-000000");
        assert_eq!(timestamp(951_782_400.0), "20000229-000000");
        assert_eq!(timestamp(1_798_675_199.9), "20261230-235959");
    }
}
