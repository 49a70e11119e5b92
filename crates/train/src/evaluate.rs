//! Evaluation of a whole split with running statistics.

use crate::views::{judge, views};
use crate::{Programs, TrainError};
use sooner_engine::{Feed, State};
use sooner_pipeline::Evaluation;
use sooner_plan::Views;
use sooner_record::{Metrics, Seen};

/// Evaluates one split, again and again, with programs compiled once.
pub struct Evaluator {
    examples: Evaluation,
    /// One view of a batch, and the averaged logits.
    features: Vec<f32>,
    logits: Vec<f32>,
}

/// What an evaluation came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluated {
    /// By all views.
    pub metrics: Metrics,
    /// By the image alone, where there were other views too.
    pub seen: Option<Seen>,
}

impl Evaluator {
    /// Examples in one batch of an evaluation: enough to keep every thread busy, few enough to need little memory.
    pub const BATCH: usize = 250;

    /// An evaluator of these examples.
    pub fn new(examples: Evaluation) -> Evaluator {
        Evaluator { examples, features: Vec::new(), logits: Vec::new() }
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
    pub fn run(
        &mut self,
        programs: &mut Programs,
        state: &mut State,
        views: Views,
    ) -> Result<Evaluated, TrainError> {
        let evaluated = self.run_unless(programs, state, views, &|| false)?;
        Ok(evaluated.expect("nothing breaks it off"))
    }

    /// The same, but for nothing once `interrupted` says so between two batches.
    pub fn run_unless(
        &mut self,
        programs: &mut Programs,
        state: &mut State,
        of: Views,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Evaluated>, TrainError> {
        self.examples.rewind();
        let shape = self.examples.shape();
        let views = views(of);
        let (mut one, mut all) = (Sums::default(), Sums::default());
        while let Some(batch) = self.examples.next_batch()? {
            if interrupted() {
                return Ok(None);
            }
            let native = programs.eval(batch.len())?;
            self.logits.clear();
            for view in &views {
                let features = if view.is_plain() {
                    &batch.features
                } else {
                    self.features.resize(batch.features.len(), 0.0);
                    view.write(&batch.features, shape, &mut self.features);
                    &self.features
                };
                native
                    .run(state, &Feed { features, labels: &batch.labels, scalars: &[], ..Feed::default() })?;
                if view.is_plain() {
                    one.loss += f64::from(native.output(0)[0]);
                    one.correct += native.output(1)[0] as u64;
                    one.count += batch.len() as u64;
                }
                if !of.is_one() {
                    let logits = native.output(2);
                    self.logits.resize(logits.len(), 0.0);
                    self.logits.iter_mut().zip(logits).for_each(|(sum, l)| *sum += view.weight * l);
                }
            }
            if !of.is_one() {
                let classes = self.logits.len() / batch.len();
                for (logits, &label) in self.logits.chunks_exact(classes).zip(&batch.labels) {
                    let (loss, right) = judge(logits, label);
                    all.loss += loss;
                    all.correct += u64::from(right);
                    all.count += 1;
                }
            }
        }
        let split = self.examples.data().info().split;
        let metrics = |sums: Sums| Metrics::from_sums(split, sums.loss, sums.correct, sums.count);
        Ok(Some(match of {
            Views::One => Evaluated { metrics: metrics(one), seen: None },
            views => Evaluated { metrics: metrics(all), seen: Some(Seen { views, one: metrics(one) }) },
        }))
    }
}

/// Over the examples of a split so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    loss: f64,
    correct: u64,
    count: u64,
}
