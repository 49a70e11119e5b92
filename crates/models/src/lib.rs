//! Model families as graphs, and published workloads as plans.
//!
//! A [`Model`] is a family with its sizes, for one input shape and number of classes. It gives the two programs a run
//! needs, for any batch size: the update and the evaluation; both work on the same variables.

mod build;
mod families;
mod workloads;

pub use build::{Mode, Net};
pub use workloads::{DEFAULT_WORKLOAD, Workload, workload, workloads};

use sooner_base::Shape;
use sooner_engine::{EngineError, GroupScales, OptimizerSpec, Program, Role, Rule, Vars, add_optimizer};
use sooner_plan::{GroupMatch, ModelPlan, OptimizerKind, OptimizerPlan};

/// Names of the scalars that an update program is fed, besides those of the optimiser.
pub const LABEL_SMOOTHING: &str = "label_smoothing";

/// What can be wrong with a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Sizes that do not fit the input.
    #[error("model `{model}` cannot take input {input}: {source}")]
    Input {
        /// The family.
        model: &'static str,
        /// One example's shape.
        input: Shape,
        /// What does not fit.
        source: EngineError,
    },
    /// The program could not be built.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A network for one input shape and number of classes.
#[derive(Debug, Clone)]
pub struct Model {
    plan: ModelPlan,
    input: [usize; 3],
    classes: usize,
    vars: Vars,
}

impl Model {
    /// A network for examples of shape `[H, W, C]`. Fails if the sizes do not fit together.
    pub fn new(plan: &ModelPlan, input: [usize; 3], classes: usize) -> Result<Model, ModelError> {
        let mut model = Model { plan: plan.clone(), input, classes, vars: Vars::new() };
        let mut net = Net::new(&mut model.vars, Mode::Train);
        let x = net.graph.features([1, input[0], input[1], input[2]]);
        families::forward(&model.plan, &mut net, x, classes).map_err(|source| ModelError::Input {
            model: families::name(plan),
            input: input.into(),
            source,
        })?;
        Ok(model)
    }

    /// The model's variables: parameters and running statistics, in the order of the layers. Building an update
    /// program adds the optimiser's.
    pub fn vars(&self) -> &Vars {
        &self.vars
    }

    /// FLOPs of one example's update: 2 for a multiply-add, three forward passes, convolution and linear only.
    pub fn flops_per_example(&self) -> Result<u64, ModelError> {
        let mut model = self.clone();
        Ok(3 * 2 * model.eval_program(1)?.graph.forward_macs())
    }

    /// One update on a batch: forward, backward, and the optimiser. Outputs: `loss` (mean over the batch of the
    /// smoothed loss), `correct` (how many were right).
    pub fn update_program(&mut self, batch: usize, optimizer: &OptimizerPlan) -> Result<Program, ModelError> {
        let [h, w, c] = self.input;
        let mut net = Net::new(&mut self.vars, Mode::Train);
        let x = net.graph.features([batch, h, w, c]);
        let labels = net.graph.labels(batch);
        let logits = families::forward(&self.plan, &mut net, x, self.classes)?;
        let smoothing = net.graph.scalar(LABEL_SMOOTHING);
        let losses = net.graph.cross_entropy(logits, labels, smoothing)?;
        let total = net.graph.sum(losses)?;
        let loss = net.graph.scale(total, 1.0 / batch as f64)?;
        let correct = net.graph.correct(logits, labels)?;
        let correct = net.graph.sum(correct)?;
        let Net { mut graph, mut updates, .. } = net;
        updates.extend(add_optimizer(&mut self.vars, &mut graph, loss, &optimizer_spec(optimizer))?);
        let outputs = vec![("loss".to_string(), loss), ("correct".to_string(), correct)];
        Ok(Program { vars: self.vars.clone(), graph, updates, outputs })
    }

    /// The evaluation of a batch with running statistics. Outputs: `loss` (sum over the batch, no smoothing),
    /// `correct` (how many were right), `logits` (`[N, K]`).
    pub fn eval_program(&mut self, batch: usize) -> Result<Program, ModelError> {
        let [h, w, c] = self.input;
        let mut net = Net::new(&mut self.vars, Mode::Eval);
        let x = net.graph.features([batch, h, w, c]);
        let labels = net.graph.labels(batch);
        let logits = families::forward(&self.plan, &mut net, x, self.classes)?;
        let smoothing = net.graph.push(sooner_engine::Op::Fill { shape: Shape::scalar(), value: 0.0 }, &[])?;
        let losses = net.graph.cross_entropy(logits, labels, smoothing)?;
        let loss = net.graph.sum(losses)?;
        let correct = net.graph.correct(logits, labels)?;
        let correct = net.graph.sum(correct)?;
        let outputs =
            vec![("loss".to_string(), loss), ("correct".to_string(), correct), ("logits".to_string(), logits)];
        let graph = net.graph;
        Ok(Program { vars: self.vars.clone(), graph, updates: Vec::new(), outputs })
    }
}

fn optimizer_spec(plan: &OptimizerPlan) -> OptimizerSpec {
    let rule = match plan.kind {
        OptimizerKind::Sgd => Rule::Sgd,
        OptimizerKind::HeavyBall => Rule::HeavyBall,
        OptimizerKind::Nesterov => Rule::Nesterov,
    };
    let role = |parameters| match parameters {
        GroupMatch::Weights => Role::Weight,
        GroupMatch::Biases => Role::Bias,
        GroupMatch::Gains => Role::Gain,
    };
    let groups = plan
        .groups
        .iter()
        .map(|g| GroupScales {
            role: role(g.parameters),
            rate_scale: g.rate_scale,
            decay_scale: g.decay_scale,
        })
        .collect();
    OptimizerSpec { rule, groups }
}
