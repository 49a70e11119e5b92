//! What a step must at least do: multiply-adds as the direct formula counts them, and every operand and result once over
//! the memory bus. With a machine's peak and bandwidth that is a floor for its time; fast algorithms and values that
//! the caches still hold may go below.

use super::lower::{Lowered, Step};
use crate::{Graph, NodeId, Op, Program};

/// Work of one step, or of all updates of variables together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    /// Two for each multiply-add of convolutions and matrix products; nothing else is counted.
    pub(crate) flops: u64,
    /// Operands read once and the result written once.
    pub(crate) bytes: u64,
}

/// What a step must do.
pub(crate) fn step(graph: &Graph, step: &Step) -> Cost {
    let values: usize = step.args.iter().map(|value| value.len).sum::<usize>() + step.len;
    let products = if step.kernel.is_storage() { 0 } else { flops(graph, step.head) };
    Cost { flops: products, bytes: 4 * values as u64 }
}

/// What the updates of variables must do: every variable is read and written, what updates take is read, and gradients that
/// they make themselves are sums of products.
pub(crate) fn updates(program: &Program, low: &Lowered) -> Cost {
    if program.updates.is_empty() {
        return Cost::default();
    }
    let variables: usize = program.vars.all().iter().map(|var| var.shape.len()).sum();
    let deferred = low.deferred.iter().flatten();
    let args = deferred.clone().flat_map(|deferred| &deferred.args);
    let taken = low.operands.iter().flatten().map(|(_, value)| value).chain(args);
    let taken: usize = taken.map(|value| value.len).sum();
    let flops = deferred.map(|deferred| 2 * deferred.outer.products()).sum();
    Cost { flops, bytes: 4 * (2 * variables + taken) as u64 }
}

/// Operations of a node's products.
fn flops(graph: &Graph, id: NodeId) -> u64 {
    let node = graph.node(id);
    let len = |i: usize| graph.shape(node.args[i]).len() as u64;
    let last = |i: usize| graph.shape(node.args[i]).last().max(1) as u64;
    let result = node.shape.len() as u64;
    let products = match &node.op {
        // Each element of y, or of dy, meets the weights of its filter.
        Op::Conv2d(_) => result * (len(1) / last(1)),
        Op::Conv2dGradInput { .. } => len(0) * (len(1) / last(1)),
        Op::Conv2dGradWeight(_) => len(1) * (result / last(1)),
        Op::Linear => result * last(0),
        Op::LinearGradInput => len(0) * (result / (len(0) / last(0)).max(1)),
        Op::LinearGradWeight => len(0) * last(1),
        // With three matrices of I, J and K, I J times J K times I K is the square of the products of one batch.
        Op::BatchMatmul(_) => {
            let batch = (node.shape[0] as u64).max(1);
            let sides = [len(0) / batch, len(1) / batch, result / batch];
            batch * sides.iter().map(|v| *v as f64).product::<f64>().sqrt().round() as u64
        }
        _ => 0,
    };
    2 * products
}
