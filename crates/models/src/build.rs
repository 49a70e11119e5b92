//! Layers: what turns names and sizes into variables and operations.

use sooner_base::Shape;
use sooner_engine::{EngineError, Graph, Init, NodeId, Role, Update, Var, Vars, Window};

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
}

impl<'v> Net<'v> {
    /// An empty network over these variables.
    pub fn new(vars: &'v mut Vars, mode: Mode) -> Net<'v> {
        Net { graph: Graph::new(), updates: Vec::new(), vars, mode }
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

    /// Batch normalisation: variables `NAME.gain`, `NAME.bias` `[C]` and `NAME.running` `[2, C]` (mean, variance).
    /// eps 1e-5 and a weight of 0.1 for each new batch, as most published networks have it.
    pub fn batch_norm(&mut self, name: &str, x: NodeId) -> Result<NodeId, EngineError> {
        let shape = self.graph.shape(x).clone();
        let channels = shape.last();
        let gain = self.var(format!("{name}.gain"), [channels], Init::Constant(1.0), Role::Gain)?;
        let bias = self.var(format!("{name}.bias"), [channels], Init::Constant(0.0), Role::Bias)?;
        let running = Var {
            name: format!("{name}.running"),
            shape: [2, channels].into(),
            init: Init::UnitStats,
            role: Role::Running,
        };
        let running = self.vars.declare(running)?;
        let stats = match self.mode {
            Mode::Eval => self.graph.read(self.vars, running),
            Mode::Train => {
                let stats = self.graph.batch_stats(x)?;
                let count = shape.len() / channels;
                self.updates.push(Update::RunningStats {
                    var: running,
                    stats,
                    rate: 0.1,
                    counts: vec![count],
                });
                stats
            }
        };
        self.graph.normalize(x, stats, [gain, bias], 1e-5)
    }

    /// A 3x3 convolution, batch normalisation and ReLU: variables `NAME.conv.*` and `NAME.norm.*`.
    pub fn conv_norm_relu(&mut self, name: &str, x: NodeId, channels: usize) -> Result<NodeId, EngineError> {
        let conv = Conv { channels, window: Window::same(3, 1), init: Init::HeNormal };
        let y = self.conv(&format!("{name}.conv"), x, conv)?;
        let y = self.batch_norm(&format!("{name}.norm"), y)?;
        self.graph.relu(y)
    }
}
