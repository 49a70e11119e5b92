//! What tests of executors share: programs over awkward shapes with their states and feeds, random networks with
//! optimisers, and runs of them by the naive executor.

mod networks;
mod operations;

pub(crate) use networks::{RANDOM_NETWORKS, random_network, residual_network};
pub(crate) use operations::operations;

use crate::naive::Naive;
use crate::{EngineError, Feed, Graph, Init, NodeId, Op, Program, Role, State, Update, Var, Vars, gradients};
use sooner_base::{Origin, Purpose, Rng, Seed, Shape};

/// A program with everything that one run of it needs. Its first output is `loss`, a scalar.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) program: Program,
    /// The same program without gradients and updates.
    pub(crate) forward: Program,
    pub(crate) state: State<f64>,
    pub(crate) features: Vec<f64>,
    pub(crate) labels: Vec<u32>,
    pub(crate) scalars: Vec<f64>,
    pub(crate) soft_labels: Vec<f64>,
    pub(crate) origins: Vec<Origin>,
}

impl Case {
    /// What a run is given.
    pub(crate) fn feed(&self) -> Feed<'_, f64> {
        Feed {
            features: &self.features,
            labels: &self.labels,
            scalars: &self.scalars,
            soft_labels: &self.soft_labels,
            origins: &self.origins,
            ..Feed::default()
        }
    }

    /// Runs the case once from its initial state by the naive executor in f64; returns the executor, which holds every
    /// node's value, and the state after the run.
    pub(crate) fn run_naive(&self) -> (Naive<f64>, State<f64>) {
        let mut state = self.state.clone();
        let mut naive = Naive::new(&self.program);
        naive.run(&mut state, &self.feed()).expect("the case fits its program");
        (naive, state)
    }

    /// The loss of the case in another state.
    pub(crate) fn loss_at(&self, state: &State<f64>) -> f64 {
        let mut feed = self.feed();
        feed.scalars = &self.scalars[..self.forward.graph.scalars().len()];
        let mut naive = Naive::new(&self.forward);
        naive.run(&mut state.clone(), &feed).expect("the case fits its program");
        naive.output(0)[0]
    }
}

/// Builds a case; variables get their values as they are declared.
pub(crate) struct Builder {
    pub(crate) vars: Vars,
    pub(crate) graph: Graph,
    pub(crate) values: Vec<Vec<f64>>,
    pub(crate) features: Vec<f64>,
    pub(crate) labels: Vec<u32>,
    pub(crate) soft_labels: Vec<f64>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) outputs: Vec<(String, NodeId)>,
    pub(crate) rng: Rng,
}

impl Builder {
    /// Nothing yet; `salt` chooses all random values of the case.
    pub(crate) fn new(salt: u64) -> Builder {
        Builder {
            vars: Vars::new(),
            graph: Graph::new(),
            values: vec![],
            features: vec![],
            labels: vec![],
            soft_labels: vec![],
            origins: vec![],
            outputs: vec![],
            rng: Seed(20).key(Purpose::Study, salt).at(0, 0, 0),
        }
    }

    /// Standard normal values.
    pub(crate) fn normal(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.rng.normal()).collect()
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u32) as usize]
    }

    /// A trained variable of standard normal values, read.
    pub(crate) fn weight(&mut self, shape: impl Into<Shape>) -> NodeId {
        let shape = shape.into();
        let values = self.normal(shape.len());
        self.variable(Role::Weight, shape, values)
    }

    /// A variable of these values, read.
    pub(crate) fn variable(&mut self, role: Role, shape: impl Into<Shape>, values: Vec<f64>) -> NodeId {
        let name = format!("v{}", self.values.len());
        let var = Var { name, shape: shape.into(), init: Init::Constant(0.0), role };
        assert_eq!(values.len(), var.shape.len());
        self.values.push(values);
        let id = self.vars.declare(var).expect("names are numbered");
        self.graph.read(&self.vars, id)
    }

    /// Statistics `[2, C]` that a running average could hold, read.
    pub(crate) fn running_stats(&mut self, channels: usize) -> NodeId {
        let mut values = self.normal(2 * channels);
        for variance in &mut values[channels..] {
            *variance = 0.2 + variance.abs();
        }
        self.variable(Role::Running, [2, channels], values)
    }

    /// A batch of standard normal features.
    pub(crate) fn features(&mut self, shape: impl Into<Shape>) -> NodeId {
        let shape = shape.into();
        self.features = self.normal(shape.len());
        self.graph.features(shape)
    }

    /// A batch of random labels.
    pub(crate) fn labels(&mut self, count: usize, classes: u32) -> NodeId {
        self.labels = (0..count).map(|_| self.rng.below(classes)).collect();
        self.graph.labels(count)
    }

    /// A batch of random distributions over classes.
    pub(crate) fn soft_labels(&mut self, count: usize, classes: usize) -> NodeId {
        let raw: Vec<f64> = self.normal(count * classes).iter().map(|v| v.abs()).collect();
        let share = |row: &[f64]| row.iter().map(|v| v / row.iter().sum::<f64>()).collect::<Vec<_>>();
        self.soft_labels = raw.chunks(classes).flat_map(share).collect();
        self.graph.soft_labels(count, classes)
    }

    /// Random origins of so many examples.
    pub(crate) fn origins(&mut self, count: usize) {
        let mut draw = |_| Origin {
            epoch: self.rng.below(9),
            index: u64::from(self.rng.below(50_000)),
            echo: self.rng.below(3),
        };
        self.origins = (0..count).map(&mut draw).collect();
    }

    /// A random linear function of y, so that every element's gradient is another number.
    pub(crate) fn probe(&mut self, y: NodeId) -> Result<NodeId, EngineError> {
        let len = self.graph.shape(y).len();
        let row = self.graph.reshape(y, [1, len])?;
        let values = self.normal(len);
        let probe = self.variable(Role::Running, [len, 1], values);
        let product = self.graph.linear(row, probe)?;
        self.graph.sum(product)
    }

    /// The case whose outputs are the loss, the outputs so far, and the gradient of the loss by each trained variable
    /// under the variable's name.
    pub(crate) fn differentiate(mut self, name: &str, loss: NodeId) -> Result<Case, EngineError> {
        let forward = self.graph.clone();
        let trained: Vec<_> = self.vars.ids().filter(|id| self.vars.get(*id).role.is_trained()).collect();
        let nodes: Vec<NodeId> = trained.iter().map(|id| self.graph.read(&self.vars, *id)).collect();
        let grads = gradients(&mut self.graph, loss, &nodes)?;
        for (var, grad) in trained.into_iter().zip(grads) {
            self.outputs.push((self.vars.get(var).name.clone(), grad));
        }
        Ok(self.finish(name, loss, forward, vec![]))
    }

    /// The case that runs these updates, whose outputs are the loss and the outputs so far. Slots start at 0.
    pub(crate) fn finish(mut self, name: &str, loss: NodeId, forward: Graph, updates: Vec<Update>) -> Case {
        for var in &self.vars.all()[self.values.len()..] {
            self.values.push(vec![0.0; var.shape.len()]);
        }
        self.outputs.insert(0, ("loss".to_string(), loss));
        let scalars = self.graph.scalars().iter().map(|name| scalar_value(name)).collect();
        let program = |graph, updates, outputs| Program { vars: self.vars.clone(), graph, updates, outputs };
        Case {
            name: name.to_string(),
            forward: program(forward, vec![], vec![("loss".to_string(), loss)]),
            program: program(self.graph, updates, self.outputs),
            state: State { values: self.values },
            features: self.features,
            labels: self.labels,
            soft_labels: self.soft_labels,
            origins: self.origins,
            scalars,
        }
    }
}

/// What cases feed under each name; smoothing may say its own value, as in `smoothing 0.2`.
fn scalar_value(name: &str) -> f64 {
    match name.split(' ').collect::<Vec<_>>()[..] {
        ["learning_rate"] => 0.05,
        ["momentum"] => 0.9,
        ["weight_decay"] => 0.01,
        ["update"] => 3.0,
        ["average_decay"] => 0.7,
        ["average_due"] => 1.0,
        ["smoothing", value] => value.parse().expect("a number"),
        _ => panic!("no value for scalar `{name}`"),
    }
}

/// Every operation that appears in some case.
pub(crate) fn names(cases: &[Case]) -> std::collections::BTreeSet<&'static str> {
    cases.iter().flat_map(|case| case.program.graph.nodes()).map(|node| Op::name(&node.op)).collect()
}
