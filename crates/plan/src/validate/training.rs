//! The optimiser and schedule sections.

use super::number;
use crate::{Decay, Group, GroupMatch, OptimizerKind, OptimizerPlan, PlanError, SchedulePlan};

pub(crate) fn check_optimizer(optimizer: &OptimizerPlan) -> Result<(), PlanError> {
    let o = optimizer;
    let below_one = |value: f64| (0.0..1.0).contains(&value);
    number("optimizer.momentum", o.momentum, "a number from 0 to below 1", below_one(o.momentum))?;
    if o.kind == OptimizerKind::Sgd && o.momentum > 0.0 {
        return Err(PlanError::impossible(
            "plain descent has no momentum",
            "optimizer.momentum",
            "0 with kind \"sgd\"",
            o.momentum,
            "kinds with momentum are \"heavy-ball\" and \"nesterov\"",
        ));
    }
    number("optimizer.weight_decay", o.weight_decay, "a number, 0 or more", o.weight_decay >= 0.0)?;
    number(
        "optimizer.label_smoothing",
        o.label_smoothing,
        "a number from 0 to below 1",
        below_one(o.label_smoothing),
    )?;
    check_rule(o)?;
    if let Some(clip) = o.clip {
        number("optimizer.clip", clip, "a number above 0", clip > 0.0)?;
    }
    if let Some(average) = o.average {
        number(
            "optimizer.average.decay",
            average.decay,
            "a share from 0 to 1",
            (0.0..=1.0).contains(&average.decay),
        )?;
        number("optimizer.average.power", average.power, "a number, 0 or more", average.power >= 0.0)?;
        if average.every == 0 {
            return Err(PlanError::value("optimizer.average.every", "at least 1 update", 0, ""));
        }
    }
    check_groups(&o.groups)
}

/// Constants that belong to some rules only.
fn check_rule(o: &OptimizerPlan) -> Result<(), PlanError> {
    let uses = |kinds: &[OptimizerKind]| {
        let mut rules = o.groups.iter().filter_map(|g| g.rule).chain([o.kind]);
        rules.any(|rule| kinds.contains(&rule))
    };
    let coupled = o.decay == Some(Decay::Coupled);
    if coupled
        && o.groups.iter().filter_map(|g| g.rule).chain([o.kind]).all(|rule| rule == OptimizerKind::Adamw)
    {
        return Err(PlanError::impossible(
            "decay would not be what the plan says",
            "optimizer.decay",
            "\"decoupled\" or no such key with kind \"adamw\", whose decay always is",
            "\"coupled\"",
            "kind \"adam\" has coupled decay",
        ));
    }
    let adam = [OptimizerKind::Adam, OptimizerKind::Adamw];
    let owned = [
        ("second_momentum", o.second_momentum.is_some(), &adam[..]),
        ("eps", o.eps.is_some(), &adam),
        ("trust", o.trust.is_some(), &[OptimizerKind::Lars]),
        ("rounds", o.rounds.is_some(), &[OptimizerKind::Muon]),
        ("norms", o.norms.is_some(), &[OptimizerKind::Muon]),
    ];
    for (key, given, kinds) in owned {
        if given && !uses(kinds) {
            let owner = crate::words::word(&kinds[0]);
            return Err(PlanError::impossible(
                "key of another rule",
                &format!("optimizer.{key}"),
                format_args!("none, since no rule here is \"{owner}\""),
                "one",
                "leave it out",
            ));
        }
    }
    if let Some(value) = o.second_momentum {
        let good = (0.0..1.0).contains(&value);
        number("optimizer.second_momentum", value, "a number from 0 to below 1", good)?;
    }
    if let Some(value) = o.eps {
        number("optimizer.eps", value, "a number above 0", value > 0.0)?;
    }
    if let Some(value) = o.trust {
        number("optimizer.trust", value, "a number above 0", value > 0.0)?;
    }
    match o.rounds {
        Some(rounds) if !(1..=100).contains(&rounds) => {
            Err(PlanError::value("optimizer.rounds", "1 to 100 rounds", rounds, ""))
        }
        _ => Ok(()),
    }
}

fn check_groups(groups: &[Group]) -> Result<(), PlanError> {
    for (i, group) in groups.iter().enumerate() {
        for (key, scale) in [("rate_scale", group.rate_scale), ("decay_scale", group.decay_scale)] {
            number(&format!("optimizer.groups.{i}.{key}"), scale, "a number, 0 or more", scale >= 0.0)?;
        }
        if let Some(momentum) = group.momentum {
            let good = (0.0..1.0).contains(&momentum);
            number(&format!("optimizer.groups.{i}.momentum"), momentum, "a number from 0 to below 1", good)?;
        }
        if group.rule == Some(OptimizerKind::Sgd) && group.momentum.is_some_and(|m| m > 0.0) {
            return Err(PlanError::impossible(
                "plain descent has no momentum",
                &format!("optimizer.groups.{i}.momentum"),
                "none with rule \"sgd\"",
                group.momentum.unwrap_or_default(),
                "rules with momentum are \"heavy-ball\" and \"nesterov\"",
            ));
        }
        if let Some(until) = group.until {
            number(
                &format!("optimizer.groups.{i}.until"),
                until,
                "a number of epochs, 0 or more",
                until >= 0.0,
            )?;
        }
        let covers = |g: &Group| {
            let all = g.parameters == GroupMatch::All;
            (all || g.parameters == group.parameters) && group.prefix.starts_with(&g.prefix)
        };
        let same = |g: &Group| g.parameters == group.parameters && g.prefix == group.prefix;
        if let Some(first) = groups[..i].iter().position(|g| covers(g) && !same(g)) {
            return Err(PlanError::impossible(
                "group holds nothing",
                &format!("optimizer.groups.{i}"),
                "parameters that no group before it holds, since the first that matches counts",
                format_args!("only those of optimizer.groups.{first}"),
                "put the narrower group first",
            ));
        }
        if groups[..i].iter().any(same) {
            let parameters = crate::words::word(&group.parameters);
            return Err(PlanError::impossible(
                "group comes twice",
                &format!("optimizer.groups.{i}"),
                format_args!("one group of {parameters}, since the first that matches counts"),
                "two",
                "leave one of them out",
            ));
        }
    }
    Ok(())
}

/// `averaged` says whether averages need the horizon too.
pub(crate) fn check_schedule(schedule: &SchedulePlan, averaged: bool) -> Result<(), PlanError> {
    let positive =
        |key: &str, value: f64| number(&format!("schedule.{key}"), value, "a number above 0", value > 0.0);
    if let Some(horizon) = schedule.horizon() {
        positive("horizon", horizon)?;
    }
    let share = |key: &str, value: f64| {
        number(&format!("schedule.{key}"), value, "a share from 0 to 1", (0.0..=1.0).contains(&value))
    };
    if let Some(warmup) = schedule.warmup() {
        share("warmup", warmup)?;
    }
    match schedule {
        SchedulePlan::Constant { learning_rate, .. } => positive("learning_rate", *learning_rate),
        SchedulePlan::Cosine { learning_rate, end_factor, .. } => {
            positive("learning_rate", *learning_rate)?;
            share("end_factor", *end_factor)
        }
        SchedulePlan::OneCycle { learning_rate, start_factor, end_factor, peak, .. } => {
            positive("learning_rate", *learning_rate)?;
            share("start_factor", *start_factor)?;
            share("end_factor", *end_factor)?;
            number("schedule.peak", *peak, "a share from 0 to below 1", (0.0..1.0).contains(peak))
        }
        SchedulePlan::Step { learning_rate, factor, drops, .. } => {
            positive("learning_rate", *learning_rate)?;
            positive("factor", *factor)?;
            let mut before = 0.0;
            for (i, drop) in drops.iter().enumerate() {
                let good = *drop > before && *drop < 1.0;
                number(
                    &format!("schedule.drops.{i}"),
                    *drop,
                    "a share above the one before and below 1",
                    good,
                )?;
                before = *drop;
            }
            Ok(())
        }
        SchedulePlan::Linear { learning_rate, end_factor, decay_updates, horizon, .. } => {
            positive("learning_rate", *learning_rate)?;
            number(
                "schedule.end_factor",
                *end_factor,
                "a share from 0 to 1",
                (0.0..=1.0).contains(end_factor),
            )?;
            match decay_updates {
                Some(0) => Err(PlanError::value("schedule.decay_updates", "at least 1 update", 0, "")),
                Some(_) if horizon.is_some() && schedule.warmup().is_none() && !averaged => {
                    Err(PlanError::Overlap(crate::error::complain(
                        "the schedule's length is given twice",
                        "schedule.decay_updates",
                        "decay_updates (in updates) or horizon (in epochs)",
                        "both",
                        "leave one of them out",
                    )))
                }
                _ => Ok(()),
            }
        }
        SchedulePlan::Piecewise { points, .. } => check_points(points),
    }
}

fn check_points(points: &[[f64; 2]]) -> Result<(), PlanError> {
    if points.len() < 2 {
        return Err(PlanError::value("schedule.points", "at least 2 points", points.len(), ""));
    }
    let mut before = -1.0;
    for (i, [position, rate]) in points.iter().enumerate() {
        let place = format!("schedule.points.{i}");
        let share = (0.0..=1.0).contains(position);
        number(&format!("{place}.0"), *position, "a share of the horizon, from 0 to 1", share)?;
        number(&format!("{place}.1"), *rate, "a learning rate, 0 or more", *rate >= 0.0)?;
        if *position <= before {
            return Err(PlanError::impossible(
                "positions do not rise",
                &format!("{place}.0"),
                format_args!("more than the {before} of the point before it"),
                position,
                "",
            ));
        }
        before = *position;
    }
    if points.iter().all(|p| p[1] == 0.0) {
        return Err(PlanError::value("schedule.points", "a learning rate above 0 somewhere", "only 0", ""));
    }
    Ok(())
}
