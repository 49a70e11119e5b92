//! Networks with shortcuts.

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Window};

/// A 3x3 convolution, then three pre-activation blocks of two 3x3 convolutions, the second and third at half
/// resolution, then ReLU, global average pooling and a linear layer. Shortcuts take every second pixel and pad
/// channels with zeros. Biases, no normalisation (FACTS B1).
pub(super) fn resnet8(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 3],
    classes: usize,
) -> Result<NodeId, EngineError> {
    let mut h = net.conv("conv", x, unnormalized(channels[0], 1))?;
    h = net.bias("conv", h)?;
    for (i, width) in channels.into_iter().enumerate() {
        let stride = if i == 0 { 1 } else { 2 };
        h = plain_block(net, &format!("block{}", i + 1), h, width, stride)?;
    }
    h = net.graph.relu(h)?;
    h = net.graph.global_avg_pool(h)?;
    let logits = net.linear("linear", h, classes, Init::TorchUniform)?;
    net.bias("linear", logits)
}

/// A 3x3 convolution that no normalisation follows. Small initial values keep what the blocks add small beside their
/// shortcuts: with He's, the sum of three blocks is some eight times too large, and training starts slowly (ResNet-8,
/// 3 epochs of CIFAR-10 at rate 0.05: val.error 0.415 with He's values, 0.383 after only 2.5 epochs with these; n = 1 each).
fn unnormalized(channels: usize, stride: usize) -> Conv {
    Conv { channels, window: Window::same(3, stride), init: Init::TorchUniform }
}

fn plain_block(
    net: &mut Net,
    name: &str,
    x: NodeId,
    channels: usize,
    stride: usize,
) -> Result<NodeId, EngineError> {
    let (first, second) = (format!("{name}.conv1"), format!("{name}.conv2"));
    let mut h = net.graph.relu(x)?;
    h = net.conv(&first, h, unnormalized(channels, stride))?;
    h = net.bias(&first, h)?;
    h = net.graph.relu(h)?;
    h = net.conv(&second, h, unnormalized(channels, 1))?;
    h = net.bias(&second, h)?;
    let mut shortcut = x;
    if stride > 1 {
        shortcut = net.graph.avg_pool(shortcut, Window::valid(1, stride))?;
    }
    if net.graph.shape(shortcut).last() != channels {
        shortcut = net.graph.pad_channels(shortcut, channels)?;
    }
    net.graph.add(h, shortcut)
}

/// Page's ResNet-9 (2018): prep - layer1 with pooling and a residual pair - layer2 with pooling - layer3 with pooling
/// and a residual pair - max pooling over the whole image - linear without bias. Every convolution is 3x3 with batch
/// normalisation and ReLU.
pub(super) fn resnet9(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 4],
    classes: usize,
) -> Result<NodeId, EngineError> {
    let [prep, first, second, third] = channels;
    let mut h = net.conv_norm_relu("prep", x, prep)?;
    for (name, channels, residual) in
        [("layer1", first, true), ("layer2", second, false), ("layer3", third, true)]
    {
        h = net.conv_norm_relu(name, h, channels)?;
        h = net.graph.max_pool(h, Window::valid(2, 2))?;
        if residual {
            let r = net.conv_norm_relu(&format!("{name}.residual1"), h, channels)?;
            let r = net.conv_norm_relu(&format!("{name}.residual2"), r, channels)?;
            h = net.graph.add(h, r)?;
        }
    }
    let [height, width] = [net.graph.shape(h)[1], net.graph.shape(h)[2]];
    let whole = Window { kernel: [height, width], ..Window::valid(1, 1) };
    h = net.graph.max_pool(h, whole)?;
    net.linear("linear", h, classes, Init::TorchUniform)
}
