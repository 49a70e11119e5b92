use super::*;
use crate::testing::{Builder, Case, RANDOM_NETWORKS, names, operations, random_network, residual_network};
use crate::{Role, VarId, Window};

/// Compares the gradient of every trained variable with central differences in f64, at no more than `most` elements of
/// each, evenly spread.
fn check_gradients(case: &Case, most: usize) {
    let (naive, _) = case.run_naive();
    let scale = 1.0 + naive.output(0)[0].abs();
    for var in case.program.vars.ids().filter(|id| case.program.vars.get(*id).role.is_trained()) {
        let name = &case.program.vars.get(var).name;
        let grad = naive.output(case.program.output(name).expect("every gradient is an output"));
        let largest = grad.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        for i in (0..grad.len()).step_by(grad.len().div_ceil(most).max(1)) {
            // A step of 1e-5 leaves an error of about 1e-10 of the loss's third derivative, and rounding of 1e-11 of
            // the loss. If it leads over a kink of ReLU or max pooling, one of 1e-7 does so 100 times less often.
            let agrees = |step: f64| {
                let slope = (loss_near(case, var, i, step) - loss_near(case, var, i, -step)) / (2.0 * step);
                (grad[i] - slope).abs() <= 1e-6 * largest + 1e-14 / step * scale
            };
            assert!(
                agrees(1e-5) || agrees(1e-7),
                "{}: {name}[{i}] has gradient {}, which differences do not confirm",
                case.name,
                grad[i]
            );
        }
    }
}

fn loss_near(case: &Case, var: VarId, element: usize, step: f64) -> f64 {
    let mut state = case.state.clone();
    state.values[var.index()][element] += step;
    case.loss_at(&state)
}

#[test]
fn gradients_of_every_operation_agree_with_differences() {
    let cases = operations();
    cases.iter().for_each(|case| check_gradients(case, 500));
    // Read, labels and scalars come along; features and updates are the networks' part.
    let all = names(&cases);
    let missing: Vec<_> = EVERY_OPERATION.iter().filter(|name| !all.contains(*name)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}

const EVERY_OPERATION: &[&str] = &[
    "conv2d",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "linear",
    "linear_grad_input",
    "linear_grad_weight",
    "add_bias",
    "bias_grad",
    "batch_stats",
    "normalize",
    "normalize_grad_sums",
    "normalize_grad_input",
    "normalize_grad_input_fixed",
    "row",
    "relu",
    "relu_grad",
    "gelu",
    "silu",
    "celu",
    "tanh",
    "sigmoid",
    "activation_grad",
    "mul",
    "scale_by",
    "max_pool",
    "max_pool_grad",
    "avg_pool",
    "avg_pool_grad",
    "global_avg_pool",
    "global_avg_pool_grad",
    "add",
    "scale",
    "reshape",
    "pad_channels",
    "take_channels",
    "cross_entropy",
    "cross_entropy_grad",
    "correct",
    "stack",
    "batch_matmul",
    "unit_rows",
    "clip_factor",
    "dropout",
    "soft_cross_entropy",
    "soft_cross_entropy_grad",
    "sum",
    "broadcast",
    "fill",
];

#[test]
fn gradients_of_whole_networks_agree_with_differences() {
    check_gradients(&residual_network(), usize::MAX);
    (0..RANDOM_NETWORKS).map(random_network).for_each(|case| check_gradients(&case, 20));
}

#[test]
fn the_first_of_equal_maxima_gets_the_gradient() {
    let mut b = Builder::new(0);
    // Two windows of 2 x 2: all equal; and a tie between the second and the third.
    let values = vec![5.0, 5.0, 1.0, 7.0, 5.0, 5.0, 7.0, -1.0];
    let x = b.variable(Role::Weight, [1, 2, 4, 1], values);
    let pooled = b.graph.max_pool(x, Window::valid(2, 2)).unwrap();
    let loss = b.graph.sum(pooled).unwrap();
    let case = b.differentiate("ties", loss).unwrap();
    let (naive, _) = case.run_naive();
    assert_eq!(naive.output(0), [12.0]);
    assert_eq!(naive.output(1), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn padding_never_wins_a_maximum() {
    let mut b = Builder::new(0);
    let x = b.variable(Role::Weight, [1, 1, 2, 1], vec![-3.0, -2.0]);
    let pooled = b.graph.max_pool(x, Window::same(3, 1)).unwrap();
    let loss = b.graph.sum(pooled).unwrap();
    let case = b.differentiate("padding", loss).unwrap();
    let (naive, _) = case.run_naive();
    assert_eq!(naive.output(0), [-4.0]);
    assert_eq!(naive.output(1), [0.0, 2.0]);
}

/// A loss over a used and an unused weight, with a frozen layer first.
fn partly_trained() -> (Builder, NodeId, [NodeId; 3]) {
    let mut b = Builder::new(1);
    let x = b.features([2, 3]);
    let [frozen, used, unused] = [[3, 4], [4, 2], [4, 2]].map(|shape| b.weight(shape));
    let hidden = b.graph.linear(x, frozen).unwrap();
    let y = b.graph.linear(hidden, used).unwrap();
    let loss = b.graph.sum(y).unwrap();
    (b, loss, [frozen, used, unused])
}

#[test]
fn only_needed_paths_are_differentiated() {
    let (mut b, loss, [_, used, _]) = partly_trained();
    let before = b.graph.nodes().len();
    gradients(&mut b.graph, loss, &[used]).unwrap();
    let added: Vec<_> = b.graph.nodes()[before..].iter().map(|node| node.op.name()).collect();
    assert_eq!(added, ["fill", "broadcast", "linear_grad_weight"]);
}

#[test]
fn the_unreached_have_gradient_zero() {
    let (mut b, loss, [frozen, used, unused]) = partly_trained();
    let grads = gradients(&mut b.graph, loss, &[unused, frozen, used, unused]).unwrap();
    assert_eq!(b.graph.node(grads[0]).op, Op::Fill { shape: [4, 2].into(), value: 0.0 });
    assert_eq!(grads[0], grads[3]);
    assert_eq!((b.graph.shape(grads[1]), b.graph.shape(grads[2])), (&[3, 4].into(), &[4, 2].into()));
}

#[test]
fn the_loss_itself_has_gradient_one() {
    let (mut b, loss, _) = partly_trained();
    let grads = gradients(&mut b.graph, loss, &[loss]).unwrap();
    assert_eq!(b.graph.node(grads[0]).op, Op::Fill { shape: sooner_base::Shape::scalar(), value: 1.0 });
}

#[test]
fn what_has_no_gradient_is_named() {
    let no_gradient = |op| Err(EngineError::NoGradient { op });
    let mut b = Builder::new(1);
    let z = b.weight([2, 3]);
    let labels = b.labels(2, 3);
    let correct = b.graph.correct(z, labels).unwrap();
    let loss = b.graph.sum(correct).unwrap();
    assert_eq!(gradients(&mut b.graph, loss, &[z]), no_gradient("correct"));

    // The statistics of another value are no constants when that value is trained.
    let mut b = Builder::new(1);
    let [x, other] = [b.weight([4, 3]), b.weight([4, 3])];
    let [gamma, beta] = [b.weight([3]), b.weight([3])];
    let stats = b.graph.batch_stats(other).unwrap();
    let y = b.graph.normalize(x, stats, [gamma, beta], 0.1).unwrap();
    let loss = b.graph.sum(y).unwrap();
    assert_eq!(gradients(&mut b.graph, loss, &[x, other]), no_gradient("batch_stats"));
    assert!(gradients(&mut b.graph, loss, &[x, gamma, beta]).is_ok());

    // No gradient by a scalar that shapes the loss, nor by labels.
    let mut b = Builder::new(1);
    let z = b.weight([2, 3]);
    let (labels, smoothing) = (b.labels(2, 3), b.graph.scalar("smoothing 0.1"));
    let each = b.graph.cross_entropy(z, labels, smoothing).unwrap();
    let loss = b.graph.sum(each).unwrap();
    assert_eq!(gradients(&mut b.graph, loss, &[smoothing]), no_gradient("cross_entropy"));
    assert_eq!(gradients(&mut b.graph, loss, &[labels]), no_gradient("cross_entropy"));
    assert!(gradients(&mut b.graph, loss, &[z]).is_ok());
}

#[test]
fn only_scalars_are_differentiated() {
    let mut b = Builder::new(1);
    let x = b.weight([2, 3]);
    let error = gradients(&mut b.graph, x, &[x]).unwrap_err();
    assert_eq!(error.to_string(), "gradients: expected a scalar loss, found shapes [[2, 3]]");
}
