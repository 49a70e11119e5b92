//! The slow reference executor: every operation is the plain loop that its formula says, in f32 or f64. Tests compare
//! faster executors with it and its gradients with finite differences; nothing is ever trained with it.

use crate::graph::{Dtype, Node};
use crate::ops::{activation, conv2d, dropout, elementwise, linear, loss, matrix, normalize, pool};
use crate::program::{Feed, Program, State};
use crate::real::Real;
use crate::update::{Step, StepRule, Update};
use crate::{EngineError, NodeId, Op};
use sooner_base::Shape;

/// A dense row-major operand of a naive loop.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a, T> {
    pub(crate) shape: &'a Shape,
    pub(crate) data: &'a [T],
}

/// Runs one program by plain loops.
#[derive(Debug, Clone)]
pub struct Naive<T> {
    program: Program,
    values: Vec<Vec<T>>,
}

impl<T: Real> Naive<T> {
    /// An executor of this program. Before the first run all values are empty.
    pub fn new(program: &Program) -> Naive<T> {
        Naive { program: program.clone(), values: vec![Vec::new(); program.graph.nodes().len()] }
    }

    /// Computes every node, then changes the state by the program's updates in order. Fails before any change if the
    /// feed or the state does not fit the program, or a label is not a class.
    pub fn run(&mut self, state: &mut State<T>, feed: &Feed<T>) -> Result<(), EngineError> {
        self.compute(state, feed)?;
        for update in &self.program.updates {
            self.apply(update, state);
        }
        Ok(())
    }

    /// Computes every node and changes nothing: [`Naive::run`] without the updates. Fails like it.
    pub fn compute(&mut self, state: &State<T>, feed: &Feed<T>) -> Result<(), EngineError> {
        check(&self.program, state, feed)?;
        for (i, node) in self.program.graph.nodes().iter().enumerate() {
            self.values[i] = self.node(node, state, feed);
        }
        check_lane(feed)
    }

    /// The program that is run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The values of the program's output number `index` in the last run.
    pub fn output(&self, index: usize) -> &[T] {
        self.value(self.program.outputs[index].1)
    }

    /// The values of any node in the last run. Those of the labels are always empty.
    pub fn value(&self, node: NodeId) -> &[T] {
        &self.values[node.index()]
    }

    fn node(&self, node: &Node, state: &State<T>, feed: &Feed<T>) -> Vec<T> {
        let arg = |i: usize| self.tensor(node.args[i]);
        let number = |i: usize| self.values[node.args[i].index()][0];
        match &node.op {
            Op::Features => feed.features.to_vec(),
            Op::Labels => Vec::new(),
            Op::SoftLabels => feed.soft_labels.to_vec(),
            Op::Scalar(slot) => vec![feed.scalars[*slot]],
            Op::Given { start } => feed.given[*start..*start + node.shape.len()].to_vec(),
            Op::Read(var) => state.values[var.index()].clone(),
            Op::Fill { shape, value } => vec![T::from_f64(*value); shape.len()],
            Op::Conv2d(conv) => conv2d::naive::forward(arg(0), arg(1), conv, &node.shape),
            Op::Conv2dGradInput { conv, input } => conv2d::naive::grad_input(arg(0), arg(1), conv, input),
            Op::Conv2dGradWeight(conv) => conv2d::naive::grad_weight(arg(0), arg(1), conv, &node.shape),
            Op::Linear => linear::naive::forward(arg(0), arg(1)),
            Op::LinearGradInput => linear::naive::grad_input(arg(0), arg(1)),
            Op::LinearGradWeight => linear::naive::grad_weight(arg(0), arg(1)),
            Op::AddBias => linear::naive::add_bias(arg(0), arg(1)),
            Op::BiasGrad => linear::naive::bias_grad(arg(0)),
            Op::BatchStats { group } => normalize::naive::batch_stats(arg(0), *group),
            Op::Normalize(how) => normalize::naive::normalize([0, 1, 2, 3].map(arg), how),
            Op::NormalizeGradSums(how) => normalize::naive::grad_sums([0, 1, 2].map(arg), how),
            Op::NormalizeGradInput(how) => normalize::naive::grad_input([0, 1, 2, 3, 4].map(arg), how),
            Op::NormalizeGradInputFixed { eps } => {
                normalize::naive::grad_input_fixed(arg(0), arg(1), arg(2), *eps)
            }
            Op::Row { row } => normalize::naive::row(arg(0), *row),
            Op::Relu => activation::naive::relu(arg(0)),
            Op::ReluGrad => activation::naive::relu_grad(arg(0), arg(1)),
            Op::Activate(activation) => activation::naive::activate(arg(0), *activation),
            Op::ActivateGrad(activation) => activation::naive::activate_grad(arg(0), arg(1), *activation),
            Op::Dropout { rate, key } => dropout::naive::dropout(arg(0), *rate, *key, feed.origins),
            Op::MaxPool(window) => pool::naive::max(arg(0), window, &node.shape),
            Op::MaxPoolGrad(window) => pool::naive::max_grad(arg(0), arg(1), window),
            Op::AvgPool(window) => pool::naive::avg(arg(0), window, &node.shape),
            Op::AvgPoolGrad { window, input } => pool::naive::avg_grad(arg(0), window, input),
            Op::GlobalAvgPool => pool::naive::global_avg(arg(0)),
            Op::GlobalAvgPoolGrad { input } => pool::naive::global_avg_grad(arg(0), input),
            Op::Add => elementwise::naive::add(arg(0), arg(1)),
            Op::Scale(factor) => elementwise::naive::scale(arg(0), T::from_f64(*factor)),
            Op::Mul => elementwise::naive::mul(arg(0), arg(1)),
            Op::ScaleBy => elementwise::naive::scale(arg(0), number(1)),
            Op::Stack => node.args.iter().flat_map(|id| self.value(*id).to_vec()).collect(),
            Op::BatchMatmul(transposed) => matrix::naive::product(arg(0), arg(1), *transposed, &node.shape),
            Op::UnitRows { eps } => matrix::naive::unit_rows(arg(0), *eps),
            Op::ClipFactor { limit } => vec![matrix::naive::clip_factor(number(0), *limit)],
            Op::Reshape(_) => arg(0).data.to_vec(),
            Op::PadChannels { before, channels } => {
                elementwise::naive::pad_channels(arg(0), *before, *channels)
            }
            Op::TakeChannels { first, channels } => {
                elementwise::naive::take_channels(arg(0), *first, *channels)
            }
            Op::CrossEntropy => loss::naive::cross_entropy(arg(0), feed.labels, number(2)),
            Op::CrossEntropyGrad => loss::naive::cross_entropy_grad(arg(0), feed.labels, number(2), arg(3)),
            Op::SoftCrossEntropy => loss::naive::soft_cross_entropy(arg(0), arg(1), number(2)),
            Op::SoftCrossEntropyGrad => {
                loss::naive::soft_cross_entropy_grad(arg(0), arg(1), number(2), arg(3))
            }
            Op::Correct => loss::naive::correct(arg(0), feed.labels),
            Op::Sum => elementwise::naive::sum(arg(0)),
            Op::Broadcast(shape) => vec![number(0); shape.len()],
            Op::AllReduce { how, count } => {
                let mut out = arg(0).data.to_vec();
                if let Some(lane) = feed.lane {
                    lane.reduce(*how, *count, arg(0).data, &mut out);
                }
                out
            }
        }
    }

    fn tensor(&self, id: NodeId) -> Tensor<'_, T> {
        Tensor { shape: self.program.graph.shape(id), data: self.value(id) }
    }

    fn apply(&self, update: &Update, state: &mut State<T>) {
        match update {
            Update::Step(step) => self.step(step, state),
            Update::RunningStats { var, stats, rate, counts } => {
                let running = &mut state.values[var.index()];
                let (len, channels) = (running.len(), running.len() / 2);
                let rate = T::from_f64(*rate);
                let total: usize = counts.iter().sum();
                for (i, running) in running.iter_mut().enumerate() {
                    let mut batch = T::ZERO;
                    for (group, &count) in self.value(*stats).chunks_exact(len).zip(counts) {
                        let count = count as f64;
                        let unbias = if i < channels { 1.0 } else { count / (count - 1.0).max(1.0) };
                        batch += T::from_f64(unbias * count / total as f64) * group[i];
                    }
                    *running = (T::ONE - rate) * *running + rate * batch;
                }
            }
            Update::Assign { var, value, active } => {
                if active.is_none_or(|id| self.value(id)[0] != T::ZERO) {
                    state.values[var.index()] = self.value(*value).to_vec();
                }
            }
            Update::Average(average) => {
                if self.value(average.due)[0] == T::ZERO {
                    return;
                }
                let decay = self.value(average.decay)[0];
                for i in 0..state.values[average.var.index()].len() {
                    let theta = state.values[average.of.index()][i];
                    let mean = decay * state.values[average.var.index()][i] + (T::ONE - decay) * theta;
                    state.values[average.var.index()][i] = mean;
                    if average.copy_back {
                        state.values[average.of.index()][i] = mean;
                    }
                }
            }
        }
    }

    /// The formulas of [`StepRule`], one element after the other.
    fn step(&self, step: &Step, state: &mut State<T>) {
        let Some(numbers) = step.numbers(|id| self.value(id)[0].to_f64()) else { return };
        let [keep, rate, scale, decay, momentum] =
            [numbers.keep, numbers.rate, numbers.scale, numbers.decay, numbers.momentum].map(T::from_f64);
        for (i, &grad) in self.value(step.grad).iter().enumerate() {
            let theta = state.values[step.param.index()][i];
            let g = scale * grad + decay * theta;
            let d = match &step.rule {
                StepRule::Descent { velocity: None, .. } | StepRule::Along { .. } => g,
                StepRule::Descent { velocity: Some(velocity), nesterov, .. }
                | StepRule::Lars { velocity, nesterov, .. } => {
                    let v = &mut state.values[velocity.index()][i];
                    *v = momentum * *v + g;
                    if *nesterov { g + momentum * *v } else { *v }
                }
                StepRule::Adam { moments: [first, second], .. } => {
                    let m = &mut state.values[first.index()][i];
                    *m = momentum * *m + (T::ONE - momentum) * g;
                    let m = *m;
                    let s = &mut state.values[second.index()][i];
                    let [kept, correction] = numbers.second.map(T::from_f64);
                    *s = kept * *s + (T::ONE - kept) * g * g;
                    m / ((*s * correction).sqrt() + T::from_f64(numbers.eps))
                }
            };
            state.values[step.param.index()][i] = keep * theta - rate * d;
        }
    }
}

/// Whether a state and a feed fit a program.
pub(crate) fn check<T: Real>(program: &Program, state: &State<T>, feed: &Feed<T>) -> Result<(), EngineError> {
    let size = |what: &str, expected: usize, found: usize| {
        if expected == found {
            return Ok(());
        }
        Err(EngineError::Size { what: what.to_string(), expected, found })
    };
    size("variables", program.vars.all().len(), state.values.len())?;
    for (var, value) in program.vars.all().iter().zip(&state.values) {
        size(&var.name, var.shape.len(), value.len())?;
    }
    size("scalars", program.graph.scalars().len(), feed.scalars.len())?;
    size("given tensors", program.graph.given_len(), feed.given.len())?;
    for node in program.graph.nodes() {
        match node.op {
            Op::Features => size("features", node.shape.len(), feed.features.len())?,
            Op::Labels => size("labels", node.shape.len(), feed.labels.len())?,
            Op::SoftLabels => size("soft labels", node.shape.len(), feed.soft_labels.len())?,
            Op::Dropout { .. } => size("origins", node.shape[0], feed.origins.len())?,
            _ => {}
        }
        let labelled = node.args.iter().any(|id| program.graph.node(*id).dtype == Dtype::Index);
        if labelled {
            let classes = program.graph.shape(node.args[0])[1];
            let wrong = feed.labels.iter().position(|&label| label as usize >= classes);
            if let Some(example) = wrong {
                return Err(EngineError::Label { example, label: feed.labels[example], classes });
            }
        }
    }
    Ok(())
}

/// Whether the lanes that a program met were all there.
pub(crate) fn check_lane<T>(feed: &Feed<T>) -> Result<(), EngineError> {
    if feed.lane.is_some_and(|lane| lane.is_broken()) { Err(EngineError::LaneLeft) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
