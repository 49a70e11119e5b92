//! Networks without shortcuts (Shallue et al., 2018; FACTS B1).

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Window};

/// Linear layers `layer1`, `layer2`, ... with biases, ReLU between them; `hidden` empty is softmax regression.
pub(super) fn fully_connected(
    net: &mut Net,
    x: NodeId,
    hidden: &[usize],
    classes: usize,
) -> Result<NodeId, EngineError> {
    let mut h = x;
    for (i, units) in hidden.iter().chain([&classes]).enumerate() {
        let name = format!("layer{}", i + 1);
        let last = i == hidden.len();
        if i > 0 {
            h = net.graph.relu(h)?;
        }
        let init = if last { Init::GlorotUniform } else { Init::HeNormal };
        h = net.linear(&name, h, *units, init)?;
        h = net.bias(&name, h)?;
    }
    Ok(h)
}

/// conv1 5x5 - ReLU - 2x2 max pooling - conv2 5x5 - ReLU - 2x2 max pooling - linear; convolutions unpadded.
pub(super) fn simple_cnn(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 2],
    classes: usize,
) -> Result<NodeId, EngineError> {
    let mut h = x;
    for (name, channels) in ["conv1", "conv2"].into_iter().zip(channels) {
        let conv = Conv { channels, window: Window::valid(5, 1), init: Init::HeNormal };
        h = net.conv(name, h, conv)?;
        h = net.bias(name, h)?;
        h = net.graph.relu(h)?;
        h = net.graph.max_pool(h, Window::valid(2, 2))?;
    }
    let logits = net.linear("linear", h, classes, Init::GlorotUniform)?;
    net.bias("linear", logits)
}
