//! Evaluation of a whole split with running statistics.

use crate::{Programs, TrainError};
use sooner_engine::{Feed, State};
use sooner_pipeline::Evaluation;
use sooner_record::Metrics;

/// Evaluates one split, again and again, with programs compiled once.
pub struct Evaluator {
    examples: Evaluation,
}

impl Evaluator {
    /// Examples in one batch of an evaluation: enough to keep every thread busy, few enough to need little memory.
    pub const BATCH: usize = 250;

    /// An evaluator of these examples.
    pub fn new(examples: Evaluation) -> Evaluator {
        Evaluator { examples }
    }

    /// Compiles what it needs, so that the first evaluation takes no longer than the others.
    pub fn compile(&mut self, programs: &mut Programs) -> Result<(), TrainError> {
        let examples = self.examples.data().len();
        let rest = examples % Evaluator::BATCH;
        for batch in [Evaluator::BATCH.min(examples), rest] {
            if batch > 0 {
                programs.eval(batch)?;
            }
        }
        Ok(())
    }

    /// Loss (no smoothing), error and accuracy over the split. Panics if it is empty.
    pub fn run(&mut self, programs: &mut Programs, state: &mut State) -> Result<Metrics, TrainError> {
        let metrics = self.run_unless(programs, state, &|| false)?;
        Ok(metrics.expect("nothing breaks it off"))
    }

    /// The same, but for nothing once `interrupted` says so between two batches.
    pub fn run_unless(
        &mut self,
        programs: &mut Programs,
        state: &mut State,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Metrics>, TrainError> {
        self.examples.rewind();
        let (mut loss, mut correct, mut count) = (0.0, 0, 0);
        while let Some(batch) = self.examples.next_batch()? {
            if interrupted() {
                return Ok(None);
            }
            let native = programs.eval(batch.len())?;
            native.run(
                state,
                &Feed { features: &batch.features, labels: &batch.labels, scalars: &[], ..Feed::default() },
            )?;
            loss += f64::from(native.output(0)[0]);
            correct += native.output(1)[0] as u64;
            count += batch.len() as u64;
        }
        Ok(Some(Metrics::from_sums(self.examples.data().info().split, loss, correct, count)))
    }
}
