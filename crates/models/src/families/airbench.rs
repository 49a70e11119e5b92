//! Jordan's networks for CIFAR-10 (airbench, 2024).

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Rest, Window};
use sooner_plan::{ActivationPlan, NormPlan, WhitenPlan};

pub(super) struct Airbench<'a> {
    pub(super) channels: [usize; 3],
    /// Of each group: 2, or 3 with a shortcut over the last two.
    pub(super) convolutions: usize,
    pub(super) whiten: &'a WhitenPlan,
    pub(super) norm: &'a NormPlan,
    pub(super) activation: ActivationPlan,
}

impl Airbench<'_> {
    /// Unpadded whitening filters `whiten` and their negatives (or trained ones) with biases, activation; groups `group1` to `group3`;
    /// the largest value of each channel; linear without bias.
    pub(super) fn forward(&self, net: &mut Net, x: NodeId, classes: usize) -> Result<NodeId, EngineError> {
        let patch = self.whiten.patch;
        let filters = 2 * patch * patch * net.graph.shape(x).last();
        let window = Window::valid(patch, 1);
        let mut h = if self.whiten.images > 0 {
            net.fixed_conv("whiten", x, filters, window)?
        } else {
            net.conv("whiten", x, Conv { channels: filters, window, init: Init::TorchUniform })?
        };
        h = net.bias("whiten", h)?;
        h = net.activate(h, self.activation)?;
        for (i, channels) in self.channels.into_iter().enumerate() {
            h = self.group(net, &format!("group{}", i + 1), h, channels)?;
        }
        let h = net.global_max_pool(h)?;
        net.linear("linear", h, classes, Init::TorchUniform)
    }

    /// Convolution, 2x2 max pooling, normalisation, activation; then convolutions with normalisation and activation.
    /// Where there is a shortcut it is added before the last activation.
    fn group(&self, net: &mut Net, name: &str, x: NodeId, channels: usize) -> Result<NodeId, EngineError> {
        let conv = Conv { channels, window: Window::same(3, 1), init: Init::Dirac(Rest::TorchUniform) };
        let h = net.conv(&format!("{name}.conv1"), x, conv)?;
        let h = net.graph.max_pool(h, Window::valid(2, 2))?;
        let h = net.norm(&format!("{name}.norm1"), h, self.norm)?;
        let first = net.activate(h, self.activation)?;
        let mut h = first;
        for i in 2..=self.convolutions {
            h = net.conv(&format!("{name}.conv{i}"), h, conv)?;
            h = net.norm(&format!("{name}.norm{i}"), h, self.norm)?;
            if i == 3 {
                h = net.graph.add(h, first)?;
            }
            h = net.activate(h, self.activation)?;
        }
        Ok(h)
    }
}
