//! One file for each kin of networks.

mod airbench;
mod page;
mod plain;
mod residual;

use crate::Net;
use airbench::Airbench;
use page::Page;
use plain::Vgg11;
use sooner_engine::{EngineError, Init, NodeId};
use sooner_plan::{ActivationPlan, BackboneHead, Downsampling, Extra, ModelPlan, PoolPlace};

/// x: `[N, H, W, C]` -> logits `[N, classes]`.
pub(crate) fn forward(
    plan: &ModelPlan,
    net: &mut Net,
    x: NodeId,
    classes: usize,
) -> Result<NodeId, EngineError> {
    match plan {
        ModelPlan::Softmax {} => plain::fully_connected(net, x, &[], classes, (ActivationPlan::Relu, 0.0)),
        ModelPlan::FullyConnected { hidden, activation, dropout } => {
            plain::fully_connected(net, x, hidden, classes, (*activation, *dropout))
        }
        ModelPlan::SimpleCnn { channels, activation, dropout } => {
            plain::simple_cnn(net, x, *channels, classes, (*activation, *dropout))
        }
        ModelPlan::Vgg11 { channels, hidden, dropout, norm } => {
            plain::vgg11(net, x, &Vgg11 { channels, hidden, dropout: *dropout, norm }, classes)
        }
        ModelPlan::Resnet8 { channels } => residual::resnet8(net, x, *channels, classes),
        ModelPlan::Resnet32 { channels, blocks, norm } => {
            residual::resnet32(net, x, *channels, classes, (*blocks, norm))
        }
        ModelPlan::Resnet50 { channels, blocks, norm } => {
            residual::resnet50(net, x, (*channels, *blocks), classes, norm)
        }
        ModelPlan::DawnResnet18 { channels, prep, norm } => {
            residual::dawn_resnet18(net, x, *channels, classes, (*prep, norm))
        }
        ModelPlan::Resnet9 { channels, logit_scale, pool, activation, norm, whiten } => {
            let page = Page {
                channels: *channels,
                downsampling: Downsampling::Pool,
                pool: *pool,
                extras: [Extra::Residual, Extra::None, Extra::Residual],
                head: BackboneHead::Max,
                activation: *activation,
                norm,
                whiten,
                init: Init::HeNormal,
            };
            let logits = page.forward(net, x, classes)?;
            net.graph.scale(logits, *logit_scale)
        }
        ModelPlan::Backbone { channels, downsampling, extras, head, logit_scale, norm } => {
            let page = Page {
                channels: *channels,
                downsampling: *downsampling,
                pool: PoolPlace::AfterActivation,
                extras: *extras,
                head: *head,
                activation: ActivationPlan::Relu,
                norm,
                whiten: &None,
                init: Init::TorchUniform,
            };
            let logits = page.forward(net, x, classes)?;
            net.graph.scale(logits, *logit_scale)
        }
        ModelPlan::Airbench { channels, convolutions, logit_scale, whiten, norm, activation } => {
            let (channels, convolutions, activation) = (*channels, *convolutions, *activation);
            let logits =
                Airbench { channels, convolutions, whiten, norm, activation }.forward(net, x, classes)?;
            net.graph.scale(logits, *logit_scale)
        }
    }
}

/// The family's name in plans.
pub(crate) fn name(plan: &ModelPlan) -> &'static str {
    match plan {
        ModelPlan::Softmax {} => "softmax",
        ModelPlan::FullyConnected { .. } => "fully-connected",
        ModelPlan::SimpleCnn { .. } => "simple-cnn",
        ModelPlan::Vgg11 { .. } => "vgg11",
        ModelPlan::Resnet8 { .. } => "resnet8",
        ModelPlan::Resnet9 { .. } => "resnet9",
        ModelPlan::Resnet32 { .. } => "resnet32",
        ModelPlan::Resnet50 { .. } => "resnet50",
        ModelPlan::DawnResnet18 { .. } => "dawn-resnet18",
        ModelPlan::Backbone { .. } => "backbone",
        ModelPlan::Airbench { .. } => "airbench",
    }
}
