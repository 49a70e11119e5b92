use super::*;
use crate::naive::Naive;
use crate::{Feed, Program, State};

const ROWS: [[f64; 2]; 4] = [[1.0, -2.0], [0.5, 1.5], [-1.0, 0.25], [2.0, 1.0]];
const LABELS: [u32; 4] = [0, 2, 1, 2];
const START: [f64; 9] = [0.1, -0.2, 0.3, 0.0, 0.4, -0.1, 0.05, -0.05, 0.0];
const DECAY: f64 = 0.01;

fn rate(update: usize) -> f64 {
    0.5 * (1.0 - 0.04 * update as f64)
}

/// Softmax regression on four examples: the loss, and its gradient by weights `[2, 3]` and biases `[3]` in one list.
/// Written from the formula of the gradient, apart from everything in the crate.
fn by_hand(p: &[f64]) -> (f64, Vec<f64>) {
    let (mut loss, mut grad) = (0.0, vec![0.0; 9]);
    for (x, label) in ROWS.iter().zip(LABELS) {
        let exp: Vec<f64> = (0..3).map(|k| (x[0] * p[k] + x[1] * p[3 + k] + p[6 + k]).exp()).collect();
        let total: f64 = exp.iter().sum();
        loss -= (exp[label as usize] / total).ln() / 4.0;
        for k in 0..3 {
            let d = (exp[k] / total - if k == label as usize { 1.0 } else { 0.0 }) / 4.0;
            grad[k] += x[0] * d;
            grad[3 + k] += x[1] * d;
            grad[6 + k] += d;
        }
    }
    (loss, grad)
}

/// Twenty updates as PyTorch's documentation of its SGD defines them (dampening 0): the first velocity is the first
/// gradient. Returns the last loss before an update and the parameters.
fn torch(momentum: f64, nesterov: bool) -> (f64, Vec<f64>) {
    let (mut p, mut buffer, mut last) = (START.to_vec(), None::<Vec<f64>>, 0.0);
    for t in 0..20 {
        let (loss, grad) = by_hand(&p);
        last = loss;
        let g: Vec<f64> = grad.iter().zip(&p).map(|(g, p)| g + DECAY * p).collect();
        let step = if momentum == 0.0 {
            g
        } else {
            let v: Vec<f64> = match &buffer {
                None => g.clone(),
                Some(old) => old.iter().zip(&g).map(|(v, g)| momentum * v + g).collect(),
            };
            buffer = Some(v.clone());
            if nesterov { g.iter().zip(&v).map(|(g, v)| g + momentum * v).collect() } else { v }
        };
        p = p.iter().zip(&step).map(|(p, s)| p - rate(t) * s).collect();
    }
    (last, p)
}

struct Regression {
    vars: Vars,
    graph: Graph,
    loss: NodeId,
}

fn regression() -> Regression {
    let (mut vars, mut graph) = (Vars::new(), Graph::new());
    let mut declare = |name: &str, shape: &[usize], role| {
        let var = Var {
            name: name.to_string(),
            shape: sooner_base::Shape::new(shape),
            init: Init::Constant(0.0),
            role,
        };
        vars.declare(var).unwrap()
    };
    let w = declare("fc.weight", &[2, 3], Role::Weight);
    let b = declare("fc.bias", &[3], Role::Bias);
    declare("idle.weight", &[2], Role::Weight);
    let (x, labels) = (graph.features([4, 2]), graph.labels(4));
    let (w, b, smoothing) = (graph.read(&vars, w), graph.read(&vars, b), graph.scalar("smoothing"));
    let product = graph.linear(x, w).unwrap();
    let logits = graph.add_bias(product, b).unwrap();
    let each = graph.cross_entropy(logits, labels, smoothing).unwrap();
    let sum = graph.sum(each).unwrap();
    let loss = graph.scale(sum, 0.25).unwrap();
    Regression { vars, graph, loss }
}

/// Twenty updates by this crate.
fn ours(rule: Rule, momentum: f64) -> (f64, Vec<f64>) {
    let Regression { mut vars, mut graph, loss } = regression();
    let updates = add_optimizer(&mut vars, &mut graph, loss, &OptimizerSpec::new(rule)).unwrap();
    let mut state = State { values: vars.all().iter().map(|v| vec![0.0; v.shape.len()]).collect() };
    state.values[0] = START[..6].to_vec();
    state.values[1] = START[6..].to_vec();
    let scalars = graph.scalars().to_vec();
    let mut naive = Naive::new(&Program { vars, graph, updates, outputs: vec![("loss".into(), loss)] });
    for t in 0..20 {
        let value = |name: &String| match name.as_str() {
            "smoothing" => 0.0,
            "learning_rate" => rate(t),
            "momentum" => momentum,
            "weight_decay" => DECAY,
            other => panic!("scalar {other}"),
        };
        let scalars: Vec<f64> = scalars.iter().map(value).collect();
        let feed = Feed { features: &ROWS.concat(), labels: &LABELS, scalars: &scalars, ..Feed::default() };
        naive.run(&mut state, &feed).unwrap();
    }
    (naive.output(0)[0], [state.values[0].clone(), state.values[1].clone()].concat())
}

fn assert_close((loss, p): &(f64, Vec<f64>), (want_loss, want): (f64, &[f64])) {
    assert!((loss - want_loss).abs() < 1e-10, "loss {loss}, expected {want_loss}");
    assert_eq!(p.len(), want.len());
    for (found, want) in p.iter().zip(want) {
        assert!((found - want).abs() < 1e-10, "found {found}, expected {want}");
    }
}

/// Frozen results of the same twenty updates by a Python program in double precision.
const FROZEN: [(Rule, f64, f64, [f64; 9]); 3] = [
    (
        Rule::Sgd,
        0.0,
        0.12183309670517169,
        [
            0.33362921448779576,
            -1.1021576609611337,
            0.9564844073282801,
            -0.9790035346226007,
            0.20662060303482874,
            1.054316872870185,
            -0.19023446835969673,
            0.08210888594927153,
            0.10812558241042523,
        ],
    ),
    (
        Rule::HeavyBall,
        0.9,
        0.004109235476372504,
        [
            0.7098454193104801,
            -2.8618142908848787,
            2.292773781677147,
            -2.9335729198449534,
            -0.15861302388741616,
            3.303393308886492,
            -0.6701252519398596,
            0.45051746543999677,
            0.2196077864998629,
        ],
    ),
    (
        Rule::Nesterov,
        0.9,
        0.006385289425569482,
        [
            0.6823012593744077,
            -2.536633321004654,
            1.9910016904689456,
            -2.4031508899445817,
            -0.045712386259065735,
            2.653867719461695,
            -0.6001388670987744,
            0.5088290509024147,
            0.0913098161963593,
        ],
    ),
];

#[test]
fn twenty_updates_are_those_of_pytorch() {
    for (rule, momentum, loss, params) in &FROZEN {
        let found = ours(*rule, *momentum);
        assert_close(&found, (*loss, params));
        let (loss, params) = torch(*momentum, *rule == Rule::Nesterov);
        assert_close(&found, (loss, &params));
    }
}

#[test]
fn momentum_zero_is_plain_descent() {
    let (loss, params) = ours(Rule::Sgd, 0.0);
    assert_close(&ours(Rule::HeavyBall, 0.0), (loss, &params));
    assert_close(&ours(Rule::Nesterov, 0.0), (loss, &params));
}

fn steps(updates: &[Update]) -> Vec<&Step> {
    updates
        .iter()
        .map(|update| match update {
            Update::Step(step) => step,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn trained_variables_that_the_graph_reads_are_updated() {
    let Regression { mut vars, mut graph, loss } = regression();
    let spec = OptimizerSpec::new(Rule::Nesterov);
    let updates = add_optimizer(&mut vars, &mut graph, loss, &spec).unwrap();
    let names: Vec<_> = steps(&updates).iter().map(|step| vars.get(step.param).name.clone()).collect();
    assert_eq!(names, ["fc.weight", "fc.bias"]);
    let slots: Vec<_> = vars.all().iter().filter(|v| v.role == Role::Slot).map(|v| v.name.clone()).collect();
    assert_eq!(slots, ["fc.weight.velocity", "fc.bias.velocity"]);
    assert_eq!(graph.scalars(), ["smoothing", "learning_rate", "momentum", "weight_decay"]);

    // A second program on the same variables uses the same slots.
    let known = vars.clone();
    let Regression { graph: mut again, loss, .. } = regression();
    assert_eq!(steps(&add_optimizer(&mut vars, &mut again, loss, &spec).unwrap()), steps(&updates));
    assert_eq!(vars, known);
}

#[test]
fn the_first_group_that_holds_a_variable_decides() {
    let group = |roles: &[Role], prefix: &str, rate_scale, decay_scale| Group {
        rate_scale,
        decay_scale,
        ..Group::of(roles, prefix)
    };
    let check = |groups: Vec<Group>, expected: [(f64, f64); 2]| {
        let Regression { mut vars, mut graph, loss } = regression();
        let spec = OptimizerSpec { groups, ..OptimizerSpec::new(Rule::Sgd) };
        let updates = add_optimizer(&mut vars, &mut graph, loss, &spec).unwrap();
        let scales: Vec<_> = steps(&updates).iter().map(|step| (step.rate_scale, step.decay_scale)).collect();
        assert_eq!(scales, expected);
    };
    check(vec![], [(1.0, 1.0), (1.0, 1.0)]);
    check(vec![group(&[Role::Bias], "", 64.0, 0.0)], [(1.0, 1.0), (64.0, 0.0)]);
    check(vec![group(&[], "fc.w", 2.0, 3.0)], [(2.0, 3.0), (1.0, 1.0)]);
    check(vec![group(&[Role::Bias], "fc.w", 2.0, 3.0)], [(1.0, 1.0), (1.0, 1.0)]);
    check(vec![group(&[Role::Bias], "fc", 2.0, 3.0), group(&[], "fc", 4.0, 5.0)], [(4.0, 5.0), (2.0, 3.0)]);
}
