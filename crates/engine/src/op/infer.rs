//! The static shapes of operations.

use super::{Activation, Convolution, Normalization, Op, Transposed, Window};
use crate::EngineError;
use crate::collective::Reduction;
use crate::graph::{Dtype, Node};
use sooner_base::Shape;

/// Whether w `[KH, KW, C / groups, K]` are filters of a convolution of an input of so many channels.
fn filters(conv: &Convolution, channels: usize, w: &Shape) -> bool {
    let Convolution { window, groups } = conv;
    w.rank() == 4
        && *groups > 0
        && w[2] * groups == channels
        && w[3].is_multiple_of(*groups)
        && [w[0], w[1]] == window.kernel
}

/// The shape of the statistics of x.
fn stats_shape(x: &Shape, group: Option<usize>) -> Shape {
    match group {
        None => [2, x.last()].into(),
        Some(examples) => [x[0].div_ceil(examples.max(1)), 2, x.last()].into(),
    }
}

/// The shape and element type of an operation's result, or an error that names the operation and its operands' shapes.
pub(crate) fn infer(op: &Op, args: &[&Node]) -> Result<(Shape, Dtype), EngineError> {
    let shapes: Vec<Shape> = args.iter().map(|n| n.shape.clone()).collect();
    let fail =
        |expected: &'static str| EngineError::Shapes { op: op.name(), expected, found: shapes.clone() };
    let check = |good: bool, expected: &'static str| if good { Ok(()) } else { Err(fail(expected)) };
    let arity = match op {
        Op::Stack => args.len().clamp(1, crate::MOST_STACKED),
        Op::UnitRows { .. } | Op::ClipFactor { .. } => 1,
        Op::BatchMatmul(_) => 2,
        Op::Features | Op::Labels | Op::SoftLabels | Op::Scalar(_) | Op::Read(_) | Op::Fill { .. } => 0,
        Op::Given { .. } => 0,
        Op::AllReduce { .. } => 1,
        Op::BiasGrad
        | Op::BatchStats { .. }
        | Op::Row { .. }
        | Op::Relu
        | Op::MaxPool(_)
        | Op::AvgPool(_) => 1,
        Op::AvgPoolGrad { .. } | Op::GlobalAvgPool | Op::GlobalAvgPoolGrad { .. } | Op::Scale(_) => 1,
        Op::Reshape(_) | Op::PadChannels { .. } | Op::TakeChannels { .. } | Op::Sum | Op::Broadcast(_) => 1,
        Op::Conv2d(_) | Op::Conv2dGradInput { .. } | Op::Conv2dGradWeight(_) | Op::Linear => 2,
        Op::LinearGradInput | Op::LinearGradWeight | Op::AddBias | Op::ReluGrad | Op::MaxPoolGrad(_) => 2,
        Op::Activate(_) | Op::Dropout { .. } => 1,
        Op::ActivateGrad(_) | Op::Add | Op::Mul | Op::ScaleBy | Op::Correct => 2,
        Op::NormalizeGradSums(_) | Op::NormalizeGradInputFixed { .. } | Op::CrossEntropy => 3,
        Op::SoftCrossEntropy => 3,
        Op::Normalize(_) | Op::CrossEntropyGrad | Op::SoftCrossEntropyGrad => 4,
        Op::NormalizeGradInput(_) => 5,
    };
    check(args.len() == arity, "another number of operands")?;
    let s = &shapes;
    let image = |i: usize| check(s[i].rank() == 4, "an image [N, H, W, C]");
    let windowed = |input: &Shape, window: &Window| {
        check(input.rank() == 4, "an image [N, H, W, C]")?;
        window.output([input[1], input[2]]).ok_or_else(|| fail("a window that fits the padded image"))
    };
    let channels = |i: usize, like: usize| {
        let good = s[i].rank() == 1 && s[i][0] == s[like].last();
        check(good, "one value a channel")
    };
    let stats = |i: usize, like: usize, group: Option<usize>| {
        let good = s[like].rank() > 0 && s[i] == stats_shape(&s[like], group);
        check(good, "statistics [2, C], or [G, 2, C] of groups")
    };
    let shape = match op {
        Op::Features | Op::Labels | Op::SoftLabels | Op::Scalar(_) | Op::Given { .. } | Op::Read(_) => {
            unreachable!("leaves are appended with their shape")
        }
        Op::Fill { shape, .. } => shape.clone(),
        Op::Conv2d(conv) => {
            image(0)?;
            check(filters(conv, s[0][3], &s[1]), "x [N, H, W, C] and w [KH, KW, C / groups, K]")?;
            let [h, w] = windowed(&s[0], &conv.window)?;
            [s[0][0], h, w, s[1][3]].into()
        }
        Op::Conv2dGradInput { conv, input } => {
            image(0)?;
            let [h, w] = windowed(input, &conv.window)?;
            let good = filters(conv, input[3], &s[1]) && *s[0].dims() == [input[0], h, w, s[1][3]];
            check(good, "dy [N, H', W', K] and w [KH, KW, C / groups, K] of the same convolution")?;
            input.clone()
        }
        Op::Conv2dGradWeight(conv) => {
            image(0)?;
            image(1)?;
            let Convolution { window, groups } = conv;
            let [h, w] = windowed(&s[0], window)?;
            let divides = *groups > 0 && s[0][3].is_multiple_of(*groups) && s[1][3].is_multiple_of(*groups);
            check(divides && s[1].dims()[..3] == [s[0][0], h, w], "x and dy of the same convolution")?;
            [window.kernel[0], window.kernel[1], s[0][3] / groups, s[1][3]].into()
        }
        Op::Linear => {
            check(s[0].rank() == 2 && s[1].rank() == 2 && s[0][1] == s[1][0], "x [N, I] and w [I, O]")?;
            [s[0][0], s[1][1]].into()
        }
        Op::LinearGradInput => {
            check(s[0].rank() == 2 && s[1].rank() == 2 && s[0][1] == s[1][1], "dy [N, O] and w [I, O]")?;
            [s[0][0], s[1][0]].into()
        }
        Op::LinearGradWeight => {
            check(s[0].rank() == 2 && s[1].rank() == 2 && s[0][0] == s[1][0], "x [N, I] and dy [N, O]")?;
            [s[0][1], s[1][1]].into()
        }
        Op::AddBias => {
            channels(1, 0)?;
            s[0].clone()
        }
        Op::BiasGrad => {
            check(s[0].rank() > 0, "at least one dimension")?;
            [s[0].last()].into()
        }
        Op::BatchStats { group } => {
            check(s[0].rank() > 1 && !s[0].is_empty(), "a non-empty [..., C]")?;
            check(*group != Some(0), "groups of at least one example")?;
            stats_shape(&s[0], *group)
        }
        Op::Normalize(Normalization { group, .. }) => {
            stats(1, 0, *group)?;
            channels(2, 0)?;
            channels(3, 0)?;
            s[0].clone()
        }
        Op::NormalizeGradSums(Normalization { group, .. }) => {
            check(s[0] == s[1], "dy and x of one shape")?;
            stats(2, 0, *group)?;
            s[2].clone()
        }
        Op::NormalizeGradInput(Normalization { group, .. }) => {
            check(s[0] == s[1], "dy and x of one shape")?;
            stats(2, 0, *group)?;
            channels(3, 0)?;
            stats(4, 0, *group)?;
            s[0].clone()
        }
        Op::NormalizeGradInputFixed { .. } => {
            stats(1, 0, None)?;
            channels(2, 0)?;
            s[0].clone()
        }
        Op::Row { row } => {
            check(s[0].rank() > 0 && *row < s[0][0], "a tensor with that row")?;
            Shape::new(&s[0].dims()[1..])
        }
        Op::AllReduce { how, count } => {
            check(*count > 0, "values about at least one element")?;
            let stats = s[0].rank() == 2 && s[0][0] == 2;
            check(*how != Reduction::Moments || stats, "statistics [2, C]")?;
            s[0].clone()
        }
        Op::Relu | Op::Scale(_) => s[0].clone(),
        Op::Activate(activation) => {
            let good = !matches!(activation, Activation::Celu { alpha } if *alpha <= 0.0 || alpha.is_nan());
            check(good, "an alpha above 0")?;
            s[0].clone()
        }
        Op::Dropout { rate, .. } => {
            check((0.0..1.0).contains(rate), "a rate from 0 to below 1")?;
            check(s[0].rank() > 0, "a batch")?;
            s[0].clone()
        }
        Op::ScaleBy => {
            check(s[1].rank() == 0, "a tensor and a scalar")?;
            s[0].clone()
        }
        Op::ReluGrad | Op::ActivateGrad(_) | Op::Add | Op::Mul => {
            check(s[0] == s[1], "two operands of one shape")?;
            s[0].clone()
        }
        Op::MaxPool(window) | Op::AvgPool(window) => {
            image(0)?;
            let overlaps = (0..2).all(|d| window.pad_low[d].max(window.pad_high[d]) < window.kernel[d]);
            check(overlaps, "padding smaller than the window")?;
            check(window.dilation == [1; 2], "a window without holes")?;
            check(s[0][1] * s[0][2] > 0, "at least one position")?;
            let [h, w] = windowed(&s[0], window)?;
            [s[0][0], h, w, s[0][3]].into()
        }
        Op::MaxPoolGrad(window) => {
            image(0)?;
            let [h, w] = windowed(&s[0], window)?;
            check(*s[1].dims() == [s[0][0], h, w, s[0][3]], "x and dy of the same pooling")?;
            s[0].clone()
        }
        Op::AvgPoolGrad { window, input } => {
            image(0)?;
            let [h, w] = windowed(input, window)?;
            check(*s[0].dims() == [input[0], h, w, input[3]], "dy of the same pooling")?;
            input.clone()
        }
        Op::GlobalAvgPool => {
            image(0)?;
            check(s[0][1] * s[0][2] > 0, "at least one position")?;
            [s[0][0], s[0][3]].into()
        }
        Op::GlobalAvgPoolGrad { input } => {
            let good = input.rank() == 4 && *s[0].dims() == [input[0], input[3]];
            check(good, "dy [N, C]")?;
            input.clone()
        }
        Op::Reshape(shape) => {
            check(shape.len() == s[0].len(), "as many elements as the new shape")?;
            shape.clone()
        }
        Op::PadChannels { before: at, channels } | Op::TakeChannels { first: at, channels } => {
            check(s[0].rank() > 0, "at least one dimension")?;
            let last = s[0].last();
            let (inner, outer) =
                if matches!(op, Op::PadChannels { .. }) { (last, *channels) } else { (*channels, last) };
            check(at + inner <= outer, "a possible number of channels")?;
            let mut dims = s[0].dims().to_vec();
            *dims.last_mut().expect("rank was checked") = *channels;
            Shape::new(dims)
        }
        Op::CrossEntropy | Op::CrossEntropyGrad | Op::Correct => {
            let labels = args[1].dtype == Dtype::Index && s[1].rank() == 1;
            check(s[0].rank() == 2 && labels && s[0][0] == s[1][0], "logits [N, K] and labels [N]")?;
            check(*op == Op::Correct || s[2].rank() == 0, "a scalar smoothing")?;
            if *op == Op::CrossEntropyGrad {
                check(s[3] == s[1], "dloss [N]")?;
                s[0].clone()
            } else {
                s[1].clone()
            }
        }
        Op::SoftCrossEntropy | Op::SoftCrossEntropyGrad => {
            check(s[0].rank() == 2 && s[0] == s[1], "logits and soft labels [N, K]")?;
            check(s[2].rank() == 0, "a scalar smoothing")?;
            if *op == Op::SoftCrossEntropyGrad {
                check(*s[3].dims() == [s[0][0]], "dloss [N]")?;
                s[0].clone()
            } else {
                [s[0][0]].into()
            }
        }
        Op::Stack => {
            check(s.iter().all(|one| *one == s[0]), "tensors of one shape")?;
            Shape::new([&[s.len()], s[0].dims()].concat())
        }
        Op::BatchMatmul(transposed) => {
            check(s[0].rank() == 3 && s[1].rank() == 3 && s[0][0] == s[1][0], "a [B, I, J] and b [B, J, K]")?;
            let left = if *transposed == Transposed::Left { [2, 1] } else { [1, 2] };
            let right = if *transposed == Transposed::Right { [2, 1] } else { [1, 2] };
            check(s[0][left[1]] == s[1][right[0]], "a [B, I, J] and b [B, J, K]")?;
            [s[0][0], s[0][left[0]], s[1][right[1]]].into()
        }
        Op::UnitRows { .. } => {
            check(s[0].rank() > 0, "rows")?;
            s[0].clone()
        }
        Op::ClipFactor { .. } => {
            check(s[0].rank() == 0, "a scalar")?;
            Shape::scalar()
        }
        Op::Sum => Shape::scalar(),
        Op::Broadcast(shape) => {
            check(s[0].rank() == 0, "a scalar")?;
            shape.clone()
        }
    };
    let takes_labels = matches!(op, Op::CrossEntropy | Op::CrossEntropyGrad | Op::Correct);
    let reals = args.iter().enumerate().all(|(i, a)| a.dtype == Dtype::Real || takes_labels && i == 1);
    check(reals, "real operands")?;
    Ok((shape, Dtype::Real))
}
