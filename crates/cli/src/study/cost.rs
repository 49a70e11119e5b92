//! What a study will cost, from updates that this machine made just now.

use super::native::trial_plan;
use crate::commands::bench::made_up;
use crate::machine::{self, CpuClock, Engine};
use anyhow::Context;
use serde_json::{Value, json};
use sooner_base::{Clock, Updates};
use sooner_engine::{Kernels, State};
use sooner_models::Model;
use sooner_plan::Plan;
use sooner_study::definition::StudyPlan;
use sooner_train::Programs;
use std::collections::HashMap;

/// Larger batches take as long for each example: measuring them would only take longer.
const MOST_MEASURED: usize = 512;
/// The batch whose examples evaluations are reckoned by: they come in large batches, forward only.
const EVALUATED: usize = 256;
/// CPU seconds of measured updates for each program, and the fewest of them.
const SECONDS: f64 = 0.2;
const UPDATES: usize = 3;

/// The most that a study's trials can cost, if every one of them uses its whole budget.
pub(crate) struct Cost {
    pub(crate) points: Vec<PointCost>,
}

/// The most that the trials of one point can cost.
pub(crate) struct PointCost {
    pub(crate) label: String,
    pub(crate) trials: u64,
    /// Updates of one trial, and what one takes of all cores together, as do evaluations.
    pub(crate) updates: u64,
    pub(crate) seconds_per_update: f64,
    /// Evaluations of one trial, and what one takes.
    pub(crate) evaluations: u64,
    pub(crate) seconds_per_evaluation: f64,
}

impl PointCost {
    /// Of one trial.
    fn core_seconds(&self) -> f64 {
        let updates = self.updates as f64 * self.seconds_per_update;
        updates + self.evaluations as f64 * self.seconds_per_evaluation
    }

    pub(crate) fn core_hours(&self) -> f64 {
        self.trials as f64 * self.core_seconds() / 3600.0
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "label": self.label, "trials": self.trials, "updates": self.updates,
            "seconds_per_update": self.seconds_per_update, "evaluations": self.evaluations,
            "seconds_per_evaluation": self.seconds_per_evaluation, "most_core_hours": self.core_hours() })
    }
}

impl Cost {
    pub(crate) fn core_hours(&self) -> f64 {
        self.points.iter().map(PointCost::core_hours).sum()
    }
}

/// Measures what updates of every point take, on data made up, and reckons the whole study; none of commands, whose
/// cost only they know. Finds out whether every point's plan is possible at all, before anything is made.
pub(crate) fn cost(study: &StudyPlan) -> anyhow::Result<Option<Cost>> {
    if study.exec.is_some() {
        return Ok(None);
    }
    let mut measured = HashMap::new();
    let mut points = Vec::new();
    for (id, point) in study.points()?.iter().enumerate() {
        let values = study.draw(point, 0).context("the sequence has no first trial")?;
        let seed = study.trial_seed(id as u64, 0).0;
        let typed = trial_plan(study, point, &values, seed).with_context(|| point.label())?;
        let facts = typed.data.expected_facts();
        let plan = typed.resolve(&facts, machine::cores()).with_context(|| point.label())?;
        let batch = plan.batch_size();
        let near = per_example(&plan, batch.min(MOST_MEASURED), study.threads, &mut measured)?;
        // Going forward is a third of an update.
        let evaluated = per_example(&plan, EVALUATED, study.threads, &mut measured)? / 3.0;
        let Updates(updates) = plan.total_updates(facts.train_examples);
        let of_search = PointCost {
            label: point.label(),
            trials: study.trials,
            updates,
            seconds_per_update: near * batch as f64,
            evaluations: plan.evaluation_points(&facts).iter().count() as u64,
            seconds_per_evaluation: evaluated * facts.examples_of(plan.evaluation_split()) as f64,
        };
        let confirm = study.confirm.as_ref().map(|confirm| PointCost {
            label: format!("{}, best over seeds", of_search.label),
            trials: confirm.runs,
            ..of_search
        });
        points.push(of_search);
        points.extend(confirm);
    }
    Ok(Some(Cost { points }))
}

/// CPU seconds of an update for each of its examples, by the fastest one: what else runs on this machine meanwhile makes an
/// update longer, and only a little more costly. `known` holds what was measured before.
fn per_example(
    plan: &Plan,
    batch: usize,
    threads: usize,
    known: &mut HashMap<String, f64>,
) -> anyhow::Result<f64> {
    let facts = plan.data.expected_facts();
    let input = plan.pipeline.image_shape(facts.image);
    let model = Model::new(&plan.model, input, facts.classes)?;
    let kind = plan.optimizer.kind;
    let name =
        format!("{:?} {input:?} {kind:?} {:?} {batch}", plan.model, (plan.run.replicas, plan.run.accumulate));
    if let Some(seconds) = known.get(&name) {
        return Ok(*seconds);
    }
    let engine = Engine::for_plan(plan, threads, Kernels::Auto);
    let examples = made_up(batch, input, facts.classes);
    let mut programs = Programs::for_plan(plan, model, engine.kernels, engine.pool.clone());
    let vars = programs.compile(&[batch], &plan.optimizer)?;
    let mut state = State::init(&vars, plan.seed);
    // The first one also touches memory for the first time.
    programs.run_still(&mut state, &examples, plan)?;
    let (mut fastest, mut count) = (f64::INFINITY, 0);
    let start = CpuClock.now();
    while count < UPDATES || (CpuClock.now() - start).0 < SECONDS {
        let before = CpuClock.now();
        programs.run_still(&mut state, &examples, plan)?;
        fastest = fastest.min((CpuClock.now() - before).0);
        count += 1;
    }
    let seconds = fastest / batch as f64;
    known.insert(name, seconds);
    Ok(seconds)
}
