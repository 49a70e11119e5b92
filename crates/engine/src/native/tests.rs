//! The native executor against the naive one in f64: every operation and whole networks, by every kernel choice, on
//! one to four threads, with memory full of NaN beforehand.

use super::{Kernels, Native, NativeOptions};
use crate::naive::Naive;
use crate::testing::{Builder, Case, RANDOM_NETWORKS, operations, random_network, residual_network};
use crate::{Feed, NodeId, OptimizerSpec, Rule, State, Window, add_optimizer};
use std::num::NonZeroUsize;

pub(super) fn native(case: &Case, kernels: Kernels, threads: usize) -> Native {
    let threads = NonZeroUsize::new(threads).expect("tests ask for at least one");
    Native::compile(&case.program, &NativeOptions { threads, kernels }).expect("the kernels are available")
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|v| *v as f32).collect()
}

pub(super) fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// What a case's runs left: its outputs after each run, and the state in the end.
#[derive(PartialEq)]
pub(super) struct Left<T> {
    pub(super) outputs: Vec<Vec<Vec<T>>>,
    pub(super) state: State<T>,
}

/// Runs a case from values rounded to f32 by the naive executor in f64.
fn expected(case: &Case, runs: usize) -> Left<f64> {
    let round = |values: &[f64]| to_f64(&to_f32(values));
    let mut state = State { values: case.state.values.iter().map(|v| round(v)).collect() };
    let [features, scalars, soft_labels] =
        [&case.features, &case.scalars, &case.soft_labels].map(|v| round(v));
    let feed = Feed {
        features: &features,
        labels: &case.labels,
        scalars: &scalars,
        soft_labels: &soft_labels,
        origins: &case.origins,
        ..Feed::default()
    };
    let mut naive = Naive::new(&case.program);
    let mut run = |_| {
        naive.run(&mut state, &feed).expect("the case fits its program");
        (0..case.program.outputs.len()).map(|i| naive.output(i).to_vec()).collect()
    };
    let outputs = (0..runs).map(&mut run).collect();
    Left { outputs, state }
}

pub(super) fn found(case: &Case, kernels: Kernels, threads: usize, runs: usize) -> Left<f32> {
    run(case, &mut native(case, kernels, threads), runs)
}

pub(super) fn run(case: &Case, native: &mut Native, runs: usize) -> Left<f32> {
    let mut state = State { values: case.state.values.iter().map(|v| to_f32(v)).collect() };
    let [features, scalars, soft_labels] =
        [&case.features, &case.scalars, &case.soft_labels].map(|v| to_f32(v));
    let feed = Feed {
        features: &features,
        labels: &case.labels,
        scalars: &scalars,
        soft_labels: &soft_labels,
        origins: &case.origins,
        ..Feed::default()
    };
    let mut run = |_| {
        native.poison();
        native.run(&mut state, &feed).expect("the case fits its program");
        (0..case.program.outputs.len()).map(|i| native.output(i).to_vec()).collect()
    };
    let outputs = (0..runs).map(&mut run).collect();
    Left { outputs, state }
}

/// The largest difference, as a share of the largest value (at least 1).
pub(super) fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
    let off = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs());
    // A NaN must not vanish in a maximum.
    off.fold(0.0, |a: f64, b| if b.is_nan() || b > a { b } else { a }) / size
}

pub(super) fn check(case: &Case, runs: usize, tolerance: f64) {
    let expected = expected(case, runs);
    for kernels in Kernels::available() {
        let one = found(case, kernels, 1, runs);
        for (run, (a, b)) in one.outputs.iter().zip(&expected.outputs).enumerate() {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                let (name, output) = (&case.name, &case.program.outputs[i].0);
                let off = distance(a, b);
                assert!(off <= tolerance, "{name}: {output} of run {run} off by {off} with {kernels:?}");
            }
        }
        for (var, (a, b)) in one.state.values.iter().zip(&expected.state.values).enumerate() {
            let off = distance(a, b);
            assert!(off <= tolerance, "{}: variable {var} off by {off} with {kernels:?}", case.name);
        }
        for threads in 2..=4 {
            let same = found(case, kernels, threads, runs) == one;
            assert!(same, "{}: other bits on {threads} threads with {kernels:?}", case.name);
        }
    }
}

#[test]
fn every_operation() {
    for case in operations() {
        // Sums of at most some thousand products of standard normal values.
        check(&case, 1, 1e-5);
    }
}

/// Shapes large enough to be cut into blocks of products, groups of images, slices of the batch and shares of columns.
#[test]
fn large_convolutions() {
    let list: [([usize; 4], usize, Window); 8] = [
        ([3, 6, 5, 200], 70, Window::same(3, 1)),
        ([40, 4, 4, 24], 130, Window::same(3, 1)),
        ([2, 33, 17, 5], 21, Window::same(3, 2)),
        ([19, 9, 9, 3], 16, Window::same(5, 1)),
        ([5, 11, 13, 40], 33, Window::valid(1, 1)),
        ([4, 16, 16, 20], 40, Window::valid(1, 2)),
        ([1, 3, 3, 150], 300, Window::same(3, 1)),
        ([70, 2, 2, 64], 64, Window::same(3, 1)),
    ];
    for (i, (x, filters, window)) in list.into_iter().enumerate() {
        let case = one_operation(&format!("conv2d {x:?} -> {filters}"), i as u64, &|b| {
            let [kh, kw] = window.kernel;
            let (x, w, bias) = (b.weight(x), b.weight([kh, kw, x[3], filters]), b.weight([filters]));
            let y = b.graph.conv2d(x, w, window).expect("it fits");
            let y = b.graph.add_bias(y, bias).expect("it fits");
            b.graph.relu(y).expect("it fits")
        });
        check(&case, 1, 1e-5);
    }
}

#[test]
fn normalisation_takes_in_what_is_behind_it() {
    // Channels of whole lanes and not; with ties in windows; with and without pooling, and behind a sum.
    let pools = [None, Some([2, 2]), Some([3, 1]), Some([6, 6])];
    for (i, (channels, pool)) in [1, 17, 35, 64].into_iter().flat_map(|c| pools.map(|p| (c, p))).enumerate() {
        let name = format!("normalize, relu, pool {channels} {pool:?}");
        let case = one_operation(&name, 80 + i as u64, &|b| {
            let shape = [5, 6, 6, channels];
            let mut values = b.normal(5 * 36 * channels);
            values.iter_mut().step_by(2).for_each(|v| *v = (2.0 * *v).round() / 2.0);
            let x = b.variable(crate::Role::Weight, shape, values);
            let (gamma, beta) = (b.weight([channels]), b.weight([channels]));
            let stats = b.graph.batch_stats(x).expect("it fits");
            let y = b.graph.normalize(x, stats, [gamma, beta], 1e-5).expect("it fits");
            let y = b.graph.relu(y).expect("it fits");
            match pool {
                Some(kernel) => {
                    let window = Window { kernel, stride: kernel, ..Window::valid(1, 1) };
                    b.graph.max_pool(y, window).expect("it fits")
                }
                None => y,
            }
        });
        check(&case, 1, 1e-5);
        let steps = native(&case, Kernels::Auto, 1);
        let names: Vec<String> = steps.steps().map(|kernel| format!("{kernel:?}")).collect();
        let has = |name: &str| names.iter().any(|n| n.starts_with(name));
        assert!(!has("ReluGrad") && !has("MaxPoolGrad"), "{name}: {names:?}");
        assert_eq!(has("NormalizePool"), pool.is_some(), "{name}: {names:?}");
    }
}

#[test]
fn normalisation_takes_in_a_gelu() {
    for (i, (channels, group)) in
        [1, 17, 35, 64].into_iter().flat_map(|c| [(c, None), (c, Some(2))]).enumerate()
    {
        let name = format!("normalize, gelu {channels} {group:?}");
        let case = one_operation(&name, 100 + i as u64, &|b| {
            let x = b.weight([5, 7, 6, channels]);
            // Wide enough for both ends of the curve.
            let (gamma, beta) = (b.weight([channels]), b.weight([channels]));
            let gamma = b.graph.scale(gamma, 3.0).expect("it fits");
            let stats = match group {
                Some(group) => b.graph.group_stats(x, group),
                None => b.graph.batch_stats(x),
            };
            let how = crate::Normalization { eps: 1e-5, group };
            let y = b.graph.normalize(x, stats.expect("it fits"), [gamma, beta], how);
            b.graph.activate(y.expect("it fits"), crate::Activation::Gelu).expect("it fits")
        });
        check(&case, 1, 1e-5);
        let steps = native(&case, Kernels::Auto, 1);
        let names: Vec<String> = steps.steps().map(|kernel| format!("{kernel:?}")).collect();
        assert!(!names.iter().any(|n| n.starts_with("Activate")), "{name}: {names:?}");
    }
}

#[test]
fn large_products_and_reductions() {
    let products = [
        [700, 40, 90],
        [300, 300, 10],
        [515, 131, 300],
        [65, 1000, 130],
        [1, 783, 1030],
        [3, 402, 1030],
        [8, 42, 10],
        [5, 3, 513],
    ];
    for (i, [n, inputs, outputs]) in products.into_iter().enumerate() {
        let case = one_operation(&format!("linear {n} {inputs} {outputs}"), 50 + i as u64, &|b| {
            let (x, w, bias) = (b.weight([n, inputs]), b.weight([inputs, outputs]), b.weight([outputs]));
            let y = b.graph.linear(x, w).expect("it fits");
            let y = b.graph.add_bias(y, bias).expect("it fits");
            if n == 8 || n == 3 { b.graph.relu(y).expect("it fits") } else { y }
        });
        check(&case, 1, 1e-5);
    }
    for (i, shape) in [[40, 20, 20, 7], [3, 50, 50, 64], [9000, 1, 1, 3]].into_iter().enumerate() {
        let case = one_operation(&format!("normalize {shape:?}"), 60 + i as u64, &|b| {
            let c = shape[3];
            let (x, gamma, beta) = (b.weight(shape), b.weight([c]), b.weight([c]));
            let stats = b.graph.batch_stats(x).expect("it fits");
            b.outputs.push(("stats".to_string(), stats));
            let y = b.graph.normalize(x, stats, [gamma, beta], 1e-5).expect("it fits");
            b.graph.relu(y).expect("it fits")
        });
        // The loss is a sum of 10^5 values of either sign.
        check(&case, 1, 1e-4);
    }
}

/// Linear layers of up to 128 rows and of 128 columns or more make their gradients in the optimiser's step.
#[test]
fn steps_make_gradients_of_few_rows() {
    let products = [
        ([1, 23, 128], true),
        ([8, 50, 1030], true),
        ([9, 40, 200], true),
        ([128, 25, 530], true),
        ([129, 9, 130], false),
        ([6, 1, 127], false),
    ];
    let rules = [Rule::Sgd, Rule::Nesterov, Rule::Adam { second_momentum: 0.99, eps: 1e-3 }];
    for (i, (([n, inputs, outputs], together), rule)) in
        products.into_iter().flat_map(|of| rules.map(|rule| (of, rule))).enumerate()
    {
        let name = format!("{rule:?} of linear {n} {inputs} {outputs}");
        let mut b = Builder::new(3000 + i as u64);
        let (x, w) = (b.features([n, inputs]), b.weight([inputs, outputs]));
        let y = b.graph.linear(x, w).expect("it fits");
        let loss = b.probe(y).expect("it fits");
        let forward = b.graph.clone();
        let updates = add_optimizer(&mut b.vars, &mut b.graph, loss, &OptimizerSpec::new(rule))
            .expect("it has a gradient");
        let case = b.finish(&name, loss, forward, updates);
        let steps = native(&case, Kernels::Auto, 1);
        let apart = steps.steps().any(|kernel| format!("{kernel:?}").starts_with("GradWeight"));
        assert_eq!(apart, !together, "{name}");
        // Adam's second update divides gradients by their own size, rounding included.
        check(&case, 2, if matches!(rule, Rule::Adam { .. }) { 1e-4 } else { 1e-5 });
    }
}

/// An operation, a random linear function of its result as the loss, and all gradients.
pub(super) fn one_operation(name: &str, salt: u64, build: &dyn Fn(&mut Builder) -> NodeId) -> Case {
    let mut b = Builder::new(1000 + salt);
    let y = build(&mut b);
    b.outputs.push(("y".to_string(), y));
    let loss = b.probe(y).expect("it fits");
    b.differentiate(name, loss).expect("every operation has a gradient")
}

#[test]
fn of_equal_values_the_first_gets_the_gradient() {
    for (i, window) in [Window::valid(2, 2), Window::same(3, 2), Window::same(3, 1)].into_iter().enumerate() {
        for channels in [1, 5, 70] {
            let case = one_operation(&format!("max_pool of few values, {window:?}"), 80 + i as u64, &|b| {
                let values = (0..2 * 6 * 7 * channels).map(|_| f64::from(b.rng.below(3))).collect();
                let x = b.variable(crate::Role::Weight, [2, 6, 7, channels], values);
                b.graph.max_pool(x, window).expect("it fits")
            });
            check(&case, 1, 1e-5);
        }
    }
}

#[test]
fn a_nan_reaches_the_loss_and_every_variable_behind_it() {
    let mut case = residual_network();
    case.features[0] = f64::NAN;
    for kernels in Kernels::available() {
        let left = found(&case, kernels, 2, 1);
        assert!(left.outputs[0][0][0].is_nan(), "{kernels:?}");
        // The linear layer's bias sees a NaN only through the gradient of the loss.
        let last = case.program.vars.all().iter().rposition(|v| v.role.is_trained()).expect("it has some");
        assert!(left.state.values[last].iter().all(|v| v.is_nan()), "{kernels:?}");
    }
    // A maximum must not lose it either, wherever in its window it is.
    for at in 0..16 {
        let mut b = Builder::new(3);
        let x = b.features([1, 4, 4, 1]);
        b.features[at] = f64::NAN;
        let y = b.graph.max_pool(x, Window::valid(2, 2)).expect("it fits");
        let y = b.graph.relu(y).expect("it fits");
        let loss = b.graph.sum(y).expect("it fits");
        let forward = b.graph.clone();
        let case = b.finish("a NaN in a window", loss, forward, vec![]);
        for kernels in Kernels::available() {
            assert!(found(&case, kernels, 1, 1).outputs[0][0][0].is_nan(), "{kernels:?} at {at}");
        }
    }
}

#[test]
fn programs_share_threads() {
    let (one, two) = (random_network(1), residual_network());
    let pool = std::sync::Arc::new(super::Pool::new(NonZeroUsize::new(3).expect("not zero")));
    let alone = [found(&one, Kernels::Auto, 1, 3), found(&two, Kernels::Auto, 1, 3)];
    std::thread::scope(|scope| {
        for (case, alone) in [&one, &two].into_iter().zip(&alone) {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut native = Native::compile_on(&case.program, Kernels::Auto, pool).expect("available");
                assert!(run(case, &mut native, 3) == *alone, "{}", case.name);
            });
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_before_any_change() {
    let case = residual_network();
    let mut native = native(&case, Kernels::Auto, 1);
    let before = State { values: case.state.values.iter().map(|v| to_f32(v)).collect() };
    let (features, scalars) = (to_f32(&case.features), to_f32(&case.scalars));
    let mut state = before.clone();
    let short = Feed { features: &features[1..], labels: &case.labels, scalars: &scalars, ..Feed::default() };
    let labels = vec![1000; case.labels.len()];
    let wrong = Feed { features: &features, labels: &labels, scalars: &scalars, ..Feed::default() };
    for feed in [short, wrong] {
        assert!(native.run(&mut state, &feed).is_err());
        assert!(state == before);
    }
    state.values.pop();
    let good = Feed { features: &features, labels: &case.labels, scalars: &scalars, ..Feed::default() };
    assert!(native.run(&mut state, &good).is_err());
}

#[test]
fn a_mean_far_from_zero_costs_no_precision() {
    let mut b = Builder::new(7);
    let rows = 5000;
    // In f32, the mean of squares less the square of the mean would leave no digit of a variance of 1 here.
    let values: Vec<f64> = b.normal(rows * 2).into_iter().map(|v| f64::from((v + 1e4) as f32)).collect();
    let x = b.variable(crate::Role::Weight, [rows, 2], values);
    let stats = b.graph.batch_stats(x).expect("it fits");
    b.outputs.push(("stats".to_string(), stats));
    let loss = b.graph.sum(stats).expect("it fits");
    let forward = b.graph.clone();
    let case = b.finish("a mean far from zero", loss, forward, vec![]);
    let expected = expected(&case, 1);
    for kernels in Kernels::available() {
        let stats = &found(&case, kernels, 2, 1).outputs[0][1];
        for c in 0..4 {
            let off = (f64::from(stats[c]) / expected.outputs[0][1][c] - 1.0).abs();
            assert!(off < 1e-4, "{c} {off}");
        }
    }
}

#[test]
fn whole_networks_over_several_updates() {
    for number in 0..RANDOM_NETWORKS {
        check(&random_network(number), 3, 1e-3);
    }
    check(&residual_network(), 4, 1e-3);
}

#[test]
fn memory_is_near_the_least_possible() {
    for number in 0..RANDOM_NETWORKS {
        let case = random_network(number);
        let native = native(&case, Kernels::Auto, 1);
        let plan = native.plan();
        let (len, bound) = (plan.len as f64, plan.lower_bound as f64);
        // Stacks of matrices beside single lines leave some gaps that larger networks do not have.
        assert!(len <= 1.12 * bound, "{}: {len} values, at least {bound}", case.name);
    }
}

#[test]
fn unused_nodes_are_not_computed() {
    let case = residual_network();
    let forward = Native::compile(
        &crate::Program { updates: vec![], outputs: case.forward.outputs.clone(), ..case.program.clone() },
        &NativeOptions { threads: NonZeroUsize::MIN, kernels: Kernels::Auto },
    );
    let forward = forward.expect("the kernels are available");
    let whole = native(&case, Kernels::Auto, 1);
    assert!(2 * forward.plan().steps.len() < whole.plan().steps.len());
}

#[test]
fn forced_kernels_run_or_are_refused() {
    let case = &operations()[0];
    for kernels in [Kernels::Auto, Kernels::Portable, Kernels::Avx2, Kernels::Avx512] {
        let options = NativeOptions { threads: NonZeroUsize::MIN, kernels };
        match Native::compile(&case.program, &options) {
            Ok(native) => assert!(kernels == Kernels::Auto || native.kernels() == kernels.name()),
            Err(error) => assert_eq!(error, crate::EngineError::Kernels { wanted: kernels.name() }),
        }
    }
}

#[test]
fn times_are_one_for_each_step() {
    let case = residual_network();
    let mut native = native(&case, Kernels::Auto, 1);
    let mut state = State { values: case.state.values.iter().map(|v| to_f32(v)).collect() };
    let (features, scalars) = (to_f32(&case.features), to_f32(&case.scalars));
    let feed = Feed { features: &features, labels: &case.labels, scalars: &scalars, ..Feed::default() };
    let clock = sooner_base::ManualClock::default();
    let times = native.run_timed(&mut state, &feed, &clock).expect("the case fits its program");
    assert_eq!(times.len(), native.plan().steps.len() + 1);
    assert!(times.iter().all(|t| t.seconds.0 == 0.0));
}
