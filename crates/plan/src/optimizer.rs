//! The optimiser and schedule sections. Learning rates and weight decays are those of one update of the mean loss
//! over the batch.

use serde::{Deserialize, Serialize};

/// The update rules (FACTS B2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Plain stochastic gradient descent.
    Sgd,
    /// With a velocity (Polyak's heavy ball).
    HeavyBall,
    /// With a velocity, looking ahead (Nesterov).
    Nesterov,
}

/// The update rule and its constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerPlan {
    /// The rule.
    pub kind: OptimizerKind,
    /// The share of the velocity that is kept; 0 for `sgd`.
    #[serde(default)]
    pub momentum: f64,
    /// Added to the gradient, times the parameter (L2, coupled).
    #[serde(default)]
    pub weight_decay: f64,
    /// Label smoothing s of the training loss: targets are (1 - s) onehot + s / classes.
    #[serde(default)]
    pub label_smoothing: f64,
    /// Parameters that are treated differently; the first group that matches a parameter counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
}

/// Parameters with their own multiples of learning rate and weight decay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Which parameters.
    pub parameters: GroupMatch,
    /// Multiplies the learning rate.
    #[serde(default = "one")]
    pub rate_scale: f64,
    /// Multiplies the weight decay.
    #[serde(default = "one")]
    pub decay_scale: f64,
}

fn one() -> f64 {
    1.0
}

/// Which parameters a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupMatch {
    /// Convolution and linear weights.
    Weights,
    /// All biases, those of normalisation included.
    Biases,
    /// The scales of normalisation.
    Gains,
}

/// The learning rate as a function of the update's number. The horizon is `schedule.horizon` epochs, in updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulePlan {
    /// The same throughout.
    Constant {
        /// The learning rate.
        learning_rate: f64,
    },
    /// From eta0 down to alpha eta0 over T updates in a straight line, then constant (FACTS B2).
    Linear {
        /// eta0, the first update's learning rate.
        learning_rate: f64,
        /// alpha, the last learning rate as a share of the first.
        end_factor: f64,
        /// T in updates; the whole horizon if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decay_updates: Option<u64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// Straight lines between points.
    Piecewise {
        /// Pairs of (position, learning rate); positions are shares of the horizon, from 0 to 1, rising.
        points: Vec<[f64; 2]>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
}
