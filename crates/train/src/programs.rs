//! Compiled programs of one model, by batch size: the usual batch and the smaller last one each have their own.

use crate::TrainError;
use sooner_base::Batch;
use sooner_engine::native::{Kernels, Native, Pool};
use sooner_engine::{EngineError, Feed, State, Vars};
use sooner_models::{LABEL_SMOOTHING, Model};
use sooner_plan::{OptimizerPlan, Plan};
use std::sync::Arc;

/// The most scalars that an update program has.
const MOST_SCALARS: usize = 4;

/// Programs of a model, compiled when first needed.
pub struct Programs {
    model: Model,
    kernels: Kernels,
    pool: Arc<Pool>,
    updates: Vec<UpdateProgram>,
    evals: Vec<(usize, Native)>,
    /// Labels of the batch at hand as distributions, where the update takes such.
    soft_labels: Vec<f32>,
}

/// The update for one batch size.
struct UpdateProgram {
    batch: usize,
    scalars: Vec<String>,
    native: Native,
}

/// What one update returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateOutcome {
    /// Mean smoothed loss over the batch.
    pub loss: f64,
    /// Share of the batch that was right, before the update.
    pub accuracy: f64,
}

impl Programs {
    /// No programs yet; all will run on these threads, one at a time.
    pub fn new(model: Model, kernels: Kernels, pool: Arc<Pool>) -> Programs {
        Programs { model, kernels, pool, updates: Vec::new(), evals: Vec::new(), soft_labels: Vec::new() }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The kernels that run, by name: what `Auto` came to, once an update is compiled.
    pub fn kernel_name(&self) -> &'static str {
        self.updates.first().map_or(self.kernels.name(), |update| update.native.kernels())
    }

    /// Compiles the updates for these batch sizes and returns all variables, the optimiser's included.
    pub fn compile(&mut self, batches: &[usize], optimizer: &OptimizerPlan) -> Result<Vars, TrainError> {
        for batch in batches {
            self.update(*batch, optimizer)?;
        }
        Ok(self.model.vars().clone())
    }

    /// The update for this batch size.
    pub fn update(&mut self, batch: usize, optimizer: &OptimizerPlan) -> Result<&mut Native, TrainError> {
        let at = self.find(batch, optimizer)?;
        Ok(&mut self.updates[at].native)
    }

    fn find(&mut self, batch: usize, optimizer: &OptimizerPlan) -> Result<usize, TrainError> {
        if let Some(at) = self.updates.iter().position(|u| u.batch == batch) {
            return Ok(at);
        }
        let program = self.model.update_program(batch, optimizer)?;
        let native = Native::compile_on(&program, self.kernels, self.pool.clone())?;
        self.updates.push(UpdateProgram { batch, scalars: program.graph.scalars().to_vec(), native });
        Ok(self.updates.len() - 1)
    }

    /// The evaluation for this batch size.
    pub fn eval(&mut self, batch: usize) -> Result<&mut Native, TrainError> {
        let at = match self.evals.iter().position(|(n, _)| *n == batch) {
            Some(at) => at,
            None => {
                let program = self.model.eval_program(batch)?;
                self.evals.push((batch, Native::compile_on(&program, self.kernels, self.pool.clone())?));
                self.evals.len() - 1
            }
        };
        Ok(&mut self.evals[at].1)
    }

    /// Runs one update of the plan at this learning rate.
    pub fn run_update(
        &mut self,
        state: &mut State,
        batch: &Batch,
        plan: &Plan,
        learning_rate: f64,
    ) -> Result<UpdateOutcome, TrainError> {
        let at = self.find(batch.len(), &plan.optimizer)?;
        if self.model.takes_soft_labels() {
            let classes = self.model.classes();
            check_labels(batch, classes)?;
            batch.write_distributions(classes, &mut self.soft_labels);
        }
        let UpdateProgram { scalars: names, native, .. } = &mut self.updates[at];
        let mut scalars = [0f32; MOST_SCALARS];
        for (value, name) in scalars.iter_mut().zip(&*names) {
            *value = match name.as_str() {
                "learning_rate" => learning_rate as f32,
                "momentum" => plan.optimizer.momentum as f32,
                "weight_decay" => plan.optimizer.weight_decay as f32,
                LABEL_SMOOTHING => plan.optimizer.label_smoothing as f32,
                other => unreachable!("update programs have no scalar `{other}`"),
            };
        }
        let scalars = &scalars[..names.len()];
        native.run(
            state,
            &Feed {
                features: &batch.features,
                labels: &batch.labels,
                scalars,
                soft_labels: &self.soft_labels,
                origins: &batch.origins,
                ..Feed::default()
            },
        )?;
        let loss = f64::from(native.output(0)[0]);
        let accuracy = f64::from(native.output(1)[0]) / batch.len() as f64;
        Ok(UpdateOutcome { loss, accuracy })
    }
}

/// Whether all labels are classes, those mixed in too.
fn check_labels(batch: &Batch, classes: usize) -> Result<(), EngineError> {
    let mixed = batch.mixes.iter().map(|mix| mix.label).enumerate();
    let mut all = batch.labels.iter().copied().enumerate().chain(mixed);
    match all.find(|(_, label)| *label as usize >= classes) {
        Some((example, label)) => Err(EngineError::Label { example, label, classes }),
        None => Ok(()),
    }
}
