//! The model section: a family and its sizes. Input shape and number of classes come from the data.

mod form;
mod parts;

pub(crate) use form::MODEL;
pub use parts::{
    ActivationPlan, BackboneHead, Downsampling, Extra, GainPlan, NormPlan, PoolPlace, Prep, StatisticsPlan,
    WhitenPlan, Whitening,
};

use parts::{is_default, is_zero};
use serde::{Deserialize, Serialize};

/// A network of a known family. What each is, layer by layer, stands with its graph in `sooner-models`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModelPlan {
    /// Softmax regression: one linear layer.
    Softmax {},
    /// Fully connected layers with an activation between.
    FullyConnected {
        /// Units of each hidden layer.
        hidden: Vec<usize>,
        /// Between the layers.
        #[serde(default, skip_serializing_if = "is_default")]
        activation: ActivationPlan,
        /// The share of each hidden layer's units that is left out at random in training.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropout: f64,
    },
    /// Two 5x5 convolutions with 2x2 max pooling and one linear layer (the Simple CNN of Shallue et al., 2018).
    SimpleCnn {
        /// Channels of the two convolutions: 32 and 64 in the base network.
        channels: [usize; 2],
        /// After each convolution.
        #[serde(default, skip_serializing_if = "is_default")]
        activation: ActivationPlan,
        /// The share of the linear layer's inputs that is left out at random in training.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropout: f64,
    },
    /// Pre-activation residual network of eight layers without normalisation (Shallue et al., 2018).
    Resnet8 {
        /// Channels of the three blocks: 16, 32 and 64.
        channels: [usize; 3],
    },
    /// Page's ResNet-9 (2018), and what he made of it later.
    Resnet9 {
        /// Channels of the preparation layer and the three stages: 64, 128, 256 and 512.
        channels: [usize; 4],
        /// Logits are multiplied by this: 0.125.
        logit_scale: f64,
        /// Where the pooling of a stage stands.
        #[serde(default, skip_serializing_if = "is_default")]
        pool: PoolPlace,
        /// After each normalisation.
        #[serde(default, skip_serializing_if = "is_default")]
        activation: ActivationPlan,
        /// The normalisation of every convolution.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
        /// The preparation layer becomes fixed filters that whiten patches of the image, and a trained 1x1 convolution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whiten: Option<WhitenPlan>,
    },
    /// What Page's search for a backbone went through (2018): a preparation layer, three stages that halve the image,
    /// and a head. With residual extras in the first and third stage it is his ResNet-9.
    Backbone {
        /// Channels of the preparation layer and the three stages.
        channels: [usize; 4],
        /// How a stage halves the image.
        downsampling: Downsampling,
        /// What follows in each stage.
        extras: [Extra; 3],
        /// From the last image to the linear layer.
        head: BackboneHead,
        /// Logits are multiplied by this.
        logit_scale: f64,
        /// The normalisation of every convolution.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
    },
    /// The pre-activation ResNet-18 of DAWNBench's first entries, with which Page began (2018).
    DawnResnet18 {
        /// Channels of the four stages: 64, 128, 256 and 256.
        channels: [usize; 4],
        /// What the preparation layer ends with.
        prep: Prep,
        /// Every normalisation.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
    },
    /// The residual networks for CIFAR-10 of He et al. (2015): three stages of so many blocks of two convolutions.
    Resnet32 {
        /// Channels of the three stages: 16, 32 and 64.
        channels: [usize; 3],
        /// Blocks of each stage: 5 make it ResNet-32; n of them make 6 n + 2 layers.
        #[serde(default = "five", skip_serializing_if = "is_five")]
        blocks: usize,
        /// Every normalisation.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
    },
    /// The bottleneck residual network of 50 layers of He et al. (2015), with strides in the 3x3 convolutions.
    Resnet50 {
        /// Channels inside the blocks of the four stages, whose results have four times as many: 64, 128, 256 and 512.
        #[serde(default = "resnet50_channels")]
        channels: [usize; 4],
        /// Blocks of the four stages: 3, 4, 6 and 3.
        #[serde(default = "resnet50_blocks")]
        blocks: [usize; 4],
        /// Every normalisation.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
    },
    /// Simonyan and Zisserman's configuration A (2014): eight convolutions with five poolings, then linear layers.
    Vgg11 {
        /// Channels of the eight convolutions: 64, 128, 256, 256, 512, 512, 512 and 512.
        channels: [usize; 8],
        /// Units of each hidden linear layer: 4096 and 4096 for images of 224 pixels.
        hidden: Vec<usize>,
        /// The share of each hidden layer's units that is left out at random in training.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropout: f64,
        /// The normalisation after each convolution; as published there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        norm: Option<NormPlan>,
    },
    /// Jordan's networks for CIFAR-10 (airbench, 2024): fixed whitening filters, three groups of convolutions that
    /// halve the image, one linear layer.
    Airbench {
        /// Channels of the three groups: 64, 256 and 256 for 94 %.
        channels: [usize; 3],
        /// Convolutions of each group: 2, or 3 with a shortcut over the last two.
        convolutions: usize,
        /// Logits are multiplied by this: 1/9.
        logit_scale: f64,
        /// The first layer: filters, then their negatives, with one trained bias for each.
        whiten: WhitenPlan,
        /// Every normalisation.
        #[serde(default, skip_serializing_if = "is_default")]
        norm: NormPlan,
        /// After each normalisation.
        #[serde(default = "gelu", skip_serializing_if = "is_gelu")]
        activation: ActivationPlan,
    },
}

fn five() -> usize {
    5
}

fn is_five(blocks: &usize) -> bool {
    *blocks == five()
}

fn resnet50_channels() -> [usize; 4] {
    [64, 128, 256, 512]
}

fn resnet50_blocks() -> [usize; 4] {
    [3, 4, 6, 3]
}

fn gelu() -> ActivationPlan {
    ActivationPlan::Gelu
}

fn is_gelu(activation: &ActivationPlan) -> bool {
    *activation == gelu()
}

impl ModelPlan {
    /// How the network normalises; none if it does not.
    pub fn norm(&self) -> Option<&NormPlan> {
        match self {
            ModelPlan::Softmax {}
            | ModelPlan::FullyConnected { .. }
            | ModelPlan::SimpleCnn { .. }
            | ModelPlan::Resnet8 { .. } => None,
            ModelPlan::Resnet9 { norm, .. }
            | ModelPlan::Backbone { norm, .. }
            | ModelPlan::DawnResnet18 { norm, .. }
            | ModelPlan::Resnet32 { norm, .. }
            | ModelPlan::Resnet50 { norm, .. }
            | ModelPlan::Airbench { norm, .. } => Some(norm),
            ModelPlan::Vgg11 { norm, .. } => norm.as_ref(),
        }
    }

    /// Examples of a group that shares statistics; none unless the network normalises by groups.
    pub fn ghost_group(&self) -> Option<usize> {
        match self.norm()?.statistics {
            StatisticsPlan::Ghost(examples) => Some(examples),
            StatisticsPlan::Local | StatisticsPlan::Synchronised => None,
        }
    }

    /// The whitening of image patches that the network's first layer is made of, if it is. Its filters are the variable
    /// `whiten.weight`.
    pub fn whitening(&self) -> Option<Whitening> {
        match self {
            ModelPlan::Resnet9 { whiten: Some(plan), .. } => {
                Some(Whitening { plan: *plan, negatives: false })
            }
            ModelPlan::Airbench { whiten, .. } if whiten.images > 0 => {
                Some(Whitening { plan: *whiten, negatives: true })
            }
            _ => None,
        }
    }
}
