//! Whole networks with optimisers: a fixed small residual one and random ones.

use super::{Builder, Case};
use crate::{
    Averaging, EngineError, Graph, Group, NodeId, Normalization, Op, OptimizerSpec, Role, Rule, Update,
    VarId, Window, add_optimizer, gradients,
};

/// How many random networks tests go through.
pub(crate) const RANDOM_NETWORKS: u64 = 40;

/// Pre-activation residual network with a channel-padding shortcut, as ResNet-8's but smaller: convolutions, biases,
/// ReLU, additions, pooling, linear, cross entropy, heavy ball; one update.
pub(crate) fn residual_network() -> Case {
    let mut b = Builder::new(1000);
    let mut make = || -> Result<Case, EngineError> {
        let x = b.features([3, 6, 6, 3]);
        let x = convolve(&mut b, x, 4, Window::same(3, 1))?;
        let branch = b.graph.relu(x)?;
        let branch = convolve(&mut b, branch, 8, Window::same(3, 2))?;
        let branch = b.graph.relu(branch)?;
        let branch = convolve(&mut b, branch, 8, Window::same(3, 1))?;
        let shortcut = b.graph.avg_pool(x, Window::valid(2, 2))?;
        let shortcut = b.graph.pad_channels(shortcut, 8)?;
        let x = b.graph.add(branch, shortcut)?;
        let x = b.graph.global_avg_pool(x)?;
        finish(std::mem::replace(&mut b, Builder::new(0)), "residual network", x, vec![])
    };
    make().expect("a sound network")
}

/// A random network with a random optimiser, running statistics included; one update.
pub(crate) fn random_network(seed: u64) -> Case {
    random(seed).unwrap_or_else(|error| panic!("random network {seed}: {error}"))
}

fn random(seed: u64) -> Result<Case, EngineError> {
    let mut b = Builder::new(2000 + seed);
    let (n, h, w) = (b.pick(&[1, 2, 3, 5]), b.pick(&[3, 4, 5, 8]), b.pick(&[3, 5, 6]));
    let c = b.pick(&[1, 3, 4, 8]);
    let mut x = b.features([n, h, w, c]);
    let mut updates = vec![];
    for _ in 0..b.pick(&[1, 2, 4, 6]) {
        x = layer(&mut b, x, &mut updates)?;
    }
    let shape = b.graph.shape(x).clone();
    let flat =
        if b.rng.coin() { b.graph.global_avg_pool(x)? } else { b.graph.reshape(x, [n, shape.len() / n])? };
    finish(b, &format!("random network {seed}"), flat, updates)
}

fn layer(b: &mut Builder, x: NodeId, updates: &mut Vec<Update>) -> Result<NodeId, EngineError> {
    let shape = b.graph.shape(x).clone();
    let fits = shape[1] >= 2 && shape[2] >= 2;
    match b.rng.below(8) {
        0 | 1 => {
            let (kernel, stride, filters) = (b.pick(&[1, 3]), b.pick(&[1, 1, 2]), b.pick(&[1, 4, 7, 8]));
            convolve(b, x, filters, Window::same(kernel, stride))
        }
        2 => normalize(b, x, updates),
        3 => b.graph.relu(x),
        4 if fits => b.graph.max_pool(x, Window::valid(2, 2)),
        5 if fits => b.graph.avg_pool(x, Window::valid(2, 1)),
        6 => b.graph.pad_channels(x, shape.last() + 3),
        _ => {
            let branch = b.graph.relu(x)?;
            let branch = convolve(b, branch, shape.last(), Window::same(3, 1))?;
            let branch = normalize(b, branch, updates)?;
            b.graph.add(x, branch)
        }
    }
}

/// A convolution with a bias. Weights are scaled by the fan-in, so that deep random networks stay finite.
fn convolve(b: &mut Builder, x: NodeId, filters: usize, window: Window) -> Result<NodeId, EngineError> {
    let shape = [window.kernel[0], window.kernel[1], b.graph.shape(x).last(), filters];
    let fan_in = (shape[0] * shape[1] * shape[2]) as f64;
    let values = b.normal(shape.iter().product());
    let w = b.variable(Role::Weight, shape, values.iter().map(|v| v / fan_in.sqrt()).collect());
    let y = b.graph.conv2d(x, w, window)?;
    bias(b, y)
}

fn bias(b: &mut Builder, x: NodeId) -> Result<NodeId, EngineError> {
    let channels = b.graph.shape(x).last();
    let values = b.normal(channels);
    let bias = b.variable(Role::Bias, [channels], values);
    b.graph.add_bias(x, bias)
}

/// Batch normalisation in training mode, with running statistics kept beside it.
fn normalize(b: &mut Builder, x: NodeId, updates: &mut Vec<Update>) -> Result<NodeId, EngineError> {
    let shape = b.graph.shape(x).clone();
    let channels = shape.last();
    let [gamma, beta] = [b.normal(channels), b.normal(channels)];
    let gamma = b.variable(Role::Gain, [channels], gamma);
    let beta = b.variable(Role::Bias, [channels], beta);
    let group = b.pick(&[None, None, Some(2)]);
    let stats = b.graph.push(Op::BatchStats { group }, &[x])?;
    b.running_stats(channels);
    let var = b.vars.find(&format!("v{}", b.values.len() - 1)).expect("just declared");
    let rows = shape.len() / channels / shape[0];
    let size = group.unwrap_or(shape[0]);
    let counts = (0..shape[0]).step_by(size).map(|first| rows * size.min(shape[0] - first)).collect();
    updates.push(Update::RunningStats { var, stats, rate: 0.1, counts });
    // A large eps keeps single-row batches, whose variance is 0, from magnifying rounding errors.
    b.graph.normalize(x, stats, [gamma, beta], Normalization { eps: 0.01, group })
}

/// x: `[N, I]` -> logits, mean cross entropy, correct answers, and a random optimiser.
fn finish(mut b: Builder, name: &str, x: NodeId, mut updates: Vec<Update>) -> Result<Case, EngineError> {
    let shape = b.graph.shape(x).clone();
    let classes = b.pick(&[2, 5, 10]);
    let values = b.normal(shape[1] * classes);
    let scale = 1.0 / (shape[1] as f64).sqrt();
    let w = b.variable(Role::Weight, [shape[1], classes], values.iter().map(|v| v * scale).collect());
    let logits = b.graph.linear(x, w)?;
    let logits = bias(&mut b, logits)?;
    let labels = b.labels(shape[0], classes as u32);
    let smoothing = b.graph.scalar("smoothing 0.1");
    let each = b.graph.cross_entropy(logits, labels, smoothing)?;
    let total = b.graph.sum(each)?;
    let loss = b.graph.scale(total, 1.0 / shape[0] as f64)?;
    let correct = b.graph.correct(logits, labels)?;
    let correct = b.graph.sum(correct)?;
    b.outputs = vec![("correct".to_string(), correct), ("logits".to_string(), logits)];
    let forward: Graph = b.graph.clone();
    let rules = [
        Rule::Sgd,
        Rule::HeavyBall,
        Rule::Nesterov,
        Rule::Adam { second_momentum: 0.99, eps: 1e-3 },
        Rule::Lars { trust: 0.1 },
        Rule::Muon { rounds: 3, renormalize: true },
        Rule::Muon { rounds: 2, renormalize: false },
    ];
    let spec = OptimizerSpec {
        groups: vec![Group { rate_scale: 2.0, decay_scale: 0.0, ..Group::of(&[Role::Bias], "") }],
        decoupled: b.pick(&[false, true]),
        clip: b.pick(&[None, Some(0.5), Some(1e3)]),
        averaging: b.pick(&[None, Some(Averaging::Beside), Some(Averaging::Back)]),
        ..OptimizerSpec::new(b.pick(&rules))
    };
    updates.extend(add_optimizer(&mut b.vars, &mut b.graph, loss, &spec)?);
    // Asked for again, since what a step goes along need not be a gradient.
    let trained: Vec<VarId> = b.vars.ids().filter(|id| b.vars.get(*id).role.is_trained()).collect();
    let nodes: Vec<NodeId> = trained.iter().map(|id| b.graph.read(&b.vars, *id)).collect();
    let grads = gradients(&mut b.graph, loss, &nodes)?;
    for (var, grad) in trained.into_iter().zip(grads) {
        b.outputs.push((b.vars.get(var).name.clone(), grad));
    }
    Ok(b.finish(name, loss, forward, updates))
}
