//! The optimiser and schedule sections.

use super::number;
use crate::{OptimizerKind, OptimizerPlan, PlanError, SchedulePlan};

pub(crate) fn check_optimizer(optimizer: &OptimizerPlan) -> Result<(), PlanError> {
    let OptimizerPlan { kind, momentum, weight_decay, label_smoothing, groups } = optimizer;
    let below_one = |value: f64| (0.0..1.0).contains(&value);
    number("optimizer.momentum", *momentum, "a number from 0 to below 1", below_one(*momentum))?;
    if *kind == OptimizerKind::Sgd && *momentum > 0.0 {
        return Err(PlanError::impossible(
            "plain descent has no momentum",
            "optimizer.momentum",
            "0 with kind \"sgd\"",
            momentum,
            "kinds with momentum are \"heavy-ball\" and \"nesterov\"",
        ));
    }
    number("optimizer.weight_decay", *weight_decay, "a number, 0 or more", *weight_decay >= 0.0)?;
    number(
        "optimizer.label_smoothing",
        *label_smoothing,
        "a number from 0 to below 1",
        below_one(*label_smoothing),
    )?;
    for (i, group) in groups.iter().enumerate() {
        for (key, scale) in [("rate_scale", group.rate_scale), ("decay_scale", group.decay_scale)] {
            number(&format!("optimizer.groups.{i}.{key}"), scale, "a number, 0 or more", scale >= 0.0)?;
        }
        if groups[..i].iter().any(|g| g.parameters == group.parameters) {
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

pub(crate) fn check_schedule(schedule: &SchedulePlan) -> Result<(), PlanError> {
    let positive =
        |key: &str, value: f64| number(&format!("schedule.{key}"), value, "a number above 0", value > 0.0);
    if let Some(horizon) = schedule.horizon() {
        positive("horizon", horizon)?;
    }
    match schedule {
        SchedulePlan::Constant { learning_rate } => positive("learning_rate", *learning_rate),
        SchedulePlan::Linear { learning_rate, end_factor, decay_updates, horizon } => {
            positive("learning_rate", *learning_rate)?;
            number(
                "schedule.end_factor",
                *end_factor,
                "a share from 0 to 1",
                (0.0..=1.0).contains(end_factor),
            )?;
            match decay_updates {
                Some(0) => Err(PlanError::value("schedule.decay_updates", "at least 1 update", 0, "")),
                Some(_) if horizon.is_some() => Err(PlanError::Overlap(crate::error::complain(
                    "the schedule's length is given twice",
                    "schedule.decay_updates",
                    "decay_updates (in updates) or horizon (in epochs)",
                    "both",
                    "leave one of them out",
                ))),
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
