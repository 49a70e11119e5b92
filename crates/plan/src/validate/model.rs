//! The model section: sizes alone. Whether they fit the input is checked where the network is built, before any work
//! too.

use super::number;
use crate::{
    ActivationPlan, GainPlan, ModelPlan, NormPlan, PlanError, PoolPlace, StatisticsPlan, WhitenPlan,
};

/// Beyond this a layer would not fit a machine; and products of sizes must not overflow.
const MOST: usize = 1 << 20;

impl ModelPlan {
    /// Whether the sizes are possible, wherever they come from; whether they fit the input is checked where the network
    /// is built.
    pub fn check(&self) -> Result<(), PlanError> {
        check(self)
    }
}

pub(crate) fn check(model: &ModelPlan) -> Result<(), PlanError> {
    match model {
        ModelPlan::Softmax {} => Ok(()),
        ModelPlan::FullyConnected { hidden, .. } if hidden.is_empty() => Err(PlanError::value(
            "model.hidden",
            "at least one hidden layer",
            "none",
            "without one it is kind = \"softmax\"",
        )),
        ModelPlan::FullyConnected { hidden, activation: a, dropout: rate } => {
            sizes("hidden", hidden)?;
            activation(a)?;
            dropout(*rate)
        }
        ModelPlan::SimpleCnn { channels, activation: a, dropout: rate } => {
            sizes("channels", channels)?;
            activation(a)?;
            dropout(*rate)
        }
        ModelPlan::Resnet8 { channels } => sizes("channels", channels),
        ModelPlan::Resnet9 { channels, logit_scale: scale, pool, activation: a, norm: n, whiten: w } => {
            sizes("channels", channels)?;
            logit_scale(*scale)?;
            activation(a)?;
            norm(n)?;
            if *pool == PoolPlace::BeforeActivation && !rises(a) {
                return Err(PlanError::impossible(
                    "pooling before an activation that falls gives other values",
                    "model.pool",
                    "\"after-activation\" or \"before-norm\", or an activation that rises throughout",
                    "\"before-activation\"",
                    "",
                ));
            }
            w.as_ref().map_or(Ok(()), |w| whiten(w, 1))
        }
        ModelPlan::Backbone { channels, logit_scale: scale, norm: n, .. } => {
            sizes("channels", channels)?;
            logit_scale(*scale)?;
            norm(n)
        }
        ModelPlan::DawnResnet18 { channels, norm: n, .. } => {
            sizes("channels", channels)?;
            norm(n)
        }
        ModelPlan::Resnet32 { channels, blocks, norm: n } => {
            sizes("channels", channels)?;
            whole("model.blocks", *blocks, 1, 1000)?;
            norm(n)
        }
        ModelPlan::Resnet50 { channels, blocks, norm: n } => {
            sizes("channels", channels)?;
            for (i, &count) in blocks.iter().enumerate() {
                whole(&format!("model.blocks.{i}"), count, 1, 1000)?;
            }
            norm(n)
        }
        ModelPlan::Vgg11 { channels, hidden, dropout: rate, norm: n } => {
            sizes("channels", channels)?;
            sizes("hidden", hidden)?;
            dropout(*rate)?;
            n.as_ref().map_or(Ok(()), norm)
        }
        ModelPlan::Airbench {
            channels,
            convolutions,
            logit_scale: scale,
            whiten: w,
            norm: n,
            activation: a,
        } => {
            sizes("channels", channels)?;
            whole("model.convolutions", *convolutions, 2, 3)?;
            logit_scale(*scale)?;
            whiten(w, 0)?;
            norm(n)?;
            activation(a)
        }
    }
}

/// Whether the largest of several values stays the largest.
fn rises(activation: &ActivationPlan) -> bool {
    !matches!(activation, ActivationPlan::Gelu | ActivationPlan::Silu)
}

fn sizes(key: &str, sizes: &[usize]) -> Result<(), PlanError> {
    match sizes.iter().position(|n| !(1..=MOST).contains(n)) {
        Some(i) => Err(PlanError::value(
            &format!("model.{key}.{i}"),
            &format!("a size from 1 to {MOST}"),
            sizes[i],
            "",
        )),
        None => Ok(()),
    }
}

fn whole(place: &str, value: usize, least: usize, most: usize) -> Result<(), PlanError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(PlanError::value(place, &format!("{least} to {most}"), value, ""))
}

fn logit_scale(scale: f64) -> Result<(), PlanError> {
    number("model.logit_scale", scale, "a number above 0", scale > 0.0)
}

fn dropout(rate: f64) -> Result<(), PlanError> {
    number("model.dropout", rate, "a share from 0 to below 1", (0.0..1.0).contains(&rate))
}

fn activation(activation: &ActivationPlan) -> Result<(), PlanError> {
    match activation {
        ActivationPlan::Celu(alpha) => {
            number("model.activation.celu", *alpha, "a number above 0", *alpha > 0.0)
        }
        _ => Ok(()),
    }
}

fn norm(norm: &NormPlan) -> Result<(), PlanError> {
    let NormPlan { statistics, gain, rate, eps } = norm;
    if let StatisticsPlan::Ghost(examples) = statistics {
        whole("model.norm.statistics.ghost", *examples, 1, MOST)?;
    }
    if let GainPlan::Fixed(gain) = gain {
        number("model.norm.gain.fixed", *gain, "a number above 0", *gain > 0.0)?;
    }
    number("model.norm.rate", *rate, "a share above 0, at most 1", *rate > 0.0 && *rate <= 1.0)?;
    number("model.norm.eps", *eps, "a number above 0", *eps > 0.0)
}

fn whiten(whiten: &WhitenPlan, least: usize) -> Result<(), PlanError> {
    // Of larger patches the covariance would outgrow everything else.
    whole("model.whiten.patch", whiten.patch, 1, 8)?;
    whole("model.whiten.images", whiten.images, least, 1 << 30)?;
    number("model.whiten.eps", whiten.eps, "a number, 0 or more", whiten.eps >= 0.0)
}
