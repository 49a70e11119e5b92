//! What could be done instead of echoing: more pipeline threads, keeping what was decoded, a faster source.

use crate::machine;
use serde::Serialize;
use sooner_pipeline::{Gauge, PipelineError, Profile, Side};

/// One way, and what it would bring.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Instead {
    /// What to do.
    pub(crate) what: String,
    /// The setting that does it, if one does.
    pub(crate) set: Option<String>,
    /// Seconds an example.
    pub(crate) seconds: f64,
    /// Over the time as it is.
    pub(crate) speedup: f64,
    /// How it is known, and what stands against it.
    pub(crate) note: String,
}

/// The numbers of threads to try: up to the machine's cores, and twice as many as there are.
pub(crate) fn more_threads(threads: usize, cores: usize) -> Vec<usize> {
    let mut more: Vec<usize> = [2 * threads.max(1), cores].into_iter().filter(|n| *n > threads).collect();
    more.sort_unstable();
    more.dedup();
    more
}

/// All ways that there are for this plan.
pub(crate) fn all(
    gauge: &Gauge,
    profile: &Profile,
    threads: Vec<usize>,
    done: &mut dyn FnMut(),
) -> Result<Vec<Instead>, PipelineError> {
    let (Some(first), Some(last)) = (profile.cuts.first(), profile.cuts.last()) else {
        return Ok(Vec::new());
    };
    let cores = machine::cores() as f64;
    let update = last.downstream;
    // Nothing can be faster than updates alone, or than the cores.
    let with = |up: f64, work: f64| up.max(update.seconds.0).max((work + update.work.0) / cores);
    // By the same law as it is: its prediction and its fault are in both.
    let now = with(last.upstream.seconds.0, last.upstream.work.0);
    let mut ways = Vec::new();
    for n in threads {
        let mut plan = gauge.plan.clone();
        plan.threads = n;
        let faster = Gauge { plan, ..gauge.clone() };
        let Side { seconds, work, .. } = faster.upstream(&last.cut)?;
        done();
        let seconds = with(seconds.0, work.0);
        ways.push(Instead {
            what: format!("{n} pipeline threads"),
            set: Some(format!("pipeline.threads={n}")),
            seconds,
            speedup: now / seconds,
            note: "measured into a sink, the same batches".into(),
        });
    }
    let read = profile.stages.iter().find(|stage| stage.name == "read").filter(|stage| stage.stats.items > 0);
    if let Some(read) = read {
        let bytes = first.item.0 * gauge.data.len() as u64;
        let budget = gauge.plan.budget_bytes().map_or(0, |bytes| bytes.0);
        let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
        let room = match bytes <= budget {
            true => format!("{} of the budget's {}", mib(bytes), mib(budget)),
            false => format!("needs about {} of memory, the budget is {}", mib(bytes), mib(budget)),
        };
        let seconds = first.downstream.seconds.0;
        ways.push(Instead {
            what: "decoded images kept in memory".into(),
            set: Some("pipeline.keep=memory".into()),
            seconds,
            speedup: now / seconds,
            note: format!("from the second epoch on; {room}"),
        });
        // What is left of upstream: busy time of everything but reading, on the same threads.
        let rest = profile.stages.iter().filter(|stage| !matches!(stage.name, "read" | "batch"));
        let busy: f64 = rest.map(|stage| stage.stats.busy.0).sum::<f64>() / read.stats.items as f64;
        let seconds = with(busy / gauge.plan.threads.max(1) as f64, last.upstream.work.0);
        ways.push(Instead {
            what: "a source that never waits".into(),
            set: None,
            seconds,
            speedup: now / seconds,
            note: "at most: by the busy time of the other stages".into(),
        });
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::more_threads;

    #[test]
    fn threads_to_try() {
        assert_eq!(more_threads(1, 2), [2]);
        assert_eq!(more_threads(0, 8), [2, 8]);
        assert_eq!(more_threads(2, 2), [4]);
        assert_eq!(more_threads(1, 16), [2, 16]);
    }
}
