//! Programs that run at the same time on parts of one batch and normalise by the statistics of all of it: together they
//! come to what one program comes to on the whole batch.

use sooner_base::{Key, Origin, Purpose, Seed};
use sooner_engine::naive::Naive;
use sooner_engine::{
    EngineError, Feed, Graph, Init, Kernels, Lane, Meeting, Native, NativeOptions, NodeId, Program,
    Reduction, Role, State, Turn, Var, Vars, Window, gradients,
};
use std::num::NonZeroUsize;
use std::thread::scope;

const SIDE: usize = 5;
const FEATURES: usize = SIDE * SIDE * 2;
const CLASSES: usize = 3;

/// Convolution, normalisation, ReLU, dropout, convolution, normalisation, classes; sum of losses over `whole`. Outputs:
/// the loss, gradients by every variable, statistics.
fn program(examples: usize, whole: usize, lanes: bool) -> Result<Program, EngineError> {
    let mut vars = Vars::new();
    let mut graph = Graph::new();
    let mut read = Vec::new();
    let mut var = |graph: &mut Graph, name: &str, shape: &[usize], init| -> Result<NodeId, EngineError> {
        let shape = sooner_base::Shape::new(shape.to_vec());
        let id = vars.declare(Var { name: name.to_string(), shape, init, role: Role::Weight })?;
        let node = graph.read(&vars, id);
        read.push(node);
        Ok(node)
    };
    let mut x = graph.features([examples, SIDE, SIDE, 2]);
    let labels = graph.labels(examples);
    let mut statistics = Vec::new();
    for (layer, channels) in [4, 6].into_iter().enumerate() {
        let before = graph.shape(x).last();
        let w = var(&mut graph, &format!("w{layer}"), &[3, 3, before, channels], Init::HeNormal)?;
        x = graph.conv2d(x, w, Window::same(3, 1 + layer))?;
        let gamma = var(&mut graph, &format!("gamma{layer}"), &[channels], Init::Constant(1.5))?;
        let beta = var(&mut graph, &format!("beta{layer}"), &[channels], Init::Constant(0.25))?;
        let mut stats = graph.batch_stats(x)?;
        if lanes {
            let count = graph.shape(x).len() / channels;
            stats = graph.all_reduce(stats, Reduction::Moments, count)?;
        }
        statistics.push(stats);
        x = graph.normalize(x, stats, [gamma, beta], 1e-5)?;
        x = graph.relu(x)?;
        let key: Key = Seed(3).key(Purpose::Dropout, layer as u64);
        x = graph.dropout(x, 0.25, key)?;
    }
    let x = graph.global_avg_pool(x)?;
    let w = var(&mut graph, "head", &[6, CLASSES], Init::GlorotUniform)?;
    let logits = graph.linear(x, w)?;
    let smoothing = graph.scalar("smoothing");
    let losses = graph.cross_entropy(logits, labels, smoothing)?;
    let total = graph.sum(losses)?;
    let loss = graph.scale(total, 1.0 / whole as f64)?;
    let mut outputs = vec![loss];
    outputs.extend(gradients(&mut graph, loss, &read)?);
    outputs.extend(statistics);
    let outputs = outputs.into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
    Ok(Program { vars, graph, updates: vec![], outputs })
}

/// A batch.
struct Data {
    features: Vec<f64>,
    labels: Vec<u32>,
    origins: Vec<Origin>,
}

impl Data {
    fn new(examples: usize) -> Data {
        let mut rng = Seed(11).key(Purpose::Study, 0).at(0, 0, 0);
        Data {
            features: (0..examples * FEATURES).map(|_| 3.0 + rng.normal()).collect(),
            labels: (0..examples).map(|_| rng.below(CLASSES as u32)).collect(),
            origins: (0..examples).map(|i| Origin { epoch: 1, index: 10 * i as u64, echo: 0 }).collect(),
        }
    }
}

/// A program's outputs.
type Outputs = Vec<Vec<f64>>;

/// Anything that runs a program on examples `from..to`, perhaps as a lane.
type Run<'a> = dyn Fn(&Program, [usize; 2], Option<Lane<'_>>) -> Result<Outputs, EngineError> + Sync + 'a;

fn naive<'a>(data: &'a Data) -> Box<Run<'a>> {
    Box::new(move |program, [from, to], lane| {
        let mut executor = Naive::<f64>::new(program);
        let state = State::init(&program.vars, Seed(1)).convert::<f64>();
        let feed = Feed {
            features: &data.features[from * FEATURES..to * FEATURES],
            labels: &data.labels[from..to],
            scalars: &[0.1],
            origins: &data.origins[from..to],
            lane,
            ..Feed::default()
        };
        executor.compute(&state, &feed)?;
        Ok((0..program.outputs.len()).map(|i| executor.output(i).to_vec()).collect())
    })
}

fn native<'a>(data: &'a Data) -> Box<Run<'a>> {
    let features: Vec<f32> = data.features.iter().map(|v| *v as f32).collect();
    Box::new(move |program, [from, to], lane| {
        let options = NativeOptions { threads: NonZeroUsize::MIN, kernels: Kernels::Auto };
        let mut executor = Native::compile(program, &options)?;
        let state = State::init(&program.vars, Seed(1));
        let feed = Feed {
            features: &features[from * FEATURES..to * FEATURES],
            labels: &data.labels[from..to],
            scalars: &[0.1],
            origins: &data.origins[from..to],
            lane,
            ..Feed::default()
        };
        executor.compute(&state, &feed)?;
        let output = |i| executor.output(i).iter().map(|v| f64::from(*v)).collect();
        Ok((0..program.outputs.len()).map(output).collect())
    })
}

/// Runs parts of these sizes at the same time, on threads that so many turns are shared among (none: each its own).
fn in_parts(run: &Run<'_>, sizes: &[usize], turns: usize) -> Vec<Result<Outputs, EngineError>> {
    let whole: usize = sizes.iter().sum();
    let meeting = Meeting::new(sizes.len());
    let turns: Vec<Turn> = (0..turns).map(|_| Turn::default()).collect();
    scope(|scope| {
        let mut from = 0;
        let mut threads = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let range = [from, from + size];
            from += size;
            let turn = (!turns.is_empty()).then(|| &turns[index % turns.len()]);
            let lane = meeting.lane(index, turn);
            threads.push(scope.spawn(move || {
                let program = program(range[1] - range[0], whole, true).expect("a sound network");
                let attendance = lane.attend();
                let outputs = run(&program, range, Some(attendance.lane()))?;
                attendance.finish();
                Ok(outputs)
            }));
        }
        threads.into_iter().map(|thread| thread.join().expect("no lane panics")).collect()
    })
}

/// How far two outputs are apart, over the largest value of the first.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let most = a.iter().fold(1e-30, |most: f64, v| most.max(v.abs()));
    a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs())) / most
}

fn check(run: &Run<'_>, tolerance: f64) {
    let whole = run(&program(7, 7, false).expect("a sound network"), [0, 7], None).expect("it fits");
    for sizes in [vec![7], vec![3, 4], vec![3, 1, 3], vec![1; 7]] {
        for turns in [0, 1, 2] {
            let parts = in_parts(run, &sizes, turns);
            let parts: Vec<_> = parts.into_iter().map(|part| part.expect("it fits")).collect();
            for (i, expected) in whole.iter().enumerate() {
                // The loss and gradients of parts add up; statistics are everybody's.
                let sum = |j: usize| parts.iter().map(|part| part[i][j]).sum::<f64>();
                let found: Vec<f64> = match i {
                    0..8 => (0..expected.len()).map(sum).collect(),
                    _ => parts[parts.len() - 1][i].clone(),
                };
                let distance = distance(expected, &found);
                assert!(distance < tolerance, "{sizes:?}, {turns} turns, output {i}: {distance:e}");
            }
        }
    }
}

#[test]
fn parts_of_a_batch_come_to_the_whole() {
    let data = Data::new(7);
    check(&*naive(&data), 1e-12);
    check(&*native(&data), 2e-5);
}

#[test]
fn bits_do_not_depend_on_who_comes_first() {
    let data = Data::new(7);
    let run = native(&data);
    let bits = |turns: usize| -> Vec<Vec<Vec<u64>>> {
        let parts = in_parts(&*run, &[2, 3, 2], turns);
        let bits = |part: Outputs| -> Vec<Vec<u64>> {
            part.iter().map(|values| values.iter().map(|v| v.to_bits()).collect()).collect()
        };
        parts.into_iter().map(|part| bits(part.expect("it fits"))).collect()
    };
    let first = bits(0);
    for turns in [0, 1, 2, 1, 0] {
        assert_eq!(bits(turns), first);
    }
}

#[test]
fn a_part_that_fails_does_not_hold_the_others_up() {
    let mut data = Data::new(7);
    data.labels[4] = 99;
    for turns in [0, 1] {
        let parts = in_parts(&*naive(&data), &[2, 2, 3], turns);
        assert_eq!(parts[0], Err(EngineError::LaneLeft));
        assert_eq!(parts[1], Err(EngineError::LaneLeft));
        assert_eq!(parts[2], Err(EngineError::Label { example: 0, label: 99, classes: CLASSES }));
    }
}

#[test]
fn tensors_from_outside() {
    let vars = Vars::new();
    let mut graph = Graph::new();
    let a = graph.given([2, 2]);
    let b = graph.given([3]);
    let row = graph.row(a, 1).expect("there is one");
    let sum = graph.sum(b).expect("a sum");
    let scaled = graph.scale_by(row, sum).expect("a product");
    let outputs = vec![("scaled".to_string(), scaled), ("b".to_string(), b)];
    let program = Program { vars, graph, updates: vec![], outputs };
    let given = [1.0, 2.0, 3.0, 4.0, 0.5, 0.25, 0.25];
    let mut state = State { values: vec![] };
    let mut naive = Naive::<f32>::new(&program);
    naive.run(&mut state, &Feed { given: &given, ..Feed::default() }).expect("it fits");
    let options = NativeOptions { threads: NonZeroUsize::MIN, kernels: Kernels::Auto };
    let mut native = Native::compile(&program, &options).expect("it compiles");
    native.run(&mut state, &Feed { given: &given, ..Feed::default() }).expect("it fits");
    for outputs in [[naive.output(0), naive.output(1)], [native.output(0), native.output(1)]] {
        assert_eq!(outputs, [&[3.0, 4.0][..], &[0.5, 0.25, 0.25][..]]);
    }
    let short = Feed { given: &given[1..], ..Feed::default() };
    let error = naive.run(&mut state, &short).expect_err("a value is missing");
    assert_eq!(error.to_string(), "given tensors: the program takes 7 values, found 6");
}
