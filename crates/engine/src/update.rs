//! What a program changes in the variables once all values are computed: steps of optimisers, running statistics,
//! averages.

use crate::graph::NodeId;
use crate::var::VarId;

/// A change of variables made after the whole graph has been computed, in the order listed.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// One variable's step of an optimiser.
    Step(Step),
    /// running = (1 - rate) running + rate batch, for `[2, C]` mean and variance; the variance is made unbiased
    /// first with count / (count - 1), as PyTorch does. A statistic over one element has no unbiased variance: then
    /// the factor is 1. Of the statistics of several groups the mean is taken, weighted by their counts.
    RunningStats {
        /// The running statistics.
        var: VarId,
        /// The batch's statistics, variance biased.
        stats: NodeId,
        /// The weight of the new batch.
        rate: f64,
        /// Elements that each statistic was taken over, group by group.
        counts: Vec<usize>,
    },
    /// The variable becomes the value.
    Assign {
        /// The variable.
        var: VarId,
        /// The value, of the variable's shape.
        value: NodeId,
        /// Scalar node: nothing is done where it is 0.
        active: Option<NodeId>,
    },
    /// average = decay average + (1 - decay) variable, where due.
    Average(Average),
}

/// A running average of a variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Average {
    /// The average.
    pub var: VarId,
    /// What it is an average of.
    pub of: VarId,
    /// Scalar node: the decay.
    pub decay: NodeId,
    /// Scalar node: nothing is done where it is 0.
    pub due: NodeId,
    /// Whether the variable then becomes the average (lookahead: Zhang et al., 2019).
    pub copy_back: bool,
}

/// One variable's step of an optimiser: theta = keep theta - d, where d is what the rule makes of
/// g = clip gradient + decay theta. With eta = learning_rate rate_scale and w = weight_decay decay_scale: coupled decay
/// (L2) is decay = w, keep = 1; decoupled decay (Loshchilov and Hutter, 2019) is decay = 0, keep = 1 - eta w.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The variable theta.
    pub param: VarId,
    /// Its gradient.
    pub grad: NodeId,
    /// What the step is.
    pub rule: StepRule,
    /// Scalar node: the learning rate.
    pub learning_rate: NodeId,
    /// Scalar node: the weight decay.
    pub weight_decay: NodeId,
    /// Multiplies the learning rate for this variable.
    pub rate_scale: f64,
    /// Multiplies the weight decay for this variable.
    pub decay_scale: f64,
    /// Whether weight decay stays out of the gradient.
    pub decoupled: bool,
    /// Scalar node that multiplies the gradient; 1 if none.
    pub clip: Option<NodeId>,
    /// Scalar node: nothing is done where it is 0.
    pub active: Option<NodeId>,
}

/// How a step follows from g; v, m and s are variables of the optimiser that start at 0.
#[derive(Debug, Clone, PartialEq)]
pub enum StepRule {
    /// Plain: d = eta g; heavy ball: v = momentum v + g, d = eta v; Nesterov: v = momentum v + g,
    /// d = eta (g + momentum v) (dampening 0, as in PyTorch).
    Descent {
        /// The velocity v; none for plain descent.
        velocity: Option<VarId>,
        /// Whether the step looks ahead along the velocity.
        nesterov: bool,
        /// Scalar node: the momentum. Ignored without a velocity.
        momentum: NodeId,
    },
    /// m = b m + (1 - b) g, s = b' s + (1 - b') g^2, d = eta m / (1 - b^t) / (sqrt(s / (1 - b'^t)) + eps) at update t,
    /// counted from 1 (Kingma and Ba, 2015).
    Adam {
        /// m and s.
        moments: [VarId; 2],
        /// Scalar node: b.
        momentum: NodeId,
        /// b'
        second_momentum: f64,
        /// Added to the root.
        eps: f64,
        /// Scalar node: t.
        update: NodeId,
    },
    /// Layer-wise adaptive rates (You et al., 2017): v = momentum v + eta l g, d = v (or, looking ahead,
    /// eta l g + momentum v), with l = trust |theta| / (|clip gradient| + decay |theta|), or 1 where either norm is 0.
    Lars {
        /// The velocity v.
        velocity: VarId,
        /// Whether the step looks ahead along the velocity.
        nesterov: bool,
        /// Scalar node: the momentum.
        momentum: NodeId,
        /// Scalar nodes: the sums of squares of theta and of the gradient; l is 1 if none.
        squares: Option<[NodeId; 2]>,
        /// The trust coefficient.
        trust: f64,
    },
    /// d = eta gradient, a direction that the graph has worked out; the variable is first scaled to a norm if asked
    /// for.
    Along {
        /// Scalar node, the sum of squares of theta, and the norm that theta is scaled to.
        norm: Option<(NodeId, f64)>,
    },
}

impl Update {
    /// The values that the update takes: the tensor that it works on first, if it takes one, then scalars.
    pub(crate) fn operands(&self) -> Vec<NodeId> {
        match self {
            Update::RunningStats { stats, .. } => vec![*stats],
            Update::Assign { value, active, .. } => [Some(*value), *active].into_iter().flatten().collect(),
            Update::Average(average) => vec![average.decay, average.due],
            Update::Step(step) => {
                let mut ids = vec![step.grad, step.learning_rate, step.weight_decay];
                ids.extend(step.clip.into_iter().chain(step.active));
                match &step.rule {
                    StepRule::Descent { momentum, .. } => ids.push(*momentum),
                    StepRule::Adam { momentum, update, .. } => ids.extend([momentum, update]),
                    StepRule::Lars { momentum, squares, .. } => {
                        ids.push(*momentum);
                        ids.extend(squares.iter().flatten());
                    }
                    StepRule::Along { norm } => ids.extend(norm.map(|(squares, _)| squares)),
                }
                ids
            }
        }
    }
}

/// The numbers of one step, the same for every element of the variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Numbers {
    /// theta = keep theta - rate d.
    pub(crate) keep: f64,
    pub(crate) rate: f64,
    /// g = gradient scale + decay theta.
    pub(crate) scale: f64,
    pub(crate) decay: f64,
    pub(crate) momentum: f64,
    /// Adam's second moment: its decay, and what it is multiplied by before the root.
    pub(crate) second: [f64; 2],
    pub(crate) eps: f64,
}

impl Step {
    /// The numbers of a step from the values of its scalar nodes; none where the step is not made.
    pub(crate) fn numbers(&self, number: impl Fn(NodeId) -> f64) -> Option<Numbers> {
        if self.active.is_some_and(|id| number(id) == 0.0) {
            return None;
        }
        let eta = number(self.learning_rate) * self.rate_scale;
        let weight_decay = number(self.weight_decay) * self.decay_scale;
        let (keep, decay) =
            if self.decoupled { (1.0 - eta * weight_decay, 0.0) } else { (1.0, weight_decay) };
        let scale = self.clip.map_or(1.0, &number);
        let plain = Numbers { keep, rate: eta, scale, decay, momentum: 0.0, second: [0.0, 1.0], eps: 0.0 };
        Some(match &self.rule {
            StepRule::Descent { momentum, .. } => Numbers { momentum: number(*momentum), ..plain },
            StepRule::Adam { momentum, second_momentum, eps, update, .. } => {
                let (first, second, t) = (number(*momentum), *second_momentum, number(*update));
                Numbers {
                    rate: eta / (1.0 - first.powf(t)),
                    momentum: first,
                    second: [second, 1.0 / (1.0 - second.powf(t))],
                    eps: *eps,
                    ..plain
                }
            }
            StepRule::Lars { momentum, squares, trust, .. } => {
                let local = match squares.map(|pair| pair.map(|id| number(id).sqrt())) {
                    Some([theta, grad]) if theta > 0.0 && grad > 0.0 => {
                        trust * theta / (scale * grad + decay * theta)
                    }
                    _ => 1.0,
                };
                Numbers {
                    rate: 1.0,
                    scale: eta * local * scale,
                    decay: eta * local * decay,
                    momentum: number(*momentum),
                    ..plain
                }
            }
            StepRule::Along { norm } => {
                let shrink = norm.map_or(1.0, |(squares, to)| to / number(squares).sqrt());
                Numbers { keep: keep * shrink, ..plain }
            }
        })
    }
}
