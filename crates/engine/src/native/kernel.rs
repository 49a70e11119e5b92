//! The kernels of the native executor behind one call.

use super::columns::total;
use super::context::Context;
use super::correlate::{Correlation, Epilogue};
use super::halves;
use super::weight_gradient::{Gradient, WeightGradient};
use crate::ops::conv2d::native::{Forward, GradInput, GradWeight};
use crate::ops::elementwise::native::Channels;
use crate::ops::linear::few::Few;
use crate::ops::matrix::native::Products;
use crate::ops::normalize::Behind;
use crate::ops::normalize::masked::{self, Cover};
use crate::ops::normalize::native::By;
use crate::ops::pool::chosen::Chosen;
use crate::ops::pool::native::Pooling;
use crate::ops::{activation, dropout, elementwise, linear, loss, matrix, normalize, pool};
use crate::{Activation, Lane, Reduction};
use sooner_base::{Key, Origin};

/// A kernel with what it planned for its shapes. Operands are those of the operation of the same name; a fused bias
/// comes last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kernel {
    Correlate { plan: Correlation, bias: bool, relu: bool },
    FewRows { plan: Few, bias: bool, relu: bool },
    Conv { plan: Forward, bias: bool, relu: bool },
    ConvGradInput(GradInput),
    ConvGradWeight(GradWeight),
    UnpooledGradInput { plan: GradInput, chosen: Chosen },
    UnpooledGradWeight { plan: GradWeight, chosen: Chosen },
    Unpool(Chosen),
    UnpooledBiasGrad(Chosen),
    GradWeight(WeightGradient),
    AddBias { relu: bool },
    BiasGrad,
    BatchStats(By),
    Normalize { by: By, behind: Behind },
    NormalizeGradSums(By),
    NormalizeGradInput(By),
    NormalizeGradInputFixed { eps: f32 },
    NormalizePool(Cover),
    MaskedGradSums { by: By, behind: Behind },
    MaskedGradInput { by: By, behind: Behind },
    PooledGradSums(Cover),
    PooledGradInput(Cover),
    Relu,
    ReluGrad,
    Dropout { rate: f64, key: Key },
    Activate(Activation),
    ActivateGrad(Activation),
    MaxPool(Pooling),
    MaxPoolGrad(Pooling),
    AvgPool(Pooling),
    AvgPoolGrad(Pooling),
    GlobalAvgPool { positions: usize, channels: usize },
    GlobalAvgPoolGrad { positions: usize, channels: usize },
    Add,
    Scale { factor: f32 },
    Mul,
    ScaleBy,
    ResizeChannels(Channels),
    CrossEntropy,
    CrossEntropyGrad,
    SoftCrossEntropy,
    SoftCrossEntropyGrad,
    Correct,
    Stack,
    Products(Products),
    UnitRows { len: usize, eps: f32 },
    ClipFactor { limit: f64 },
    Sum,
    Broadcast,
    Fill { value: f32 },
    Copy,
    Narrow,
    Widen,
    AllReduce { how: Reduction, count: usize },
}

/// What a kernel reads. An operand that the result overwrites in place is `None`.
pub(crate) struct Operands<'a> {
    pub(crate) reals: [Option<&'a [f32]>; MAX_ARGS],
    pub(crate) labels: &'a [u32],
    pub(crate) origins: &'a [Origin],
    pub(crate) lane: Option<Lane<'a>>,
}

/// Most operands of a kernel.
pub(crate) const MAX_ARGS: usize = crate::MOST_STACKED;

impl<'a> Operands<'a> {
    fn real(&self, i: usize) -> &'a [f32] {
        self.reals[i].expect("only operands that a kernel names in `in_place` are missing")
    }

    fn reals<const N: usize>(&self, from: usize) -> [&'a [f32]; N] {
        std::array::from_fn(|i| self.real(from + i))
    }
}

impl Kernel {
    /// Operands that the result may overwrite, if nothing needs them afterwards.
    pub(crate) fn in_place(&self) -> &'static [usize] {
        match self {
            Kernel::AddBias { .. } | Kernel::Normalize { .. } | Kernel::Relu | Kernel::Scale { .. } => &[0],
            Kernel::NormalizeGradInput(_) | Kernel::NormalizeGradInputFixed { .. } => &[0],
            Kernel::MaskedGradInput { .. } => &[0],
            Kernel::Activate(_) | Kernel::ScaleBy | Kernel::Dropout { .. } => &[0],
            Kernel::ReluGrad | Kernel::ActivateGrad(_) => &[1],
            Kernel::Add | Kernel::Mul => &[0, 1],
            _ => &[],
        }
    }

    /// Whether it only stores the result of another step otherwise.
    pub(crate) fn is_storage(&self) -> bool {
        matches!(self, Kernel::Narrow | Kernel::Widen)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        match self {
            Kernel::Correlate { plan, .. } => plan.scratch(),
            Kernel::Conv { plan, .. } => plan.scratch(),
            Kernel::Products(plan) => plan.scratch(),
            Kernel::ConvGradInput(plan) | Kernel::UnpooledGradInput { plan, .. } => plan.scratch(),
            Kernel::ConvGradWeight(plan) | Kernel::UnpooledGradWeight { plan, .. } => plan.scratch(),
            Kernel::GradWeight(plan) => plan.scratch(),
            _ => 0,
        }
    }

    /// Computes the result from operands, with leftovers of anything in `out`, in the workspace and in scratch.
    pub(crate) fn run(&self, cx: &mut Context, x: &Operands, out: &mut [f32], workspace: &mut [f32]) {
        match self {
            Kernel::Correlate { plan, bias, relu } => {
                let bias = bias.then(|| x.real(2));
                plan.run(cx, x.reals(0), Epilogue { bias, relu: *relu }, out, workspace);
            }
            Kernel::FewRows { plan, bias, relu } => {
                let bias = bias.then(|| x.real(2));
                plan.run(cx, x.reals(0), Epilogue { bias, relu: *relu }, out, workspace);
            }
            Kernel::Conv { plan, bias, relu } => {
                let bias = bias.then(|| x.real(2));
                plan.run(cx, x.reals(0), Epilogue { bias, relu: *relu }, out, workspace);
            }
            Kernel::ConvGradInput(plan) => {
                plan.run(cx, (Gradient::Plain(x.real(0)), x.real(1)), out, workspace);
            }
            Kernel::UnpooledGradInput { plan, chosen } => {
                plan.run(cx, (Gradient::Pooled(*chosen, x.reals(0)), x.real(2)), out, workspace);
            }
            Kernel::ConvGradWeight(plan) => {
                plan.run(cx, (x.real(0), Gradient::Plain(x.real(1))), out, workspace);
            }
            Kernel::UnpooledGradWeight { plan, chosen } => {
                plan.run(cx, (x.real(0), Gradient::Pooled(*chosen, x.reals(1))), out, workspace);
            }
            Kernel::Unpool(chosen) => chosen.spread_all(cx, x.reals(0), out),
            Kernel::UnpooledBiasGrad(chosen) => chosen.sums(cx, x.reals(0), out, workspace),
            Kernel::GradWeight(plan) => {
                plan.run(cx, (x.real(0), Gradient::Plain(x.real(1))), out, workspace);
            }
            Kernel::AddBias { relu } => linear::native::add_bias(cx, x.reals[0], x.real(1), *relu, out),
            Kernel::BiasGrad => linear::native::bias_grad(cx, x.real(0), out, workspace),
            Kernel::BatchStats(by) => normalize::native::batch_stats(cx, by, x.real(0), out, workspace),
            Kernel::Normalize { by, behind } => {
                normalize::native::normalize(cx, (by, *behind), x.reals[0], x.reals(1), out, workspace);
            }
            Kernel::NormalizeGradSums(by) => {
                normalize::native::grad_sums(cx, by, x.reals(0), out, workspace);
            }
            Kernel::NormalizeGradInput(by) => {
                normalize::native::grad_input(cx, by, x.reals[0], x.reals(1), out, workspace);
            }
            Kernel::NormalizeGradInputFixed { eps } => {
                normalize::native::grad_input_fixed(cx, x.reals[0], x.reals(1), *eps, out, workspace);
            }
            Kernel::NormalizePool(cover) => masked::normalize_pool(cx, cover, x.reals(0), out, workspace),
            Kernel::MaskedGradSums { by, behind } => {
                masked::masked_sums(cx, (by, *behind), x.reals(0), out, workspace);
            }
            Kernel::MaskedGradInput { by, behind } => {
                masked::masked_grad_input(cx, (by, *behind), x.reals[0], x.reals(1), out, workspace);
            }
            Kernel::PooledGradSums(cover) => masked::pooled_sums(cx, cover, x.reals(0), out, workspace),
            Kernel::PooledGradInput(cover) => {
                masked::pooled_grad_input(cx, cover, x.reals(0), out, workspace);
            }
            Kernel::Relu => activation::native::relu(cx, x.reals[0], out),
            Kernel::ReluGrad => activation::native::relu_grad(cx, x.real(0), x.reals[1], out),
            Kernel::Activate(activation) => activation::native::activate(cx, *activation, x.reals[0], out),
            Kernel::ActivateGrad(activation) => {
                activation::native::activate_grad(cx, *activation, x.real(0), x.reals[1], out);
            }
            Kernel::Dropout { rate, key } => {
                dropout::native::dropout(cx, x.reals[0], (*rate, *key), x.origins, out);
            }
            Kernel::MaxPool(p) => pool::native::max(cx, p, x.real(0), out),
            Kernel::MaxPoolGrad(p) => pool::native::max_grad(cx, p, x.reals(0), out),
            Kernel::AvgPool(p) => pool::native::avg(cx, p, x.real(0), out),
            Kernel::AvgPoolGrad(p) => pool::native::avg_grad(cx, p, x.real(0), out),
            Kernel::GlobalAvgPool { positions, channels } => {
                pool::native::global_avg(cx, x.real(0), [*positions, *channels], out);
            }
            Kernel::GlobalAvgPoolGrad { positions, channels } => {
                pool::native::global_avg_grad(cx, x.real(0), [*positions, *channels], out);
            }
            Kernel::Add => {
                // The sum commutes, exactly: whichever operand is still there is the other one.
                let (a, b) = if x.reals[1].is_some() { (0, 1) } else { (1, 0) };
                elementwise::native::add(cx, x.reals[a], x.real(b), out);
            }
            Kernel::Scale { factor } => elementwise::native::scale(cx, x.reals[0], *factor, out),
            Kernel::Mul => {
                let (a, b) = if x.reals[1].is_some() { (0, 1) } else { (1, 0) };
                elementwise::native::mul(cx, x.reals[a], x.real(b), out);
            }
            Kernel::ScaleBy => elementwise::native::scale(cx, x.reals[0], x.real(1)[0], out),
            Kernel::ResizeChannels(channels) => {
                elementwise::native::resize_channels(cx, x.real(0), *channels, out);
            }
            Kernel::CrossEntropy => {
                loss::native::cross_entropy(cx, x.real(0), x.labels, x.real(2)[0], out);
            }
            Kernel::CrossEntropyGrad => {
                loss::native::cross_entropy_grad(cx, x.real(0), x.labels, x.real(2)[0], x.real(3), out);
            }
            Kernel::SoftCrossEntropy => {
                loss::native::soft_cross_entropy(cx, x.reals(0), x.real(2)[0], out);
            }
            Kernel::SoftCrossEntropyGrad => {
                loss::native::soft_cross_entropy_grad(cx, x.reals(0), x.real(2)[0], x.real(3), out);
            }
            Kernel::Stack => {
                let parts = x.reals.iter().flatten();
                let mut rest = out;
                for part in parts {
                    let (out, after) = rest.split_at_mut(part.len());
                    elementwise::native::copy(cx, part, out);
                    rest = after;
                }
            }
            Kernel::Products(plan) => plan.run(cx, x.reals(0), out, workspace),
            Kernel::UnitRows { len, eps } => {
                matrix::native::unit_rows(cx, x.real(0), (*len, *eps), out, workspace);
            }
            Kernel::ClipFactor { limit } => out[0] = matrix::native::clip_factor(x.real(0)[0], *limit),
            Kernel::Correct => loss::native::correct(cx, x.real(0), x.labels, out),
            Kernel::Sum => out[0] = total(cx, x.real(0), workspace),
            Kernel::Broadcast => elementwise::native::fill(cx, x.real(0)[0], out),
            Kernel::Fill { value } => elementwise::native::fill(cx, *value, out),
            Kernel::Copy => elementwise::native::copy(cx, x.real(0), out),
            Kernel::Narrow => halves::narrow(cx, x.real(0), out),
            Kernel::Widen => halves::widen(cx, x.real(0), out),
            Kernel::AllReduce { how, count } => match x.lane {
                Some(lane) => lane.reduce(*how, *count, x.real(0), out),
                None => out.copy_from_slice(x.real(0)),
            },
        }
    }
}
