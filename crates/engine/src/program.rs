//! A program: a graph, what it changes in the variables, and what it returns. One optimiser update, or one
//! evaluation of a batch, is one run of a program.

use crate::graph::{Graph, NodeId};
use crate::var::{VarId, Vars};
use sooner_base::Origin;

/// A change of variables made after the whole graph has been computed, in the order listed.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// One step of stochastic gradient descent.
    Sgd(Sgd),
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
}

/// One variable's step of gradient descent. With g = gradient + weight_decay decay_scale theta, v the velocity, m the
/// momentum and eta = learning_rate rate_scale:
/// plain: theta -= eta g; heavy ball: v = m v + g, theta -= eta v; Nesterov: v = m v + g, theta -= eta (g + m v)
/// (FACTS B2; dampening 0, as in PyTorch).
#[derive(Debug, Clone, PartialEq)]
pub struct Sgd {
    /// The variable theta.
    pub param: VarId,
    /// Its gradient.
    pub grad: NodeId,
    /// The velocity v; none for plain descent.
    pub velocity: Option<VarId>,
    /// Whether the step looks ahead along the velocity.
    pub nesterov: bool,
    /// Scalar node: the learning rate.
    pub learning_rate: NodeId,
    /// Scalar node: the momentum m. Ignored without a velocity.
    pub momentum: NodeId,
    /// Scalar node: the weight decay.
    pub weight_decay: NodeId,
    /// Multiplies the learning rate for this variable.
    pub rate_scale: f64,
    /// Multiplies the weight decay for this variable.
    pub decay_scale: f64,
}

/// A graph, the updates it makes, and the values it returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The variables it may read and change.
    pub vars: Vars,
    /// The values it computes.
    pub graph: Graph,
    /// The changes it makes, after all values are computed.
    pub updates: Vec<Update>,
    /// The values it returns, by name.
    pub outputs: Vec<(String, NodeId)>,
}

impl Program {
    /// The position of a named output.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|(n, _)| n == name)
    }
}

/// What one run of a program is given; numbers are f32 for the native executor, f32 or f64 for the naive one.
#[derive(Debug, Clone, Copy)]
pub struct Feed<'a, T = f32> {
    /// As many values as the program's features node has.
    pub features: &'a [T],
    /// As many class numbers as the program's labels node has.
    pub labels: &'a [u32],
    /// One value for each of [`Graph::scalars`].
    pub scalars: &'a [T],
    /// As many values as the program's soft labels node has, if it has one.
    pub soft_labels: &'a [T],
    /// Where each example came from, if anything in the program is random: it decides what.
    pub origins: &'a [Origin],
}

impl<T> Default for Feed<'_, T> {
    /// Nothing of anything.
    fn default() -> Self {
        Feed { features: &[], labels: &[], scalars: &[], soft_labels: &[], origins: &[] }
    }
}

/// The values of all variables, by [`VarId::index`].
#[derive(Debug, Clone, PartialEq)]
pub struct State<T = f32> {
    /// One dense row-major tensor for each variable.
    pub values: Vec<Vec<T>>,
}
