//! One file for each family of networks.

mod plain;
mod residual;

use crate::Net;
use sooner_engine::{EngineError, NodeId};
use sooner_plan::ModelPlan;

/// x: `[N, H, W, C]` -> logits `[N, classes]`.
pub(crate) fn forward(
    plan: &ModelPlan,
    net: &mut Net,
    x: NodeId,
    classes: usize,
) -> Result<NodeId, EngineError> {
    match plan {
        ModelPlan::Softmax {} => plain::fully_connected(net, x, &[], classes),
        ModelPlan::FullyConnected { hidden } => plain::fully_connected(net, x, hidden, classes),
        ModelPlan::SimpleCnn { channels } => plain::simple_cnn(net, x, *channels, classes),
        ModelPlan::Resnet8 { channels } => residual::resnet8(net, x, *channels, classes),
        ModelPlan::Resnet9 { channels, logit_scale } => {
            let logits = residual::resnet9(net, x, *channels, classes)?;
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
        ModelPlan::Resnet8 { .. } => "resnet8",
        ModelPlan::Resnet9 { .. } => "resnet9",
    }
}
