//! Values that were worked out by hand; gradients are tested by differences, with automatic differentiation.

use super::*;
use crate::testing::Builder;
use crate::{Group, OptimizerSpec, Role, Rule, Window, add_optimizer};

/// The value of what `build` makes.
fn value(build: impl Fn(&mut Builder) -> Result<NodeId, EngineError>) -> Vec<f64> {
    let mut b = Builder::new(0);
    let y = build(&mut b).unwrap();
    let forward = b.graph.clone();
    let case = b.finish("values by hand", y, forward, vec![]);
    case.run_naive().0.output(0).to_vec()
}

fn given(b: &mut Builder, shape: impl Into<Shape>, values: &[f64]) -> NodeId {
    b.variable(Role::Weight, shape, values.to_vec())
}

#[test]
fn convolution_is_cross_correlation() {
    let y = value(|b| {
        let x = given(b, [1, 2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let w = given(b, [1, 2, 1, 1], &[10.0, 1.0]);
        b.graph.conv2d(x, w, Window { kernel: [1, 2], ..Window::valid(1, 1) })
    });
    assert_eq!(y, [12.0, 23.0, 45.0, 56.0]);
}

#[test]
fn convolution_pads_and_strides_by_dimension() {
    let y = value(|b| {
        let x = given(b, [1, 3, 2, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let w = given(b, [2, 2, 1, 1], &[1000.0, 100.0, 10.0, 1.0]);
        let window =
            Window { kernel: [2, 2], stride: [2, 1], pad_low: [1, 0], pad_high: [0, 1], dilation: [1; 2] };
        b.graph.conv2d(x, w, window)
    });
    // Rows (padding, 1) and (2, 3); columns (0, 1) and (1, padding).
    assert_eq!(y, [12.0, 20.0, 3456.0, 4060.0]);
}

#[test]
fn convolution_mixes_channels() {
    let y = value(|b| {
        let x = given(b, [1, 1, 1, 2], &[1.0, 2.0]);
        let w = given(b, [1, 1, 2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
        b.graph.conv2d(x, w, Window::valid(1, 1))
    });
    assert_eq!(y, [21.0, 42.0, 63.0]);
}

#[test]
fn pools_see_only_the_image() {
    let pool = |window: Window, max: bool| {
        value(|b| {
            let x = given(b, [1, 2, 3, 1], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
            if max { b.graph.max_pool(x, window) } else { b.graph.avg_pool(x, window) }
        })
    };
    assert_eq!(pool(Window::same(3, 2), true), [-1.0, -2.0]);
    assert_eq!(pool(Window::same(3, 2), false), [-3.0, -4.0]);
    assert_eq!(pool(Window::valid(2, 1), true), [-1.0, -2.0]);
    assert_eq!(pool(Window::valid(2, 1), false), [-3.0, -4.0]);
}

#[test]
fn divergence_is_seen() {
    let nan = |b: &mut Builder| given(b, [1, 1, 3, 1], &[f64::NAN, 1.0, f64::NAN]);
    let y = value(|b| {
        let x = nan(b);
        b.graph.relu(x)
    });
    assert!(y[0].is_nan() && y[1] == 1.0 && y[2].is_nan());
    let window = Window::same(3, 1);
    assert!(
        value(|b| {
            let x = nan(b);
            b.graph.max_pool(x, window)
        })
        .iter()
        .all(|v| v.is_nan())
    );
}

#[test]
fn batch_statistics_are_biased() {
    let y = value(|b| {
        let x = given(b, [4, 2], &[1.0, 10.0, 2.0, 10.0, 3.0, 10.0, 6.0, 10.0]);
        b.graph.batch_stats(x)
    });
    assert_eq!(y, [3.0, 10.0, 3.5, 0.0]);
}

#[test]
fn normalisation_scales_and_shifts() {
    let y = value(|b| {
        let (x, stats) = (given(b, [2, 1], &[1.0, 5.0]), given(b, [2, 1], &[3.0, 3.75]));
        let (gamma, beta) = (given(b, [1], &[10.0]), given(b, [1], &[1.0]));
        b.graph.normalize(x, stats, [gamma, beta], 0.25)
    });
    assert_eq!(y, [-9.0, 11.0]);
}

#[test]
fn cross_entropy_of_known_distributions() {
    let loss = |logits: &[f64], label: u32, smoothing: &str| {
        value(|b| {
            let z = given(b, [1, logits.len()], logits);
            b.labels = vec![label];
            let (labels, s) = (b.graph.labels(1), b.graph.scalar(&format!("smoothing {smoothing}")));
            b.graph.cross_entropy(z, labels, s)
        })[0]
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(loss(&[5.0; 10], 3, "0"), 10f64.ln());
    close(loss(&[5.0; 10], 3, "0.3"), 10f64.ln());
    // p = (1/4, 3/4).
    close(loss(&[0.0, 3f64.ln()], 0, "0"), 4f64.ln());
    close(loss(&[0.0, 3f64.ln()], 0, "0.2"), 0.9 * 4f64.ln() + 0.1 * (4f64 / 3.0).ln());
    close(loss(&[1e4, 0.0], 0, "0"), 0.0);
    close(loss(&[1e4, 0.0], 1, "0"), 1e4);
}

#[test]
fn the_first_of_equal_logits_is_the_answer() {
    let correct = |logits: [f64; 3], label: u32| {
        value(|b| {
            let z = given(b, [1, 3], &logits);
            b.labels = vec![label];
            let labels = b.graph.labels(1);
            b.graph.correct(z, labels)
        })[0]
    };
    assert_eq!([0, 1, 2].map(|label| correct([1.0, 3.0, 2.0], label)), [0.0, 1.0, 0.0]);
    assert_eq!([0, 1, 2].map(|label| correct([1.0, 3.0, 3.0], label)), [0.0, 1.0, 0.0]);
    assert_eq!([0, 1, 2].map(|label| correct([3.0, f64::NAN, 2.0], label)), [0.0; 3]);
    assert_eq!([0, 1, 2].map(|label| correct([f64::NAN; 3], label)), [0.0; 3]);
}

#[test]
fn channels_are_padded_and_taken_row_by_row() {
    let y = value(|b| {
        let x = given(b, [2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let wide = b.graph.pad_channels(x, 3)?;
        let bias = given(b, [3], &[0.5; 3]);
        b.graph.add_bias(wide, bias)
    });
    assert_eq!(y, [1.5, 2.5, 0.5, 3.5, 4.5, 0.5]);
    let y = value(|b| {
        let x = given(b, [2, 2], &[1.0, 2.0, 3.0, 4.0]);
        b.graph.push(Op::TakeChannels { first: 0, channels: 1 }, &[x])
    });
    assert_eq!(y, [1.0, 3.0]);
}

/// Running statistics after one update from these, by these batches' statistics.
fn running(running: [f64; 2], batch: &[f64], rate: f64) -> Vec<f64> {
    let mut b = Builder::new(0);
    let x = given(&mut b, [batch.len(), 1], batch);
    let stats = b.graph.batch_stats(x).unwrap();
    b.variable(Role::Running, [2, 1], running.to_vec());
    let var = b.vars.find("v1").unwrap();
    let loss = b.graph.sum(x).unwrap();
    let forward = b.graph.clone();
    let update = Update::RunningStats { var, stats, rate, counts: vec![batch.len()] };
    let case = b.finish("running statistics", loss, forward, vec![update]);
    case.run_naive().1.values[1].clone()
}

#[test]
fn running_statistics_move_towards_the_unbiased_ones() {
    // Mean 3, squares of the deviations 14 in sum.
    let batch = [1.0, 2.0, 3.0, 6.0];
    let variance = 14.0 / 3.0;
    assert_eq!(running([7.0, 9.0], &batch, 0.0), [7.0, 9.0]);
    let near = |found: Vec<f64>, expected: [f64; 2]| {
        assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?} {expected:?}");
    };
    near(running([7.0, 9.0], &batch, 1.0), [3.0, variance]);
    near(running([7.0, 9.0], &batch, 0.25), [6.0, 0.75 * 9.0 + 0.25 * variance]);
    near(running([7.0, 9.0], &[5.0], 0.5), [6.0, 4.5]);
}

#[test]
fn scales_of_a_variable_multiply_rate_and_decay() {
    let mut b = Builder::new(0);
    let x = given(&mut b, [1], &[2.0]);
    let tripled = b.graph.scale(x, 3.0).unwrap();
    let loss = b.graph.sum(tripled).unwrap();
    let forward = b.graph.clone();
    let group = Group { rate_scale: 2.0, decay_scale: 10.0, ..Group::of(&[], "") };
    let spec = OptimizerSpec { groups: vec![group], ..OptimizerSpec::new(Rule::Nesterov) };
    let updates = add_optimizer(&mut b.vars, &mut b.graph, loss, &spec).unwrap();
    let case = b.finish("scales", loss, forward, updates);
    let (_, after) = case.run_naive();
    // Fed are rate 0.05, momentum 0.9, decay 0.01: g = 3 + 0.1 * 2, v = g, theta = 2 - 0.1 (g + 0.9 v).
    let [theta, v] = [0, 1].map(|i| after.values[i][0]);
    assert!((theta - 1.392).abs() < 1e-12 && (v - 3.2).abs() < 1e-12, "{theta} {v}");
}

#[test]
fn every_value_is_computed_before_any_variable_changes() {
    let case = crate::testing::residual_network();
    let (naive, after) = case.run_naive();
    assert_eq!(naive.output(0)[0], case.loss_at(&case.state));
    assert!(case.loss_at(&after) < case.loss_at(&case.state));
}

#[test]
fn single_precision_agrees_with_double() {
    for case in crate::testing::operations() {
        let (double, _) = case.run_naive();
        let [features, scalars, soft_labels] = [&case.features, &case.scalars, &case.soft_labels]
            .map(|values| values.iter().map(|v| *v as f32).collect::<Vec<f32>>());
        let feed = Feed {
            features: &features,
            labels: &case.labels,
            scalars: &scalars,
            soft_labels: &soft_labels,
            origins: &case.origins,
            ..Feed::default()
        };
        let mut single = Naive::<f32>::new(&case.program);
        single.run(&mut case.state.convert(), &feed).unwrap();
        for (i, (name, _)) in case.program.outputs.iter().enumerate() {
            let largest = double.output(i).iter().fold(1.0, |a: f64, v| a.max(v.abs()));
            for (a, b) in single.output(i).iter().zip(double.output(i)) {
                let error = (f64::from(*a) - b).abs();
                // Normalising a single row divides rounding errors by sqrt(eps); 1e-3 leaves room for that.
                assert!(error <= 1e-3 * largest, "{} {name}: {a} {b}", case.name);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let case = crate::testing::residual_network();
    let check = |feed: Feed<f64>, state: &State<f64>, message: &str| {
        let mut state = state.clone();
        let before = state.clone();
        let error = Naive::new(&case.program).run(&mut state, &feed).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(state, before);
    };
    let feed = case.feed();
    let short = Feed { features: &case.features[1..], ..feed };
    check(short, &case.state, "features: the program takes 324 values, found 323");
    check(Feed { labels: &[0; 4], ..feed }, &case.state, "labels: the program takes 3 values, found 4");
    let scalars = format!("scalars: the program takes {} values, found 0", case.scalars.len());
    check(Feed { scalars: &[], ..feed }, &case.state, &scalars);
    let label = Feed { labels: &[0, 99, 0], ..feed };
    let classes = case.program.graph.shape(case.program.outputs[2].1)[1];
    let message = format!("label 99 of example 1 is not below the {classes} classes of the program");
    check(label, &case.state, &message);
    let mut state = case.state.clone();
    state.values[1].push(0.0);
    check(feed, &state, "v1: the program takes 4 values, found 5");
    state.values.pop();
    let count = case.state.values.len();
    check(feed, &state, &format!("variables: the program takes {count} values, found {}", count - 1));
}
