//! Networks with shortcuts.

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Window};
use sooner_plan::{NormPlan, Prep};

/// A 3x3 convolution, then three pre-activation blocks of two 3x3 convolutions, the second and third at half
/// resolution, then ReLU, global average pooling and a linear layer. Shortcuts take every second pixel and pad
/// channels with zeros. Biases, no normalisation.
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
    let shortcut = padded_shortcut(net, x, channels, stride)?;
    net.graph.add(h, shortcut)
}

/// Every pixel at this stride, with channels of zeros added up to so many: a shortcut without parameters.
fn padded_shortcut(net: &mut Net, x: NodeId, channels: usize, stride: usize) -> Result<NodeId, EngineError> {
    let mut shortcut = x;
    if stride > 1 {
        shortcut = net.graph.avg_pool(shortcut, Window::valid(1, stride))?;
    }
    if net.graph.shape(shortcut).last() < channels {
        shortcut = net.graph.pad_channels(shortcut, channels)?;
    }
    Ok(shortcut)
}

/// A convolution of odd extent, padded so that only the stride changes the image's size.
fn same(channels: usize, kernel: usize, stride: usize, init: Init) -> Conv {
    Conv { channels, window: Window::same(kernel, stride), init }
}

/// A 3x3 convolution `conv`, three stages of so many blocks `stage1.block1`, ..., global average pooling, linear. A block
/// is convolution - normalisation - ReLU - convolution - normalisation, its shortcut added, ReLU (He et al., 2015, with
/// shortcuts of their option A, zeros behind the channels there are).
pub(super) fn resnet32(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 3],
    classes: usize,
    (blocks, norm): (usize, &NormPlan),
) -> Result<NodeId, EngineError> {
    let mut h = net.conv("conv", x, same(channels[0], 3, 1, Init::HeNormal))?;
    h = net.norm("norm", h, norm)?;
    h = net.graph.relu(h)?;
    for (i, width) in channels.into_iter().enumerate() {
        for j in 0..blocks {
            let name = format!("stage{}.block{}", i + 1, j + 1);
            let stride = if i > 0 && j == 0 { 2 } else { 1 };
            let shortcut = padded_shortcut(net, h, width, stride)?;
            h = net.conv(&format!("{name}.conv1"), h, same(width, 3, stride, Init::HeNormal))?;
            h = net.norm(&format!("{name}.norm1"), h, norm)?;
            h = net.graph.relu(h)?;
            h = net.conv(&format!("{name}.conv2"), h, same(width, 3, 1, Init::HeNormal))?;
            h = net.norm(&format!("{name}.norm2"), h, norm)?;
            h = net.graph.add(h, shortcut)?;
            h = net.graph.relu(h)?;
        }
    }
    h = net.graph.global_avg_pool(h)?;
    let logits = net.linear("linear", h, classes, Init::TorchUniform)?;
    net.bias("linear", logits)
}

/// A 3x3 convolution `prep`, four stages of two pre-activation blocks, the last three at half resolution each, means and
/// largest values of the last image's channels side by side, linear. With `Prep::NormRelu` the
/// preparation layer has a normalisation and ReLU, and the first block begins with another.
pub(super) fn dawn_resnet18(
    net: &mut Net,
    x: NodeId,
    channels: [usize; 4],
    classes: usize,
    (prep, norm): (Prep, &NormPlan),
) -> Result<NodeId, EngineError> {
    let mut h = net.conv("prep.conv", x, same(channels[0], 3, 1, Init::TorchUniform))?;
    if prep == Prep::NormRelu {
        h = net.norm("prep.norm", h, norm)?;
        h = net.graph.relu(h)?;
    }
    for (i, width) in channels.into_iter().enumerate() {
        for j in 0..2 {
            let stride = if i > 0 && j == 0 { 2 } else { 1 };
            let name = format!("layer{}.block{}", i + 1, j + 1);
            h = pre_activation_block(net, &name, h, (width, stride), norm)?;
        }
    }
    let (mean, most) = (net.graph.global_avg_pool(h)?, net.global_max_pool(h)?);
    let h = net.graph.concat(mean, most)?;
    let logits = net.linear("linear", h, classes, Init::TorchUniform)?;
    net.bias("linear", logits)
}

/// Normalisation - ReLU - convolution, twice. Where the size changes, the shortcut is a 1x1 convolution of what the first
/// ReLU gives.
fn pre_activation_block(
    net: &mut Net,
    name: &str,
    x: NodeId,
    (channels, stride): (usize, usize),
    norm: &NormPlan,
) -> Result<NodeId, EngineError> {
    let init = Init::TorchUniform;
    let h = net.norm(&format!("{name}.norm1"), x, norm)?;
    let first = net.graph.relu(h)?;
    let shortcut = if stride > 1 || net.graph.shape(x).last() != channels {
        net.conv(&format!("{name}.shortcut"), first, same(channels, 1, stride, init))?
    } else {
        x
    };
    let h = net.conv(&format!("{name}.conv1"), first, same(channels, 3, stride, init))?;
    let h = net.norm(&format!("{name}.norm2"), h, norm)?;
    let h = net.graph.relu(h)?;
    let h = net.conv(&format!("{name}.conv2"), h, same(channels, 3, 1, init))?;
    net.graph.add(h, shortcut)
}

/// A 7x7 convolution `stem` at half resolution, 3x3 max pooling at a quarter, four stages of bottleneck blocks, global
/// average pooling, linear (He et al., 2015). Strides are in the 3x3 convolutions, as most code has it since.
pub(super) fn resnet50(
    net: &mut Net,
    x: NodeId,
    (channels, blocks): ([usize; 4], [usize; 4]),
    classes: usize,
    norm: &NormPlan,
) -> Result<NodeId, EngineError> {
    let mut h = net.conv("stem.conv", x, same(channels[0], 7, 2, Init::HeNormal))?;
    h = net.norm("stem.norm", h, norm)?;
    h = net.graph.relu(h)?;
    h = net.graph.max_pool(h, Window::same(3, 2))?;
    for (i, (width, blocks)) in channels.into_iter().zip(blocks).enumerate() {
        for j in 0..blocks {
            let stride = if i > 0 && j == 0 { 2 } else { 1 };
            h = bottleneck(net, &format!("stage{}.block{}", i + 1, j + 1), h, (width, stride), norm)?;
        }
    }
    h = net.graph.global_avg_pool(h)?;
    let logits = net.linear("linear", h, classes, Init::TorchUniform)?;
    net.bias("linear", logits)
}

/// Convolutions 1x1, 3x3 and 1x1 to four times the channels, each with normalisation, ReLU between; the shortcut, a 1x1
/// convolution where the size changes, added; ReLU.
fn bottleneck(
    net: &mut Net,
    name: &str,
    x: NodeId,
    (channels, stride): (usize, usize),
    norm: &NormPlan,
) -> Result<NodeId, EngineError> {
    let shapes = [same(channels, 1, 1, Init::HeNormal), same(channels, 3, stride, Init::HeNormal)];
    let last = same(4 * channels, 1, 1, Init::HeNormal);
    let mut shortcut = x;
    if stride > 1 || net.graph.shape(x).last() != 4 * channels {
        let conv = same(4 * channels, 1, stride, Init::HeNormal);
        shortcut = net.conv(&format!("{name}.shortcut.conv"), x, conv)?;
        shortcut = net.norm(&format!("{name}.shortcut.norm"), shortcut, norm)?;
    }
    let mut h = x;
    for (i, conv) in shapes.into_iter().enumerate() {
        h = net.conv(&format!("{name}.conv{}", i + 1), h, conv)?;
        h = net.norm(&format!("{name}.norm{}", i + 1), h, norm)?;
        h = net.graph.relu(h)?;
    }
    h = net.conv(&format!("{name}.conv3"), h, last)?;
    h = net.norm(&format!("{name}.norm3"), h, norm)?;
    h = net.graph.add(h, shortcut)?;
    net.graph.relu(h)
}
