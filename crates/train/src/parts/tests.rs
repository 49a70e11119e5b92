use super::*;
use sooner_base::{Purpose, Rng, Seed};
use sooner_engine::naive::Naive;
use sooner_engine::native::Kernels;
use sooner_engine::{Init, Native, NodeId, Window};
use sooner_models::{Conv, LABEL_SMOOTHING, Net};
use sooner_plan::{NormPlan, Plan, StatisticsPlan};
use std::sync::Arc;

const SIDE: usize = 4;
const FEATURES: usize = SIDE * SIDE * 2;
const CLASSES: usize = 3;

/// Two convolutions with normalisation, dropout, a linear layer.
fn network(statistics: StatisticsPlan) -> Model {
    let norm = NormPlan { statistics, ..NormPlan::default() };
    let forward = move |net: &mut Net, mut x: NodeId| {
        for (layer, channels) in [4, 5].into_iter().enumerate() {
            let conv = Conv { channels, window: Window::same(3, 1 + layer), init: Init::HeNormal };
            x = net.conv(&format!("conv{layer}"), x, conv)?;
            x = net.norm(&format!("norm{layer}"), x, &norm)?;
            x = net.graph.relu(x)?;
            x = net.dropout(x, 0.2)?;
        }
        let x = net.graph.global_avg_pool(x)?;
        let x = net.linear("head", x, CLASSES, Init::GlorotUniform)?;
        net.bias("head", x)
    };
    Model::own("small", [SIDE, SIDE, 2], CLASSES, forward).unwrap().trained_by(&plan())
}

/// For the optimiser and the seed alone.
fn plan() -> Plan {
    Plan::parse(sooner_models::workload("cifar10-resnet9").unwrap().toml).unwrap()
}

fn scalar(name: &str) -> f64 {
    match name {
        "learning_rate" => 0.05,
        "momentum" => 0.9,
        "weight_decay" => 5e-4,
        LABEL_SMOOTHING => 0.1,
        other => panic!("no value for `{other}`"),
    }
}

struct Data<T> {
    features: Vec<T>,
    labels: Vec<u32>,
    origins: Vec<Origin>,
}

impl<T: Real> Data<T> {
    /// Batch number `update`: sizes as at the end of an epoch of two full batches and a smaller one.
    fn new(update: u64, full: usize, last: usize) -> Data<T> {
        let examples = if update % 3 == 2 { last } else { full };
        let mut rng: Rng = Seed(5).key(Purpose::Study, 1).at(0, update, 0);
        // What class an example is of can be seen.
        let labels: Vec<u32> = (0..examples).map(|_| rng.below(CLASSES as u32)).collect();
        let feature = |i: usize| f64::from(labels[i / FEATURES]) + rng.normal();
        Data {
            features: (0..examples * FEATURES).map(feature).map(T::from_f64).collect(),
            labels: labels.clone(),
            origins: (0..examples as u64)
                .map(|i| Origin { epoch: 0, index: 100 * update + i, echo: 0 })
                .collect(),
        }
    }

    fn examples(&self) -> Examples<'_, T> {
        Examples { features: &self.features, labels: &self.labels, soft_labels: &[], origins: &self.origins }
    }
}

/// State and losses after so many updates in parts.
fn in_parts<X: Executor>(
    statistics: StatisticsPlan,
    [replicas, accumulate]: [usize; 2],
    (updates, [full, last]): (u64, [usize; 2]),
    compile: Box<Compile<X>>,
) -> (State<X::Number>, Vec<f64>) {
    let mut model = network(statistics);
    let mut parts = Parts::<X>::new(&model, Split { replicas, accumulate }, compile);
    for size in [full, last] {
        parts.prepare(&mut model, size, &plan().optimizer).unwrap();
    }
    let mut state = State::init(model.vars(), Seed(9)).convert();
    let mut run = |update| {
        let data = Data::<X::Number>::new(update, full, last);
        parts.run(&mut state, data.examples(), &scalar, false).unwrap().loss
    };
    let losses = (0..updates).map(&mut run).collect();
    (state, losses)
}

/// The same by the program that training runs when nothing is cut.
fn whole<X: Executor>(
    statistics: StatisticsPlan,
    (updates, [full, last]): (u64, [usize; 2]),
    compile: &dyn Fn(&Program) -> X,
) -> (State<X::Number>, Vec<f64>) {
    let mut model = network(statistics);
    let programs = [full, last].map(|size| model.update_program(size, &plan().optimizer).unwrap());
    let names = programs[0].graph.scalars().to_vec();
    let mut executors = programs.map(|program| compile(&program));
    let mut state = State::init(model.vars(), Seed(9)).convert();
    let run = |update: u64| {
        let data = Data::<X::Number>::new(update, full, last);
        let scalars: Vec<X::Number> = names.iter().map(|n| X::Number::from_f64(scalar(n))).collect();
        let feed = Feed { scalars: &scalars, ..data.examples().part(&(0..data.labels.len())) };
        let executor = &mut executors[usize::from(data.labels.len() != full)];
        executor.run(&mut state, &feed).unwrap();
        executor.output(0)[0].to_f64()
    };
    let losses = (0..updates).map(run).collect();
    (state, losses)
}

fn naive() -> Box<Compile<Naive<f64>>> {
    Box::new(|program, _| Ok(Naive::new(program)))
}

/// Replicas with a thread each.
fn native() -> Box<Compile<Native>> {
    let pools: Vec<Arc<Pool>> = (0..9).map(|_| Arc::new(Pool::new(NonZeroUsize::MIN))).collect();
    Box::new(move |program, replica| {
        Native::compile_on(program, Kernels::Auto, pools[replica.map_or(8, |r| r)].clone())
    })
}

/// The largest difference of a variable's values, over the variable's largest value.
fn distance<T: Real>(a: &State<T>, b: &State<T>) -> f64 {
    assert_eq!(a.values.len(), b.values.len());
    let variable = |(a, b): (&Vec<T>, &Vec<T>)| {
        let most = a.iter().fold(1e-9, |most: f64, v| most.max(v.to_f64().abs()));
        a.iter().zip(b).fold(0.0, |worst: f64, (a, b)| worst.max((a.to_f64() - b.to_f64()).abs())) / most
    };
    a.values.iter().zip(&b.values).map(variable).fold(0.0, f64::max)
}

const SPLITS: [[usize; 2]; 8] = [[1, 2], [2, 1], [3, 1], [2, 2], [1, 4], [4, 1], [3, 2], [1, 5]];

#[test]
fn any_split_comes_to_the_whole_in_double_precision() {
    for statistics in [StatisticsPlan::Synchronised, StatisticsPlan::Ghost(2)] {
        let run = (50, [12, 7]);
        let (state, losses) = whole(statistics, run, &Naive::<f64>::new);
        assert!(losses[49] < losses[0], "{losses:?}");
        for split in SPLITS {
            let (other, other_losses) = in_parts(statistics, split, run, naive());
            let distance = distance(&state, &other);
            assert!(distance < 1e-6, "{statistics:?} {split:?}: {distance:e}");
            for (a, b) in losses.iter().zip(&other_losses) {
                assert!((a - b).abs() < 1e-6 * a.abs(), "{statistics:?} {split:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn any_split_comes_to_the_whole_natively() {
    for statistics in [StatisticsPlan::Synchronised, StatisticsPlan::Ghost(2)] {
        let run = (10, [24, 13]);
        let pool = Arc::new(Pool::new(NonZeroUsize::MIN));
        let compile = |program: &Program| Native::compile_on(program, Kernels::Auto, pool.clone()).unwrap();
        let (state, losses) = whole(statistics, run, &compile);
        for split in SPLITS {
            let (other, other_losses) = in_parts(statistics, split, run, native());
            let distance = distance(&state, &other);
            assert!(distance < 1e-4, "{statistics:?} {split:?}: {distance:e}");
            for (a, b) in losses.iter().zip(&other_losses) {
                assert!((a - b).abs() < 1e-4 * a.abs(), "{statistics:?} {split:?}: {a} {b}");
            }
        }
    }
}

#[test]
fn the_number_of_parts_decides_the_bits() {
    for statistics in [StatisticsPlan::Synchronised, StatisticsPlan::Ghost(2), StatisticsPlan::Local] {
        // The last batch has fewer groups than parts.
        let run = (10, [24, 5]);
        let (state, losses) = in_parts(statistics, [2, 2], run, native());
        for split in [[4, 1], [1, 4], [2, 2]] {
            let (other, other_losses) = in_parts(statistics, split, run, native());
            assert!(state == other && losses == other_losses, "{statistics:?} {split:?}");
        }
        let (other, _) = in_parts(statistics, [3, 1], run, native());
        assert_ne!(state, other, "other parts are other sums");
    }
}

#[test]
fn local_statistics_are_those_of_each_part() {
    let run = (5, [12, 12]);
    let (state, _) = whole(StatisticsPlan::Ghost(4), run, &Naive::<f64>::new);
    let (other, _) = in_parts(StatisticsPlan::Local, [3, 1], run, naive());
    assert!(distance(&state, &other) < 1e-10, "three parts of four are three groups of four");
}

#[test]
fn a_bad_part_is_an_error_and_nothing_changes() {
    for statistics in [StatisticsPlan::Synchronised, StatisticsPlan::Local] {
        for split in [[2, 2], [4, 1], [1, 4]] {
            let mut model = network(statistics);
            let split = Split { replicas: split[0], accumulate: split[1] };
            let mut parts = Parts::<Native>::new(&model, split, native());
            parts.prepare(&mut model, 8, &plan().optimizer).unwrap();
            let mut state = State::init(model.vars(), Seed(9));
            let before = state.clone();
            let mut data = Data::<f32>::new(0, 8, 8);
            data.labels[5] = 77;
            let error = parts.run(&mut state, data.examples(), &scalar, false).unwrap_err();
            assert_eq!(error, EngineError::Label { example: 1, label: 77, classes: CLASSES });
            assert_eq!(state, before);
            data.labels[5] = 0;
            parts.run(&mut state, data.examples(), &scalar, false).unwrap();
            assert_ne!(state, before);
        }
    }
}

#[test]
fn threads_are_shared_out() {
    let threads = |replicas, threads| {
        let split = Split { replicas, accumulate: 3 };
        split.threads(threads).into_iter().map(NonZeroUsize::get).collect::<Vec<_>>()
    };
    assert_eq!(threads(2, 8), [4, 4]);
    assert_eq!(threads(3, 8), [3, 3, 2]);
    assert_eq!(threads(4, 2), [1, 1, 1, 1]);
}

/// Softmax regression on a set of examples, whose gradients can be had one by one.
mod noise_of {
    use super::*;

    const EXAMPLES: usize = 40;

    fn softmax() -> Model {
        let forward = |net: &mut Net, x| net.linear("all", x, CLASSES, Init::TorchUniform);
        Model::own("softmax", [SIDE, SIDE, 2], CLASSES, forward).unwrap()
    }

    /// Signal and noise, from the gradient of every example.
    fn truth(data: &Data<f64>, state: &State<f64>) -> [f64; 2] {
        let mut model = softmax();
        let state = State { values: state.values[..model.vars().all().len()].to_vec() };
        let part = model.part_program(1).unwrap();
        let mut executor = Naive::<f64>::new(&part.program);
        let scalars: Vec<f64> = part
            .program
            .graph
            .scalars()
            .iter()
            .map(|name| if name == EXAMPLE_WEIGHT { 1.0 } else { scalar(name) })
            .collect();
        let mut gradient = |i: usize| {
            let feed = Feed { scalars: &scalars, ..data.examples().part(&(i..i + 1)) };
            executor.compute(&state, &feed).unwrap();
            executor.output(0).to_vec()
        };
        let each: Vec<Vec<f64>> = (0..EXAMPLES).map(&mut gradient).collect();
        let mean: Vec<f64> =
            (0..each[0].len()).map(|j| each.iter().map(|g| g[j]).sum::<f64>() / EXAMPLES as f64).collect();
        let apart = |g: &Vec<f64>| g.iter().zip(&mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        [squares(&mean), each.iter().map(apart).sum::<f64>() / EXAMPLES as f64]
    }

    #[test]
    fn drawn_batches_is_that_of_all_examples() {
        let data = Data::<f64>::new(0, EXAMPLES, EXAMPLES);
        let mut model = softmax();
        let optimizer = plan().optimizer;
        // Thirteen examples in three parts: sizes differ.
        let split = Split { replicas: 3, accumulate: 1 };
        let mut parts = Parts::<Naive<f64>>::new(&model, split, naive());
        parts.prepare(&mut model, 13, &optimizer).unwrap();
        // Gradients large enough to stand out: a start far from the best weights.
        let mut state: State<f64> = State::init(model.vars(), Seed(9)).convert();
        state.values[0].iter_mut().enumerate().for_each(|(i, v)| *v += 0.2 * (i % 3) as f64);
        let [signal, noise] = truth(&data, &state);
        let still = |name: &str| if name == "learning_rate" { 0.0 } else { scalar(name) };
        let (mut sum, draws) = ([0.0; 2], 4000);
        for draw in 0..draws {
            let mut rng = Seed(6).key(Purpose::Study, 2).at(0, draw, 0);
            let mut batch = Data::<f64> { features: vec![], labels: vec![], origins: vec![] };
            for _ in 0..13 {
                let i = rng.below(EXAMPLES as u32) as usize;
                batch.features.extend(&data.features[i * FEATURES..(i + 1) * FEATURES]);
                batch.labels.push(data.labels[i]);
                batch.origins.push(data.origins[i]);
            }
            let found = parts.run(&mut state, batch.examples(), &still, true).unwrap().noise.unwrap();
            sum = [sum[0] + found.signal, sum[1] + found.noise];
        }
        let [s, n] = sum.map(|sum| sum / draws as f64);
        assert!((s / signal - 1.0).abs() < 0.03, "signal {s}, truly {signal}");
        assert!((n / noise - 1.0).abs() < 0.03, "noise {n}, truly {noise}");
    }

    #[test]
    fn parts_of_one_example_is_their_sample_variance() {
        let data = Data::<f64>::new(0, EXAMPLES, EXAMPLES);
        let mut model = softmax();
        let split = Split { replicas: 2, accumulate: EXAMPLES / 2 };
        let mut parts = Parts::<Naive<f64>>::new(&model, split, naive());
        parts.prepare(&mut model, EXAMPLES, &plan().optimizer).unwrap();
        let mut state: State<f64> = State::init(model.vars(), Seed(9)).convert();
        let [signal, noise] = truth(&data, &state);
        let found = parts.run(&mut state, data.examples(), &scalar, true).unwrap().noise.unwrap();
        let unbiased = noise * EXAMPLES as f64 / (EXAMPLES - 1) as f64;
        assert!((found.noise / unbiased - 1.0).abs() < 1e-9, "{} {unbiased}", found.noise);
        assert!((found.signal / (signal - unbiased / EXAMPLES as f64) - 1.0).abs() < 1e-9);
        // A batch that is one part has nothing to compare.
        assert_eq!(super::super::noise(&[(8, 1.0)], 1.0), None);
    }
}
