//! Networks without shortcuts.

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Window};
use sooner_plan::{ActivationPlan, NormPlan};

/// Linear layers `layer1`, `layer2`, ... with biases; activation and dropout between them. `hidden` empty is softmax
/// regression (Shallue et al., 2018).
pub(super) fn fully_connected(
    net: &mut Net,
    x: NodeId,
    hidden: &[usize],
    classes: usize,
    (activation, dropout): (ActivationPlan, f64),
) -> Result<NodeId, EngineError> {
    let mut h = x;
    for (i, units) in hidden.iter().chain([&classes]).enumerate() {
        let name = format!("layer{}", i + 1);
        let last = i == hidden.len();
        if i > 0 {
            h = net.activate(h, activation)?;
            h = net.dropout(h, dropout)?;
        }
        let init = if last { Init::GlorotUniform } else { Init::HeNormal };
        h = net.linear(&name, h, *units, init)?;
        h = net.bias(&name, h)?;
    }
    Ok(h)
}

/// conv1 5x5 - activation - 2x2 max pooling - conv2 5x5 - activation - 2x2 max pooling - dropout - linear; convolutions
/// unpadded (Shallue et al., 2018).
pub(super) fn simple_cnn(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 2],
    classes: usize,
    (activation, dropout): (ActivationPlan, f64),
) -> Result<NodeId, EngineError> {
    let mut h = x;
    for (name, channels) in ["conv1", "conv2"].into_iter().zip(channels) {
        let conv = Conv { channels, window: Window::valid(5, 1), init: Init::HeNormal };
        h = net.conv(name, h, conv)?;
        h = net.bias(name, h)?;
        h = net.activate(h, activation)?;
        h = net.graph.max_pool(h, Window::valid(2, 2))?;
    }
    h = net.dropout(h, dropout)?;
    let logits = net.linear("linear", h, classes, Init::GlorotUniform)?;
    net.bias("linear", logits)
}

/// VGG-11's sizes, but for the input's and the classes.
pub(super) struct Vgg11<'a> {
    pub(super) channels: &'a [usize; 8],
    pub(super) hidden: &'a [usize],
    pub(super) dropout: f64,
    pub(super) norm: &'a Option<NormPlan>,
}

/// Eight 3x3 convolutions `conv1` to `conv8` with biases and ReLU, 2x2 max pooling after those of number 1, 2, 4, 6 and
/// 8; linear layers `hidden1`, ... with ReLU and dropout; a last one (Simonyan and Zisserman, 2014, configuration A).
pub(super) fn vgg11(
    net: &mut Net,
    x: NodeId,
    sizes: &Vgg11<'_>,
    classes: usize,
) -> Result<NodeId, EngineError> {
    let mut h = x;
    for (i, &channels) in sizes.channels.iter().enumerate() {
        let name = format!("conv{}", i + 1);
        let conv = Conv { channels, window: Window::same(3, 1), init: Init::HeNormal };
        h = net.conv(&name, h, conv)?;
        h = net.bias(&name, h)?;
        if let Some(norm) = sizes.norm {
            h = net.norm(&format!("norm{}", i + 1), h, norm)?;
        }
        h = net.graph.relu(h)?;
        if [1, 2, 4, 6, 8].contains(&(i + 1)) {
            h = net.graph.max_pool(h, Window::valid(2, 2))?;
        }
    }
    for (i, &units) in sizes.hidden.iter().enumerate() {
        let name = format!("hidden{}", i + 1);
        h = net.linear(&name, h, units, Init::TorchUniform)?;
        h = net.bias(&name, h)?;
        h = net.graph.relu(h)?;
        h = net.dropout(h, sizes.dropout)?;
    }
    let logits = net.linear("linear", h, classes, Init::TorchUniform)?;
    net.bias("linear", logits)
}
