//! Choosing worker threads and the length of their queue before a run, by what is measured, within a budget of threads
//! and the plan's budget of bytes. The stream does not depend on either.

use super::cuts::{Cut, Group};
use super::cuts::{Repeats, without_echo};
use super::gauge::{Gauge, Side};
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
        let (mut tried, mut gaps) = (Vec::<Tried>::new(), Vec::new());
        let mut threads = 1;
        loop {
            let with = Gauge { plan: PipelinePlan { threads, ..plan.clone() }, ..self.clone() };
            let (up, gap, depth) = with.batches()?;
            let Side { seconds, work, .. } = up;
            let shared = (work.0 + uses * down.work.0) / cores as f64;
            let together = Seconds(seconds.0.max(uses * down.seconds.0).max(shared));
            tried.push(Tried { threads, seconds, together });
            gaps.push((gap, depth));
            // Nothing that upstream could still gain would be felt.
            let floor = (uses * down.seconds.0).max(shared);
            if threads >= most || seconds.0 <= 0.9 * floor {
                break;
            }
            threads = (2 * threads).min(most);
        }
        let best = tried.iter().map(|t| t.together.0).fold(f64::INFINITY, f64::min);
        let at = tried.iter().position(|t| t.together.0 <= LEAST_GAIN * best).unwrap_or(0);
        let (Tried { threads, .. }, (gap, depth)) = (tried[at], gaps[at]);
        let batch = down.seconds.0 * self.plan.batch_size().unwrap_or(1) as f64;
        let covers = (gap.0 / batch.max(1e-9)).ceil().min(MOST_AHEAD) as usize;
        let queue = (threads + 1 + covers).min(depth.max(1));
        Ok(Tuned { threads, queue, update: down.seconds, tried })
    }
}

/// More batches than this ahead would be memory for nothing: a consumer that is faster waits anyhow.
const MOST_AHEAD: f64 = 64.0;
