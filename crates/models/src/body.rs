//! What a model computes: a family with sizes from a plan, or a function of the user's own.

use crate::{Net, families};
use sooner_engine::{EngineError, NodeId};
use sooner_plan::ModelPlan;
use std::fmt;
use std::sync::Arc;

type Forward = dyn Fn(&mut Net, NodeId) -> Result<NodeId, EngineError> + Send + Sync;

#[derive(Clone)]
pub(crate) enum Body {
    Family(ModelPlan),
    Own { name: String, forward: Arc<Forward> },
}

impl Body {
    pub(crate) fn own(
        name: &str,
        forward: impl Fn(&mut Net, NodeId) -> Result<NodeId, EngineError> + Send + Sync + 'static,
    ) -> Body {
        Body::Own { name: name.to_string(), forward: Arc::new(forward) }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Body::Family(plan) => families::name(plan),
            Body::Own { name, .. } => name,
        }
    }

    pub(crate) fn plan(&self) -> Option<&ModelPlan> {
        match self {
            Body::Family(plan) => Some(plan),
            Body::Own { .. } => None,
        }
    }

    /// x: `[N, H, W, C]` -> logits `[N, classes]`.
    pub(crate) fn forward(&self, net: &mut Net, x: NodeId, classes: usize) -> Result<NodeId, EngineError> {
        match self {
            Body::Family(plan) => families::forward(plan, net, x, classes),
            Body::Own { forward, .. } => forward(net, x),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Family(plan) => plan.fmt(f),
            Body::Own { name, .. } => write!(f, "own model `{name}`"),
        }
    }
}
