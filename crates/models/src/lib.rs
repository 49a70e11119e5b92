//! Model families as graphs, and published workloads as plans.
//!
//! A [`Model`] is a family with its sizes, for one input shape and number of classes. It gives the two programs a run
//! needs, for any batch size: the update and the evaluation; both work on the same variables.

mod body;
mod build;
mod families;
mod initial;
mod optimizer;
mod parts;
mod workloads;

pub use build::{Conv, Mode, Net};
pub use initial::start_as;
pub use optimizer::optimizer_spec;
pub use parts::{EXAMPLE_WEIGHT, Leaf, PartProgram};
pub use workloads::{DEFAULT_WORKLOAD, Workload, workload, workloads};

use body::Body;
use sooner_base::{Seed, Shape};
use sooner_engine::{EngineError, NodeId, Op, Program, Vars, add_optimizer};
use sooner_plan::{ModelPlan, OptimizerPlan, Plan, Whitening};

/// Names of the scalars that an update program is fed, besides those of the optimiser.
pub const LABEL_SMOOTHING: &str = "label_smoothing";

/// What can be wrong with a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Sizes that do not fit the input.
    #[error("model `{model}` cannot take input {input}: {source}")]
    Input {
        /// The family.
        model: String,
        /// One example's shape.
        input: Shape,
        /// What does not fit.
        source: EngineError,
    },
    /// A result that is no logits.
    #[error("model `{model}` gives {found} for one example, expected logits {expected}")]
    Logits {
        /// The model.
        model: String,
        /// One row, as many columns as classes.
        expected: Shape,
        /// What there is.
        found: Shape,
    },
    /// Dropout without a seed.
    #[error("model `{model}` is random in training and has no seed; `Model::trained_by` gives it the plan's")]
    Unseeded {
        /// The model.
        model: String,
    },
    /// A group of the optimiser that names variables which the network does not have.
    #[error("optimizer.groups.{index}: no trained variable of that role begins with `{prefix}`, found {}", names.join(", "))]
    Group {
        /// The group's place in the plan.
        index: usize,
        /// What names were to begin with.
        prefix: String,
        /// The trained variables that there are.
        names: Vec<String>,
    },
    /// A rule of `run.initial` that no variable, or not this one, can start by.
    #[error("run.initial.{index}: {}, found {found}", ModelError::initial_needs(*needs))]
    Initial {
        /// The rule's place in the plan.
        index: usize,
        /// The dimensions that its kind needs; 0 where no variable's name begins like its prefix.
        needs: usize,
        /// What there is instead.
        found: String,
    },
    /// The program could not be built.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ModelError {
    /// What a rule of `run.initial` needs of variables, in words.
    pub fn initial_needs(needs: usize) -> String {
        match needs {
            0 => "a trained variable whose name begins like its prefix".to_string(),
            4 => "variables of 4 dimensions, such as convolutions".to_string(),
            n => format!("variables of {n} dimensions or more"),
        }
    }
}

/// A network for one input shape and number of classes.
#[derive(Debug, Clone)]
pub struct Model {
    body: Body,
    input: [usize; 3],
    classes: usize,
    vars: Vars,
    seed: Option<Seed>,
    soft_labels: bool,
    /// Sizes of the groups of examples that share statistics, where any do.
    groups: Vec<usize>,
    /// Whether any statistics are those of the whole batch, however it is cut.
    synchronised: bool,
}

impl Model {
    /// A network for examples of shape `[H, W, C]`. Fails if the sizes do not fit together.
    pub fn new(plan: &ModelPlan, input: [usize; 3], classes: usize) -> Result<Model, ModelError> {
        Model::of(Body::Family(plan.clone()), input, classes)
    }

    /// A network of one's own: `forward` takes examples `[N, H, W, C]` to logits `[N, classes]`, the same way every time
    /// it is called; variables are told apart by the names it gives them. The plan's model section is not looked at.
    pub fn own(
        name: &str,
        input: [usize; 3],
        classes: usize,
        forward: impl Fn(&mut Net, NodeId) -> Result<NodeId, EngineError> + Send + Sync + 'static,
    ) -> Result<Model, ModelError> {
        Model::of(Body::own(name, forward), input, classes)
    }

    fn of(body: Body, input: [usize; 3], classes: usize) -> Result<Model, ModelError> {
        let mut model = Model {
            body,
            input,
            classes,
            vars: Vars::new(),
            seed: None,
            soft_labels: false,
            groups: Vec::new(),
            synchronised: false,
        };
        let mut net = Net::new(&mut model.vars, Mode::Train).as_part();
        let x = net.graph.features([1, input[0], input[1], input[2]]);
        let logits = model.body.forward(&mut net, x, classes).map_err(|source| ModelError::Input {
            model: model.body.name().to_string(),
            input: input.into(),
            source,
        })?;
        let (expected, found) = (Shape::from([1, classes]), net.graph.shape(logits).clone());
        if found == expected {
            (model.groups, model.synchronised) = net.sharing();
            return Ok(model);
        }
        Err(ModelError::Logits { model: model.body.name().to_string(), expected, found })
    }

    /// The network as this plan trains it: its seed decides what dropout leaves out, and where its stages mix labels
    /// the update takes distributions over classes.
    pub fn trained_by(self, plan: &Plan) -> Model {
        Model { seed: Some(plan.seed), soft_labels: plan.pipeline.mixes_labels(), ..self }
    }

    /// Whether the update takes distributions over classes, as the feed's soft labels, beside class numbers.
    pub fn takes_soft_labels(&self) -> bool {
        self.soft_labels
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// What the fixed filters of the first layer, variable `whiten.weight`, are to be; none if there are none.
    pub fn whitening(&self) -> Option<Whitening> {
        self.body.plan().and_then(ModelPlan::whitening)
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
    /// smoothed loss), `correct` (how many were right; of mixed examples, by their first label).
    pub fn update_program(&mut self, batch: usize, optimizer: &OptimizerPlan) -> Result<Program, ModelError> {
        let (net, [total, correct]) = self.train_graph(batch, false)?;
        let Net { mut graph, mut updates, .. } = net;
        let loss = graph.scale(total, 1.0 / batch as f64)?;
        let spec = optimizer_spec(optimizer, &self.vars)?;
        updates.extend(add_optimizer(&mut self.vars, &mut graph, loss, &spec)?);
        let outputs = vec![("loss".to_string(), loss), ("correct".to_string(), correct)];
        Ok(Program { vars: self.vars.clone(), graph, updates, outputs })
    }

    /// The network in training on so many examples, a whole batch or a part of one; the sum of the losses and the number
    /// of examples that were right.
    fn train_graph(&mut self, examples: usize, part: bool) -> Result<(Net<'_>, [NodeId; 2]), ModelError> {
        let [h, w, c] = self.input;
        let mut net = Net::new(&mut self.vars, Mode::Train).seeded(self.seed);
        if part {
            net = net.as_part();
        }
        let x = net.graph.features([examples, h, w, c]);
        let labels = net.graph.labels(examples);
        let logits = self.body.forward(&mut net, x, self.classes)?;
        if net.wants_seed() {
            return Err(ModelError::Unseeded { model: self.body.name().to_string() });
        }
        let smoothing = net.graph.scalar(LABEL_SMOOTHING);
        let losses = if self.soft_labels {
            let soft = net.graph.soft_labels(examples, self.classes);
            net.graph.soft_cross_entropy(logits, soft, smoothing)?
        } else {
            net.graph.cross_entropy(logits, labels, smoothing)?
        };
        let total = net.graph.sum(losses)?;
        let correct = net.graph.correct(logits, labels)?;
        let correct = net.graph.sum(correct)?;
        Ok((net, [total, correct]))
    }

    /// The evaluation of a batch with running statistics. Outputs: `loss` (sum over the batch, no smoothing),
    /// `correct` (how many were right), `logits` (`[N, K]`).
    pub fn eval_program(&mut self, batch: usize) -> Result<Program, ModelError> {
        let [h, w, c] = self.input;
        let mut net = Net::new(&mut self.vars, Mode::Eval);
        let x = net.graph.features([batch, h, w, c]);
        let labels = net.graph.labels(batch);
        let logits = self.body.forward(&mut net, x, self.classes)?;
        let smoothing = net.graph.push(Op::Fill { shape: Shape::scalar(), value: 0.0 }, &[])?;
        let losses = net.graph.cross_entropy(logits, labels, smoothing)?;
        let loss = net.graph.sum(losses)?;
        let correct = net.graph.correct(logits, labels)?;
        let correct = net.graph.sum(correct)?;
        let outputs = vec![
            ("loss".to_string(), loss),
            ("correct".to_string(), correct),
            ("logits".to_string(), logits),
        ];
        let graph = net.graph;
        Ok(Program { vars: self.vars.clone(), graph, updates: Vec::new(), outputs })
    }
}

#[cfg(test)]
mod tests;
