//! Optimisers: the gradients of a loss and the steps that they make, added to a program.

use crate::autodiff::gradients;
use crate::{EngineError, Graph, Init, NodeId, Op, Role, Sgd, Update, Var, VarId, Vars};

/// How a step follows from gradients; the formulas are [`Sgd`]'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Plain stochastic gradient descent.
    Sgd,
    /// Momentum as Polyak has it.
    HeavyBall,
    /// Momentum that looks ahead along the velocity.
    Nesterov,
}

/// A choice of variables and what is special about their steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Variables of these roles; empty for every role.
    pub roles: Vec<Role>,
    /// Variables whose names start like this; empty for every name.
    pub prefix: String,
    /// Multiplies the learning rate.
    pub rate_scale: f64,
    /// Multiplies the weight decay.
    pub decay_scale: f64,
}

impl Group {
    fn holds(&self, var: &Var) -> bool {
        (self.roles.is_empty() || self.roles.contains(&var.role)) && var.name.starts_with(&self.prefix)
    }
}

/// An optimiser. Learning rate, momentum and weight decay are no part of it: they are fed at every run.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSpec {
    /// How a step follows from gradients.
    pub rule: Rule,
    /// The first group that holds a variable decides; a variable in none has scales of 1.
    pub groups: Vec<Group>,
}

/// Appends the gradients of `loss` by every trained variable that the graph reads, and returns one update for each,
/// in the order of `vars`. The learning rate, the momentum and the weight decay become scalars of the graph named
/// `learning_rate`, `momentum` and `weight_decay` (all three for every rule, so that what is fed does not depend on the
/// rule). Rules with momentum declare a slot `NAME.velocity` that starts at 0 for each variable NAME.
pub fn add_optimizer(
    vars: &mut Vars,
    graph: &mut Graph,
    loss: NodeId,
    spec: &OptimizerSpec,
) -> Result<Vec<Update>, EngineError> {
    let params: Vec<VarId> =
        vars.ids().filter(|id| vars.get(*id).role.is_trained() && reads(graph, *id)).collect();
    let nodes: Vec<NodeId> = params.iter().map(|id| graph.read(vars, *id)).collect();
    let grads = gradients(graph, loss, &nodes)?;
    let [learning_rate, momentum, weight_decay] =
        ["learning_rate", "momentum", "weight_decay"].map(|name| graph.scalar(name));
    let mut updates = Vec::with_capacity(params.len());
    for (param, grad) in params.into_iter().zip(grads) {
        let velocity = match spec.rule {
            Rule::Sgd => None,
            Rule::HeavyBall | Rule::Nesterov => Some(declare_slot(vars, param, "velocity")?),
        };
        let group = spec.groups.iter().find(|group| group.holds(vars.get(param)));
        updates.push(Update::Sgd(Sgd {
            param,
            grad,
            velocity,
            nesterov: spec.rule == Rule::Nesterov,
            learning_rate,
            momentum,
            weight_decay,
            rate_scale: group.map_or(1.0, |g| g.rate_scale),
            decay_scale: group.map_or(1.0, |g| g.decay_scale),
        }));
    }
    Ok(updates)
}

fn reads(graph: &Graph, var: VarId) -> bool {
    graph.nodes().iter().any(|node| node.op == Op::Read(var))
}

/// A variable of the optimiser beside one of the model, of the same shape, starting at 0.
fn declare_slot(vars: &mut Vars, param: VarId, what: &str) -> Result<VarId, EngineError> {
    let var = vars.get(param);
    let name = format!("{}.{what}", var.name);
    vars.declare(Var { name, shape: var.shape.clone(), init: Init::Constant(0.0), role: Role::Slot })
}

#[cfg(test)]
mod tests;
