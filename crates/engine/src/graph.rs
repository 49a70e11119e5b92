//! The graph of a tensor program: operations with static shapes, each with one output, in topological order.

use crate::collective::Reduction;
use crate::op::{Op, infer};
use crate::var::{VarId, Vars};
use crate::{Activation, Convolution, EngineError, Normalization, Transposed, Window};
use sooner_base::{Key, Shape};

/// A node of a graph: the value that one operation computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The node's position in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The element type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Floating point: f32 natively, f64 too in the naive executor.
    Real,
    /// Class numbers.
    Index,
}

/// One operation applied to earlier nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Its operands, all earlier in the graph.
    pub args: Vec<NodeId>,
    /// The shape of the result.
    pub shape: Shape,
    /// The element type of the result.
    pub dtype: Dtype,
}

/// A directed acyclic graph of operations. Nodes are only ever appended, so index order is a topological order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    scalars: Vec<String>,
    given: usize,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// All nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The shape of a node's value.
    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.nodes[id.index()].shape
    }

    /// Names of the scalar inputs, in the order in which [`crate::Feed::scalars`] gives them.
    pub fn scalars(&self) -> &[String] {
        &self.scalars
    }

    /// Appends an operation after checking its operands' shapes.
    pub fn push(&mut self, op: Op, args: &[NodeId]) -> Result<NodeId, EngineError> {
        let operands: Vec<&Node> = args.iter().map(|id| self.node(*id)).collect();
        let (shape, dtype) = infer(&op, &operands)?;
        Ok(self.append(Node { op, args: args.to_vec(), shape, dtype }))
    }

    fn append(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId((self.nodes.len() - 1) as u32)
    }

    /// The batch's features, `[N, ...]`.
    pub fn features(&mut self, shape: impl Into<Shape>) -> NodeId {
        self.append(Node { op: Op::Features, args: vec![], shape: shape.into(), dtype: Dtype::Real })
    }

    /// The batch's class numbers, `[N]`.
    pub fn labels(&mut self, count: usize) -> NodeId {
        self.append(Node { op: Op::Labels, args: vec![], shape: [count].into(), dtype: Dtype::Index })
    }

    /// A distribution over `classes` classes for each example, `[N, K]`.
    pub fn soft_labels(&mut self, count: usize, classes: usize) -> NodeId {
        self.append(Node {
            op: Op::SoftLabels,
            args: vec![],
            shape: [count, classes].into(),
            dtype: Dtype::Real,
        })
    }

    /// A number given anew at every run of the program, such as the learning rate. Asking for the same name again
    /// returns the same node.
    pub fn scalar(&mut self, name: &str) -> NodeId {
        let slot = self.scalars.iter().position(|s| s == name);
        if let Some(slot) = slot {
            let found = self.nodes.iter().position(|n| n.op == Op::Scalar(slot));
            return NodeId(found.expect("every named scalar has a node") as u32);
        }
        self.scalars.push(name.to_string());
        let op = Op::Scalar(self.scalars.len() - 1);
        self.append(Node { op, args: vec![], shape: Shape::scalar(), dtype: Dtype::Real })
    }

    /// A tensor given anew at every run: the values of [`crate::Feed::given`] that come after those of the tensors asked
    /// for before.
    pub fn given(&mut self, shape: impl Into<Shape>) -> NodeId {
        let (shape, start) = (shape.into(), self.given);
        self.given += shape.len();
        self.append(Node { op: Op::Given { start }, args: vec![], shape, dtype: Dtype::Real })
    }

    /// How many values [`crate::Feed::given`] has.
    pub fn given_len(&self) -> usize {
        self.given
    }

    /// The value of a variable at the start of the run. Asking for the same variable again returns the same node.
    pub fn read(&mut self, vars: &Vars, var: VarId) -> NodeId {
        if let Some(found) = self.nodes.iter().position(|n| n.op == Op::Read(var)) {
            return NodeId(found as u32);
        }
        let shape = vars.get(var).shape.clone();
        self.append(Node { op: Op::Read(var), args: vec![], shape, dtype: Dtype::Real })
    }

    /// x: `[N, H, W, C]`, w: `[KH, KW, C / groups, K]` -> `[N, H', W', K]`: cross-correlation, as in every framework. A
    /// window alone means one group.
    pub fn conv2d(
        &mut self,
        x: NodeId,
        w: NodeId,
        conv: impl Into<Convolution>,
    ) -> Result<NodeId, EngineError> {
        self.push(Op::Conv2d(conv.into()), &[x, w])
    }

    /// x: `[N, I]`, w: `[I, O]` -> `[N, O]`.
    pub fn linear(&mut self, x: NodeId, w: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Linear, &[x, w])
    }

    /// x: `[..., C]` plus b: `[C]` on every row.
    pub fn add_bias(&mut self, x: NodeId, b: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::AddBias, &[x, b])
    }

    /// x: `[..., C]` -> `[2, C]`: mean and biased variance of every channel over all other dimensions.
    pub fn batch_stats(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::BatchStats { group: None }, &[x])
    }

    /// x: `[N, ..., C]` -> `[G, 2, C]`: such statistics of each group of so many examples, the last one perhaps smaller
    /// (ghost batch normalisation: Hoffer et al., 2017).
    pub fn group_stats(&mut self, x: NodeId, examples: usize) -> Result<NodeId, EngineError> {
        self.push(Op::BatchStats { group: Some(examples) }, &[x])
    }

    /// gamma (x - mean) / sqrt(variance + eps) + beta, with stats: `[2, C]`, or `[G, 2, C]` if the normalisation is by
    /// groups; gamma and beta: `[C]`.
    pub fn normalize(
        &mut self,
        x: NodeId,
        stats: NodeId,
        [gamma, beta]: [NodeId; 2],
        how: impl Into<Normalization>,
    ) -> Result<NodeId, EngineError> {
        self.push(Op::Normalize(how.into()), &[x, stats, gamma, beta])
    }

    /// max(x, 0).
    pub fn relu(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Relu, &[x])
    }

    /// A smooth nonlinearity of every element.
    pub fn activate(&mut self, x: NodeId, activation: Activation) -> Result<NodeId, EngineError> {
        self.push(Op::Activate(activation), &[x])
    }

    /// x with elements at random set to 0, at this rate, and the others scaled up to make good for it; needs
    /// [`crate::Feed::origins`], one for each of the first dimension of x.
    pub fn dropout(&mut self, x: NodeId, rate: f64, key: Key) -> Result<NodeId, EngineError> {
        self.push(Op::Dropout { rate, key }, &[x])
    }

    /// Largest value of each window of x: `[N, H, W, C]`; padding never wins, the first of equals does.
    pub fn max_pool(&mut self, x: NodeId, window: Window) -> Result<NodeId, EngineError> {
        self.push(Op::MaxPool(window), &[x])
    }

    /// Mean of each window of x: `[N, H, W, C]`, over the positions inside the image.
    pub fn avg_pool(&mut self, x: NodeId, window: Window) -> Result<NodeId, EngineError> {
        self.push(Op::AvgPool(window), &[x])
    }

    /// x: `[N, H, W, C]` -> `[N, C]`: mean over all positions.
    pub fn global_avg_pool(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::GlobalAvgPool, &[x])
    }

    /// a + b of equal shapes.
    pub fn add(&mut self, a: NodeId, b: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Add, &[a, b])
    }

    /// factor * x.
    pub fn scale(&mut self, x: NodeId, factor: f64) -> Result<NodeId, EngineError> {
        self.push(Op::Scale(factor), &[x])
    }

    /// a b, element by element, of equal shapes.
    pub fn mul(&mut self, a: NodeId, b: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Mul, &[a, b])
    }

    /// s x for a scalar node s.
    pub fn scale_by(&mut self, x: NodeId, s: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::ScaleBy, &[x, s])
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, x: NodeId, shape: impl Into<Shape>) -> Result<NodeId, EngineError> {
        self.push(Op::Reshape(shape.into()), &[x])
    }

    /// x: `[..., C]` -> `[..., channels]`, new channels zero (the parameter-free shortcut of ResNets on CIFAR-10).
    pub fn pad_channels(&mut self, x: NodeId, channels: usize) -> Result<NodeId, EngineError> {
        self.push(Op::PadChannels { before: 0, channels }, &[x])
    }

    /// a: `[..., A]`, b: `[..., B]` -> `[..., A + B]`.
    pub fn concat(&mut self, a: NodeId, b: NodeId) -> Result<NodeId, EngineError> {
        let before = self.shape(a).last();
        let channels = before + self.shape(b).last();
        let a = self.pad_channels(a, channels)?;
        let b = self.push(Op::PadChannels { before, channels }, &[b])?;
        self.add(a, b)
    }

    /// Up to [`crate::MOST_STACKED`] tensors of one shape `[...]` as one `[R, ...]`.
    pub fn stack(&mut self, parts: &[NodeId]) -> Result<NodeId, EngineError> {
        self.push(Op::Stack, parts)
    }

    /// Number `row` along the first dimension of `[R, ...]`, as `[...]`.
    pub fn row(&mut self, x: NodeId, row: usize) -> Result<NodeId, EngineError> {
        self.push(Op::Row { row }, &[x])
    }

    /// a: `[B, I, J]`, b: `[B, J, K]` -> `[B, I, K]`: B products of matrices.
    pub fn batch_matmul(
        &mut self,
        a: NodeId,
        b: NodeId,
        transposed: Transposed,
    ) -> Result<NodeId, EngineError> {
        self.push(Op::BatchMatmul(transposed), &[a, b])
    }

    /// logits: `[N, K]`, labels: `[N]`, smoothing: scalar s -> `[N]`: cross entropy against the distribution
    /// (1 - s) onehot + s / K.
    pub fn cross_entropy(
        &mut self,
        logits: NodeId,
        labels: NodeId,
        smoothing: NodeId,
    ) -> Result<NodeId, EngineError> {
        self.push(Op::CrossEntropy, &[logits, labels, smoothing])
    }

    /// logits and soft labels q: `[N, K]`, smoothing: scalar s -> `[N]`: cross entropy against the distribution
    /// (1 - s) q + s / K.
    pub fn soft_cross_entropy(
        &mut self,
        logits: NodeId,
        soft_labels: NodeId,
        smoothing: NodeId,
    ) -> Result<NodeId, EngineError> {
        self.push(Op::SoftCrossEntropy, &[logits, soft_labels, smoothing])
    }

    /// logits: `[N, K]`, labels: `[N]` -> `[N]`: 1 where the label's logit is the largest (the first of equals), else 0.
    pub fn correct(&mut self, logits: NodeId, labels: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Correct, &[logits, labels])
    }

    /// x, about so many elements, put together with what the other lanes have: see [`Op::AllReduce`].
    pub fn all_reduce(&mut self, x: NodeId, how: Reduction, count: usize) -> Result<NodeId, EngineError> {
        self.push(Op::AllReduce { how, count }, &[x])
    }

    /// The sum of all elements, as a scalar.
    pub fn sum(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        self.push(Op::Sum, &[x])
    }

    /// Multiply-adds of one forward pass over the whole batch, convolution and linear only (the usual count:
    /// padding positions included).
    pub fn forward_macs(&self) -> u64 {
        let macs = |node: &Node| match node.op {
            Op::Conv2d(_) => {
                let w = &self.node(node.args[1]).shape;
                (node.shape.len() * w[0] * w[1] * w[2]) as u64
            }
            Op::Linear => (node.shape.len() * self.node(node.args[1]).shape[0]) as u64,
            _ => 0,
        };
        self.nodes.iter().map(macs).sum()
    }
}
