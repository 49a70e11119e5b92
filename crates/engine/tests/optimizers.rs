//! Twenty updates of a small network by every optimiser, against PyTorch's or the published definition's: the naive
//! executor in f64 to 1e-9, the native one to 1e-5 on one and three threads. The fixture says where it comes from.

use sooner_base::Shape;
use sooner_engine::naive::Naive;
use sooner_engine::{
    Activation, Averaging, Feed, Graph, Init, Kernels, Native, NativeOptions, NodeId, OptimizerSpec, Program,
    Role, Rule, State, Var, Vars, add_optimizer,
};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

const FIXTURE: &str = include_str!("data/optimizers.tsv");
const LABELS: [u32; 8] = [0, 1, 2, 0, 1, 2, 1, 0];
const VARIABLES: [(&str, &[usize], Role); 4] = [
    ("layer1.weight", &[4, 6], Role::Weight),
    ("layer1.bias", &[6], Role::Bias),
    ("layer2.weight", &[6, 3], Role::Weight),
    ("layer2.bias", &[3], Role::Bias),
];

fn values(count: usize, salt: f64) -> Vec<f64> {
    (0..count).map(|i| 0.5 * (0.7 * i as f64 + salt).sin()).collect()
}

fn features() -> Vec<f64> {
    values(32, 5.0).iter().map(|v| 2.0 * v).collect()
}

/// The network with an optimiser, and its initial values.
fn program(spec: &OptimizerSpec) -> (Program, State<f64>) {
    let (mut vars, mut g) = (Vars::new(), Graph::new());
    let mut state = State { values: vec![] };
    let x = g.features([8, 4]);
    let labels = g.labels(8);
    let mut read = |g: &mut Graph, number: usize| -> NodeId {
        let (name, shape, role) = VARIABLES[number];
        let shape = Shape::new(shape);
        state.values.push(values(shape.len(), number as f64));
        let var = Var { name: name.into(), shape, init: Init::Constant(0.0), role };
        let id = vars.declare(var).expect("names differ");
        g.read(&vars, id)
    };
    let [w1, b1, w2, b2] = [0, 1, 2, 3].map(|number| read(&mut g, number));
    let mut layer = |x, w, b| {
        let y = g.linear(x, w).expect("it fits");
        g.add_bias(y, b).expect("it fits")
    };
    let hidden = layer(x, w1, b1);
    let hidden = g.activate(hidden, Activation::Tanh).expect("it fits");
    let mut layer = |x, w, b| {
        let y = g.linear(x, w).expect("it fits");
        g.add_bias(y, b).expect("it fits")
    };
    let logits = layer(hidden, w2, b2);
    let smoothing = g.scalar("smoothing");
    let losses = g.cross_entropy(logits, labels, smoothing).expect("it fits");
    let total = g.sum(losses).expect("it fits");
    let loss = g.scale(total, 1.0 / 8.0).expect("it fits");
    let updates = add_optimizer(&mut vars, &mut g, loss, spec).expect("everything has a gradient");
    for var in &vars.all()[4..] {
        state.values.push(vec![0.0; var.shape.len()]);
    }
    state.follow(&vars);
    (Program { vars, graph: g, updates, outputs: vec![("loss".into(), loss)] }, state)
}

fn scalar(name: &str, t: usize) -> f64 {
    match name {
        "smoothing" => 0.0,
        "learning_rate" => 0.1 * (1.0 - 0.04 * t as f64),
        "momentum" | "average_decay" => 0.9,
        "weight_decay" => 0.01,
        "update" => (t + 1) as f64,
        "average_due" => f64::from(u8::from((t + 1).is_multiple_of(5))),
        other => panic!("scalar {other}"),
    }
}

/// The last loss before an update, and all variables by name.
fn by_name(vars: &Vars, loss: f64, values: Vec<Vec<f64>>) -> BTreeMap<String, Vec<f64>> {
    let named = vars.all().iter().map(|var| var.name.clone()).zip(values);
    named.chain([("loss".to_string(), vec![loss])]).collect()
}

fn naive(spec: &OptimizerSpec) -> BTreeMap<String, Vec<f64>> {
    let (program, mut state) = program(spec);
    let mut naive = Naive::new(&program);
    for t in 0..20 {
        let scalars: Vec<f64> = program.graph.scalars().iter().map(|name| scalar(name, t)).collect();
        let feed = Feed { features: &features(), labels: &LABELS, scalars: &scalars, ..Feed::default() };
        naive.run(&mut state, &feed).expect("it fits");
    }
    by_name(&program.vars, naive.output(0)[0], state.values)
}

fn native(spec: &OptimizerSpec, kernels: Kernels, threads: usize) -> BTreeMap<String, Vec<f64>> {
    let (program, state) = program(spec);
    let mut state: State<f32> = state.convert();
    let threads = NonZeroUsize::new(threads).expect("not 0");
    let mut native = Native::compile(&program, &NativeOptions { threads, kernels }).expect("available");
    let features: Vec<f32> = features().iter().map(|v| *v as f32).collect();
    for t in 0..20 {
        let scalars: Vec<f32> = program.graph.scalars().iter().map(|name| scalar(name, t) as f32).collect();
        let feed = Feed { features: &features, labels: &LABELS, scalars: &scalars, ..Feed::default() };
        native.run(&mut state, &feed).expect("it fits");
    }
    by_name(&program.vars, f64::from(native.output(0)[0]), state.convert().values)
}

fn check(case: &str, found: &BTreeMap<String, Vec<f64>>, suffix: &str, tolerance: f64) {
    let lines = FIXTURE.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = lines.filter(|fields| fields[0] == case).collect();
    assert_eq!(lines.len(), 5, "{case}: the loss and four variables");
    for fields in lines {
        let name = if fields[1] == "loss" { "loss".to_string() } else { format!("{}{suffix}", fields[1]) };
        let found = &found[&name];
        assert_eq!(found.len(), fields.len() - 2);
        for (found, expected) in found.iter().zip(&fields[2..]) {
            let expected: f64 = expected.parse().expect("a number");
            assert!((found - expected).abs() <= tolerance, "{case}: {name} is {found}, expected {expected}");
        }
    }
}

#[test]
fn twenty_updates_are_those_of_the_definitions() {
    let adam = OptimizerSpec::new(Rule::Adam { second_momentum: 0.99, eps: 1e-6 });
    let nesterov = OptimizerSpec::new(Rule::Nesterov);
    let muon = |rounds, renormalize| OptimizerSpec {
        decoupled: true,
        ..OptimizerSpec::new(Rule::Muon { rounds, renormalize })
    };
    let cases = [
        ("sgd", OptimizerSpec::new(Rule::Sgd), ""),
        ("heavy-ball", OptimizerSpec::new(Rule::HeavyBall), ""),
        ("nesterov", nesterov.clone(), ""),
        ("nesterov-clipped", OptimizerSpec { clip: Some(0.3), ..nesterov.clone() }, ""),
        ("adam", adam.clone(), ""),
        ("adamw", OptimizerSpec { decoupled: true, ..adam }, ""),
        ("lars", OptimizerSpec::new(Rule::Lars { trust: 0.02 }), ""),
        ("muon", muon(5, false), ""),
        ("muon-renormalized", muon(3, true), ""),
        ("average", OptimizerSpec { averaging: Some(Averaging::Beside), ..nesterov.clone() }, ".average"),
        ("lookahead", OptimizerSpec { averaging: Some(Averaging::Back), ..nesterov }, ""),
    ];
    for (case, spec, suffix) in cases {
        check(case, &naive(&spec), suffix, 1e-9);
        for kernels in Kernels::available() {
            let one = native(&spec, kernels, 1);
            check(case, &one, suffix, 1e-5);
            assert_eq!(native(&spec, kernels, 3), one, "{case}: other bits on three threads");
        }
    }
}
