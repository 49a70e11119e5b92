//! Which nodes are computed by the kernel of another, so that what lies between them never goes through memory.

use super::simd::Choice;
use crate::ops::conv2d::native::GradInput;
use crate::ops::normalize::Behind;
use crate::ops::normalize::masked::Cover;
use crate::ops::pool::chosen::Chosen;
use crate::{Activation, Graph, NodeId, Normalization, Op, Program, Window};

/// What is fused in a program.
pub(crate) struct Fusion {
    /// By node: the node whose step computes it.
    pub(crate) into: Vec<Option<NodeId>>,
    /// By last node of a chain: the chain's first node.
    pub(crate) head: Vec<Option<NodeId>>,
    /// By node: what its step computes instead of the node's operation.
    pub(crate) masked: Vec<Option<Masked>>,
    /// By max pooling: the convolution that its step computes.
    pub(crate) pooled: Vec<Option<Pooled>>,
    /// By gradient of a convolution's results: the pooling that they come through.
    pub(crate) unpooled: Vec<Option<Unpooled>>,
}

/// A convolution that takes in the bias and the ReLU, if there are any, and the max pooling behind it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    pub(crate) conv: NodeId,
    pub(crate) bias: Option<NodeId>,
    pub(crate) chosen: Chosen,
}

/// A gradient that follows from the one behind a pooling and from the pooling's codes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unpooled {
    /// The gradient of the pooling's result.
    pub(crate) below: NodeId,
    pub(crate) pool: NodeId,
    pub(crate) chosen: Chosen,
    /// Whether nothing needs its values.
    pub(crate) hidden: bool,
}

/// A step of a normalisation that takes in the activation, and perhaps the pooling, behind it.
#[derive(Debug, Clone)]
pub(crate) struct Masked {
    pub(crate) kind: Kind,
    pub(crate) how: Normalization,
    pub(crate) behind: Behind,
    /// The pooling's windows; only behind a ReLU.
    pub(crate) cover: Option<Cover>,
    pub(crate) args: Vec<NodeId>,
}

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// (x, stats, gamma, beta) -> the pooled result.
    Forward,
    /// (dy, x, stats, gamma, beta)
    Sums,
    /// (dy, x, stats, gamma, beta, sums)
    Input,
}

/// Who uses what in a program.
struct Uses<'a> {
    graph: &'a Graph,
    /// By node: the nodes that take it, as often as they do.
    by: Vec<Vec<NodeId>>,
    /// By node: whether the program wants it for itself.
    wanted: Vec<bool>,
}

impl Fusion {
    /// Finds everything that can be fused among the nodes that are needed; `roots` are those that updates and outputs
    /// want.
    pub(crate) fn find(program: &Program, needed: &[bool], roots: &[NodeId], choice: Choice) -> Fusion {
        let graph = &program.graph;
        let count = graph.nodes().len();
        let mut by = vec![vec![]; count];
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| needed[*index]) {
            for arg in &node.args {
                by[arg.index()].push(NodeId(index as u32));
            }
        }
        let mut wanted = vec![false; count];
        roots.iter().for_each(|root| wanted[root.index()] = true);
        let mut uses = Uses { graph, by, wanted };
        let mut fusion = Fusion {
            into: vec![None; count],
            head: vec![None; count],
            masked: vec![None; count],
            pooled: vec![None; count],
            unpooled: vec![None; count],
        };
        for index in (0..count).filter(|index| needed[*index]) {
            fusion.gradient(&mut uses, NodeId(index as u32));
        }
        for index in (0..count).filter(|index| needed[*index]) {
            fusion.pool(&uses, NodeId(index as u32));
            fusion.convolution(&uses, NodeId(index as u32), choice);
        }
        for index in (0..count).filter(|index| needed[*index]) {
            fusion.chain(&uses, NodeId(index as u32));
        }
        fusion
    }

    /// The gradients of a normalisation whose dy comes through an activation's gradient that nothing else uses.
    fn gradient(&mut self, uses: &mut Uses, id: NodeId) -> Option<()> {
        let graph = uses.graph;
        let Op::NormalizeGradInput(how) = &graph.node(id).op else { return None };
        let [dy, x, stats, gamma, sums] = graph.node(id).args[..] else { return None };
        let sums_node = graph.node(sums);
        if sums_node.op != Op::NormalizeGradSums(*how) || sums_node.args[..] != [dy, x, stats] {
            return None;
        }
        let [from, d] = graph.node(dy).args[..] else { return None };
        // A ReLU's gradient follows from its result, a GELU's from its operand.
        let (behind, normal) = match (&graph.node(dy).op, &graph.node(from).op) {
            (Op::ReluGrad, Op::Relu) => (Behind::Relu, graph.node(graph.node(from).args[0])),
            (Op::ActivateGrad(Activation::Gelu), _) => (Behind::Gelu, graph.node(from)),
            _ => return None,
        };
        if normal.op != Op::Normalize(*how) || normal.args[..3] != [x, stats, gamma] {
            return None;
        }
        if uses.wanted[dy.index()] || uses.by[dy.index()].iter().any(|user| *user != id && *user != sums) {
            return None;
        }
        let beta = normal.args[3];
        let pooled = if behind == Behind::Relu { uses.pooling(d, dy, from, (x, how)) } else { None };
        let (d, cover) = pooled.map_or((d, None), |(below, cover)| (below, Some(cover)));
        self.into[dy.index()] = Some(id);
        uses.drop_user(from, dy);
        if cover.is_some() {
            let pool = graph.node(dy).args[1];
            self.into[pool.index()] = Some(id);
            uses.drop_user(from, pool);
        }
        let masked = |kind, args| Some(Masked { kind, how: *how, behind, cover, args });
        self.masked[sums.index()] = masked(Kind::Sums, vec![d, x, stats, gamma, beta]);
        self.masked[id.index()] = masked(Kind::Input, vec![d, x, stats, gamma, beta, sums]);
        Some(())
    }

    /// A max pooling of a ReLU of a normalisation whose results nothing else uses.
    fn pool(&mut self, uses: &Uses, id: NodeId) -> Option<()> {
        let graph = uses.graph;
        let Op::MaxPool(window) = &graph.node(id).op else { return None };
        let relu = uses.only(graph.node(id).args[0], id)?;
        let Op::Relu = graph.node(relu).op else { return None };
        let normal = uses.only(graph.node(relu).args[0], relu)?;
        let Op::Normalize(how) = &graph.node(normal).op else { return None };
        let args = graph.node(normal).args.clone();
        let cover = Cover::new(window, graph.shape(args[0]), how)?;
        self.into[relu.index()] = Some(id);
        self.into[normal.index()] = Some(id);
        let (kind, behind) = (Kind::Forward, Behind::Relu);
        self.masked[id.index()] = Some(Masked { kind, how: *how, behind, cover: Some(cover), args });
        Some(())
    }

    /// A max pooling of a convolution, perhaps with a bias and a ReLU, whose results only the pooling and its gradient use.
    fn convolution(&mut self, uses: &Uses, id: NodeId, choice: Choice) -> Option<()> {
        let graph = uses.graph;
        let Op::MaxPool(window) = &graph.node(id).op else { return None };
        let last = graph.node(id).args[0];
        let relu = graph.node(last).op == Op::Relu;
        let biased = if relu { graph.node(last).args[0] } else { last };
        let (conv, bias) = match graph.node(biased).op {
            Op::AddBias => (graph.node(biased).args[0], Some(graph.node(biased).args[1])),
            _ => (biased, None),
        };
        let Op::Conv2d(_) = graph.node(conv).op else { return None };
        if relu {
            uses.only(biased, last)?;
        }
        if bias.is_some() {
            uses.only(conv, biased)?;
        }
        let chosen = Chosen::new(window, graph.shape(last), relu)?;
        // The gradients of the pooling's operand and of the ReLU's, or of the pooling's alone.
        let back = match uses.by[last.index()][..] {
            _ if uses.wanted[last.index()] => return None,
            [only] if only == id => None,
            [first, d, masked] if first == id && relu => Some((d, masked)),
            [first, d] if first == id && !relu => Some((d, d)),
            _ => return None,
        };
        if let Some((d, dy)) = back {
            let is_back = graph.node(d).op == Op::MaxPoolGrad(*window) && graph.node(d).args[0] == last;
            let masks = || graph.node(dy).op == Op::ReluGrad && graph.node(dy).args[..] == [last, d];
            if !is_back || relu && !masks() {
                return None;
            }
            if relu {
                uses.only(d, dy)?;
                self.into[d.index()] = Some(dy);
            }
            let below = graph.node(d).args[1];
            let users = &uses.by[dy.index()];
            let needs = |user: &NodeId| uses.needs_whole(*user, dy, (chosen, choice));
            let hidden = !uses.wanted[dy.index()] && !users.is_empty() && !users.iter().any(needs);
            self.into[dy.index()] = users.first().copied().filter(|_| hidden);
            self.unpooled[dy.index()] = Some(Unpooled { below, pool: id, chosen, hidden });
        }
        for inner in [conv, biased, last] {
            self.into[inner.index()] = Some(id);
        }
        self.pooled[id.index()] = Some(Pooled { conv, bias, chosen });
        Some(())
    }

    /// A bias and a ReLU after a convolution or matrix product, a ReLU or GELU after a normalisation, if nothing else looks
    /// at what lies between.
    fn chain(&mut self, uses: &Uses, first: NodeId) {
        let graph = uses.graph;
        let mut takes_bias = matches!(graph.node(first).op, Op::Conv2d(_) | Op::Linear);
        let normal = matches!(graph.node(first).op, Op::Normalize(_));
        let starts = takes_bias || normal || matches!(graph.node(first).op, Op::AddBias);
        if !starts || self.into[first.index()].is_some() {
            return;
        }
        let mut chain = vec![first];
        loop {
            let last = chain[chain.len() - 1];
            let [next] = uses.by[last.index()][..] else { break };
            let is_first = graph.node(next).args[0] == last;
            let fits = match graph.node(next).op {
                Op::AddBias => takes_bias && is_first,
                Op::Relu => true,
                Op::Activate(Activation::Gelu) => normal,
                _ => false,
            };
            if uses.wanted[last.index()] || !fits {
                break;
            }
            takes_bias = false;
            let ends = graph.node(next).op != Op::AddBias;
            chain.push(next);
            if ends {
                break;
            }
        }
        let last = chain[chain.len() - 1];
        for id in &chain[..chain.len() - 1] {
            self.into[id.index()] = Some(last);
        }
        if chain.len() > 1 {
            self.head[last.index()] = Some(first);
        }
    }
}

impl Uses<'_> {
    /// The node, if it is used by this one alone.
    fn only(&self, id: NodeId, user: NodeId) -> Option<NodeId> {
        (self.by[id.index()][..] == [user] && !self.wanted[id.index()]).then_some(id)
    }

    /// Whether a step needs all of dy, the gradient of a convolution's results, rather than what a pooling keeps of it.
    fn needs_whole(&self, user: NodeId, dy: NodeId, (chosen, choice): (Chosen, Choice)) -> bool {
        let graph = self.graph;
        let args = &graph.node(user).args;
        match &graph.node(user).op {
            Op::BiasGrad => false,
            Op::Conv2dGradWeight(_) => args[0] == dy,
            Op::Conv2dGradInput { conv, input } => {
                let plan = || GradInput::new(conv, graph.shape(dy), graph.shape(args[1]), input, choice);
                args[1] == dy || !plan().unpool(chosen)
            }
            _ => true,
        }
    }

    fn drop_user(&mut self, id: NodeId, user: NodeId) {
        self.by[id.index()].retain(|other| *other != user);
    }

    /// If d, used by `user` alone, is the gradient of a pooling of y: the gradient behind the pooling, and its windows.
    fn pooling(
        &self,
        d: NodeId,
        user: NodeId,
        y: NodeId,
        (x, how): (NodeId, &Normalization),
    ) -> Option<(NodeId, Cover)> {
        let Op::MaxPoolGrad(window) = &self.graph.node(d).op else { return None };
        let window: &Window = window;
        let [input, below] = self.graph.node(d).args[..] else { return None };
        self.only(d, user)?;
        let cover = Cover::new(window, self.graph.shape(x), how)?;
        (input == y).then_some((below, cover))
    }
}

/// The nodes after `head` of the chain that ends at `last`, in order.
pub(crate) fn chain(graph: &Graph, head: NodeId, last: NodeId) -> Vec<NodeId> {
    let mut links = vec![];
    let mut id = last;
    while id != head {
        links.push(id);
        id = graph.node(id).args[0];
    }
    links.reverse();
    links
}
