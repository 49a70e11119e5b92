//! The optimiser and schedule sections. Learning rates and weight decays are those of one update of the mean loss
//! over the batch, unless the plan says that they are in other units.

use serde::{Deserialize, Serialize};

/// The update rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Plain stochastic gradient descent.
    Sgd,
    /// With a velocity (Polyak's heavy ball).
    HeavyBall,
    /// With a velocity, looking ahead (Nesterov).
    Nesterov,
    /// Adaptive moments (Kingma and Ba, 2015); momentum is the decay of the first.
    Adam,
    /// The same with decoupled weight decay (Loshchilov and Hutter, 2019).
    Adamw,
    /// Layer-wise adaptive rates for weights (You et al., 2017).
    Lars,
    /// Orthogonalised momentum for weights, Nesterov for the rest (Jordan, 2024).
    Muon,
}

/// How weight decay enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// Into the gradient (L2).
    Coupled,
    /// Past it: each update multiplies the parameter by 1 - learning rate times weight decay.
    Decoupled,
}

/// What learning rate and weight decay are given in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// Those of one update of the mean loss.
    #[default]
    Update,
    /// For 1024 examples, and apart from momentum and from each other (airbench): with batch size B and
    /// momentum m the rate of an update is B rate / (1024 (1 + 1 / (1 - m))), and the decay that enters the gradient is
    /// the given one over the schedule's largest rate.
    #[serde(rename = "decoupled-1024")]
    Decoupled1024,
}

/// What happens to the norms of weights under Muon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norms {
    /// Nothing; steps are scaled by the root of outputs over inputs where that is above 1.
    Free,
    /// Each weight is scaled to the root of its number of outputs before each step (airbench).
    Kept,
}

/// A running average of the parameters and running statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AveragePlan {
    /// Whether it is kept beside them or put in their place.
    pub kind: AverageKind,
    /// The share of the average that is kept from one update to the next.
    pub decay: f64,
    /// Updates between two uses; the share kept is then decay to this power.
    #[serde(default = "one_update")]
    pub every: u64,
    /// The share kept is also multiplied by (updates done / updates in all) to this power.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub power: f64,
}

fn one_update() -> u64 {
    1
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl AverageKind {
    /// The word that a plan writes.
    pub fn name(self) -> &'static str {
        match self {
            AverageKind::Ema => "ema",
            AverageKind::Lookahead => "lookahead",
        }
    }
}

/// What is done with an average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AverageKind {
    /// It is evaluated and saved in place of the parameters, which train on without it.
    Ema,
    /// The parameters become the average (Zhang et al., 2019): every so many updates, and at the end of the schedule's
    /// horizon in any case. Evaluations between see the parameters as they are.
    Lookahead,
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
    /// Times the parameter, added to the gradient, or as `decay` says.
    #[serde(default)]
    pub weight_decay: f64,
    /// How weight decay enters, coupled if none; AdamW's, and that of weights under Muon, is always decoupled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decay: Option<Decay>,
    /// What learning rate and weight decay are given in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub units: Units,
    /// Adam: the decay of the second moment; 0.999 if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_momentum: Option<f64>,
    /// Adam: added to the root of the second moment; 1e-8 if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
    /// LARS: the trust coefficient; 0.001 if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<f64>,
    /// Muon: rounds of the iteration; 5 if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Muon: what happens to the norms of weights; `free` if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norms: Option<Norms>,
    /// The largest norm of all gradients together; they are scaled down to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// A running average of the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<AveragePlan>,
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
    /// Only those whose names start like this, such as `linear` or `layer1.conv`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Multiplies the learning rate.
    #[serde(default = "one")]
    pub rate_scale: f64,
    /// Multiplies the weight decay.
    #[serde(default = "one")]
    pub decay_scale: f64,
    /// Another rule than the optimiser's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<OptimizerKind>,
    /// Another momentum than the optimiser's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// They are trained for so many epochs and then left as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
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
    /// Everything that is trained.
    All,
}

/// The learning rate as a function of the update's number. The horizon is `schedule.horizon` epochs, in updates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulePlan {
    /// The same throughout.
    Constant {
        /// The learning rate.
        learning_rate: f64,
        /// As in every schedule: over this share of the horizon the rate rises in a straight line to the schedule's,
        /// (t + 1) / W of it at update t of the first W.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The length in epochs that the warm-up is a share of; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// From eta0 down to alpha eta0 over T updates in a straight line, then constant.
    Linear {
        /// eta0, the first update's learning rate.
        learning_rate: f64,
        /// alpha, the last learning rate as a share of the first.
        end_factor: f64,
        /// T in updates; the whole horizon if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decay_updates: Option<u64>,
        /// The warm-up's share of the horizon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// Straight lines between points.
    Piecewise {
        /// Pairs of (position, learning rate); positions are shares of the horizon, from 0 to 1, rising.
        points: Vec<[f64; 2]>,
        /// The warm-up's share of the horizon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// Half a cosine from the first rate down to the last (Loshchilov and Hutter, 2017, without restarts):
    /// eta(t) = end + (eta0 - end) (1 + cos(pi t / T)) / 2 with end = end_factor eta0.
    Cosine {
        /// eta0, the first update's learning rate.
        learning_rate: f64,
        /// The last learning rate as a share of the first.
        end_factor: f64,
        /// The warm-up's share of the horizon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// Up to the peak and down again (Smith, 2018), in straight lines or half cosines.
    OneCycle {
        /// The peak.
        learning_rate: f64,
        /// The first rate as a share of the peak.
        start_factor: f64,
        /// The last rate as a share of the peak.
        end_factor: f64,
        /// Where the peak is, as a share of the horizon.
        peak: f64,
        /// The form of rise and fall.
        #[serde(default, skip_serializing_if = "is_default")]
        shape: CycleShape,
        /// The warm-up's share of the horizon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
    /// Constant between drops.
    Step {
        /// The first learning rate.
        learning_rate: f64,
        /// Multiplies the rate at each drop.
        factor: f64,
        /// Where the drops are: shares of the horizon, rising.
        drops: Vec<f64>,
        /// The warm-up's share of the horizon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<f64>,
        /// The schedule's length in epochs; `run.epochs` if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        horizon: Option<f64>,
    },
}

/// The form of a one-cycle schedule's two parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CycleShape {
    /// Straight lines.
    #[default]
    Linear,
    /// Half cosines, as PyTorch's one-cycle schedule has it unless told otherwise.
    Cosine,
}
