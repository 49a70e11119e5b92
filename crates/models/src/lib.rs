//! Model families as graphs, and published workloads as plans.
//!
//! A [`Model`] is a family with its sizes, for one input shape and number of classes. It gives the two programs a run
//! needs, for any batch size: the update and the evaluation; both work on the same variables.

mod body;
mod build;
mod families;
mod workloads;

pub use build::{Conv, Mode, Net};
pub use workloads::{DEFAULT_WORKLOAD, Workload, workload, workloads};

use body::Body;
use sooner_base::{Seed, Shape};
use sooner_engine::{
    EngineError, Group, NodeId, Op, OptimizerSpec, Program, Role, Rule, Vars, add_optimizer,
};
use sooner_plan::{GroupMatch, ModelPlan, OptimizerKind, OptimizerPlan, Plan, Whitening};

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
    /// The program could not be built.
    #[error(transparent)]
    Engine(#[from] EngineError),
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
        let mut model = Model { body, input, classes, vars: Vars::new(), seed: None, soft_labels: false };
        let mut net = Net::new(&mut model.vars, Mode::Train);
        let x = net.graph.features([1, input[0], input[1], input[2]]);
        let logits = model.body.forward(&mut net, x, classes).map_err(|source| ModelError::Input {
            model: model.body.name().to_string(),
            input: input.into(),
            source,
        })?;
        let (expected, found) = (Shape::from([1, classes]), net.graph.shape(logits).clone());
        if found == expected {
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
        let [h, w, c] = self.input;
        let mut net = Net::new(&mut self.vars, Mode::Train).seeded(self.seed);
        let x = net.graph.features([batch, h, w, c]);
        let labels = net.graph.labels(batch);
        let logits = self.body.forward(&mut net, x, self.classes)?;
        if net.wants_seed() {
            return Err(ModelError::Unseeded { model: self.body.name().to_string() });
        }
        let smoothing = net.graph.scalar(LABEL_SMOOTHING);
        let losses = if self.soft_labels {
            let soft = net.graph.soft_labels(batch, self.classes);
            net.graph.soft_cross_entropy(logits, soft, smoothing)?
        } else {
            net.graph.cross_entropy(logits, labels, smoothing)?
        };
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
        .map(|g| Group {
            rate_scale: g.rate_scale,
            decay_scale: g.decay_scale,
            ..Group::of(&[role(g.parameters)], "")
        })
        .collect();
    OptimizerSpec { groups, ..OptimizerSpec::new(rule) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(plan: ModelPlan, input: [usize; 3]) -> Model {
        Model::new(&plan, input, 10).expect("a valid model")
    }

    #[test]
    fn published_counts() {
        // Parameters and forward multiply-adds of one example (FACTS C2 for ResNet-9, the rest by hand).
        let resnet9 = ModelPlan::Resnet9 { channels: [64, 128, 256, 512], logit_scale: 0.125 };
        let m = model(resnet9, [32, 32, 3]);
        let flops = m.flops_per_example().unwrap();
        assert_eq!((flops / 6 + 500_000) / 1_000_000, 379, "forward MMAC");
        assert_eq!((flops as f64 / 1e7).round() / 100.0, 2.28, "GFLOP an example and update");
        assert_eq!((m.vars().parameter_count() as f64 / 1e4).round() / 100.0, 6.57);

        let m = model(ModelPlan::Resnet8 { channels: [16, 32, 64] }, [32, 32, 3]);
        let convs = 1024 * (27 * 16 + 2 * 144 * 16) + 256 * (144 + 288) * 32 + 64 * (288 + 576) * 64;
        assert_eq!(m.flops_per_example().unwrap(), 6 * (convs + 640) as u64);
        let weights = 27 * 16 + 2 * 144 * 16 + (144 + 288) * 32 + (288 + 576) * 64 + 640;
        assert_eq!(m.vars().parameter_count(), weights + 3 * 16 + 2 * 32 + 2 * 64 + 10);

        for (channels, parameters) in [([32, 64], 62_346), ([16, 32], 18_378), ([64, 128], 227_082)] {
            let m = model(ModelPlan::SimpleCnn { channels }, [28, 28, 1]);
            assert_eq!(m.vars().parameter_count(), parameters);
        }
        let m = model(ModelPlan::FullyConnected { hidden: vec![1024] }, [28, 28, 1]);
        assert_eq!(m.vars().parameter_count(), 784 * 1024 + 1024 + 1024 * 10 + 10);
        assert_eq!(model(ModelPlan::Softmax {}, [32, 32, 3]).vars().parameter_count(), 30_730);
    }

    #[test]
    fn programs_share_variables() {
        let plan = workload("cifar10-resnet9").map(|w| sooner_plan::Plan::parse(w.toml).unwrap()).unwrap();
        let mut m = Model::new(&plan.model, [32, 32, 3], 10).unwrap();
        let weights = m.vars().clone();
        let update = m.update_program(4, &plan.optimizer).unwrap();
        let last = m.update_program(3, &plan.optimizer).unwrap();
        let eval = m.eval_program(7).unwrap();
        assert_eq!(update.vars, last.vars);
        assert_eq!(eval.vars, update.vars);
        // The model's own variables come first, the optimiser's after them.
        assert_eq!(&update.vars.all()[..weights.all().len()], weights.all());
        assert!(update.vars.all()[weights.all().len()..].iter().all(|v| v.role == Role::Slot));
    }

    #[test]
    fn a_model_that_does_not_fit_its_input_says_so() {
        let error = Model::new(&ModelPlan::SimpleCnn { channels: [32, 64] }, [8, 8, 1], 10).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("simple-cnn") && text.contains("[8, 8, 1]"), "{text}");
    }

    #[test]
    fn every_workload_parses_and_builds() {
        for w in workloads() {
            let plan = sooner_plan::Plan::parse(w.toml).unwrap_or_else(|e| panic!("{}: {e}", w.name));
            assert_eq!(plan.name, w.name);
            let kind = plan.data.kind;
            Model::new(&plan.model, kind.image(), kind.classes()).unwrap();
        }
        assert_eq!(workloads()[0].name, DEFAULT_WORKLOAD);
    }
}
