//! The run section: how long, to what target, when to evaluate.

use crate::{InitialPlan, SelectPlan};
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
    /// How often evaluations that may end the run see each image.
    #[serde(default, skip_serializing_if = "Views::is_one")]
    pub views: Views,
    /// When the run has diverged.
    #[serde(default)]
    pub guard: GuardPlan,
    /// What the run's weights start from; the model's own initial values if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitPlan>,
    /// A record whose schedule of fresh examples and repeats this run follows, instead of time; only with
    /// `echo = "auto"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// How variables start, where not as the network's family has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initial: Vec<InitialPlan>,
    /// Engine threads; all cores if none. They may decide bits, so the resolved plan always has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// How convolutions are computed; written only if direct, the record's kernels say it either way.
    #[serde(default, skip_serializing_if = "Convolutions::is_fast")]
    pub convolutions: Convolutions,
    /// How values are kept between the way forward and the way back; written only if not as they were computed.
    #[serde(default, skip_serializing_if = "Activations::is_f32")]
    pub activations: Activations,
    /// Parts of each batch that are computed at the same time, each on its share of the threads.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replicas: usize,
    /// Parts of each batch that every replica goes through, one after the other. Replicas times these is the number of
    /// parts, which decides bits.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub accumulate: usize,
    /// The gradient noise scale is estimated from the parts' gradients every so many updates; never if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_scale: Option<u64>,
    /// Updates are made of a part of each batch; of all of it if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<SelectPlan>,
}

/// How convolutions are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Convolutions {
    /// By a fast algorithm where a rule on shapes says that it wins, at some ten times the rounding error.
    #[default]
    Fast,
    /// By the direct sums, always.
    Direct,
}

impl Convolutions {
    fn is_fast(&self) -> bool {
        *self == Convolutions::Fast
    }
}

/// How values are kept between the way forward and the way back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activations {
    /// As they were computed.
    #[default]
    F32,
    /// Rounded to bf16, in half the memory; all arithmetic stays f32.
    Bf16,
}

impl Activations {
    fn is_f32(&self) -> bool {
        *self == Activations::F32
    }
}

/// Test-time augmentation: the views of each image whose logits are averaged before they are judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Views {
    /// The image alone.
    #[default]
    One,
    /// The image and its mirror image.
    Flips,
    /// Those two, at half the weight, and both moved by a pixel up and left and down and right, at a quarter each; the
    /// border is reflected (airbench's test-time augmentation).
    FlipsShifts,
}

impl Views {
    /// Its word in a plan.
    pub fn name(self) -> &'static str {
        match self {
            Views::One => "one",
            Views::Flips => "flips",
            Views::FlipsShifts => "flips-shifts",
        }
    }

    /// The views that this word of a plan means.
    pub fn parse(word: &str) -> Option<Views> {
        [Views::One, Views::Flips, Views::FlipsShifts].into_iter().find(|views| views.name() == word)
    }

    /// How many views each image has.
    pub fn count(self) -> usize {
        match self {
            Views::One => 1,
            Views::Flips => 2,
            Views::FlipsShifts => 6,
        }
    }

    /// Whether each image is seen once.
    pub fn is_one(&self) -> bool {
        *self == Views::One
    }
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

impl RunPlan {
    /// Parts that each batch is cut into.
    pub fn parts(&self) -> usize {
        self.replicas.saturating_mul(self.accumulate)
    }
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
    /// At updates that grow by 3 %, from the first on: the finest resolution a study of updates-to-target needs.
    Geometric,
    /// At updates that grow by a factor, from a share of the run on: where that resolution would cost more than the updates.
    Growing {
        /// From one evaluation to the next, above 1.
        by: f64,
        /// The first one's updates over those of the whole run, above 0 and at most 1.
        from: f64,
    },
}

/// When a run has diverged: by the loss of an update's batch, or that of an evaluation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardPlan {
    /// When the loss is NaN or infinite.
    #[default]
    Finite,
    /// Never: the run goes on whatever its loss.
    Off,
    /// When the loss is over this bound, NaN or infinite.
    Loss(f64),
}

impl GuardPlan {
    /// Whether a run with this loss has diverged.
    pub fn trips(self, loss: f64) -> bool {
        match self {
            GuardPlan::Finite => !loss.is_finite(),
            GuardPlan::Off => false,
            GuardPlan::Loss(most) => loss.is_nan() || loss > most,
        }
    }
}

/// Weights that a run starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitPlan {
    /// A file of weights.
    pub weights: String,
    /// Variables whose names start with one of these keep the model's own initial values, such as a new head's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// CRC-32 of the file in hexadecimal, so that the same plan means the same weights; filled in when the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards() {
        let trips = |guard: GuardPlan| [1.0, 1e9, f64::INFINITY, f64::NAN].map(|loss| guard.trips(loss));
        assert_eq!(trips(GuardPlan::Finite), [false, false, true, true]);
        assert_eq!(trips(GuardPlan::Off), [false; 4]);
        assert_eq!(trips(GuardPlan::Loss(1.0)), [false, true, true, true]);
    }
}
