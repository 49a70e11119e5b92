//! Choosing pipeline threads and queue before a run, where the plan asks for it. Engine threads decide bits and are never
//! chosen by timing.

use crate::commands::profile::text::short;
use crate::machine;
use crate::ready::Ready;
use sooner_base::Batch;
use sooner_engine::State;
use sooner_pipeline::StageShare;

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
        let tried: Vec<String> =
            tuned.tried.iter().map(|t| format!("{} with {}", short(t.seconds.0), t.threads)).collect();
        eprintln!(
            "tuned: pipeline.threads = {}, pipeline.queue = {} (an example takes {} upstream; an update {} an example; \
             at most {most} threads and {})",
            tuned.threads,
            tuned.queue,
            tried.join(", "),
            short(tuned.update.0),
            self.plan.pipeline.budget
        );
        let share = |stage: &StageShare| {
            format!("{} {} an example, {:.2} threads", stage.name, short(stage.seconds.0), stage.threads)
        };
        let shares: Vec<String> = tuned.stages.iter().map(share).collect();
        eprintln!("  of {} shared threads: {}", tuned.threads, shares.join("; "));
        self.notes.push(format!(
            "pipeline.threads = {} and pipeline.queue = {} were chosen by measurement, of at most {most} threads and {}: \
             upstream an example takes {}; an update takes {} an example; stages: {}",
            tuned.threads,
            tuned.queue,
            self.plan.pipeline.budget,
            tried.join(", "),
            short(tuned.update.0),
            shares.join("; ")
        ));
        self.plan.pipeline.threads = tuned.threads;
        self.plan.pipeline.queue = Some(tuned.queue);
        Ok(())
    }
}
