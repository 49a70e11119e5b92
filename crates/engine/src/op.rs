//! The operations of tensor programs and their static shapes. Layouts are channels-last: images `[N, H, W, C]`,
//! convolution weights `[KH, KW, C, K]`, linear weights `[I, O]`.

mod infer;

pub(crate) use infer::infer;

use crate::collective::Reduction;
use crate::var::VarId;
use sooner_base::{Key, Shape};

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

/// How values are normalised by statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalization {
    /// Added to the variance.
    pub eps: f64,
    /// Examples that share statistics, as in [`Op::BatchStats`].
    pub group: Option<usize>,
}

impl From<f64> for Normalization {
    /// All examples share statistics; the number is added to the variance.
    fn from(eps: f64) -> Normalization {
        Normalization { eps, group: None }
    }
}

/// Which operand of a matrix product is given with rows and columns exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transposed {
    /// None: `[I, J] [J, K]`.
    Neither,
    /// The first: `[J, I]^T [J, K]`.
    Left,
    /// The second: `[I, J] [K, J]^T`.
    Right,
}

/// A smooth nonlinearity, element by element. (ReLU, which other kernels can take in, is an operation of its own.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x Phi(x) with the normal distribution function Phi (Hendrycks and Gimpel, 2016), not its approximation by tanh.
    Gelu,
    /// x sigmoid(x), also called swish.
    Silu,
    /// max(x, 0) + min(alpha (exp(x / alpha) - 1), 0) (Barron, 2017), alpha above 0.
    Celu {
        /// Where the negative side ends, and how soft the bend is.
        alpha: f64,
    },
    /// The hyperbolic tangent.
    Tanh,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
}

impl Activation {
    /// Whether the gradient follows from the result alone, so that the operand need not be kept.
    pub fn grad_from_result(self) -> bool {
        matches!(self, Activation::Celu { .. } | Activation::Tanh | Activation::Sigmoid)
    }

    fn name(self) -> &'static str {
        match self {
            Activation::Gelu => "gelu",
            Activation::Silu => "silu",
            Activation::Celu { .. } => "celu",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
        }
    }
}

/// An operation. Operands are listed as (a, b, ...); every result is a dense row-major tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The batch's features.
    Features,
    /// The batch's class numbers.
    Labels,
    /// The batch's distributions over classes.
    SoftLabels,
    /// A number given at every run, by its position in [`crate::Graph::scalars`].
    Scalar(usize),
    /// A tensor given at every run: so many values of [`crate::Feed::given`] from this one on.
    Given {
        /// Its first value's position.
        start: usize,
    },
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

    /// (x): `[2, C]` over the whole batch, or `[G, 2, C]` over groups of examples.
    BatchStats {
        /// Examples of a group, the last of which may be smaller; the whole batch if none.
        group: Option<usize>,
    },
    /// (x, stats, gamma, beta)
    Normalize(Normalization),
    /// (dy, x, stats) -> `[2, C]` or `[G, 2, C]`: sums of dy and of dy times the normalised x, which are the gradients
    /// of beta and gamma.
    NormalizeGradSums(Normalization),
    /// (dy, x, stats, gamma, sums): gradient by x through the batch's own statistics.
    NormalizeGradInput(Normalization),
    /// (dy, stats, gamma): gradient by x where the statistics are constants (evaluation mode).
    NormalizeGradInputFixed {
        /// Added to the variance.
        eps: f64,
    },
    /// (a): number `row` along the first dimension of a tensor `[R, ...]`, as `[...]`.
    Row {
        /// Which row.
        row: usize,
    },

    /// (x)
    Relu,
    /// (y, dy): dy where y > 0, else 0.
    ReluGrad,
    /// (x)
    Activate(Activation),
    /// (y, dy) if the activation's gradient follows from its result, else (x, dy).
    ActivateGrad(Activation),
    /// (x): elements become 0 with probability `rate`, the others are divided by 1 - rate. Which ones is a function of
    /// the key, of the example's origin and of the element's place in the example, so it depends neither on the batch
    /// that the example is in nor on what was computed before.
    Dropout {
        /// From 0 to below 1.
        rate: f64,
        /// Tells layers and runs apart.
        key: Key,
    },
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
    /// (a, b): products of elements.
    Mul,
    /// (x, s): every element times a scalar.
    ScaleBy,
    /// (x): channels of zeros around those of x.
    PadChannels {
        /// Zeros before x's.
        before: usize,
        /// Channels of the result.
        channels: usize,
    },
    /// (x): some channels of x.
    TakeChannels {
        /// The first that is taken.
        first: usize,
        /// Channels of the result.
        channels: usize,
    },

    /// (a, ...): up to [`crate::MOST_STACKED`] tensors of one shape `[...]` as one `[R, ...]`.
    Stack,
    /// (a, b): products of matrices, `[B, I, J]` and `[B, J, K]` -> `[B, I, K]`, one of them read transposed if so.
    BatchMatmul(Transposed),
    /// (x): `[R, ...]`, each row divided by its norm plus `eps`.
    UnitRows {
        /// Added to each norm.
        eps: f64,
    },
    /// (squares): from the sum of the squares of all gradients, what they must be multiplied by so that their norm is
    /// at most `limit`: min(1, limit / (norm + 1e-6)), as PyTorch has it.
    ClipFactor {
        /// The largest norm.
        limit: f64,
    },

    /// (logits, labels, smoothing)
    CrossEntropy,
    /// (logits, labels, smoothing, dloss): gradient by the logits, dloss `[N]`.
    CrossEntropyGrad,
    /// (logits, soft labels, smoothing)
    SoftCrossEntropy,
    /// (logits, soft labels, smoothing, dloss): gradient by the logits, dloss `[N]`.
    SoftCrossEntropyGrad,
    /// (logits, labels)
    Correct,
    /// (x)
    Sum,
    /// (ds): a scalar's gradient spread over a tensor of this shape.
    Broadcast(Shape),

    /// (x): put together with what the other lanes have at this point of their programs ([`crate::Lane`]); x itself
    /// where the program runs alone. For [`Reduction::Moments`] x is `[2, C]`.
    AllReduce {
        /// What becomes of the values.
        how: Reduction,
        /// How many elements the lane's own values are about.
        count: usize,
    },
}

impl Op {
    /// Whether this is an [`Op::AllReduce`].
    pub fn is_all_reduce(&self) -> bool {
        matches!(self, Op::AllReduce { .. })
    }

    /// A short name for messages and measurements.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Features => "features",
            Op::Labels => "labels",
            Op::SoftLabels => "soft_labels",
            Op::Scalar(_) => "scalar",
            Op::Given { .. } => "given",
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
            Op::BatchStats { .. } => "batch_stats",
            Op::Normalize(_) => "normalize",
            Op::NormalizeGradSums(_) => "normalize_grad_sums",
            Op::NormalizeGradInput(_) => "normalize_grad_input",
            Op::NormalizeGradInputFixed { .. } => "normalize_grad_input_fixed",
            Op::Row { .. } => "row",
            Op::Relu => "relu",
            Op::ReluGrad => "relu_grad",
            Op::Activate(activation) => activation.name(),
            Op::ActivateGrad(_) => "activation_grad",
            Op::Dropout { .. } => "dropout",
            Op::MaxPool(_) => "max_pool",
            Op::MaxPoolGrad(_) => "max_pool_grad",
            Op::AvgPool(_) => "avg_pool",
            Op::AvgPoolGrad { .. } => "avg_pool_grad",
            Op::GlobalAvgPool => "global_avg_pool",
            Op::GlobalAvgPoolGrad { .. } => "global_avg_pool_grad",
            Op::Add => "add",
            Op::Scale(_) => "scale",
            Op::Mul => "mul",
            Op::ScaleBy => "scale_by",
            Op::Reshape(_) => "reshape",
            Op::PadChannels { .. } => "pad_channels",
            Op::TakeChannels { .. } => "take_channels",
            Op::Stack => "stack",
            Op::BatchMatmul(_) => "batch_matmul",
            Op::UnitRows { .. } => "unit_rows",
            Op::ClipFactor { .. } => "clip_factor",
            Op::CrossEntropy => "cross_entropy",
            Op::CrossEntropyGrad => "cross_entropy_grad",
            Op::SoftCrossEntropy => "soft_cross_entropy",
            Op::SoftCrossEntropyGrad => "soft_cross_entropy_grad",
            Op::Correct => "correct",
            Op::Sum => "sum",
            Op::Broadcast(_) => "broadcast",
            Op::AllReduce { .. } => "all_reduce",
        }
    }
}

#[cfg(test)]
mod tests;
