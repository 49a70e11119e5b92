//! The operations of tensor programs and their static shapes. Layouts are channels-last: images `[N, H, W, C]`,
//! convolution weights `[KH, KW, C, K]`, linear weights `[I, O]`.

use crate::EngineError;
use crate::graph::{Dtype, Node};
use crate::var::VarId;
use sooner_base::Shape;

/// A sliding window over the two spatial dimensions (height, width) of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Extent of the window.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Padding before the first row and column.
    pub pad_low: [usize; 2],
    /// Padding after the last row and column.
    pub pad_high: [usize; 2],
    /// Distance between neighbouring taps of a window; 1 but for convolutions with holes.
    pub dilation: [usize; 2],
}

impl Window {
    /// A square window without padding.
    pub fn valid(kernel: usize, stride: usize) -> Window {
        Window {
            kernel: [kernel; 2],
            stride: [stride; 2],
            pad_low: [0; 2],
            pad_high: [0; 2],
            dilation: [1; 2],
        }
    }

    /// A square window of odd extent with (kernel - 1) / 2 padding on every side.
    pub fn same(kernel: usize, stride: usize) -> Window {
        let pad = [(kernel - 1) / 2; 2];
        Window { pad_low: pad, pad_high: pad, ..Window::valid(kernel, stride) }
    }

    /// The spatial extent of the result for an input of this spatial extent; `None` if the window does not fit.
    pub fn output(&self, input: [usize; 2]) -> Option<[usize; 2]> {
        let extent = |d: usize| {
            let padded = input[d] + self.pad_low[d] + self.pad_high[d];
            let room = padded.checked_sub(self.extent(d))?;
            Some(room / self.stride[d] + 1)
        };
        let nonzero = self.kernel.iter().chain(&self.stride).chain(&self.dilation).all(|&v| v > 0);
        if nonzero { Some([extent(0)?, extent(1)?]) } else { None }
    }

    /// Positions from the first to the last tap along a dimension, both included.
    pub(crate) fn extent(&self, d: usize) -> usize {
        (self.kernel[d] - 1) * self.dilation[d] + 1
    }

    /// Calls `visit(output position, tap of the window, input position)` for every pair of a window and one of its
    /// positions inside an image of this spatial extent, both in row-major order. Defines what a window means; fast
    /// kernels go their own ways.
    pub(crate) fn each_tap(
        &self,
        input: [usize; 2],
        mut visit: impl FnMut([usize; 2], [usize; 2], [usize; 2]),
    ) {
        let output = self.output(input).expect("operations are checked to have windows that fit");
        let place = |d: usize, out: usize, tap: usize| {
            let at = (out * self.stride[d] + tap * self.dilation[d]).checked_sub(self.pad_low[d])?;
            (at < input[d]).then_some(at)
        };
        for i in 0..output[0] {
            for j in 0..output[1] {
                for a in 0..self.kernel[0] {
                    for b in 0..self.kernel[1] {
                        if let (Some(h), Some(w)) = (place(0, i, a), place(1, j, b)) {
                            visit([i, j], [a, b], [h, w]);
                        }
                    }
                }
            }
        }
    }
}

/// A convolution: its window, and the groups into which channels fall. Channels of the result see only the channels of
/// the input in the group of the same place; with as many groups as channels each sees one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The window.
    pub window: Window,
    /// Groups; divides the channels of input and result.
    pub groups: usize,
}

impl From<Window> for Convolution {
    /// All channels in one group.
    fn from(window: Window) -> Convolution {
        Convolution { window, groups: 1 }
    }
}

/// An operation. Operands are listed as (a, b, ...); every result is a dense row-major tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The batch's features.
    Features,
    /// The batch's class numbers.
    Labels,
    /// A number given at every run, by its position in [`crate::Graph::scalars`].
    Scalar(usize),
    /// A variable's value at the start of the run.
    Read(VarId),
    /// A tensor filled with one value.
    Fill {
        /// Its shape.
        shape: Shape,
        /// Its value.
        value: f64,
    },

    /// (x, w)
    Conv2d(Convolution),
    /// (dy, w): gradient of a convolution by its input, whose shape is given.
    Conv2dGradInput {
        /// The convolution.
        conv: Convolution,
        /// The shape of the convolution's input.
        input: Shape,
    },
    /// (x, dy): gradient of a convolution by its weights.
    Conv2dGradWeight(Convolution),
    /// (x, w)
    Linear,
    /// (dy, w): gradient by the input.
    LinearGradInput,
    /// (x, dy): gradient by the weights.
    LinearGradWeight,
    /// (x, b)
    AddBias,
    /// (dy): sum over all but the last dimension.
    BiasGrad,

    /// (x)
    BatchStats,
    /// (x, stats, gamma, beta)
    Normalize {
        /// Added to the variance.
        eps: f64,
    },
    /// (dy, x, stats) -> `[2, C]`: sums of dy and of dy times the normalised x, which are the gradients of beta and
    /// gamma.
    NormalizeGradSums {
        /// Added to the variance.
        eps: f64,
    },
    /// (dy, x, stats, gamma, sums): gradient by x through the batch's own statistics.
    NormalizeGradInput {
        /// Added to the variance.
        eps: f64,
    },
    /// (dy, stats, gamma): gradient by x where the statistics are constants (evaluation mode).
    NormalizeGradInputFixed {
        /// Added to the variance.
        eps: f64,
    },
    /// (a): row `row` of a `[2, C]` tensor as `[C]`.
    Row {
        /// Which row.
        row: usize,
    },

    /// (x)
    Relu,
    /// (y, dy): dy where y > 0, else 0.
    ReluGrad,
    /// (x)
    MaxPool(Window),
    /// (x, dy): dy goes to the first of the largest elements of each window.
    MaxPoolGrad(Window),
    /// (x)
    AvgPool(Window),
    /// (dy): gradient of an average pooling by its input, whose shape is given.
    AvgPoolGrad {
        /// The pooling's window.
        window: Window,
        /// The shape of the pooling's input.
        input: Shape,
    },
    /// (x)
    GlobalAvgPool,
    /// (dy): gradient by an input of this shape.
    GlobalAvgPoolGrad {
        /// The shape of the pooling's input.
        input: Shape,
    },

    /// (a, b)
    Add,
    /// (x)
    Scale(f64),
    /// (x)
    Reshape(Shape),
    /// (x)
    PadChannels {
        /// Channels of the result.
        channels: usize,
    },
    /// (dy): the first `channels` channels.
    TakeChannels {
        /// Channels of the result.
        channels: usize,
    },

    /// (logits, labels, smoothing)
    CrossEntropy,
    /// (logits, labels, smoothing, dloss): gradient by the logits, dloss `[N]`.
    CrossEntropyGrad,
    /// (logits, labels)
    Correct,
    /// (x)
    Sum,
    /// (ds): a scalar's gradient spread over a tensor of this shape.
    Broadcast(Shape),
}

impl Op {
    /// A short name for messages and measurements.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Features => "features",
            Op::Labels => "labels",
            Op::Scalar(_) => "scalar",
            Op::Read(_) => "read",
            Op::Fill { .. } => "fill",
            Op::Conv2d(_) => "conv2d",
            Op::Conv2dGradInput { .. } => "conv2d_grad_input",
            Op::Conv2dGradWeight(_) => "conv2d_grad_weight",
            Op::Linear => "linear",
            Op::LinearGradInput => "linear_grad_input",
            Op::LinearGradWeight => "linear_grad_weight",
            Op::AddBias => "add_bias",
            Op::BiasGrad => "bias_grad",
            Op::BatchStats => "batch_stats",
            Op::Normalize { .. } => "normalize",
            Op::NormalizeGradSums { .. } => "normalize_grad_sums",
            Op::NormalizeGradInput { .. } => "normalize_grad_input",
            Op::NormalizeGradInputFixed { .. } => "normalize_grad_input_fixed",
            Op::Row { .. } => "row",
            Op::Relu => "relu",
            Op::ReluGrad => "relu_grad",
            Op::MaxPool(_) => "max_pool",
            Op::MaxPoolGrad(_) => "max_pool_grad",
            Op::AvgPool(_) => "avg_pool",
            Op::AvgPoolGrad { .. } => "avg_pool_grad",
            Op::GlobalAvgPool => "global_avg_pool",
            Op::GlobalAvgPoolGrad { .. } => "global_avg_pool_grad",
            Op::Add => "add",
            Op::Scale(_) => "scale",
            Op::Reshape(_) => "reshape",
            Op::PadChannels { .. } => "pad_channels",
            Op::TakeChannels { .. } => "take_channels",
            Op::CrossEntropy => "cross_entropy",
            Op::CrossEntropyGrad => "cross_entropy_grad",
            Op::Correct => "correct",
            Op::Sum => "sum",
            Op::Broadcast(_) => "broadcast",
        }
    }
}

/// Whether w `[KH, KW, C / groups, K]` are filters of a convolution of an input of so many channels.
fn filters(conv: &Convolution, channels: usize, w: &Shape) -> bool {
    let Convolution { window, groups } = conv;
    w.rank() == 4
        && *groups > 0
        && w[2] * groups == channels
        && w[3].is_multiple_of(*groups)
        && [w[0], w[1]] == window.kernel
}

/// The shape and element type of an operation's result, or an error that names the operation and its operands' shapes.
pub(crate) fn infer(op: &Op, args: &[&Node]) -> Result<(Shape, Dtype), EngineError> {
    let shapes: Vec<Shape> = args.iter().map(|n| n.shape.clone()).collect();
    let fail =
        |expected: &'static str| EngineError::Shapes { op: op.name(), expected, found: shapes.clone() };
    let check = |good: bool, expected: &'static str| if good { Ok(()) } else { Err(fail(expected)) };
    let arity = match op {
        Op::Features | Op::Labels | Op::Scalar(_) | Op::Read(_) | Op::Fill { .. } => 0,
        Op::BiasGrad | Op::BatchStats | Op::Row { .. } | Op::Relu | Op::MaxPool(_) | Op::AvgPool(_) => 1,
        Op::AvgPoolGrad { .. } | Op::GlobalAvgPool | Op::GlobalAvgPoolGrad { .. } | Op::Scale(_) => 1,
        Op::Reshape(_) | Op::PadChannels { .. } | Op::TakeChannels { .. } | Op::Sum | Op::Broadcast(_) => 1,
        Op::Conv2d(_) | Op::Conv2dGradInput { .. } | Op::Conv2dGradWeight(_) | Op::Linear => 2,
        Op::LinearGradInput | Op::LinearGradWeight | Op::AddBias | Op::ReluGrad | Op::MaxPoolGrad(_) => 2,
        Op::Add | Op::Correct => 2,
        Op::NormalizeGradSums { .. } | Op::NormalizeGradInputFixed { .. } | Op::CrossEntropy => 3,
        Op::Normalize { .. } | Op::CrossEntropyGrad => 4,
        Op::NormalizeGradInput { .. } => 5,
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
    let stats = |i: usize, like: usize| {
        let good = s[i].rank() == 2 && s[i][0] == 2 && s[i][1] == s[like].last();
        check(good, "statistics [2, C]")
    };
    let shape = match op {
        Op::Features | Op::Labels | Op::Scalar(_) | Op::Read(_) => {
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
        Op::BatchStats => {
            check(s[0].rank() > 1 && !s[0].is_empty(), "a non-empty [..., C]")?;
            [2, s[0].last()].into()
        }
        Op::Normalize { .. } => {
            stats(1, 0)?;
            channels(2, 0)?;
            channels(3, 0)?;
            s[0].clone()
        }
        Op::NormalizeGradSums { .. } => {
            check(s[0] == s[1], "dy and x of one shape")?;
            stats(2, 0)?;
            s[2].clone()
        }
        Op::NormalizeGradInput { .. } => {
            check(s[0] == s[1], "dy and x of one shape")?;
            stats(2, 0)?;
            channels(3, 0)?;
            stats(4, 0)?;
            s[0].clone()
        }
        Op::NormalizeGradInputFixed { .. } => {
            stats(1, 0)?;
            channels(2, 0)?;
            s[0].clone()
        }
        Op::Row { row } => {
            check(s[0].rank() == 2 && *row < s[0][0], "a matrix with that row")?;
            [s[0][1]].into()
        }
        Op::Relu | Op::Scale(_) => s[0].clone(),
        Op::ReluGrad | Op::Add => {
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
        Op::PadChannels { channels } | Op::TakeChannels { channels } => {
            let last = s[0].last();
            let grows = matches!(op, Op::PadChannels { .. });
            let good = s[0].rank() > 0 && if grows { *channels >= last } else { *channels <= last };
            check(good, "a possible number of channels")?;
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

#[cfg(test)]
mod tests;
