//! The model section: a family and its sizes. Input shape and number of classes come from the data.

use serde::{Deserialize, Serialize};

/// A network of a known family. What each is, layer by layer, stands with its graph in `sooner-models`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModelPlan {
    /// Softmax regression: one linear layer.
    Softmax {},
    /// Fully connected layers with ReLU between.
    FullyConnected {
        /// Units of each hidden layer.
        hidden: Vec<usize>,
    },
    /// Two 5x5 convolutions with 2x2 max pooling and one linear layer (the Simple CNN of Shallue et al., 2018).
    SimpleCnn {
        /// Channels of the two convolutions: 32 and 64 in the base network.
        channels: [usize; 2],
    },
    /// Pre-activation residual network of eight layers without normalisation (Shallue et al., 2018).
    Resnet8 {
        /// Channels of the three blocks: 16, 32 and 64.
        channels: [usize; 3],
    },
    /// Page's ResNet-9 (2018).
    Resnet9 {
        /// Channels of the preparation layer and the three stages: 64, 128, 256 and 512.
        channels: [usize; 4],
        /// Logits are multiplied by this: 0.125.
        logit_scale: f64,
    },
}
