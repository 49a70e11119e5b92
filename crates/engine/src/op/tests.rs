use super::*;
use crate::{EngineError, Graph};

/// A leaf of this shape, or labels for a count.
enum Operand {
    Real(Vec<usize>),
    Labels(usize),
}
use Operand::{Labels, Real};

fn real(dims: &[usize]) -> Operand {
    Real(dims.to_vec())
}

fn shape_of(op: Op, operands: &[Operand]) -> Result<Shape, EngineError> {
    let mut graph = Graph::new();
    let leaf = |operand: &Operand| match operand {
        Real(dims) => graph.features(Shape::new(dims.clone())),
        Labels(count) => graph.labels(*count),
    };
    let args: Vec<_> = operands.iter().map(leaf).collect();
    graph.push(op, &args).map(|id| graph.shape(id).clone())
}

fn check(op: Op, operands: &[Operand], expected: &[usize]) {
    assert_eq!(shape_of(op, operands), Ok(Shape::new(expected)));
}

fn refuse(op: Op, operands: &[Operand], message: &str) {
    assert_eq!(shape_of(op, operands).unwrap_err().to_string(), message);
}

#[test]
fn windows() {
    let output = |window: Window, input| window.output(input);
    assert_eq!(output(Window::valid(1, 1), [1, 7]), Some([1, 7]));
    assert_eq!(output(Window::valid(2, 2), [5, 4]), Some([2, 2]));
    assert_eq!(output(Window::same(3, 2), [7, 8]), Some([4, 4]));
    assert_eq!(output(Window::valid(3, 1), [2, 5]), None);
    assert_eq!(output(Window::valid(1, 0), [2, 5]), None);
    assert_eq!(output(Window::valid(0, 1), [2, 5]), None);
    let lopsided =
        Window { kernel: [3, 2], stride: [2, 1], pad_low: [0, 1], pad_high: [2, 0], dilation: [1; 2] };
    assert_eq!(output(lopsided, [6, 5]), Some([3, 5]));
}

#[test]
fn taps_are_the_positions_inside_the_image() {
    let mut taps = Vec::new();
    let window =
        Window { kernel: [1, 3], stride: [1, 2], pad_low: [0, 1], pad_high: [0, 1], dilation: [1; 2] };
    window.each_tap([1, 4], |out, tap, at| taps.push((out[1], tap[1], at[1])));
    assert_eq!(taps, [(0, 1, 0), (0, 2, 1), (1, 0, 1), (1, 1, 2), (1, 2, 3)]);
}

#[test]
fn results_have_shapes() {
    check(Op::Conv2d(Window::same(3, 2).into()), &[real(&[2, 7, 6, 3]), real(&[3, 3, 3, 5])], &[2, 4, 3, 5]);
    check(Op::Linear, &[real(&[4, 3]), real(&[3, 2])], &[4, 2]);
    check(Op::BatchStats { group: None }, &[real(&[2, 3, 4, 5])], &[2, 5]);
    check(Op::GlobalAvgPool, &[real(&[2, 3, 4, 5])], &[2, 5]);
    check(Op::PadChannels { before: 0, channels: 7 }, &[real(&[2, 3])], &[2, 7]);
    check(Op::CrossEntropy, &[real(&[4, 3]), Labels(4), real(&[])], &[4]);
    check(Op::Sum, &[real(&[0, 3])], &[]);
}

#[test]
fn refusals_name_the_operation_and_the_shapes() {
    let conv = Op::Conv2d(Window::same(3, 1).into());
    refuse(
        conv.clone(),
        &[real(&[2, 5, 5, 3]), real(&[3, 3, 4, 8])],
        "conv2d: expected x [N, H, W, C] and w [KH, KW, C / groups, K], found shapes [[2, 5, 5, 3], [3, 3, 4, 8]]",
    );
    refuse(
        conv.clone(),
        &[real(&[2, 5, 5, 3]), real(&[1, 1, 3, 8])],
        "conv2d: expected x [N, H, W, C] and w [KH, KW, C / groups, K], found shapes [[2, 5, 5, 3], [1, 1, 3, 8]]",
    );
    refuse(
        conv,
        &[real(&[2, 5]), real(&[3, 3, 3, 8])],
        "conv2d: expected an image [N, H, W, C], found shapes [[2, 5], [3, 3, 3, 8]]",
    );
    refuse(
        Op::Conv2d(Window::valid(3, 1).into()),
        &[real(&[2, 2, 5, 1]), real(&[3, 3, 1, 8])],
        "conv2d: expected a window that fits the padded image, found shapes [[2, 2, 5, 1], [3, 3, 1, 8]]",
    );
    refuse(
        Op::Linear,
        &[real(&[4, 3]), real(&[4, 2])],
        "linear: expected x [N, I] and w [I, O], found shapes [[4, 3], [4, 2]]",
    );
    refuse(
        Op::Linear,
        &[real(&[4, 3])],
        "linear: expected another number of operands, found shapes [[4, 3]]",
    );
    refuse(
        Op::AddBias,
        &[real(&[4, 3]), real(&[4])],
        "add_bias: expected one value a channel, found shapes [[4, 3], [4]]",
    );
    refuse(
        Op::BatchStats { group: None },
        &[real(&[0, 3])],
        "batch_stats: expected a non-empty [..., C], found shapes [[0, 3]]",
    );
    refuse(
        Op::Normalize(0.1.into()),
        &[real(&[4, 3]), real(&[3, 2]), real(&[3]), real(&[3])],
        "normalize: expected statistics [2, C], or [G, 2, C] of groups, found shapes [[4, 3], [3, 2], [3], [3]]",
    );
    refuse(
        Op::Add,
        &[real(&[4, 3]), real(&[3, 4])],
        "add: expected two operands of one shape, found shapes [[4, 3], [3, 4]]",
    );
    refuse(
        Op::Reshape([5].into()),
        &[real(&[2, 3])],
        "reshape: expected as many elements as the new shape, found shapes [[2, 3]]",
    );
    refuse(
        Op::PadChannels { before: 0, channels: 2 },
        &[real(&[2, 3])],
        "pad_channels: expected a possible number of channels, found shapes [[2, 3]]",
    );
    let wide = Window { kernel: [2, 2], stride: [1, 1], pad_low: [2, 0], pad_high: [0, 0], dilation: [1; 2] };
    refuse(
        Op::MaxPool(wide),
        &[real(&[1, 3, 3, 1])],
        "max_pool: expected padding smaller than the window, found shapes [[1, 3, 3, 1]]",
    );
    refuse(
        Op::AvgPool(Window::same(3, 1)),
        &[real(&[1, 0, 3, 1])],
        "avg_pool: expected at least one position, found shapes [[1, 0, 3, 1]]",
    );
    refuse(
        Op::GlobalAvgPool,
        &[real(&[1, 0, 3, 1])],
        "global_avg_pool: expected at least one position, found shapes [[1, 0, 3, 1]]",
    );
    refuse(
        Op::Correct,
        &[real(&[4, 3]), Labels(5)],
        "correct: expected logits [N, K] and labels [N], found shapes [[4, 3], [5]]",
    );
    refuse(
        Op::CrossEntropy,
        &[real(&[4, 3]), real(&[4]), real(&[])],
        "cross_entropy: expected logits [N, K] and labels [N], found shapes [[4, 3], [4], []]",
    );
    refuse(Op::Relu, &[Labels(4)], "relu: expected real operands, found shapes [[4]]");
}

#[test]
fn malformed_gradients_are_refused_without_panic() {
    let (window, flat) = (Window::valid(1, 1), Shape::from([4]));
    let image = || real(&[1, 2, 2, 3]);
    for (op, operands) in [
        (
            Op::Conv2dGradInput { conv: window.into(), input: flat.clone() },
            vec![image(), real(&[1, 1, 3, 3])],
        ),
        (Op::Conv2dGradWeight(window.into()), vec![image(), real(&[1, 3, 3, 3])]),
        (Op::AvgPoolGrad { window, input: flat.clone() }, vec![image()]),
        (Op::GlobalAvgPoolGrad { input: flat }, vec![image()]),
        (Op::MaxPoolGrad(window), vec![image(), real(&[1, 2, 2, 4])]),
        (Op::ReluGrad, vec![image(), real(&[12])]),
        (Op::LinearGradInput, vec![real(&[2, 3]), real(&[3, 2])]),
        (Op::LinearGradWeight, vec![real(&[2, 3]), real(&[3, 2])]),
        (Op::BiasGrad, vec![real(&[])]),
        (Op::Row { row: 2 }, vec![real(&[2, 3])]),
        (Op::Broadcast([2].into()), vec![real(&[1])]),
        (Op::PadChannels { before: 0, channels: 1 }, vec![real(&[])]),
    ] {
        let name = op.name();
        let error = shape_of(op, &operands).unwrap_err();
        assert!(matches!(error, EngineError::Shapes { op, .. } if op == name), "{error}");
    }
}
