//! The run section: how long, to what target, when to evaluate.

use serde::{Deserialize, Serialize};

/// Length, target, evaluation and threads of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// The most passes over the training split.
    pub epochs: f64,
    /// What to reach, as `SPLIT.METRIC OP VALUE`; none trains to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// When a run with a target ends.
    #[serde(default)]
    pub stop: Stop,
    /// When to evaluate; always at the end too.
    #[serde(default)]
    pub evaluate: EvaluatePlan,
    /// Engine threads; all cores if none. They may decide bits, so the resolved plan always has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
}

/// When a run with a target ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// At the first evaluation that meets it.
    #[default]
    Target,
    /// At the end of the schedule; the final weights are judged.
    End,
}

/// When to evaluate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluatePlan {
    /// As often as 15 % of the run's FLOPs allow, at most four times an epoch; resolves to `Updates`.
    #[default]
    Auto,
    /// After every epoch.
    Epoch,
    /// After every so many updates.
    Updates(u64),
    /// At updates that grow by 3 %, from the first on: the resolution a study of updates-to-target needs.
    Geometric,
}
