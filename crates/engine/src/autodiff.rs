//! Reverse-mode automatic differentiation: gradients are operations appended to the graph that they differentiate.

use crate::{EngineError, Graph, NodeId, Normalization, Op, Reduction, Transposed};

/// Appends to the graph what computes the gradient of `loss` (a scalar) by each node of `wrt`, and returns those
/// gradients in the order of `wrt`, each of the shape of its node; zero where the loss does not depend on the node.
/// Only paths from some `wrt` to the loss are differentiated. Fails if one of them leads through an operation that
/// has no gradient.
pub fn gradients(graph: &mut Graph, loss: NodeId, wrt: &[NodeId]) -> Result<Vec<NodeId>, EngineError> {
    if graph.shape(loss).rank() != 0 {
        let found = vec![graph.shape(loss).clone()];
        return Err(EngineError::Shapes { op: "gradients", expected: "a scalar loss", found });
    }
    let mut sweep = Sweep::new(graph, loss, wrt);
    let one = sweep.graph.push(Op::Fill { shape: sooner_base::Shape::scalar(), value: 1.0 }, &[])?;
    sweep.grads[loss.index()] = Some(one);
    for index in (0..=loss.index()).rev() {
        if let (true, Some(dy)) = (sweep.needed[index], sweep.grads[index]) {
            sweep.differentiate(NodeId(index as u32), dy)?;
        }
    }
    wrt.iter().map(|id| sweep.finish(*id)).collect()
}

/// One backward walk over a graph.
struct Sweep<'a> {
    graph: &'a mut Graph,
    /// By node: whether it depends on a node whose gradient is wanted.
    needed: Vec<bool>,
    /// By node: the gradient found so far.
    grads: Vec<Option<NodeId>>,
}

impl Sweep<'_> {
    fn new<'a>(graph: &'a mut Graph, loss: NodeId, wrt: &[NodeId]) -> Sweep<'a> {
        let mut needed = vec![false; graph.nodes().len()];
        for id in wrt {
            needed[id.index()] = true;
        }
        for (i, node) in graph.nodes()[..=loss.index()].iter().enumerate() {
            needed[i] |= node.args.iter().any(|arg| needed[arg.index()]);
        }
        let grads = vec![None; graph.nodes().len()];
        Sweep { graph, needed, grads }
    }

    fn is_needed(&self, id: NodeId) -> bool {
        self.needed[id.index()]
    }

    /// The gradient of a wanted node.
    fn finish(&mut self, id: NodeId) -> Result<NodeId, EngineError> {
        if let Some(grad) = self.grads[id.index()] {
            return Ok(grad);
        }
        let zero = self.graph.push(Op::Fill { shape: self.graph.shape(id).clone(), value: 0.0 }, &[])?;
        self.grads[id.index()] = Some(zero);
        Ok(zero)
    }

    /// Adds one use's share to a node's gradient.
    fn accumulate(&mut self, id: NodeId, share: NodeId) -> Result<(), EngineError> {
        let total = match self.grads[id.index()] {
            None => share,
            Some(sum) => self.graph.add(sum, share)?,
        };
        self.grads[id.index()] = Some(total);
        Ok(())
    }

    /// Appends `op` as the share of `id`'s gradient, if that gradient is needed at all.
    fn send(&mut self, id: NodeId, op: Op, args: &[NodeId]) -> Result<(), EngineError> {
        if !self.is_needed(id) {
            return Ok(());
        }
        let share = self.graph.push(op, args)?;
        self.accumulate(id, share)
    }

    /// Passes the gradient dy of a node's value on to its operands.
    fn differentiate(&mut self, id: NodeId, dy: NodeId) -> Result<(), EngineError> {
        let node = self.graph.node(id).clone();
        let args = &node.args;
        let shape = |sweep: &Self, i: usize| sweep.graph.shape(args[i]).clone();
        match node.op {
            // Leaves: what reaches them is the result. (Labels never get here: nothing sends them a gradient.)
            Op::Features | Op::Labels | Op::SoftLabels | Op::Fill { .. } => Ok(()),
            Op::Scalar(_) | Op::Given { .. } | Op::Read(_) => Ok(()),
            Op::Conv2d(conv) => {
                let input = shape(self, 0);
                self.send(args[1], Op::Conv2dGradWeight(conv), &[args[0], dy])?;
                self.send(args[0], Op::Conv2dGradInput { conv, input }, &[dy, args[1]])
            }
            Op::Linear => {
                self.send(args[1], Op::LinearGradWeight, &[args[0], dy])?;
                self.send(args[0], Op::LinearGradInput, &[dy, args[1]])
            }
            Op::AddBias => {
                self.send(args[1], Op::BiasGrad, &[dy])?;
                self.pass(args[0], dy)
            }
            Op::Normalize(how) => self.differentiate_normalize(args, dy, how),
            Op::Relu => self.send(args[0], Op::ReluGrad, &[id, dy]),
            Op::Activate(activation) => {
                let from = if activation.grad_from_result() { id } else { args[0] };
                self.send(args[0], Op::ActivateGrad(activation), &[from, dy])
            }
            // The same elements fall out on the way back.
            Op::Dropout { .. } => self.send(args[0], node.op.clone(), &[dy]),
            Op::MaxPool(window) => self.send(args[0], Op::MaxPoolGrad(window), &[args[0], dy]),
            Op::AvgPool(window) => {
                let input = shape(self, 0);
                self.send(args[0], Op::AvgPoolGrad { window, input }, &[dy])
            }
            Op::GlobalAvgPool => {
                let input = shape(self, 0);
                self.send(args[0], Op::GlobalAvgPoolGrad { input }, &[dy])
            }
            Op::Add => {
                self.pass(args[0], dy)?;
                self.pass(args[1], dy)
            }
            Op::Scale(factor) => self.send(args[0], Op::Scale(factor), &[dy]),
            Op::Mul => {
                self.send(args[0], Op::Mul, &[args[1], dy])?;
                self.send(args[1], Op::Mul, &[args[0], dy])
            }
            Op::ScaleBy => {
                self.send(args[0], Op::ScaleBy, &[dy, args[1]])?;
                if !self.is_needed(args[1]) {
                    return Ok(());
                }
                let products = self.graph.mul(args[0], dy)?;
                self.send(args[1], Op::Sum, &[products])
            }
            Op::Stack => (0..args.len()).try_for_each(|row| self.send(args[row], Op::Row { row }, &[dy])),
            Op::BatchMatmul(transposed) => {
                let &[a, b] = &args[..] else { unreachable!("a product has two operands") };
                let ((left, first), (right, second)) = match transposed {
                    Transposed::Neither => (([dy, b], Transposed::Right), ([a, dy], Transposed::Left)),
                    Transposed::Right => (([dy, b], Transposed::Neither), ([dy, a], Transposed::Left)),
                    Transposed::Left => (([b, dy], Transposed::Right), ([a, dy], Transposed::Neither)),
                };
                self.send(a, Op::BatchMatmul(first), &left)?;
                self.send(b, Op::BatchMatmul(second), &right)
            }
            Op::Reshape(_) => self.send(args[0], Op::Reshape(shape(self, 0)), &[dy]),
            Op::PadChannels { before, .. } => {
                let channels = shape(self, 0).last();
                self.send(args[0], Op::TakeChannels { first: before, channels }, &[dy])
            }
            Op::TakeChannels { first, .. } => {
                let channels = shape(self, 0).last();
                self.send(args[0], Op::PadChannels { before: first, channels }, &[dy])
            }
            Op::CrossEntropy if !self.is_needed(args[1]) && !self.is_needed(args[2]) => {
                self.send(args[0], Op::CrossEntropyGrad, &[args[0], args[1], args[2], dy])
            }
            Op::SoftCrossEntropy if !self.is_needed(args[1]) && !self.is_needed(args[2]) => {
                self.send(args[0], Op::SoftCrossEntropyGrad, &[args[0], args[1], args[2], dy])
            }
            Op::Sum => self.send(args[0], Op::Broadcast(shape(self, 0)), &[dy]),
            Op::Broadcast(_) => self.send(args[0], Op::Sum, &[dy]),
            Op::CrossEntropy
            | Op::SoftCrossEntropy
            | Op::BatchStats { .. }
            | Op::AllReduce { .. }
            | Op::Row { .. }
            | Op::UnitRows { .. }
            | Op::ClipFactor { .. }
            | Op::Correct
            | Op::Conv2dGradInput { .. }
            | Op::Conv2dGradWeight(_)
            | Op::LinearGradInput
            | Op::LinearGradWeight
            | Op::BiasGrad
            | Op::NormalizeGradSums(_)
            | Op::NormalizeGradInput(_)
            | Op::NormalizeGradInputFixed { .. }
            | Op::ReluGrad
            | Op::ActivateGrad(_)
            | Op::MaxPoolGrad(_)
            | Op::AvgPoolGrad { .. }
            | Op::GlobalAvgPoolGrad { .. }
            | Op::SoftCrossEntropyGrad
            | Op::CrossEntropyGrad => Err(EngineError::NoGradient { op: node.op.name() }),
        }
    }

    /// The gradient reaches an operand unchanged.
    fn pass(&mut self, id: NodeId, dy: NodeId) -> Result<(), EngineError> {
        if self.is_needed(id) { self.accumulate(id, dy) } else { Ok(()) }
    }

    /// Sums `[G, 2, C]` of groups added up to `[2, C]`.
    fn total_sums(&mut self, sums: NodeId) -> Result<NodeId, EngineError> {
        let &[groups, two, channels] = self.graph.shape(sums).dims() else { return Ok(sums) };
        let rows = self.graph.reshape(sums, [groups, two * channels])?;
        let total = self.graph.push(Op::BiasGrad, &[rows])?;
        self.graph.reshape(total, [two, channels])
    }

    /// Normalisation by the statistics of its own operand is differentiated through them; all other statistics are
    /// constants, and if they are not (they depend on what is trained) there is no gradient to be had.
    fn differentiate_normalize(
        &mut self,
        args: &[NodeId],
        dy: NodeId,
        how: Normalization,
    ) -> Result<(), EngineError> {
        let &[x, stats, gamma, beta] = args else { unreachable!("normalize has four operands") };
        // The statistics of all lanes' x are its own too.
        let mut source = self.graph.node(stats);
        let across = match source.op {
            Op::AllReduce { how: Reduction::Moments, count } => {
                source = self.graph.node(source.args[0]);
                Some(count)
            }
            _ => None,
        };
        let own = source.op == Op::BatchStats { group: how.group } && source.args[0] == x;
        if !own && (self.is_needed(stats) || how.group.is_some()) {
            return Err(EngineError::NoGradient { op: source.op.name() });
        }
        let full = own && self.is_needed(x);
        if full || self.is_needed(gamma) || self.is_needed(beta) {
            let sums = self.graph.push(Op::NormalizeGradSums(how), &[dy, x, stats])?;
            if self.is_needed(gamma) || self.is_needed(beta) {
                let total = self.total_sums(sums)?;
                self.send(gamma, Op::Row { row: 1 }, &[total])?;
                self.send(beta, Op::Row { row: 0 }, &[total])?;
            }
            if full {
                let sums = match across {
                    Some(count) => self.graph.all_reduce(sums, Reduction::Share, count)?,
                    None => sums,
                };
                return self.send(x, Op::NormalizeGradInput(how), &[dy, x, stats, gamma, sums]);
            }
        }
        self.send(x, Op::NormalizeGradInputFixed { eps: how.eps }, &[dy, stats, gamma])
    }
}

#[cfg(test)]
mod tests;
