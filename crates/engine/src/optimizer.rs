//! Optimisers: the gradients of a loss and the steps that they make, added to a program.

mod muon;

use crate::autodiff::gradients;
use crate::{Average, EngineError, Graph, Init, NodeId, Op, Role, Step, StepRule, Update, Var, VarId, Vars};
use sooner_base::Shape;

/// How a step follows from gradients; the formulas are [`StepRule`]'s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Plain stochastic gradient descent.
    Sgd,
    /// Momentum as Polyak has it.
    HeavyBall,
    /// Momentum that looks ahead along the velocity.
    Nesterov,
    /// Adaptive moments; the momentum is the decay of the first.
    Adam {
        /// The decay of the second moment.
        second_momentum: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
    /// Layer-wise adaptive rates for weights; for biases and gains it is heavy ball with eta in the velocity.
    Lars {
        /// The trust coefficient.
        trust: f64,
    },
    /// Momentum that looks ahead, made orthogonal matrix by matrix, for weights; Nesterov for biases and gains.
    Muon {
        /// Rounds of Newton and Schulz's iteration.
        rounds: usize,
        /// Whether each weight is scaled to the root of its outputs before each step (airbench); if not, steps are
        /// scaled by the root of outputs over inputs where that is above 1 (Jordan, 2024).
        renormalize: bool,
    },
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
    /// Another rule than the optimiser's.
    pub rule: Option<Rule>,
    /// Whether weight decay stays out of their gradients, if other than the optimiser says.
    pub decoupled: Option<bool>,
    /// A momentum of its own instead of the scalar.
    pub momentum: Option<f64>,
    /// The name of a scalar: where it is fed as 0, these variables are left alone.
    pub active: Option<String>,
}

impl Group {
    /// Variables of these roles whose names start like this, treated like all others so far.
    pub fn of(roles: &[Role], prefix: &str) -> Group {
        Group {
            roles: roles.to_vec(),
            prefix: prefix.to_string(),
            rate_scale: 1.0,
            decay_scale: 1.0,
            rule: None,
            decoupled: None,
            momentum: None,
            active: None,
        }
    }

    /// Whether the group holds this variable.
    pub fn holds(&self, var: &Var) -> bool {
        (self.roles.is_empty() || self.roles.contains(&var.role)) && var.name.starts_with(&self.prefix)
    }
}

/// What is done with averages of the variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Averaging {
    /// They are kept beside the variables, for evaluation.
    Beside,
    /// The variables become the averages (lookahead).
    Back,
}

impl Averaging {
    /// What the average of a variable is called after the variable: the two kinds differ, so that what is saved of one
    /// is not taken for the other.
    fn slot(self) -> &'static str {
        match self {
            Averaging::Beside => "average",
            Averaging::Back => "lookahead",
        }
    }
}

/// An optimiser. Learning rate, momentum and weight decay are no part of it: they are fed at every run.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSpec {
    /// How a step follows from gradients.
    pub rule: Rule,
    /// The first group that holds a variable decides; a variable in none is treated as the optimiser says.
    pub groups: Vec<Group>,
    /// Whether weight decay stays out of the gradients. Muon's always does.
    pub decoupled: bool,
    /// The largest norm that the gradients of all variables together may have; they are scaled down to it.
    pub clip: Option<f64>,
    /// Averages of the trained variables and of running statistics.
    pub averaging: Option<Averaging>,
}

impl OptimizerSpec {
    /// This rule for all variables and nothing else.
    pub fn new(rule: Rule) -> OptimizerSpec {
        OptimizerSpec { rule, groups: vec![], decoupled: false, clip: None, averaging: None }
    }
}

/// The name of the scalar that an update's number is fed as, counted from 1.
const UPDATE: &str = "update";

/// Appends the gradients of `loss` by every trained variable that the graph reads, and returns the updates that
/// [`add_steps`] makes of them.
pub fn add_optimizer(
    vars: &mut Vars,
    graph: &mut Graph,
    loss: NodeId,
    spec: &OptimizerSpec,
) -> Result<Vec<Update>, EngineError> {
    let gradients = add_gradients(vars, graph, loss)?;
    add_steps(vars, graph, &gradients, spec)
}

/// Appends the gradients of `loss` by every trained variable that the graph reads, in the order of `vars`.
pub fn add_gradients(
    vars: &Vars,
    graph: &mut Graph,
    loss: NodeId,
) -> Result<Vec<(VarId, NodeId)>, EngineError> {
    let params: Vec<VarId> =
        vars.ids().filter(|id| vars.get(*id).role.is_trained() && reads(graph, *id)).collect();
    let nodes: Vec<NodeId> = params.iter().map(|id| graph.read(vars, *id)).collect();
    Ok(params.into_iter().zip(gradients(graph, loss, &nodes)?).collect())
}

/// Returns the updates that an optimiser makes of gradients, wherever those come from: one step for each variable in the
/// order given, then the averages. Scalars of the graph become: `learning_rate`,
/// `momentum` and `weight_decay`, for every rule, so that what is fed does not depend on it; `update`, the number of
/// the update from 1, for Adam; `average_decay` and `average_due` (nothing is averaged where it is 0) for averages; and
/// those that groups name. Variables of the optimiser are called after the variable NAME that they serve:
/// `NAME.velocity`, `NAME.moment1`, `NAME.moment2` start at 0, `NAME.average` or `NAME.lookahead` (by the kind of
/// averaging) starts like NAME. Averages are taken of running statistics too, so `updates` of those must come before the ones returned here.
pub fn add_steps(
    vars: &mut Vars,
    graph: &mut Graph,
    gradients: &[(VarId, NodeId)],
    spec: &OptimizerSpec,
) -> Result<Vec<Update>, EngineError> {
    let [learning_rate, momentum, weight_decay] =
        ["learning_rate", "momentum", "weight_decay"].map(|name| graph.scalar(name));
    let clip = match spec.clip {
        Some(limit) => Some(clip_factor(graph, gradients, limit)?),
        None => None,
    };
    let mut build = Build { vars, graph, updates: vec![], matrices: vec![] };
    for &(param, grad) in gradients {
        let var = build.vars.get(param).clone();
        let group = spec.groups.iter().find(|group| group.holds(&var));
        let momentum = match group.and_then(|g| g.momentum) {
            Some(value) => build.constant(value)?,
            None => momentum,
        };
        let active = group.and_then(|g| g.active.as_ref()).map(|name| build.graph.scalar(name));
        let step = Step {
            param,
            grad,
            rule: StepRule::Descent { velocity: None, nesterov: false, momentum },
            learning_rate,
            weight_decay,
            rate_scale: group.map_or(1.0, |g| g.rate_scale),
            decay_scale: group.map_or(1.0, |g| g.decay_scale),
            decoupled: group.and_then(|g| g.decoupled).unwrap_or(spec.decoupled),
            clip,
            active,
        };
        build.step(group.and_then(|g| g.rule).unwrap_or(spec.rule), &var, step, momentum)?;
    }
    build.orthogonalize()?;
    let order = |update: &Update| match update {
        Update::Step(step) => step.param,
        Update::Assign { var, .. } | Update::RunningStats { var, .. } => *var,
        Update::Average(average) => average.of,
    };
    let Build { vars, graph, mut updates, .. } = build;
    updates.sort_by_key(order);
    if let Some(averaging) = spec.averaging {
        let trained: Vec<VarId> = gradients.iter().map(|(id, _)| *id).collect();
        updates.extend(averages(vars, graph, &trained, averaging)?);
    }
    Ok(updates)
}

/// Steps being gathered.
struct Build<'a> {
    vars: &'a mut Vars,
    graph: &'a mut Graph,
    updates: Vec<Update>,
    /// Steps of Muon, which takes matrices of one shape together.
    matrices: Vec<muon::Matrix>,
}

impl Build<'_> {
    fn constant(&mut self, value: f64) -> Result<NodeId, EngineError> {
        self.graph.push(Op::Fill { shape: Shape::scalar(), value }, &[])
    }

    /// Adds the step of one variable, with the rule's variables.
    fn step(&mut self, rule: Rule, var: &Var, step: Step, momentum: NodeId) -> Result<(), EngineError> {
        let param = step.param;
        let weight = var.role == Role::Weight;
        let nesterov = matches!(rule, Rule::Nesterov | Rule::Muon { .. });
        let rule = match rule {
            Rule::Muon { rounds, renormalize } if weight && var.shape.rank() >= 2 => {
                let velocity = declare_slot(self.vars, param, "velocity")?;
                self.matrices.push(muon::Matrix { step, velocity, momentum, rounds, renormalize });
                return Ok(());
            }
            Rule::Sgd => StepRule::Descent { velocity: None, nesterov, momentum },
            Rule::Lars { trust } => {
                let velocity = declare_slot(self.vars, param, "velocity")?;
                let squares = match weight {
                    true => Some([self.squares_of(param)?, squares(self.graph, step.grad)?]),
                    false => None,
                };
                StepRule::Lars { velocity, nesterov, momentum, squares, trust }
            }
            Rule::HeavyBall | Rule::Nesterov | Rule::Muon { .. } => {
                let velocity = Some(declare_slot(self.vars, param, "velocity")?);
                StepRule::Descent { velocity, nesterov, momentum }
            }
            Rule::Adam { second_momentum, eps } => {
                let moments =
                    [declare_slot(self.vars, param, "moment1")?, declare_slot(self.vars, param, "moment2")?];
                let update = self.graph.scalar(UPDATE);
                StepRule::Adam { moments, momentum, second_momentum, eps, update }
            }
        };
        self.updates.push(Update::Step(Step { rule, ..step }));
        Ok(())
    }

    /// The sum of the squares of a variable.
    fn squares_of(&mut self, var: VarId) -> Result<NodeId, EngineError> {
        let value = self.graph.read(self.vars, var);
        squares(self.graph, value)
    }
}

/// The sum of the squares of a tensor.
fn squares(graph: &mut Graph, x: NodeId) -> Result<NodeId, EngineError> {
    let squares = graph.mul(x, x)?;
    graph.sum(squares)
}

/// What all gradients must be multiplied by so that their norm is at most the limit.
fn clip_factor(graph: &mut Graph, gradients: &[(VarId, NodeId)], limit: f64) -> Result<NodeId, EngineError> {
    let mut total = graph.push(Op::Fill { shape: Shape::scalar(), value: 0.0 }, &[])?;
    for (_, grad) in gradients {
        let more = squares(graph, *grad)?;
        total = graph.add(total, more)?;
    }
    graph.push(Op::ClipFactor { limit }, &[total])
}

/// One average for each of these variables and for all running statistics.
fn averages(
    vars: &mut Vars,
    graph: &mut Graph,
    trained: &[VarId],
    averaging: Averaging,
) -> Result<Vec<Update>, EngineError> {
    let [decay, due] = ["average_decay", "average_due"].map(|name| graph.scalar(name));
    let averaged = |id: &VarId| vars.get(*id).role == Role::Running || trained.contains(id);
    let found: Vec<VarId> = vars.ids().filter(averaged).collect();
    let mut updates = Vec::with_capacity(found.len());
    for of in found {
        let known = vars.get(of);
        let var = Var {
            name: format!("{}.{}", known.name, averaging.slot()),
            shape: known.shape.clone(),
            init: Init::CopyOf(of),
            role: Role::Slot,
        };
        let var = vars.declare(var)?;
        updates.push(Update::Average(Average {
            var,
            of,
            decay,
            due,
            copy_back: averaging == Averaging::Back,
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
