//! Page's networks for CIFAR-10 (2018): the backbones of his search, ResNet-9, and what became of it.

use crate::{Conv, Net};
use sooner_engine::{EngineError, Init, NodeId, Window};
use sooner_plan::{ActivationPlan, BackboneHead, Downsampling, Extra, NormPlan, PoolPlace, WhitenPlan};

/// A preparation layer `prep`, stages `layer1` to `layer3` that halve the image, and a head.
pub(super) struct Page<'a> {
    /// Of the preparation layer and the stages.
    pub(super) channels: [usize; 4],
    pub(super) downsampling: Downsampling,
    pub(super) pool: PoolPlace,
    pub(super) extras: [Extra; 3],
    pub(super) head: BackboneHead,
    pub(super) activation: ActivationPlan,
    pub(super) norm: &'a NormPlan,
    pub(super) whiten: &'a Option<WhitenPlan>,
    /// Initial values of convolutions.
    pub(super) init: Init,
}

impl Page<'_> {
    pub(super) fn forward(&self, net: &mut Net, x: NodeId, classes: usize) -> Result<NodeId, EngineError> {
        let mut h = self.prep(net, x)?;
        for (i, extra) in self.extras.into_iter().enumerate() {
            h = self.stage(net, &format!("layer{}", i + 1), h, (self.channels[i + 1], extra))?;
        }
        let h = match self.head {
            BackboneHead::Max => net.global_max_pool(h)?,
            BackboneHead::AverageMax => {
                let (mean, most) = (net.graph.global_avg_pool(h)?, net.global_max_pool(h)?);
                net.graph.concat(mean, most)?
            }
        };
        net.linear("linear", h, classes, Init::TorchUniform)
    }

    /// A 3x3 convolution; or fixed filters, as many as a patch has values, and a 1x1 convolution.
    fn prep(&self, net: &mut Net, x: NodeId) -> Result<NodeId, EngineError> {
        let Some(whiten) = self.whiten else {
            return self.conv_norm(net, "prep", x, (self.channels[0], Window::same(3, 1), None));
        };
        let filters = whiten.patch * whiten.patch * net.graph.shape(x).last();
        let h = net.fixed_conv("whiten", x, filters, Window::same(whiten.patch, 1))?;
        self.conv_norm(net, "prep", h, (self.channels[0], Window::valid(1, 1), None))
    }

    fn stage(
        &self,
        net: &mut Net,
        name: &str,
        x: NodeId,
        (channels, extra): (usize, Extra),
    ) -> Result<NodeId, EngineError> {
        let (window, pool) = match self.downsampling {
            Downsampling::Stride1x1 => (Window::valid(1, 2), None),
            Downsampling::Stride3x3 => (Window::same(3, 2), None),
            Downsampling::Pool => (Window::same(3, 1), Some(self.pool)),
        };
        let h = self.conv_norm(net, name, x, (channels, window, pool))?;
        let more = (channels, Window::same(3, 1), None);
        match extra {
            Extra::None => Ok(h),
            Extra::Convolution => self.conv_norm(net, &format!("{name}.extra"), h, more),
            Extra::Residual => {
                let r = self.conv_norm(net, &format!("{name}.residual1"), h, more)?;
                let r = self.conv_norm(net, &format!("{name}.residual2"), r, more)?;
                net.graph.add(h, r)
            }
        }
    }

    /// Convolution, normalisation, activation, and 2x2 max pooling in its place among them.
    fn conv_norm(
        &self,
        net: &mut Net,
        name: &str,
        x: NodeId,
        (channels, window, pool): (usize, Window, Option<PoolPlace>),
    ) -> Result<NodeId, EngineError> {
        let pool_at = |net: &mut Net, place: PoolPlace, x: NodeId| {
            if pool == Some(place) { net.graph.max_pool(x, Window::valid(2, 2)) } else { Ok(x) }
        };
        let h = net.conv(&format!("{name}.conv"), x, Conv { channels, window, init: self.init })?;
        let h = pool_at(net, PoolPlace::BeforeNorm, h)?;
        let h = net.norm(&format!("{name}.norm"), h, self.norm)?;
        let h = pool_at(net, PoolPlace::BeforeActivation, h)?;
        let h = net.activate(h, self.activation)?;
        pool_at(net, PoolPlace::AfterActivation, h)
    }
}
