//! From a graph to steps: which operations are computed, which are fused into others, which only rename a value.

use super::columns::{Slices, total_workspace};
use super::fusion::{Fusion, Kind, Masked, Pooled, Unpooled, chain};
use super::kernel::Kernel;
use super::simd::Choice;
use crate::ops::conv2d::native::{Forward, GradInput, GradWeight};
use crate::ops::elementwise::native::Channels;
use crate::ops::linear::few::Few;
use crate::ops::linear::outer::Outer;
use crate::ops::matrix::native::Products;
use crate::ops::normalize::Behind;
use crate::ops::normalize::native::By;
use crate::ops::pool::chosen::Chosen;
use crate::ops::pool::native::Pooling;
use crate::ops::{linear, matrix, normalize};
use crate::{Graph, NodeId, Op, Program, Update};

/// Where the values of a node come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The step of this number.
    Step(usize),
    Features,
    Labels,
    SoftLabels,
    Scalars,
    Given,
    /// The variable of this number.
    Var(usize),
}

/// A value: part of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) source: Source,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// One kernel and its operands.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) kernel: Kernel,
    pub(crate) args: Vec<Value>,
    /// Values of the result.
    pub(crate) len: usize,
    /// Values of workspace, for all threads together.
    pub(crate) workspace: usize,
    /// The node whose value the step computes, and the node whose kernel it runs: the first of a fused chain.
    pub(crate) node: NodeId,
    pub(crate) head: NodeId,
}

/// A lowered program.
#[derive(Debug)]
pub(crate) struct Lowered {
    pub(crate) steps: Vec<Step>,
    /// By node: its value, if it is computed or given at all.
    pub(crate) values: Vec<Option<Value>>,
    /// The program's outputs, all of them results of steps.
    pub(crate) outputs: Vec<Value>,
    /// By update: the nodes whose values it takes, which never are variables, since earlier updates may have changed
    /// those.
    pub(crate) operands: Vec<Vec<(NodeId, Value)>>,
    /// By update: how it makes its gradient itself.
    pub(crate) deferred: Vec<Option<Deferred>>,
}

/// A gradient that nothing but its update needs, made there.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) outer: Outer,
    /// x, dy
    pub(crate) args: [Value; 2],
}

/// Lowers a program for an instruction set.
pub(crate) fn lower(program: &Program, choice: Choice) -> Lowered {
    let graph = &program.graph;
    let needed = needed(program);
    let fused = Fusion::find(program, &needed, &roots(program), choice);
    let outers = outers(program, &needed, choice);
    let deferred = |id: NodeId| outers.iter().flatten().any(|(grad, _)| *grad == id);
    let mut low = Lowered {
        steps: vec![],
        values: vec![None; graph.nodes().len()],
        outputs: vec![],
        operands: vec![],
        deferred: vec![],
    };
    for index in 0..graph.nodes().len() {
        let id = NodeId(index as u32);
        if needed[index] && fused.into[index].is_none() && !deferred(id) {
            low.node(graph, id, &fused, choice);
        }
    }
    for (_, id) in &program.outputs {
        let value = low.result(*id);
        low.outputs.push(value);
    }
    for (update, outer) in program.updates.iter().zip(&outers) {
        let taken = update.operands().into_iter().filter(|id| !deferred(*id));
        let values = taken.map(|id| (id, low.operand(id))).collect();
        low.operands.push(values);
        let outer = outer.as_ref().map(|(grad, outer)| {
            let args = [0, 1].map(|i| low.value(graph.node(*grad).args[i]));
            Deferred { outer: outer.clone(), args }
        });
        low.deferred.push(outer);
    }
    low
}

/// The nodes that an update or an output wants, directly or through others.
fn needed(program: &Program) -> Vec<bool> {
    let nodes = program.graph.nodes();
    let mut needed = vec![false; nodes.len()];
    for id in roots(program) {
        needed[id.index()] = true;
    }
    for index in (0..nodes.len()).rev() {
        if needed[index] {
            nodes[index].args.iter().for_each(|arg| needed[arg.index()] = true);
        }
    }
    needed
}

/// By update: the gradient that it makes itself, since nothing else needs it and its rows are few.
fn outers(program: &Program, needed: &[bool], choice: Choice) -> Vec<Option<(NodeId, Outer)>> {
    let graph = &program.graph;
    let roots = roots(program);
    let used = |id: NodeId| {
        let nodes = graph.nodes().iter().zip(needed).filter(|(_, needed)| **needed);
        nodes.flat_map(|(node, _)| &node.args).chain(&roots).filter(|arg| **arg == id).count()
    };
    // A variable may have changed by then.
    let stays = |mut id: NodeId| {
        while let Op::Reshape(_) | Op::Row { .. } = graph.node(id).op {
            id = graph.node(id).args[0];
        }
        !matches!(graph.node(id).op, Op::Read(_) | Op::Given { .. } | Op::Scalar(_) | Op::SoftLabels)
    };
    let outer = |update: &Update| {
        let Update::Step(step) = update else { return None };
        let node = graph.node(step.grad);
        let [x, dy] = node.args[..] else { return None };
        let alone = node.op == Op::LinearGradWeight && used(step.grad) == 1 && stays(x) && stays(dy);
        let outer = || Outer::new(graph.shape(x), graph.shape(dy), choice.isa);
        alone.then(outer).flatten().map(|outer| (step.grad, outer))
    };
    program.updates.iter().map(outer).collect()
}

fn roots(program: &Program) -> Vec<NodeId> {
    let mut roots: Vec<NodeId> = program.outputs.iter().map(|(_, id)| *id).collect();
    for update in &program.updates {
        roots.extend(update.operands());
    }
    roots
}

impl Lowered {
    fn value(&self, id: NodeId) -> Value {
        self.values[id.index()].expect("operands come before what uses them")
    }

    /// The value of a node as the result of a step: copied if it is given from outside or may change.
    fn result(&mut self, id: NodeId) -> Value {
        let value = self.value(id);
        match value.source {
            Source::Step(_) => return value,
            // Labels are no real values; as an output they are empty.
            Source::Labels => return self.step(Kernel::Fill { value: 0.0 }, vec![], [0, 0], [id; 2]),
            Source::Features | Source::SoftLabels | Source::Scalars | Source::Given | Source::Var(_) => {}
        }
        self.step(Kernel::Copy, vec![value], [value.len, 0], [id; 2])
    }

    /// What an update takes: the result of a step, or values from outside that no update changes.
    fn operand(&mut self, id: NodeId) -> Value {
        let value = self.value(id);
        let fixed = matches!(value.source, Source::Scalars | Source::Given);
        if fixed { value } else { self.result(id) }
    }

    fn step(
        &mut self,
        kernel: Kernel,
        args: Vec<Value>,
        [len, workspace]: [usize; 2],
        [head, node]: [NodeId; 2],
    ) -> Value {
        self.steps.push(Step { kernel, args, len, workspace, node, head });
        Value { source: Source::Step(self.steps.len() - 1), start: 0, len }
    }

    fn node(&mut self, graph: &Graph, id: NodeId, fused: &Fusion, choice: Choice) {
        let node = graph.node(id);
        let len = node.shape.len();
        let given = |source: Source, start: usize| Value { source, start, len };
        let value = match &node.op {
            Op::Features => given(Source::Features, 0),
            Op::Labels => given(Source::Labels, 0),
            Op::SoftLabels => given(Source::SoftLabels, 0),
            Op::Scalar(slot) => given(Source::Scalars, *slot),
            Op::Given { start } => given(Source::Given, *start),
            Op::Read(var) => given(Source::Var(var.index()), 0),
            Op::Reshape(_) => Value { len, ..self.value(node.args[0]) },
            Op::Row { row } => {
                let whole = self.value(node.args[0]);
                Value { source: whole.source, start: whole.start + row * len, len }
            }
            _ if fused.masked[id.index()].is_some() => {
                let masked = fused.masked[id.index()].as_ref().expect("just seen");
                let (kernel, workspace) = masked_kernel(graph, masked);
                let args = masked.args.iter().map(|arg| self.value(*arg)).collect();
                self.step(kernel, args, [len, workspace], [id; 2])
            }
            _ => match self.pooled(graph, id, fused, choice) {
                Some(value) => value,
                None => self.chained(graph, id, fused, choice),
            },
        };
        self.values[id.index()] = Some(value);
    }

    /// A convolution with a pooling behind it, or something that comes back through one.
    fn pooled(&mut self, graph: &Graph, id: NodeId, fused: &Fusion, choice: Choice) -> Option<Value> {
        let node = graph.node(id);
        let len = node.shape.len();
        if let Some(Pooled { conv, bias, chosen }) = fused.pooled[id.index()] {
            let Op::Conv2d(how) = &graph.node(conv).op else {
                unreachable!("a convolution is what it takes in")
            };
            let mut args = graph.node(conv).args.clone();
            let [x, w] = [0, 1].map(|i| graph.shape(args[i]));
            let plan = Forward::new(how, x, w, choice).pooling(chosen, graph.shape(conv).len());
            let workspace = plan.workspace();
            args.extend(bias);
            let args = args.into_iter().map(|arg| self.value(arg)).collect();
            let kernel = Kernel::Conv { plan, bias: bias.is_some(), relu: false };
            let whole = self.step(kernel, args, [len + Chosen::codes(len), workspace], [conv, id]);
            return Some(Value { len, ..whole });
        }
        let through = |id: NodeId| fused.unpooled[id.index()].as_ref();
        let given = match &node.op {
            Op::ReluGrad | Op::MaxPoolGrad(_) => id,
            Op::BiasGrad | Op::Conv2dGradInput { .. } => node.args[0],
            Op::Conv2dGradWeight(_) => node.args[1],
            _ => return None,
        };
        let Unpooled { below, pool, chosen, hidden } = *through(given)?;
        let [dp, p] = [below, pool].map(|id| self.value(id));
        let codes = Value { start: p.len, len: Chosen::codes(p.len), ..p };
        Some(match &node.op {
            Op::ReluGrad | Op::MaxPoolGrad(_) => {
                let first = if node.op == Op::ReluGrad { node.args[1] } else { id };
                self.step(Kernel::Unpool(chosen), vec![dp, codes], [len, 0], [first, id])
            }
            Op::BiasGrad => {
                let workspace = chosen.sums_workspace(dp.len);
                self.step(Kernel::UnpooledBiasGrad(chosen), vec![dp, codes], [len, workspace], [id; 2])
            }
            Op::Conv2dGradWeight(how) if hidden => {
                let [x, dy] = [0, 1].map(|i| graph.shape(node.args[i]));
                let plan = GradWeight::new(how, x, dy, choice).pooling(chosen, dy.len());
                let workspace = plan.workspace();
                let args = vec![self.value(node.args[0]), dp, codes];
                self.step(Kernel::UnpooledGradWeight { plan, chosen }, args, [len, workspace], [id; 2])
            }
            Op::Conv2dGradInput { conv, input } if hidden => {
                let [dy, w] = [0, 1].map(|i| graph.shape(node.args[i]));
                let mut plan = GradInput::new(conv, dy, w, input, choice);
                assert!(plan.unpool(chosen), "a hidden gradient can be made in parts");
                let workspace = plan.workspace();
                let args = vec![dp, codes, self.value(node.args[1])];
                self.step(Kernel::UnpooledGradInput { plan, chosen }, args, [len, workspace], [id; 2])
            }
            _ => return None,
        })
    }

    /// The kernel of a node, or of a chain that ends there.
    fn chained(&mut self, graph: &Graph, id: NodeId, fused: &Fusion, choice: Choice) -> Value {
        let len = graph.node(id).shape.len();
        let head = fused.head[id.index()].unwrap_or(id);
        let mut args = graph.node(head).args.clone();
        let mut bias = false;
        let mut behind = Behind::Nothing;
        for link in chain(graph, head, id) {
            match graph.node(link).op {
                Op::AddBias => {
                    bias = true;
                    args.push(graph.node(link).args[1]);
                }
                Op::Relu => behind = Behind::Relu,
                _ => behind = Behind::Gelu,
            }
        }
        let (kernel, workspace) = kernel(graph, head, (bias, behind), choice);
        let args = args.into_iter().map(|arg| self.value(arg)).collect();
        self.step(kernel, args, [len, workspace], [head, id])
    }
}

/// The kernel of a normalisation's step that takes in what is behind it, and the workspace it takes.
fn masked_kernel(graph: &Graph, masked: &Masked) -> (Kernel, usize) {
    // Gradients have dy before x.
    let x = graph.shape(masked.args[usize::from(masked.kind != Kind::Forward)]);
    let channels = x.last();
    let by = By::new(x, masked.how.group, masked.how.eps);
    match (masked.kind, masked.cover) {
        (Kind::Forward, cover) => {
            let cover = cover.expect("a pooling is what it takes in");
            (Kernel::NormalizePool(cover), channels)
        }
        (Kind::Sums, Some(cover)) => (Kernel::PooledGradSums(cover), cover.sums_workspace(x.len(), channels)),
        (Kind::Sums, None) => {
            let workspace = normalize::native::grad_sums_workspace(by.rows(channels), channels);
            (Kernel::MaskedGradSums { by, behind: masked.behind }, channels + workspace)
        }
        (Kind::Input, Some(cover)) => (Kernel::PooledGradInput(cover), 3 * channels),
        (Kind::Input, None) => (Kernel::MaskedGradInput { by, behind: masked.behind }, 3 * channels),
    }
}

/// The kernel of a node, followed by a bias and an activation if asked for, and the workspace it takes.
fn kernel(graph: &Graph, id: NodeId, (bias, behind): (bool, Behind), choice: Choice) -> (Kernel, usize) {
    let relu = behind == Behind::Relu;
    let isa = choice.isa;
    let node = graph.node(id);
    let shape = |i: usize| graph.shape(node.args[i]);
    let channels = node.shape.last();
    let rows = |i: usize| shape(i).len().checked_div(shape(i).last()).unwrap_or(0);
    match &node.op {
        Op::Conv2d(conv) => {
            let plan = Forward::new(conv, shape(0), shape(1), choice);
            let workspace = plan.workspace();
            (Kernel::Conv { plan, bias, relu }, workspace)
        }
        Op::Linear => {
            if let Some(plan) = Few::new(shape(0), shape(1)) {
                return (Kernel::FewRows { plan, bias, relu }, plan.workspace());
            }
            let plan = linear::native::forward(shape(0), shape(1), isa);
            let workspace = plan.workspace();
            (Kernel::Correlate { plan, bias, relu }, workspace)
        }
        Op::LinearGradInput => {
            let plan = linear::native::grad_input(shape(0), shape(1), isa);
            let workspace = plan.workspace();
            (Kernel::Correlate { plan, bias: false, relu: false }, workspace)
        }
        Op::Conv2dGradInput { conv, input } => {
            let plan = GradInput::new(conv, shape(0), shape(1), input, choice);
            let workspace = plan.workspace();
            (Kernel::ConvGradInput(plan), workspace)
        }
        Op::Conv2dGradWeight(conv) => {
            let plan = GradWeight::new(conv, shape(0), shape(1), choice);
            let workspace = plan.workspace();
            (Kernel::ConvGradWeight(plan), workspace)
        }
        Op::LinearGradWeight => {
            let plan = linear::native::grad_weight(shape(0), shape(1), isa);
            let workspace = plan.workspace();
            (Kernel::GradWeight(plan), workspace)
        }
        Op::AddBias => (Kernel::AddBias { relu }, 0),
        Op::BiasGrad => {
            let channels = shape(0).last();
            (Kernel::BiasGrad, Slices::of(rows(0), channels).workspace(channels))
        }
        Op::BatchStats { group } => {
            let by = By::new(shape(0), *group, 0.0);
            (Kernel::BatchStats(by), normalize::native::batch_stats_workspace(by.rows(channels), channels))
        }
        Op::Normalize(how) => {
            (Kernel::Normalize { by: By::new(shape(0), how.group, how.eps), behind }, channels)
        }
        Op::NormalizeGradSums(how) => {
            let by = By::new(shape(0), how.group, how.eps);
            let workspace = normalize::native::grad_sums_workspace(by.rows(channels), channels);
            (Kernel::NormalizeGradSums(by), workspace)
        }
        Op::NormalizeGradInput(how) => {
            (Kernel::NormalizeGradInput(By::new(shape(0), how.group, how.eps)), 3 * channels)
        }
        Op::NormalizeGradInputFixed { eps } => {
            (Kernel::NormalizeGradInputFixed { eps: *eps as f32 }, channels)
        }
        Op::Relu => (Kernel::Relu, 0),
        Op::ReluGrad => (Kernel::ReluGrad, 0),
        Op::Activate(activation) => (Kernel::Activate(*activation), 0),
        Op::ActivateGrad(activation) => (Kernel::ActivateGrad(*activation), 0),
        Op::Dropout { rate, key } => (Kernel::Dropout { rate: *rate, key: *key }, 0),
        Op::MaxPool(window) => (Kernel::MaxPool(Pooling::new(window, shape(0))), 0),
        Op::MaxPoolGrad(window) => (Kernel::MaxPoolGrad(Pooling::new(window, shape(0))), 0),
        Op::AvgPool(window) => (Kernel::AvgPool(Pooling::new(window, shape(0))), 0),
        Op::AvgPoolGrad { window, input } => (Kernel::AvgPoolGrad(Pooling::new(window, input)), 0),
        Op::GlobalAvgPool => {
            let x = shape(0);
            (Kernel::GlobalAvgPool { positions: x[1] * x[2], channels }, 0)
        }
        Op::GlobalAvgPoolGrad { input } => {
            (Kernel::GlobalAvgPoolGrad { positions: input[1] * input[2], channels }, 0)
        }
        Op::Add => (Kernel::Add, 0),
        Op::Scale(factor) => (Kernel::Scale { factor: *factor as f32 }, 0),
        Op::Mul => (Kernel::Mul, 0),
        Op::ScaleBy => (Kernel::ScaleBy, 0),
        Op::PadChannels { before, .. } => {
            let plan = Channels { from: shape(0).last(), to: channels, first: 0, before: *before };
            (Kernel::ResizeChannels(plan), 0)
        }
        Op::TakeChannels { first, .. } => {
            let plan = Channels { from: shape(0).last(), to: channels, first: *first, before: 0 };
            (Kernel::ResizeChannels(plan), 0)
        }
        Op::CrossEntropy => (Kernel::CrossEntropy, 0),
        Op::CrossEntropyGrad => (Kernel::CrossEntropyGrad, 0),
        Op::SoftCrossEntropy => (Kernel::SoftCrossEntropy, 0),
        Op::SoftCrossEntropyGrad => (Kernel::SoftCrossEntropyGrad, 0),
        Op::Stack => (Kernel::Stack, 0),
        Op::BatchMatmul(transposed) => {
            let plan = Products::new(shape(0), shape(1), *transposed, isa);
            let workspace = plan.workspace();
            (Kernel::Products(plan), workspace)
        }
        Op::UnitRows { eps } => {
            let len = shape(0).len().checked_div(shape(0)[0]).unwrap_or(0);
            (Kernel::UnitRows { len, eps: *eps as f32 }, matrix::native::unit_rows_workspace(len))
        }
        Op::ClipFactor { limit } => (Kernel::ClipFactor { limit: *limit }, 0),
        Op::Correct => (Kernel::Correct, 0),
        Op::Sum => (Kernel::Sum, total_workspace(shape(0).len())),
        Op::Broadcast(_) => (Kernel::Broadcast, 0),
        Op::AllReduce { how, count } => (Kernel::AllReduce { how: *how, count: *count }, 0),
        Op::Fill { value, .. } => (Kernel::Fill { value: *value as f32 }, 0),
        Op::Features | Op::Labels | Op::SoftLabels | Op::Scalar(_) | Op::Read(_) => {
            unreachable!("given values have no kernel")
        }
        Op::Given { .. } => unreachable!("given values have no kernel"),
        Op::Reshape(_) | Op::Row { .. } => {
            unreachable!("these are values of others and have no kernel")
        }
    }
}
