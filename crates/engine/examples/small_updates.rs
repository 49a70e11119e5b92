//! A few updates of small networks on one thread, for tools that count or check instructions: `.ci/instructions` runs it
//! under callgrind and memcheck.
//!
//! usage: small_updates PROGRAM UPDATES [KERNELS]; programs: conv (a 3x3 convolution by the fast algorithm, normalisation,
//! ReLU, pooling), direct (the same by direct sums), window (a 5x5 convolution), pooled (a 3x3 convolution with a pooling at
//! once, behind another), dense (two linear layers)

use sooner_base::Seed;
use sooner_engine::{
    EngineError, Feed, Graph, Init, Kernels, Native, NativeOptions, NodeId, OptimizerSpec, Program, Role,
    Rule, State, Var, Vars, Window, add_optimizer,
};
use std::num::NonZeroUsize;

const BATCH: usize = 8;

struct Net {
    vars: Vars,
    graph: Graph,
}

impl Net {
    fn var(&mut self, name: &str, shape: &[usize], role: Role) -> Result<NodeId, EngineError> {
        let init = if role == Role::Weight { Init::HeNormal } else { Init::Constant(0.5) };
        let shape = sooner_base::Shape::new(shape);
        let id = self.vars.declare(Var { name: name.to_string(), shape, init, role })?;
        Ok(self.graph.read(&self.vars, id))
    }

    fn normalized(&mut self, x: NodeId, channels: usize) -> Result<NodeId, EngineError> {
        let from = self.graph.shape(x).last();
        let w = self.var("weight", &[3, 3, from, channels], Role::Weight)?;
        let (gain, shift) =
            (self.var("gain", &[channels], Role::Gain)?, self.var("shift", &[channels], Role::Bias)?);
        let y = self.graph.conv2d(x, w, Window::same(3, 1))?;
        let stats = self.graph.batch_stats(y)?;
        let y = self.graph.normalize(y, stats, [gain, shift], 1e-5)?;
        let y = self.graph.relu(y)?;
        self.graph.max_pool(y, Window::valid(2, 2))
    }

    fn pooled(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        let from = self.graph.shape(x).last();
        let first = self.var("first", &[2, 2, from, 48], Role::Weight)?;
        let w = self.var("weight", &[3, 3, 48, 52], Role::Weight)?;
        let h = self.graph.conv2d(x, first, Window::valid(2, 1))?;
        // 13 x 13 results, of which windows leave a row and a column over.
        let y = self.graph.conv2d(h, w, Window::same(3, 1))?;
        self.graph.max_pool(y, Window::valid(2, 2))
    }

    fn windowed(&mut self, x: NodeId) -> Result<NodeId, EngineError> {
        let from = self.graph.shape(x).last();
        let w = self.var("weight", &[5, 5, from, 20], Role::Weight)?;
        let b = self.var("bias", &[20], Role::Bias)?;
        let y = self.graph.conv2d(x, w, Window::valid(5, 1))?;
        let y = self.graph.add_bias(y, b)?;
        let y = self.graph.relu(y)?;
        self.graph.max_pool(y, Window::valid(2, 2))
    }
}

fn program(name: &str) -> Result<Program, EngineError> {
    let mut net = Net { vars: Vars::new(), graph: Graph::new() };
    let x = net.graph.features([BATCH, 14, 14, 64]);
    let labels = net.graph.labels(BATCH);
    let h = match name {
        "conv" | "direct" => net.normalized(x, 64)?,
        "window" => net.windowed(x)?,
        "pooled" => net.pooled(x)?,
        _ => x,
    };
    let len = net.graph.shape(h).len() / BATCH;
    let mut h = net.graph.reshape(h, [BATCH, len])?;
    if name == "dense" {
        let w = net.var("hidden", &[len, 40], Role::Weight)?;
        h = net.graph.linear(h, w)?;
        h = net.graph.relu(h)?;
    }
    let w = net.var("head", &[net.graph.shape(h).last(), 10], Role::Weight)?;
    let logits = net.graph.linear(h, w)?;
    let smoothing = net.graph.scalar("label_smoothing");
    let losses = net.graph.cross_entropy(logits, labels, smoothing)?;
    let loss = net.graph.sum(losses)?;
    let Net { mut vars, mut graph } = net;
    let updates = add_optimizer(&mut vars, &mut graph, loss, &OptimizerSpec::new(Rule::Nesterov))?;
    Ok(Program { vars, graph, updates, outputs: vec![("loss".into(), loss)] })
}

fn main() -> Result<(), EngineError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("conv", String::as_str);
    let updates: usize = words.get(1).map_or(1, |word| word.parse().expect("a number of updates"));
    let kernels = words.get(2).map_or(Kernels::Auto, |word| Kernels::named(word).expect("kernels"));
    let kernels = if name == "direct" { kernels.exact() } else { kernels };
    let program = program(name)?;
    let mut native = Native::compile(&program, &NativeOptions { threads: NonZeroUsize::MIN, kernels })?;
    let mut state = State::init(&program.vars, Seed(1));
    let features: Vec<f32> = (0..BATCH * 14 * 14 * 64).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect();
    let labels: Vec<u32> = (0..BATCH as u32).collect();
    let scalars = vec![0.01; program.graph.scalars().len()];
    let feed = Feed { features: &features, labels: &labels, scalars: &scalars, ..Feed::default() };
    for _ in 0..updates {
        native.run(&mut state, &feed)?;
    }
    println!("{name} {} {}", native.kernels(), native.output(0)[0]);
    Ok(())
}
