//! The run section, and what it asks of the data.

use super::{MOST_THREADS, number, threads};
use crate::{DataFacts, EvaluatePlan, GuardPlan, InitPlan, Plan, PlanError, SchedulePlan, Split};

/// After the stages have been checked: a run's length is counted in batches.
pub(crate) fn check(plan: &Plan, facts: &DataFacts) -> Result<(), PlanError> {
    let run = &plan.run;
    // A run is counted in u64 updates; no machine will see the end of this many epochs.
    const MOST_EPOCHS: f64 = 1e9;
    number("run.epochs", run.epochs, "a number above 0", run.epochs > 0.0)?;
    number("run.epochs", run.epochs, "at most 1e9 epochs", run.epochs <= MOST_EPOCHS)?;
    if let Some(count) = run.threads {
        threads("run.threads", count, 1)?;
    }
    check_parts(plan)?;
    if run.evaluate == EvaluatePlan::Updates(0) {
        return Err(PlanError::value("run.evaluate.updates", "at least 1 update", 0, ""));
    }
    if let EvaluatePlan::Growing { by, from } = run.evaluate {
        number("run.evaluate.growing.by", by, "a factor above 1", by > 1.0)?;
        number(
            "run.evaluate.growing.from",
            from,
            "a share of the run, above 0 and at most 1",
            from > 0.0 && from <= 1.0,
        )?;
    }
    if let GuardPlan::Loss(most) = run.guard {
        number("run.guard.loss", most, "a number above 0", most > 0.0)?;
    }
    if let Some(init) = &run.init {
        check_init(init)?;
    }
    if let Some(select) = &run.select {
        select.check()?;
    }
    check_auto(plan)?;
    crate::initial::check(&run.initial)?;
    let target = plan.target()?;
    if let Some(horizon) = plan.schedule.horizon() {
        number("schedule.horizon", horizon, "at most 1e9 epochs", horizon <= MOST_EPOCHS)?;
    }
    if facts.train_examples == 0 {
        return Err(PlanError::impossible(
            "there is nothing to train on",
            "data",
            "training examples",
            "none",
            "hold out less for validation",
        ));
    }
    if plan.total_updates(facts.train_examples).0 == 0 {
        let expected = format!("at least one of the {} training examples", facts.train_examples);
        return Err(PlanError::value("run.epochs", &expected, run.epochs, ""));
    }
    let split = plan.evaluation_split();
    if facts.examples_of(split) == 0 {
        let hint = match (target.is_some(), split) {
            (true, Split::Val) => "hold examples out with data.validation, or name test in the target",
            (true, _) => "name another split in the target",
            (false, _) => "hold examples out with data.validation",
        };
        let place = if target.is_some() { "run.target" } else { "data.validation" };
        let found = match &run.target {
            Some(text) => format!("`{text}`, with no {split} examples"),
            None => format!("no val and no {split} examples"),
        };
        return Err(PlanError::impossible(
            "there is nothing to evaluate on",
            place,
            "a split that has examples",
            found,
            hint,
        ));
    }
    Ok(())
}

fn check_parts(plan: &Plan) -> Result<(), PlanError> {
    let run = &plan.run;
    if !(1..=MOST_THREADS).contains(&run.replicas) {
        return Err(PlanError::value(
            "run.replicas",
            &format!("1 to {MOST_THREADS} replicas"),
            run.replicas,
            "",
        ));
    }
    if run.accumulate == 0 {
        return Err(PlanError::value("run.accumulate", "at least 1 part", 0, ""));
    }
    let (parts, batch) = (run.parts(), plan.batch_size());
    let key = if run.accumulate > 1 { "run.accumulate" } else { "run.replicas" };
    if parts > batch {
        let expected = format!("replicas times accumulate to be at most the {batch} examples of a batch");
        return Err(PlanError::value(
            key,
            &expected,
            parts,
            "make the batch larger, or cut it into fewer parts",
        ));
    }
    if let Some(group) = plan.model.ghost_group().filter(|group| parts > batch.div_ceil(*group)) {
        let groups = batch.div_ceil(group);
        let expected = format!(
            "replicas times accumulate to be at most the {groups} groups of {group} examples that normalisation keeps together"
        );
        return Err(PlanError::value(
            key,
            &expected,
            parts,
            "make the groups smaller, or cut the batch into fewer parts",
        ));
    }
    match run.noise_scale {
        Some(0) => Err(PlanError::value("run.noise_scale", "at least 1 update between estimates", 0, "")),
        Some(_) if parts < 2 => Err(PlanError::value(
            "run.noise_scale",
            "batches that are cut into at least two parts",
            "one part",
            "set run.replicas or run.accumulate to 2 or more: the estimate compares parts with the whole",
        )),
        _ => Ok(()),
    }
}

/// With `echo = "auto"` nobody knows how many updates there will be: lengths are counted in fresh examples.
fn check_auto(plan: &Plan) -> Result<(), PlanError> {
    let auto = plan.most_uses().is_some();
    if let Some(record) = plan.run.replay.as_ref().filter(|_| !auto) {
        return Err(PlanError::impossible(
            "there is no schedule to follow",
            "run.replay",
            "a plan with echo = \"auto\"",
            format_args!("\"{record}\" and another echo factor, or none"),
            "leave --replay out: such a run is the same every time",
        ));
    }
    match &plan.schedule {
        SchedulePlan::Linear { decay_updates: Some(updates), .. } if auto => Err(PlanError::impossible(
            "the schedule's length is in updates, whose number is not known beforehand",
            "schedule.decay_updates",
            "a horizon in epochs of fresh examples with echo = \"auto\"",
            updates,
            "give schedule.horizon instead",
        )),
        _ => Ok(()),
    }
}

fn check_init(init: &InitPlan) -> Result<(), PlanError> {
    if init.weights.is_empty() {
        return Err(PlanError::value("run.init.weights", "a file of weights", "an empty text", ""));
    }
    // An empty prefix would match every variable: weights that nothing is taken from.
    if init.except.iter().any(String::is_empty) {
        return Err(PlanError::value(
            "run.init.except",
            "beginnings of variables' names",
            "an empty text",
            "leave `init` out to start from the model's own values",
        ));
    }
    Ok(())
}
