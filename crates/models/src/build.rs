//! Layers: what turns names and sizes into variables and operations.

use sooner_base::{Purpose, Seed, Shape};
use sooner_engine::{
    Activation, EngineError, Graph, Init, NodeId, Normalization, Op, Reduction, Role, Update, Var, Vars,
    Window,
};
use sooner_plan::{ActivationPlan, GainPlan, NormPlan, StatisticsPlan};

/// Whether normalisation uses the batch's own statistics (and keeps running ones) or the running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The batch's own.
    Train,
    /// The running ones.
    Eval,
}

/// A convolution: how many channels come out, over which window, and how its weights start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conv {
    /// Channels of the result.
    pub channels: usize,
    /// The window.
    pub window: Window,
    /// The weights' initial values.
    pub init: Init,
}

/// A network under construction.
#[derive(Debug)]
pub struct Net<'v> {
    /// The operations so far.
    pub graph: Graph,
    /// Changes of running statistics so far; none in evaluation.
    pub updates: Vec<Update>,
    vars: &'v mut Vars,
    mode: Mode,
    seed: Option<Seed>,
    /// Layers so far whose values are random in training.
    random_layers: u64,
    /// Whether the examples are a part of a batch, whose other parts may share statistics with it.
    part: bool,
    /// Sizes of groups that share statistics, and whether any statistics are synchronised.
    sharing: (Vec<usize>, bool),
}

impl<'v> Net<'v> {
    /// An empty network over these variables.
    pub fn new(vars: &'v mut Vars, mode: Mode) -> Net<'v> {
        Net {
            graph: Graph::new(),
            updates: Vec::new(),
            vars,
            mode,
            seed: None,
            random_layers: 0,
            part: false,
            sharing: (Vec::new(), false),
        }
    }

    /// The same for a part of a batch: synchronised statistics are put together with those of the other parts.
    pub fn as_part(self) -> Net<'v> {
        Net { part: true, ..self }
    }

    /// Which statistics are shared so far: sizes of groups, and whether any are synchronised.
    pub(crate) fn sharing(self) -> (Vec<usize>, bool) {
        self.sharing
    }

    /// The same with a seed for what is random in training.
    pub fn seeded(self, seed: Option<Seed>) -> Net<'v> {
        Net { seed, ..self }
    }

    /// Whether something is random and no seed was given.
    pub(crate) fn wants_seed(&self) -> bool {
        self.random_layers > 0 && self.seed.is_none()
    }

    fn var(
        &mut self,
        name: String,
        shape: impl Into<Shape>,
        init: Init,
        role: Role,
    ) -> Result<NodeId, EngineError> {
        let id = self.vars.declare(Var { name, shape: shape.into(), init, role })?;
        Ok(self.graph.read(self.vars, id))
    }

    /// A convolution without bias: variable `NAME.weight` `[KH, KW, C, K]`.
    pub fn conv(&mut self, name: &str, x: NodeId, shape: Conv) -> Result<NodeId, EngineError> {
        let Conv { channels, window, init } = shape;
        let [kh, kw] = window.kernel;
        let shape = [kh, kw, self.graph.shape(x).last(), channels];
        let w = self.var(format!("{name}.weight"), shape, init, Role::Weight)?;
        self.graph.conv2d(x, w, window)
    }

    /// One number a channel, added: variable `NAME.bias` `[C]`, from zero.
    pub fn bias(&mut self, name: &str, x: NodeId) -> Result<NodeId, EngineError> {
        let shape = [self.graph.shape(x).last()];
        let b = self.var(format!("{name}.bias"), shape, Init::Constant(0.0), Role::Bias)?;
        self.graph.add_bias(x, b)
    }

    /// A linear layer without bias: variable `NAME.weight` `[I, O]`. x is flattened to `[N, I]` first.
    pub fn linear(&mut self, name: &str, x: NodeId, units: usize, init: Init) -> Result<NodeId, EngineError> {
        let shape = self.graph.shape(x).clone();
        let inputs = shape.dims()[1..].iter().product::<usize>();
        let flat = if shape.rank() == 2 { x } else { self.graph.reshape(x, [shape[0], inputs])? };
        let w = self.var(format!("{name}.weight"), [inputs, units], init, Role::Weight)?;
        self.graph.linear(flat, w)
    }

    /// Batch normalisation as most published networks have it: variables `NAME.gain`, `NAME.bias` `[C]` and
    /// `NAME.running` `[2, C]` (mean, variance); eps 1e-5 and a weight of 0.1 for each new batch.
    pub fn batch_norm(&mut self, name: &str, x: NodeId) -> Result<NodeId, EngineError> {
        self.norm(name, x, &NormPlan::default())
    }

    /// Batch normalisation as a plan has it. A fixed gain is no variable.
    pub fn norm(&mut self, name: &str, x: NodeId, how: &NormPlan) -> Result<NodeId, EngineError> {
        let channels = self.graph.shape(x).last();
        let gain = match how.gain {
            GainPlan::One => self.gain(name, channels, Init::Constant(1.0))?,
            GainPlan::Uniform => self.gain(name, channels, Init::Uniform { low: 0.0, high: 1.0 })?,
            GainPlan::Fixed(value) => self.graph.push(Op::Fill { shape: [channels].into(), value }, &[])?,
        };
        let bias = self.var(format!("{name}.bias"), [channels], Init::Constant(0.0), Role::Bias)?;
        let running = Var {
            name: format!("{name}.running"),
            shape: [2, channels].into(),
            init: Init::UnitStats,
            role: Role::Running,
        };
        let running = self.vars.declare(running)?;
        let (stats, group) = match self.mode {
            Mode::Eval => (self.graph.read(self.vars, running), None),
            Mode::Train => {
                let shape = self.graph.shape(x).clone();
                let group = match how.statistics {
                    StatisticsPlan::Local | StatisticsPlan::Synchronised => None,
                    StatisticsPlan::Ghost(examples) => Some(examples),
                };
                self.sharing.0.extend(group);
                let mut stats = self.graph.push(Op::BatchStats { group }, &[x])?;
                if how.statistics == StatisticsPlan::Synchronised && self.part {
                    self.sharing.1 = true;
                    stats = self.graph.all_reduce(stats, Reduction::Moments, shape.len() / channels)?;
                }
                // Elements of one example in each channel, and examples of each group.
                let each = shape.len() / channels / shape[0];
                let size = group.unwrap_or(shape[0]);
                let counts =
                    (0..shape[0]).step_by(size).map(|first| each * size.min(shape[0] - first)).collect();
                self.updates.push(Update::RunningStats { var: running, stats, rate: how.rate, counts });
                (stats, group)
            }
        };
        self.graph.normalize(x, stats, [gain, bias], Normalization { eps: how.eps, group })
    }

    fn gain(&mut self, name: &str, channels: usize, init: Init) -> Result<NodeId, EngineError> {
        self.var(format!("{name}.gain"), [channels], init, Role::Gain)
    }

    /// A nonlinearity.
    pub fn activate(&mut self, x: NodeId, how: ActivationPlan) -> Result<NodeId, EngineError> {
        let activation = match how {
            ActivationPlan::Relu => return self.graph.relu(x),
            ActivationPlan::Gelu => Activation::Gelu,
            ActivationPlan::Silu => Activation::Silu,
            ActivationPlan::Tanh => Activation::Tanh,
            ActivationPlan::Sigmoid => Activation::Sigmoid,
            ActivationPlan::Celu(alpha) => Activation::Celu { alpha },
        };
        self.graph.activate(x, activation)
    }

    /// Dropout at this rate in training, nothing in evaluation. Which elements fall out is a function of the seed, of
    /// how many such layers came before, of the example's origin and of the element's place.
    pub fn dropout(&mut self, x: NodeId, rate: f64) -> Result<NodeId, EngineError> {
        if rate == 0.0 || self.mode == Mode::Eval {
            return Ok(x);
        }
        let key = self.seed.unwrap_or(Seed(0)).key(Purpose::Dropout, self.random_layers);
        self.random_layers += 1;
        self.graph.dropout(x, rate, key)
    }

    /// Filters that are worked out from the data before training and never change: variable `NAME.weight`
    /// `[KH, KW, C, K]`, random until then.
    pub fn fixed_conv(
        &mut self,
        name: &str,
        x: NodeId,
        filters: usize,
        window: Window,
    ) -> Result<NodeId, EngineError> {
        let [kh, kw] = window.kernel;
        let shape = [kh, kw, self.graph.shape(x).last(), filters];
        let w = self.var(format!("{name}.weight"), shape, Init::TorchUniform, Role::Fixed)?;
        self.graph.conv2d(x, w, window)
    }

    /// The largest value of every channel over the whole image: `[N, H, W, C]` -> `[N, C]`.
    pub fn global_max_pool(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        let shape = self.graph.shape(x).clone();
        let whole = Window { kernel: [shape[1], shape[2]], ..Window::valid(1, 1) };
        let y = self.graph.max_pool(x, whole)?;
        self.graph.reshape(y, [shape[0], shape[3]])
    }

    /// A 3x3 convolution, batch normalisation and ReLU: variables `NAME.conv.*` and `NAME.norm.*`.
    pub fn conv_norm_relu(&mut self, name: &str, x: NodeId, channels: usize) -> Result<NodeId, EngineError> {
        let conv = Conv { channels, window: Window::same(3, 1), init: Init::HeNormal };
        let y = self.conv(&format!("{name}.conv"), x, conv)?;
        let y = self.batch_norm(&format!("{name}.norm"), y)?;
        self.graph.relu(y)
    }
}
