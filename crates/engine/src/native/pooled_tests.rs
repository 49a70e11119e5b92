//! Convolutions that take in the pooling behind them, against the naive executor and against the same operations apart.

use super::Kernels;
use super::tests::{check, distance, found, native, one_operation, to_f64};
use crate::testing::{Builder, Case};
use crate::{Convolution, NodeId, Window};

/// A convolution with a pooling behind it.
#[derive(Debug, Clone, Copy)]
struct Pooled {
    /// Of x.
    shape: [usize; 4],
    filters: usize,
    conv: Convolution,
    /// Of the pooling's windows, which lie side by side.
    kernel: [usize; 2],
    bias: bool,
    relu: bool,
    /// Whether x is a variable, so that the gradient by it is wanted too, or features.
    inner: bool,
    /// Whether values are whole numbers, of which there are ties, and sums exact.
    whole: bool,
    /// Whether the program wants what is pooled too, so that the pooling is not taken in.
    apart: bool,
}

impl Pooled {
    fn values(&self, b: &mut Builder, count: usize) -> Vec<f64> {
        let mut values = b.normal(count);
        values.iter_mut().filter(|_| self.whole).for_each(|v| *v = v.round());
        values
    }

    fn weight(&self, b: &mut Builder, shape: &[usize]) -> NodeId {
        let values = self.values(b, shape.iter().product());
        b.variable(crate::Role::Weight, sooner_base::Shape::new(shape), values)
    }

    fn build(&self, b: &mut Builder) -> NodeId {
        let Pooled { shape, filters, conv, kernel, .. } = *self;
        let x = if self.inner {
            self.weight(b, &shape)
        } else {
            let x = b.features(shape);
            b.features = self.values(b, shape.iter().product());
            x
        };
        let taps = conv.window.kernel;
        let w = self.weight(b, &[taps[0], taps[1], shape[3] / conv.groups, filters]);
        let mut y = b.graph.conv2d(x, w, conv).expect("it fits");
        if self.bias {
            let bias = self.weight(b, &[filters]);
            y = b.graph.add_bias(y, bias).expect("it fits");
        }
        if self.relu {
            y = b.graph.relu(y).expect("it fits");
        }
        if self.apart {
            b.outputs.push(("pooled".to_string(), y));
        }
        b.graph.max_pool(y, Window { kernel, stride: kernel, ..Window::valid(1, 1) }).expect("it fits")
    }

    fn case(&self) -> Case {
        one_operation(&format!("{self:?}"), 4000, &|b| self.build(b))
    }
}

/// What is taken in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Taken {
    Nothing,
    /// The pooling, and its gradient where that by the weights alone is wanted.
    Weights,
    /// Both gradients.
    Both,
}

fn list() -> Vec<(Pooled, Taken)> {
    let plain = |window: Window| Convolution { window, groups: 1 };
    let grouped = Convolution { window: Window::same(3, 1), groups: 2 };
    use Taken::{Both, Nothing, Weights};
    // Shape of x, filters, window, pooling; whether sums are exact.
    let list = [
        ([5, 8, 8, 1], 32, plain(Window::valid(5, 1)), [2, 2], true, Both),
        ([2, 9, 7, 3], 20, plain(Window::same(3, 1)), [3, 1], true, Both),
        ([40, 6, 6, 3], 4, plain(Window::same(3, 1)), [2, 2], true, Both),
        ([2, 6, 6, 8], 132, plain(Window::same(3, 1)), [6, 6], true, Both),
        // Tasks share images, by channels of the gradient by the input.
        ([2, 6, 6, 132], 8, plain(Window::same(3, 1)), [2, 2], true, Weights),
        // Rows and columns in no window.
        ([19, 17, 17, 6], 20, plain(Window::same(3, 1)), [2, 2], true, Both),
        ([65, 9, 7, 3], 36, plain(Window::same(3, 1)), [2, 3], true, Both),
        ([17, 16, 19, 3], 12, plain(Window::valid(2, 1)), [2, 2], true, Both),
        ([33, 17, 17, 5], 4, plain(Window::valid(3, 2)), [2, 2], true, Weights),
        // One image of one row; groups; a matrix product.
        ([3, 1, 8, 4], 8, plain(Window::valid(1, 2)), [1, 2], true, Weights),
        ([3, 5, 6, 8], 24, grouped, [1, 3], true, Weights),
        ([3, 5, 7, 8], 24, grouped, [2, 2], true, Weights),
        ([6, 4, 4, 20], 36, plain(Window::valid(1, 1)), [2, 2], true, Weights),
        ([6, 5, 5, 20], 36, plain(Window::valid(1, 1)), [2, 2], true, Weights),
        // The fast algorithms, by themselves and in waves: of whole tiles, of short ones, of both.
        ([3, 12, 12, 32], 68, plain(Window::valid(5, 1)), [2, 2], false, Weights),
        ([37, 10, 12, 16], 20, plain(Window::valid(5, 1)), [3, 4], false, Weights),
        ([37, 11, 12, 16], 20, plain(Window::valid(5, 1)), [2, 2], false, Weights),
        ([17, 8, 8, 48], 52, plain(Window::same(3, 1)), [2, 2], false, Both),
        ([29, 7, 7, 52], 68, plain(Window::same(3, 1)), [2, 2], false, Both),
        ([5, 15, 15, 48], 48, plain(Window::same(3, 1)), [2, 2], false, Both),
        ([5, 15, 15, 24], 64, plain(Window::same(3, 1)), [2, 2], false, Both),
        ([9, 14, 11, 48], 52, plain(Window::same(3, 1)), [3, 2], false, Both),
        ([11, 13, 12, 48], 48, plain(Window::valid(3, 1)), [2, 2], false, Both),
        // Few channels, each thread by itself: several images at a time, and parts of one.
        ([24, 12, 15, 20], 36, plain(Window::same(3, 1)), [2, 2], false, Both),
        ([5, 34, 33, 24], 32, plain(Window::same(3, 1)), [2, 3], false, Both),
        // Planes of more tiles than a wave has.
        ([1, 58, 61, 48], 48, plain(Window::same(3, 1)), [2, 2], false, Weights),
        ([3, 6, 6, 2], 7, plain(Window::same(3, 1)), [2, 2], true, Nothing),
    ];
    let cases = list.into_iter().flat_map(|(shape, filters, conv, kernel, whole, taken)| {
        [(true, true), (false, false), (true, false), (false, true)].into_iter().flat_map(
            move |(bias, relu)| {
                [false, true].map(|inner| {
                    (Pooled { shape, filters, conv, kernel, bias, relu, inner, whole, apart: false }, taken)
                })
            },
        )
    });
    // Of each size a few of the ways, all of them in all.
    cases.enumerate().filter(|(i, _)| (i / 8 + i / 2) % 2 == 0).map(|(_, case)| case).collect()
}

#[test]
fn convolutions_take_in_bias_relu_and_pooling() {
    for (pooled, taken) in list() {
        let case = pooled.case();
        // Sums of up to a thousand products; the loss is one of up to forty thousand of those.
        let tolerance = if pooled.whole { 2e-5 } else { 1e-4 };
        check(&case, 1, tolerance);
        let steps = native(&case, Kernels::Auto, 1);
        let names: Vec<String> = steps.steps().map(|kernel| format!("{kernel:?}")).collect();
        let has = |name: &str| names.iter().any(|n| n.starts_with(name));
        assert_eq!(has("MaxPool"), taken == Taken::Nothing, "{pooled:?}: {names:?}");
        assert!(!has("ReluGrad") || taken == Taken::Nothing, "{pooled:?}: {names:?}");
        let whole = pooled.inner && taken == Taken::Weights;
        assert_eq!(has("Unpool("), whole, "{pooled:?}: {names:?}");
        assert_eq!(has("UnpooledGradInput"), pooled.inner && taken == Taken::Both, "{pooled:?}: {names:?}");
        let forward = Case { program: case.forward.clone(), ..case };
        check(&forward, 1, tolerance);
    }
}

/// The loss, the pooled results, and the gradient by x, which is a variable. (That by the weights may be summed in another
/// order.)
#[test]
fn what_is_taken_in_has_the_bits_of_operations_apart() {
    for (pooled, _) in list().into_iter().filter(|(pooled, _)| pooled.inner) {
        let together = pooled.case();
        let apart = Pooled { apart: true, ..pooled }.case();
        for kernels in Kernels::available() {
            let found = [&together, &apart].map(|case| {
                let mut left = found(case, kernels, 2, 1);
                let outputs = case.program.outputs.iter().zip(left.outputs.remove(0));
                outputs
                    .filter(|((name, _), _)| ["loss", "y", "v0"].contains(&name.as_str()))
                    .collect::<Vec<_>>()
            });
            for ((name, one), (_, other)) in
                found[0].iter().zip(&found[1]).map(|(a, b)| ((&a.0.0, &a.1), b.clone()))
            {
                assert_eq!(*one, other, "{name} of {pooled:?} with {kernels:?}");
            }
            assert_eq!(found[0].len(), 3);
        }
    }
}

/// Of a pooled convolution only p and a quarter as many codes are kept for the way back, and dy is never there as a whole.
#[test]
fn results_before_a_pooling_are_not_held() {
    for (shape, filters) in [([64, 31, 31, 8], 32), ([64, 31, 31, 16], 32), ([256, 15, 15, 48], 64)] {
        let mut b = Builder::new(5100);
        let x = b.features(shape);
        let (first, w) = (b.weight([3, 3, shape[3], shape[3]]), b.weight([3, 3, shape[3], filters]));
        // A layer below, so that the gradient by the input is wanted.
        let below = b.graph.conv2d(x, first, Window::same(3, 1)).expect("it fits");
        let y = b.graph.conv2d(below, w, Window::same(3, 1)).expect("it fits");
        let p = b.graph.max_pool(y, Window::valid(2, 2)).expect("it fits");
        let loss = b.graph.sum(p).expect("it fits");
        let (whole, pooled, below) =
            (b.graph.shape(y).len(), b.graph.shape(p).len(), b.graph.shape(below).len());
        let case = b.differentiate(&format!("{shape:?}"), loss).expect("it has gradients");
        let plan = native(&case, Kernels::Auto, 1).plan().len;
        // Kept are p, codes, and what the layer below made; its gradient and that of p follow. The rest is workspace.
        let most = 2 * pooled + pooled / 4 + 2 * below + whole / 2;
        assert!(plan <= most, "{shape:?}: {plan} values, {whole} before the pooling, {most} allowed");
    }
}

#[test]
fn results_that_others_use_are_not_taken_in() {
    for (wanted, with_relu) in (0..4).flat_map(|wanted| [(wanted, false), (wanted, true)]) {
        let case = one_operation(&format!("used beside a pooling {wanted} {with_relu}"), 5000, &|b| {
            let shape = [2, 4, 4, 3];
            let (x, w, bias) = (b.weight(shape), b.weight([3, 3, 3, 8]), b.weight([8]));
            let y = b.graph.conv2d(x, w, Window::same(3, 1)).expect("it fits");
            let sum = b.graph.add_bias(y, bias).expect("it fits");
            let last = if with_relu { b.graph.relu(sum).expect("it fits") } else { sum };
            let p = b.graph.max_pool(last, Window::valid(2, 2)).expect("it fits");
            match wanted {
                0 => b.outputs.push(("conv".to_string(), y)),
                1 => b.outputs.push(("bias".to_string(), sum)),
                2 => b.outputs.push(("last".to_string(), last)),
                _ => {
                    let other = b.graph.avg_pool(last, Window::valid(2, 2)).expect("it fits");
                    return b.graph.add(p, other).expect("it fits");
                }
            }
            p
        });
        check(&case, 1, 1e-5);
    }
}

/// The gradient by the weights may be summed in another order when it takes the pooling in, and no more: in each window the same
/// element is chosen, however near another comes.
#[test]
fn gradients_by_weights_are_near_those_of_operations_apart() {
    let many = Pooled {
        shape: [29, 12, 15, 20],
        filters: 36,
        conv: Convolution { window: Window::same(3, 1), groups: 1 },
        kernel: [2, 2],
        bias: true,
        relu: true,
        inner: false,
        whole: false,
        apart: false,
    };
    let others = list().into_iter().map(|(pooled, _)| pooled).filter(|pooled| !pooled.whole);
    for pooled in [true, false].map(|inner| Pooled { inner, ..many }).into_iter().chain(others) {
        let name = if pooled.inner { "v1" } else { "v0" };
        let cases = [pooled.case(), Pooled { apart: true, ..pooled }.case()];
        for kernels in Kernels::available() {
            let [together, apart] = cases.each_ref().map(|case| {
                let at =
                    case.program.outputs.iter().position(|(known, _)| known == name).expect("a gradient");
                found(case, kernels, 2, 1).outputs[0][at].clone()
            });
            let off = distance(&together, &to_f64(&apart));
            assert!(off < 1e-5, "{pooled:?} is off by {off} with {kernels:?}");
        }
    }
}
