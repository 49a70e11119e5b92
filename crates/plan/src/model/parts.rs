//! What several families of networks have in common.

use serde::{Deserialize, Serialize};

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A nonlinearity, element by element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivationPlan {
    /// max(x, 0).
    #[default]
    Relu,
    /// x times the normal distribution function of x.
    Gelu,
    /// x times the sigmoid of x.
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0) with this alpha.
    Celu(f64),
}

/// How batch normalisation is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NormPlan {
    /// Which examples share statistics in training.
    pub statistics: StatisticsPlan,
    /// How gains start, and whether they are trained.
    pub gain: GainPlan,
    /// The weight of each new batch in the running statistics.
    pub rate: f64,
    /// Added to variances.
    pub eps: f64,
}

impl Default for NormPlan {
    /// As most published networks have it.
    fn default() -> NormPlan {
        NormPlan { statistics: StatisticsPlan::default(), gain: GainPlan::default(), rate: 0.1, eps: 1e-5 }
    }
}

/// Which examples share statistics in training.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatisticsPlan {
    /// All that are computed together: the batch, or each part of it where replicas or accumulation cut it.
    #[default]
    Local,
    /// The whole batch, however it is cut.
    Synchronised,
    /// Groups of so many examples of the batch, the last of which may be smaller (Hoffer et al., 2017).
    Ghost(usize),
}

/// The scales of normalisation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GainPlan {
    /// Trained from 1.
    #[default]
    One,
    /// Trained from values drawn uniformly from 0 to 1, as PyTorch did before its version 1.
    Uniform,
    /// This number, not trained.
    Fixed(f64),
}

/// Filters that whiten patches of images: the principal directions of the patches of so many training images, each
/// over the root of its variance plus `eps`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhitenPlan {
    /// The side of a patch in pixels.
    pub patch: usize,
    /// The first so many images of the training split are looked at. With 0, which airbench's networks allow, nothing is
    /// whitened: the filters are drawn at random and trained like all others.
    pub images: usize,
    /// Added to each variance.
    pub eps: f64,
}

/// The whitening of image patches that a network's first layer is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Whitening {
    /// As the plan has it.
    pub plan: WhitenPlan,
    /// Whether each filter comes twice: first all, then all with their signs turned.
    pub negatives: bool,
}

/// Where the pooling of a stage stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolPlace {
    /// Convolution, normalisation, activation, pooling.
    #[default]
    AfterActivation,
    /// Convolution, normalisation, pooling, activation: the same values, with fewer to be activated.
    BeforeActivation,
    /// Convolution, pooling, normalisation, activation.
    BeforeNorm,
}

/// How a stage halves the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Downsampling {
    /// Its convolution is 1x1 and takes every second pixel: what is left of a ResNet-18 without its long branches.
    #[serde(rename = "stride-1x1")]
    Stride1x1,
    /// Its convolution is 3x3 with stride 2.
    #[serde(rename = "stride-3x3")]
    Stride3x3,
    /// 2x2 max pooling after a 3x3 convolution.
    Pool,
}

/// What follows in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extra {
    /// Nothing.
    None,
    /// One more convolution.
    Convolution,
    /// Two more convolutions with a shortcut over both.
    Residual,
}

/// From the last image to the linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackboneHead {
    /// Means and largest values of all channels, side by side.
    AverageMax,
    /// The largest values.
    Max,
}

/// What a preparation layer ends with whose next step is a normalisation and ReLU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prep {
    /// The convolution.
    Plain,
    /// A normalisation and ReLU of its own, which that step makes redundant.
    NormRelu,
}
