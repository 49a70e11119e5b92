//! Choosing worker threads and the length of their queue before a run, by what is measured, within a budget of threads
//! and the plan's budget of bytes. The stream does not depend on either.
//!
//! Design note. All stages share one pool of threads; none has threads of its own. With w_k seconds of stage k for an
//! example, n threads of a pool make n / (w_1 + w_2 + ...) examples a second, whatever the w_k are and however they change
//! from example to example. Threads divided among stages, n_k each, make min(n_k / w_k), which is never more, and equal
//! only where n w_k / (w_1 + ...) is a whole number for each stage: a stage of a tenth of the work would need ten threads
//! in all before its own one had enough to do. A pool has no queues between stages either, so an example stays in the
//! cache of the core that decodes it. What stages are measured for is to be told: their shares are how many of the pool's
//! threads each keeps busy.

use super::cuts::{Cut, Group};
use super::cuts::{Repeats, without_echo};
use super::gauge::{Batches, Gauge, Side, StageProfile};
use crate::PipelineError;
use sooner_base::{Batch, Seconds};
use sooner_plan::PipelinePlan;

/// One number of threads that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Worker threads.
    pub threads: usize,
    /// Seconds an example into a sink.
    pub seconds: Seconds,
    /// Seconds an example together with the consumer, by the time law.
    pub together: Seconds,
}

/// What one stage keeps of the pool of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageShare {
    /// What it is called.
    pub name: &'static str,
    /// Busy seconds an example, of one thread.
    pub seconds: Seconds,
    /// How many of the pool's threads it keeps busy when all are.
    pub threads: f64,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// Worker threads.
    pub threads: usize,
    /// Batches under way or ready beside the consumer's.
    pub queue: usize,
    /// Seconds an example of the consumer alone.
    pub update: Seconds,
    /// What was tried, fewest threads first.
    pub tried: Vec<Tried>,
    /// The stages with the threads chosen, in stream order.
    pub stages: Vec<StageShare>,
}

/// Each stage's part of all stages' busy time, of so many threads.
fn shares(stages: &[StageProfile], threads: usize) -> Vec<StageShare> {
    // Handing over is the consumer's work.
    let of_pool = || stages.iter().filter(|stage| stage.name != "batch");
    let each = |stage: &StageProfile| stage.stats.busy.0 / stage.stats.items.max(1) as f64;
    let all: f64 = of_pool().map(each).sum();
    let of = |stage: &StageProfile| {
        let seconds = each(stage);
        let threads = threads as f64 * seconds / all.max(f64::MIN_POSITIVE);
        StageShare { name: stage.name, seconds: Seconds(seconds), threads }
    };
    of_pool().map(of).collect()
}

/// A gain below this is not worth another thread.
const LEAST_GAIN: f64 = 1.05;

impl Gauge {
    /// Measures upstream with 1, 2, 4, ... threads up to `most`, and the consumer's work alone, and takes the fewest
    /// threads that leave nothing worth gaining on so many cores. The queue covers the longest time that two batches
    /// were apart.
    pub fn tune<E: From<PipelineError>>(
        &self,
        update: &mut dyn FnMut(&Batch) -> Result<(), E>,
        [most, cores]: [usize; 2],
    ) -> Result<Tuned, E> {
        let plan = without_echo(&self.plan);
        let last = Cut {
            index: plan.stages.len(),
            position: "after batch".into(),
            repeats: Repeats::Batches,
            group: Group::Batches,
        };
        let (down, _) = self.downstream(&last, update)?;
        // Each fresh example is used so often; what comes before the echo stage is done once for all of them.
        let uses = self.plan.echo().and_then(|(echo, _)| echo.fixed()).unwrap_or(1.0);
        let (mut tried, mut measured) = (Vec::<Tried>::new(), Vec::<Batches>::new());
        let mut threads = 1;
        loop {
            let with = Gauge { plan: PipelinePlan { threads, ..plan.clone() }, ..self.clone() };
            let batches = with.batches()?;
            let Side { seconds, work, .. } = batches.side;
            let shared = (work.0 + uses * down.work.0) / cores as f64;
            let together = Seconds(seconds.0.max(uses * down.seconds.0).max(shared));
            tried.push(Tried { threads, seconds, together });
            measured.push(batches);
            // Nothing that upstream could still gain would be felt.
            let floor = (uses * down.seconds.0).max(shared);
            if threads >= most || seconds.0 <= 0.9 * floor {
                break;
            }
            threads = (2 * threads).min(most);
        }
        let best = tried.iter().map(|t| t.together.0).fold(f64::INFINITY, f64::min);
        let at = tried.iter().position(|t| t.together.0 <= LEAST_GAIN * best).unwrap_or(0);
        let (Tried { threads, .. }, Batches { gap, room, stages, .. }) = (tried[at], &measured[at]);
        let batch = down.seconds.0 * self.plan.batch_size().unwrap_or(1) as f64;
        let covers = (gap.0 / batch.max(1e-9)).ceil().min(MOST_AHEAD) as usize;
        let queue = (threads + 1 + covers).min((*room).max(1));
        let stages = shares(stages, threads);
        Ok(Tuned { threads, queue, update: down.seconds, tried, stages })
    }
}

/// More batches than this ahead would be memory for nothing: a consumer that is faster waits anyhow.
const MOST_AHEAD: f64 = 64.0;
