//! Choosing pipeline threads and queue before a run, where the plan asks for it. Engine threads decide bits and are never
//! chosen by timing.

use crate::commands::profile::text::short;
use crate::machine;
use crate::ready::Ready;
use sooner_base::Batch;
use sooner_engine::State;
use sooner_pipeline::{StageShare, Tuned};

/// Seconds of each measurement.
const SECONDS: f64 = 0.4;

impl Ready {
    /// Where the plan has `pipeline.tune`, measures and writes what is chosen into the plan, which is what the record
    /// then has; tells it.
    pub(crate) fn tune(&mut self) -> anyhow::Result<()> {
        let Some(most) = self.plan.pipeline.tune.take() else { return Ok(()) };
        let plan = &self.plan;
        let mut programs = self.programs()?;
        let vars = programs.compile(&[plan.batch_size()], &plan.optimizer)?;
        let mut state = State::init(&vars, plan.seed);
        let mut update = |batch: &Batch| -> anyhow::Result<()> {
            programs.run_still(&mut state, batch, plan)?;
            Ok(())
        };
        let gauge = self.gauge(SECONDS);
        let tuned = gauge.tune(&mut update, [most, machine::cores()])?;
        let lines = told(&tuned, most, &self.plan.pipeline.budget);
        eprintln!("tuned: {}", lines.join("\n  "));
        self.tuned = Some(lines.join("; "));
        self.plan.pipeline.threads = tuned.threads;
        self.plan.pipeline.queue = Some(tuned.queue);
        Ok(())
    }
}

/// What was chosen, of at most so many threads and bytes, and what was measured for it.
fn told(tuned: &Tuned, most: usize, budget: &str) -> Vec<String> {
    let threads = tuned.threads;
    let each = |of: &dyn Fn(&StageShare) -> String| {
        let stages = tuned.stages.iter().map(|stage| format!("{} {}", stage.name, of(stage)));
        stages.collect::<Vec<_>>().join(", ")
    };
    let tried: Vec<String> = tuned
        .tried
        .iter()
        .map(|t| {
            let of = if t.threads == 1 { "1 thread".into() } else { format!("{} threads", t.threads) };
            format!("{} with {of}", short(t.seconds.0))
        })
        .collect();
    vec![
        format!(
            "pipeline.threads = {threads} of at most {most}, pipeline.queue = {} within {budget}",
            tuned.queue
        ),
        format!("an update takes {} an example", short(tuned.update.0)),
        format!("the pipeline takes {} an example", tried.join(", ")),
        format!("of one thread's time an example takes {}", each(&|stage| short(stage.seconds.0))),
        format!("shares of the threads, all busy: {}", each(&|stage| format!("{:.2}", stage.threads))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::Seconds;
    use sooner_pipeline::Tried;

    #[test]
    fn what_was_measured_is_told_in_short_lines() {
        let tried = |threads, seconds| Tried { threads, seconds: Seconds(seconds), together: Seconds(0.003) };
        let stage = |name, seconds, threads| StageShare { name, seconds: Seconds(seconds), threads };
        let tuned = Tuned {
            threads: 2,
            queue: 5,
            update: Seconds(0.003),
            tried: vec![tried(1, 0.004), tried(2, 0.0021)],
            stages: vec![
                stage("read", 0.001, 0.5),
                stage("decode", 0.0029, 1.45),
                stage("augment", 1e-4, 0.05),
            ],
        };
        let lines = told(&tuned, 4, "256MiB");
        assert_eq!(
            lines.join("\n"),
            "pipeline.threads = 2 of at most 4, pipeline.queue = 5 within 256MiB\n\
             an update takes 3.00 ms an example\n\
             the pipeline takes 4.00 ms with 1 thread, 2.10 ms with 2 threads an example\n\
             of one thread's time an example takes read 1.00 ms, decode 2.90 ms, augment 100 µs\n\
             shares of the threads, all busy: read 0.50, decode 1.45, augment 0.05"
        );
    }
}
