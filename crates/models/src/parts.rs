//! A batch in parts: the program that works out the gradients of one part, and the program that makes an update of what
//! all parts came to.
//!
//! What a part comes to is its *leaf*, one list of numbers: the gradients of all trained variables, each normalisation's
//! statistics, the loss, and how many examples were right. Everything in a leaf is weighted by the part's share of the
//! batch, so that the leaves of all parts simply add up to the leaf of the batch, however it was cut.

use crate::{Model, ModelError, Net, optimizer_spec};
use sooner_engine::{Graph, Program, Real, Update, VarId, add_gradients, add_steps};
use sooner_plan::OptimizerPlan;

/// The name of the scalar that says what one example weighs: one over the examples of the whole batch.
pub const EXAMPLE_WEIGHT: &str = "example_weight";

/// The gradients of a part of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct PartProgram {
    /// Changes nothing. Outputs: the pieces of the leaf, in order.
    pub program: Program,
    /// What the leaf is made of.
    pub leaf: Leaf,
}

/// What the leaves of a model's parts are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    gradients: Vec<(VarId, usize)>,
    statistics: Vec<Statistics>,
}

/// One normalisation's statistics.
#[derive(Debug, Clone, PartialEq)]
struct Statistics {
    running: VarId,
    rate: f64,
    /// Values: mean and variance of each channel.
    len: usize,
    /// Elements of one example in each channel.
    each: usize,
    /// Elements of each group.
    counts: Vec<usize>,
    /// Whether they are already those of the whole batch.
    across: bool,
}

impl Model {
    /// The gradients of a part of so many examples of a batch that is cut into parts. Scalars: those of the loss and
    /// [`EXAMPLE_WEIGHT`]. Where the model's statistics are synchronised, all parts must run at the same time, as lanes.
    pub fn part_program(&mut self, examples: usize) -> Result<PartProgram, ModelError> {
        let (net, [total, correct]) = self.train_graph(examples, true)?;
        let Net { mut graph, updates, .. } = net;
        let weight = graph.scalar(EXAMPLE_WEIGHT);
        let loss = graph.scale_by(total, weight)?;
        let found = add_gradients(&self.vars, &mut graph, loss)?;
        let mut outputs = Vec::new();
        let mut gradients = Vec::new();
        for (var, gradient) in found {
            let known = self.vars.get(var);
            gradients.push((var, known.shape.len()));
            outputs.push((known.name.clone(), gradient));
        }
        let mut statistics = Vec::new();
        for update in updates {
            let Update::RunningStats { var, stats, rate, counts } = update else {
                unreachable!("a network changes nothing but running statistics")
            };
            let known = self.vars.get(var);
            outputs.push((known.name.clone(), stats));
            statistics.push(Statistics {
                running: var,
                rate,
                len: known.shape.len(),
                each: counts.iter().sum::<usize>() / examples,
                across: graph.node(stats).op.is_all_reduce(),
                counts,
            });
        }
        outputs.extend([("loss".to_string(), loss), ("correct".to_string(), correct)]);
        let program = Program { vars: self.vars.clone(), graph, updates: Vec::new(), outputs };
        Ok(PartProgram { program, leaf: Leaf { gradients, statistics } })
    }

    /// What an update makes of the sum of all parts' leaves, of which it is given [`Leaf::given`]: running statistics,
    /// then the optimiser's steps. It has no outputs.
    pub fn apply_program(&mut self, leaf: &Leaf, optimizer: &OptimizerPlan) -> Result<Program, ModelError> {
        let mut graph = Graph::new();
        let mut gradients = Vec::new();
        for (var, _) in &leaf.gradients {
            gradients.push((*var, graph.given(self.vars.get(*var).shape.clone())));
        }
        let mut updates = Vec::new();
        for statistics in &leaf.statistics {
            let new = graph.given(self.vars.get(statistics.running).shape.clone());
            let old = graph.read(&self.vars, statistics.running);
            let old = graph.scale(old, 1.0 - statistics.rate)?;
            let new = graph.scale(new, statistics.rate)?;
            let value = graph.add(old, new)?;
            updates.push(Update::Assign { var: statistics.running, value, active: None });
        }
        let spec = optimizer_spec(optimizer, &self.vars)?;
        updates.extend(add_steps(&mut self.vars, &mut graph, &gradients, &spec)?);
        Ok(Program { vars: self.vars.clone(), graph, updates, outputs: Vec::new() })
    }

    /// The examples that must not be parted: those that share statistics in groups; 1 where any cut will do.
    pub fn group(&self) -> usize {
        self.groups.iter().copied().fold(1, lowest_common_multiple)
    }

    /// Whether all parts of a batch must run at the same time, because they share statistics.
    pub fn is_synchronised(&self) -> bool {
        self.synchronised
    }
}

impl Leaf {
    /// How many values a leaf has.
    pub fn len(&self) -> usize {
        self.given().end + 2
    }

    /// Whether there is nothing in it: never, since every leaf has a loss.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The values that the apply program is given: all but the loss and the count.
    pub fn given(&self) -> std::ops::Range<usize> {
        0..self.gradients().end + self.statistics.iter().map(|s| s.len).sum::<usize>()
    }

    /// The gradients' values.
    pub fn gradients(&self) -> std::ops::Range<usize> {
        0..self.gradients.iter().map(|(_, len)| len).sum()
    }

    /// The loss and the number of examples that were right, of a leaf or a sum of leaves.
    pub fn outcome<T: Real>(&self, values: &[T]) -> [f64; 2] {
        let [.., loss, correct] = values else { unreachable!("leaves end with these two") };
        [loss.to_f64(), correct.to_f64()]
    }

    /// Writes the leaf of a part whose program's outputs are these, of a batch of so many examples.
    pub fn write<'o, T: Real + 'o>(&self, output: impl Fn(usize) -> &'o [T], batch: usize, leaf: &mut [T]) {
        let mut rest = leaf;
        let mut take = |len: usize| {
            let (piece, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            piece
        };
        for (i, (_, len)) in self.gradients.iter().enumerate() {
            take(*len).copy_from_slice(output(i));
        }
        let first = self.gradients.len();
        for (i, statistics) in self.statistics.iter().enumerate() {
            statistics.write(output(first + i), batch, take(statistics.len));
        }
        let first = first + self.statistics.len();
        for i in [first, first + 1] {
            take(1).copy_from_slice(output(i));
        }
    }
}

impl Statistics {
    /// Weighted by examples, the variance unbiased as [`Update::RunningStats`] has it.
    fn write<T: Real>(&self, found: &[T], batch: usize, leaf: &mut [T]) {
        let all = (self.each * batch) as f64;
        leaf.fill(T::ZERO);
        for (group, count) in found.chunks_exact(self.len).zip(&self.counts) {
            let count = *count as f64;
            let over = if self.across { all } else { count };
            let unbias = over / (over - 1.0).max(1.0);
            for (i, (leaf, value)) in leaf.iter_mut().zip(group).enumerate() {
                let factor = if i < self.len / 2 { 1.0 } else { unbias };
                *leaf += T::from_f64(factor * count / all) * *value;
            }
        }
    }
}

fn lowest_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}
