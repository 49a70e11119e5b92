//! Compiled programs of one model, by batch size: the usual batch and the smaller last one each have their own.

use crate::TrainError;
use crate::parts::{Examples, Parts, PartsOutcome, Split};
use sooner_base::{Batch, Bytes, NoisePair};
use sooner_engine::native::{Kernels, Native, Pool, Storage};
use sooner_engine::{EngineError, Feed, Program, State, Vars};
use sooner_models::Model;
use sooner_plan::{Activations, Moment, OptimizerPlan, Plan};
use std::sync::Arc;

/// Programs of a model, compiled when first needed.
pub struct Programs {
    model: Model,
    kernels: Kernels,
    storage: Storage,
    pool: Arc<Pool>,
    updates: Vec<UpdateProgram>,
    evals: Vec<(usize, Native)>,
    /// Updates of batches that are cut into parts, in place of `updates`.
    parts: Option<Parts<Native>>,
    /// Whether the next update estimates the noise of gradients.
    measure: bool,
    /// Labels of the batch at hand as distributions, where the update takes such.
    soft_labels: Vec<f32>,
}

/// The update for one batch size.
struct UpdateProgram {
    batch: usize,
    scalars: Vec<String>,
    /// Their values in this update, kept so that an update allocates nothing.
    values: Vec<f32>,
    native: Native,
}

/// What one update returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateOutcome {
    /// Mean smoothed loss over the batch.
    pub loss: f64,
    /// Share of the batch that was right, before the update.
    pub accuracy: f64,
    /// Estimates of signal and noise of the gradient, if they were asked for.
    pub noise: Option<NoisePair>,
}

impl Programs {
    /// No programs yet; those of a plan's updates, which cut batches as its `run` section says, and of evaluations. All
    /// threads are the pool's; replicas share them out.
    pub fn for_plan(plan: &Plan, model: Model, kernels: Kernels, pool: Arc<Pool>) -> Programs {
        let split = Split { replicas: plan.run.replicas, accumulate: plan.run.accumulate };
        let mut programs = Programs::whole_batches(model.trained_by(plan), kernels, pool);
        programs.storage = match plan.run.activations {
            Activations::F32 => Storage::F32,
            Activations::Bf16 => Storage::Bf16,
        };
        programs.cut(split)
    }

    /// No programs yet, for no plan: evaluations, which no plan cuts. All will run on these threads, one at a time.
    pub fn whole_batches(model: Model, kernels: Kernels, pool: Arc<Pool>) -> Programs {
        let (updates, evals, soft_labels) = (Vec::new(), Vec::new(), Vec::new());
        let storage = Storage::F32;
        Programs { model, kernels, storage, pool, updates, evals, parts: None, measure: false, soft_labels }
    }

    /// The same with updates that cut their batches: replicas share out the threads, so many as there are, and have at
    /// least one each. A split into one part changes nothing.
    fn cut(mut self, split: Split) -> Programs {
        if split.parts() > 1 {
            let (kernels, storage, all) = (self.kernels, self.storage, self.pool.clone());
            let pools: Vec<Arc<Pool>> =
                split.threads(all.threads()).into_iter().map(|n| Arc::new(Pool::new(n))).collect();
            let compile = move |program: &Program, replica: Option<usize>| {
                let pool = replica.map_or(&all, |replica| &pools[replica]);
                Native::compile_storing(program, (kernels, storage), pool.clone())
            };
            self.parts = Some(Parts::new(&self.model, split, Box::new(compile)));
        }
        self
    }

    /// Whether the next update is to estimate the noise of gradients. Batches that are not cut have no estimate.
    pub fn measure_noise(&mut self, measure: bool) {
        self.measure = measure;
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The kernels that run, by name: what `Auto` came to, once an update is compiled.
    pub fn kernel_name(&self) -> &'static str {
        let whole = self.updates.first().map(|update| &update.native);
        let native = whole.or_else(|| self.parts.as_ref().and_then(|parts| parts.apply()));
        native.map_or(self.kernels.name(), Native::kernels)
    }

    /// Compiles the updates for these batch sizes and returns all variables, the optimiser's included.
    pub fn compile(&mut self, batches: &[usize], optimizer: &OptimizerPlan) -> Result<Vars, TrainError> {
        for batch in batches {
            self.prepare(*batch, optimizer)?;
        }
        Ok(self.model.vars().clone())
    }

    /// Compiles the update for this batch size, unless that is done already.
    fn prepare(&mut self, batch: usize, optimizer: &OptimizerPlan) -> Result<(), TrainError> {
        if let Some(parts) = &mut self.parts {
            parts.prepare(&mut self.model, batch, optimizer)?;
        } else if self.updates.iter().all(|update| update.batch != batch) {
            let program = self.model.update_program(batch, optimizer)?;
            let native = Native::compile_storing(&program, (self.kernels, self.storage), self.pool.clone())?;
            let scalars = program.graph.scalars().to_vec();
            self.updates.push(UpdateProgram { batch, values: vec![0.0; scalars.len()], scalars, native });
        }
        Ok(())
    }

    /// The update of batches of this size, once it is compiled; none where batches are cut.
    pub fn whole(&mut self, batch: usize) -> Option<&mut Native> {
        self.updates.iter_mut().find(|update| update.batch == batch).map(|update| &mut update.native)
    }

    /// Memory of the updates beside the state: values between operations, workspace, scratch, leaves of parts.
    pub fn resident_bytes(&mut self) -> Bytes {
        let whole: u64 = self.updates.iter().map(|update| update.native.resident_bytes().0).sum();
        let parts = self.parts.as_mut().map_or(0, |parts| {
            4 * parts.leaf_values() as u64
                + parts.executors().map(|native| native.resident_bytes().0).sum::<u64>()
        });
        Bytes(whole + parts)
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

    /// Runs the plan's update of this moment.
    pub fn run_update(
        &mut self,
        state: &mut State,
        batch: &Batch,
        plan: &Plan,
        at: Moment,
    ) -> Result<UpdateOutcome, TrainError> {
        let number = |name: &str| {
            plan.scalar(name, at).unwrap_or_else(|| panic!("update programs have no scalar `{name}`"))
        };
        self.run_fed(state, batch, &plan.optimizer, &number)
    }

    /// Runs the plan's first update at a learning rate of 0, for measurements: parameters stay finite however often this
    /// runs, and the work is the same.
    pub fn run_still(
        &mut self,
        state: &mut State,
        batch: &Batch,
        plan: &Plan,
    ) -> Result<UpdateOutcome, TrainError> {
        let at = Moment { update: 0, horizon: 1, epoch: 1, schedule: (0, 1) };
        let number = |name: &str| match name {
            "learning_rate" => 0.0,
            name => {
                plan.scalar(name, at).unwrap_or_else(|| panic!("update programs have no scalar `{name}`"))
            }
        };
        self.run_fed(state, batch, &plan.optimizer, &number)
    }

    /// Runs an update with these values of its scalars, which are asked for by name.
    fn run_fed(
        &mut self,
        state: &mut State,
        batch: &Batch,
        optimizer: &OptimizerPlan,
        number: &(dyn Fn(&str) -> f64 + Sync),
    ) -> Result<UpdateOutcome, TrainError> {
        if self.model.takes_soft_labels() {
            let classes = self.model.classes();
            check_labels(batch, classes)?;
            batch.write_distributions(classes, &mut self.soft_labels);
        }
        self.prepare(batch.len(), optimizer)?;
        let examples = Examples {
            features: &batch.features,
            labels: &batch.labels,
            soft_labels: &self.soft_labels,
            origins: &batch.origins,
        };
        let outcome = match &mut self.parts {
            Some(parts) => parts.run(state, examples, number, self.measure)?,
            None => {
                let update = self.updates.iter_mut().find(|update| update.batch == batch.len());
                update.expect("just compiled").run(state, examples, number)?
            }
        };
        let accuracy = outcome.correct / batch.len() as f64;
        Ok(UpdateOutcome { loss: outcome.loss, accuracy, noise: outcome.noise })
    }
}

impl UpdateProgram {
    fn run(
        &mut self,
        state: &mut State,
        examples: Examples<'_, f32>,
        number: &(dyn Fn(&str) -> f64 + Sync),
    ) -> Result<PartsOutcome, EngineError> {
        for (value, name) in self.values.iter_mut().zip(&self.scalars) {
            *value = number(name) as f32;
        }
        let Examples { features, labels, soft_labels, origins } = examples;
        let scalars = &self.values;
        self.native
            .run(state, &Feed { features, labels, scalars, soft_labels, origins, ..Feed::default() })?;
        let [loss, correct] = [0, 1].map(|output| f64::from(self.native.output(output)[0]));
        Ok(PartsOutcome { loss, correct, noise: None })
    }
}

/// Whether all labels are classes, those mixed in too.
pub(crate) fn check_labels(batch: &Batch, classes: usize) -> Result<(), EngineError> {
    let mixed = batch.mixes.iter().map(|mix| mix.label).enumerate();
    let mut all = batch.labels.iter().copied().enumerate().chain(mixed);
    match all.find(|(_, label)| *label as usize >= classes) {
        Some((example, label)) => Err(EngineError::Label { example, label, classes }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    #[test]
    fn a_plan_decides_how_its_batches_are_cut() {
        let mut plan = Plan::parse(sooner_models::workload("mnist-cnn").expect("built in").toml).unwrap();
        for (replicas, accumulate, cut) in [(1, 1, false), (2, 1, true), (1, 3, true)] {
            (plan.run.replicas, plan.run.accumulate) = (replicas, accumulate);
            let model = Model::new(&plan.model, [28, 28, 1], 10).unwrap();
            let pool = Arc::new(Pool::new(NonZeroUsize::MIN));
            let mut programs = Programs::for_plan(&plan, model, Kernels::Auto, pool);
            programs.compile(&[6], &plan.optimizer).unwrap();
            assert_eq!(programs.whole(6).is_none(), cut, "{replicas} x {accumulate}");
            assert_eq!(
                programs.parts.as_mut().map_or(0, |p| p.executors().count()),
                if cut { replicas + 1 } else { 0 }
            );
        }
    }
}
