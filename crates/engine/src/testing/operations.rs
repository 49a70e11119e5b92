//! One case for each operation and awkward shape: the result, a random linear function of it as the loss, and that
//! function's gradient by every operand, so that the gradient operations are in it too.

use super::{Builder, Case};
use crate::{Activation, Convolution, EngineError, NodeId, Normalization, Op, Role, Transposed, Window};
use sooner_base::{Purpose, Seed};

type Build = dyn Fn(&mut Builder) -> Result<NodeId, EngineError>;

/// All cases, of every operation there is.
pub(crate) fn operations() -> Vec<Case> {
    let mut cases = Vec::new();
    convolutions(&mut cases);
    grouped_convolutions(&mut cases);
    linears(&mut cases);
    normalizations(&mut cases);
    ghost_normalizations(&mut cases);
    pools(&mut cases);
    elementwise(&mut cases);
    activations(&mut cases);
    dropouts(&mut cases);
    matrices(&mut cases);
    losses(&mut cases);
    cases
}

/// Adds the case of an operation that `build` applies to variables.
fn case(cases: &mut Vec<Case>, name: &str, build: &Build) {
    let mut b = Builder::new(cases.len() as u64);
    let mut make = || -> Result<Case, EngineError> {
        let y = build(&mut b)?;
        b.outputs.push(("y".to_string(), y));
        let loss = b.probe(y)?;
        std::mem::replace(&mut b, Builder::new(0)).differentiate(name, loss)
    };
    let case = make();
    cases.push(case.unwrap_or_else(|error| panic!("{name}: {error}")));
}

fn window(kernel: [usize; 2], stride: [usize; 2], pad_low: [usize; 2], pad_high: [usize; 2]) -> Window {
    Window { kernel, stride, pad_low, pad_high, dilation: [1; 2] }
}

fn convolutions(cases: &mut Vec<Case>) {
    let list: [([usize; 4], usize, Window); 17] = [
        ([1, 1, 1, 1], 1, Window::valid(1, 1)),
        ([3, 4, 5, 2], 3, Window::valid(1, 1)),
        ([2, 5, 4, 3], 2, Window::valid(1, 2)),
        ([2, 5, 7, 3], 4, Window::same(3, 1)),
        ([2, 7, 6, 3], 5, Window::same(3, 2)),
        ([2, 6, 6, 2], 3, Window::same(3, 2)),
        ([0, 5, 5, 2], 3, Window::same(3, 1)),
        ([1, 2, 1, 2], 3, Window::same(5, 1)),
        ([1, 5, 5, 2], 2, Window::valid(5, 1)),
        ([1, 6, 7, 2], 2, Window::valid(2, 3)),
        ([2, 6, 5, 2], 3, window([3, 2], [2, 1], [0, 1], [2, 0])),
        ([1, 4, 5, 3], 2, window([2, 4], [1, 3], [3, 0], [1, 5])),
        ([1, 3, 2, 17], 19, Window::same(3, 1)),
        ([1, 2, 3, 16], 8, Window::same(3, 1)),
        ([7, 3, 3, 1], 33, Window::same(3, 1)),
        ([5, 8, 8, 8], 16, Window::same(3, 1)),
        ([1, 1, 9, 3], 1, window([1, 3], [1, 2], [0, 1], [0, 1])),
    ];
    for (x, filters, window) in list {
        case(cases, &format!("conv2d {x:?} -> {filters}, {window:?}"), &move |b| {
            let [kh, kw] = window.kernel;
            let (x, w) = (b.weight(x), b.weight([kh, kw, x[3], filters]));
            b.graph.conv2d(x, w, window)
        });
    }
}

/// Groups and holes: one group a channel, several filters a group, holes that share a factor with the stride or not.
fn grouped_convolutions(cases: &mut Vec<Case>) {
    let holes = |dilation: [usize; 2], window: Window| Window { dilation, ..window };
    let list: [([usize; 4], usize, usize, Window); 14] = [
        ([2, 5, 4, 4], 6, 2, Window::same(3, 1)),
        ([2, 5, 6, 3], 3, 3, Window::same(3, 2)),
        ([1, 4, 4, 6], 12, 6, Window::same(3, 1)),
        ([3, 3, 2, 6], 9, 3, Window::valid(1, 1)),
        ([0, 4, 4, 4], 4, 2, Window::same(3, 1)),
        ([1, 4, 5, 34], 38, 2, Window::same(3, 1)),
        ([2, 7, 8, 3], 4, 1, holes([2, 2], window([3, 3], [1, 1], [2, 2], [2, 2]))),
        ([1, 9, 8, 2], 3, 1, holes([2, 3], window([3, 2], [2, 2], [1, 2], [2, 1]))),
        ([1, 11, 12, 2], 3, 1, holes([3, 2], window([3, 3], [2, 4], [3, 0], [1, 2]))),
        ([1, 8, 9, 2], 2, 1, holes([4, 6], window([2, 2], [2, 4], [0, 0], [1, 3]))),
        ([1, 7, 1, 2], 3, 1, holes([2, 5], Window { kernel: [3, 1], ..Window::valid(1, 1) })),
        ([1, 6, 7, 2], 2, 1, holes([1, 2], Window::valid(3, 1))),
        ([2, 7, 7, 4], 8, 4, holes([2, 2], window([3, 3], [2, 1], [2, 2], [2, 2]))),
        ([1, 5, 5, 40], 40, 1, holes([2, 1], Window::valid(2, 1))),
    ];
    for (x, filters, groups, window) in list {
        case(cases, &format!("conv2d {x:?} -> {filters} in {groups} groups, {window:?}"), &move |b| {
            let [kh, kw] = window.kernel;
            let (x, w) = (b.weight(x), b.weight([kh, kw, x[3] / groups, filters]));
            let y = b.graph.conv2d(x, w, Convolution { window, groups })?;
            let bias = b.weight([filters]);
            let y = b.graph.add_bias(y, bias)?;
            b.graph.relu(y)
        });
    }
}

fn linears(cases: &mut Vec<Case>) {
    for [n, i, o] in [[1, 1, 1], [3, 5, 7], [0, 4, 3], [5, 17, 1], [2, 1, 33], [13, 31, 10]] {
        case(cases, &format!("linear {n} {i} {o}"), &move |b| {
            let (x, w) = (b.weight([n, i]), b.weight([i, o]));
            b.graph.linear(x, w)
        });
    }
    for shape in [vec![3, 5], vec![2, 3, 4, 7], vec![0, 3], vec![1], vec![6], vec![129, 2]] {
        case(cases, &format!("add_bias {shape:?}"), &move |b| {
            let last = *shape.last().expect("not a scalar");
            let (x, bias) = (b.weight(sooner_base::Shape::new(shape.clone())), b.weight([last]));
            b.graph.add_bias(x, bias)
        });
    }
}

fn normalizations(cases: &mut Vec<Case>) {
    for shape in [vec![7, 3], vec![2, 3, 2, 5], vec![1, 1, 1, 3], vec![4, 5, 5, 17], vec![131, 1]] {
        for own in [true, false] {
            let shape = sooner_base::Shape::new(shape.clone());
            let whose = if own { "its own" } else { "running" };
            case(cases, &format!("normalize {shape} by {whose} statistics"), &move |b| {
                let c = shape.last();
                let (x, gamma, beta) = (b.weight(shape.clone()), b.weight([c]), b.weight([c]));
                let stats = if own { b.graph.batch_stats(x)? } else { b.running_stats(c) };
                b.outputs.push(("stats".to_string(), stats));
                b.graph.normalize(x, stats, [gamma, beta], 1e-3)
            });
        }
    }
}

/// Whole groups, a smaller last one, one group larger than the batch, groups of one example.
fn ghost_normalizations(cases: &mut Vec<Case>) {
    for (shape, group) in
        [([6, 2, 3, 5], 2), ([7, 3, 2, 4], 3), ([3, 2, 2, 17], 8), ([4, 3, 3, 1], 1), ([5, 20, 20, 6], 2)]
    {
        case(cases, &format!("normalize {shape:?} in groups of {group}"), &move |b| {
            let c = shape[3];
            let (x, gamma, beta) = (b.weight(shape), b.weight([c]), b.weight([c]));
            let stats = b.graph.group_stats(x, group)?;
            b.outputs.push(("stats".to_string(), stats));
            let how = Normalization { eps: 1e-3, group: Some(group) };
            let y = b.graph.normalize(x, stats, [gamma, beta], how)?;
            b.graph.relu(y)
        });
    }
}

fn pools(cases: &mut Vec<Case>) {
    let list: [([usize; 4], Window); 11] = [
        ([1, 1, 1, 1], Window::valid(1, 1)),
        ([2, 4, 4, 3], Window::valid(2, 2)),
        ([2, 5, 7, 3], Window::valid(2, 2)),
        ([1, 6, 5, 2], Window::valid(3, 2)),
        ([2, 5, 6, 17], Window::same(3, 2)),
        ([1, 7, 3, 2], Window::same(3, 1)),
        ([1, 1, 2, 5], Window::same(3, 1)),
        ([0, 4, 4, 3], Window::valid(2, 2)),
        ([1, 5, 5, 3], Window::valid(2, 3)),
        ([2, 5, 4, 2], window([3, 2], [2, 1], [0, 1], [2, 0])),
        ([3, 8, 8, 16], Window::valid(2, 2)),
    ];
    for (shape, window) in list {
        case(cases, &format!("max_pool {shape:?}, {window:?}"), &move |b| {
            let x = b.weight(shape);
            b.graph.max_pool(x, window)
        });
        case(cases, &format!("avg_pool {shape:?}, {window:?}"), &move |b| {
            let x = b.weight(shape);
            b.graph.avg_pool(x, window)
        });
    }
    for shape in [[1, 1, 1, 1], [3, 2, 5, 7], [0, 2, 2, 3], [2, 4, 4, 64]] {
        case(cases, &format!("global_avg_pool {shape:?}"), &move |b| {
            let x = b.weight(shape);
            b.graph.global_avg_pool(x)
        });
    }
}

fn elementwise(cases: &mut Vec<Case>) {
    for n in [0, 1, 2, 7, 8, 31, 33, 1000] {
        case(cases, &format!("relu {n}"), &move |b| {
            let x = b.weight([n]);
            b.graph.relu(x)
        });
        case(cases, &format!("add {n}"), &move |b| {
            let (x, y) = (b.weight([n]), b.weight([n]));
            b.graph.add(x, y)
        });
        case(cases, &format!("sum and broadcast {n}"), &move |b| {
            let x = b.weight([n]);
            let sum = b.graph.sum(x)?;
            b.graph.push(Op::Broadcast([2, n].into()), &[sum])
        });
    }
    case(cases, "scale and reshape", &|b| {
        let x = b.weight([3, 4]);
        let scaled = b.graph.scale(x, -0.25)?;
        b.graph.reshape(scaled, [2, 1, 6])
    });
    case(cases, "fill", &|b| {
        let (x, fill) = (b.weight([2, 3]), Op::Fill { shape: [2, 3].into(), value: 1.5 });
        let fill = b.graph.push(fill, &[])?;
        b.graph.add(x, fill)
    });
    for (from, to, at) in [(3, 3, 0), (3, 8, 0), (3, 8, 2), (1, 17, 16), (16, 32, 0), (5, 40, 7)] {
        case(cases, &format!("pad_channels {from} {to} {at}"), &move |b| {
            let x = b.weight([2, 2, 3, from]);
            b.graph.push(Op::PadChannels { before: at, channels: to }, &[x])
        });
        case(cases, &format!("take_channels {to} {from} {at}"), &move |b| {
            let x = b.weight([3, to]);
            b.graph.push(Op::TakeChannels { first: at, channels: from }, &[x])
        });
        case(cases, &format!("concat {from} {to}"), &move |b| {
            let (x, y) = (b.weight([3, from]), b.weight([3, to]));
            b.graph.concat(x, y)
        });
    }
    for n in [0, 1, 7, 33, 1000] {
        case(cases, &format!("mul {n}"), &move |b| {
            let (x, y) = (b.weight([n]), b.weight([n]));
            let z = b.graph.mul(x, y)?;
            b.graph.mul(z, z)
        });
        case(cases, &format!("scale_by {n}"), &move |b| {
            let (x, s) = (b.weight([n]), b.weight(sooner_base::Shape::scalar()));
            let y = b.graph.scale_by(x, s)?;
            b.graph.scale_by(y, s)
        });
    }
    case(cases, "values used several times", &|b| {
        let x = b.weight([2, 3]);
        let twice = b.graph.add(x, x)?;
        let relu = b.graph.relu(twice)?;
        let again = b.graph.add(relu, twice)?;
        b.graph.add(again, x)
    });
}

fn activations(cases: &mut Vec<Case>) {
    let list = [
        Activation::Gelu,
        Activation::Silu,
        Activation::Celu { alpha: 0.3 },
        Activation::Celu { alpha: 1.0 },
        Activation::Tanh,
        Activation::Sigmoid,
    ];
    for activation in list {
        for n in [0, 1, 17, 1000] {
            case(cases, &format!("{activation:?} {n}"), &move |b| {
                let x = b.weight([n]);
                // Wide enough for both ends of every curve.
                let x = b.graph.scale(x, 3.0)?;
                let y = b.graph.activate(x, activation)?;
                // The operand is needed twice, so that one of the two cannot be computed in place.
                b.graph.add(x, y)
            });
        }
        case(cases, &format!("{activation:?} in place"), &move |b| {
            let x = b.weight([3, 5]);
            let x = b.graph.scale(x, 0.1)?;
            b.graph.activate(x, activation)
        });
    }
}

fn dropouts(cases: &mut Vec<Case>) {
    for (shape, rate) in [(vec![0, 3], 0.5), (vec![1, 1], 0.0), (vec![5, 3, 2, 7], 0.3), (vec![3, 9000], 0.9)]
    {
        case(cases, &format!("dropout {shape:?} {rate}"), &move |b| {
            b.origins(shape[0]);
            let x = b.weight(sooner_base::Shape::new(shape.clone()));
            let [first, second] = [1, 2].map(|salt| Seed(5).key(Purpose::Dropout, salt));
            let y = b.graph.dropout(x, rate, first)?;
            let z = b.graph.dropout(x, rate, second)?;
            b.graph.add(y, z)
        });
    }
}

fn matrices(cases: &mut Vec<Case>) {
    for [count, i, j, k] in
        [[1, 1, 1, 1], [2, 3, 5, 4], [3, 17, 8, 33], [0, 2, 2, 2], [2, 40, 3, 1], [1, 4, 0, 3]]
    {
        for transposed in [Transposed::Neither, Transposed::Left, Transposed::Right] {
            case(cases, &format!("batch_matmul {count} {i} {j} {k} {transposed:?}"), &move |b| {
                let left = if transposed == Transposed::Left { [count, j, i] } else { [count, i, j] };
                let right = if transposed == Transposed::Right { [count, k, j] } else { [count, j, k] };
                let (x, y) = (b.weight(left), b.weight(right));
                b.graph.batch_matmul(x, y, transposed)
            });
        }
    }
    for count in [1, 3, 8] {
        case(cases, &format!("stack {count}"), &move |b| {
            let parts: Vec<NodeId> = (0..count).map(|_| b.weight([3, 7])).collect();
            b.graph.stack(&parts)
        });
    }
    for (shape, factor) in
        [(vec![1, 1], 1.0), (vec![3, 4, 5], 1e-3), (vec![2, 20_000], 1.0), (vec![0, 3], 1.0)]
    {
        // No gradients: these serve optimisers only.
        case(cases, &format!("unit_rows {shape:?}, clip_factor {factor}"), &move |b| {
            let n = shape.iter().product();
            let values = b.normal(n);
            let x = b.variable(Role::Running, sooner_base::Shape::new(shape.clone()), values);
            let x = b.graph.scale(x, factor)?;
            let y = b.graph.push(Op::UnitRows { eps: 1e-3 }, &[x])?;
            let squares = b.graph.mul(x, x)?;
            let sum = b.graph.sum(squares)?;
            let clip = b.graph.push(Op::ClipFactor { limit: 0.5 }, &[sum])?;
            b.outputs.push(("clip".to_string(), clip));
            b.graph.scale_by(y, clip)
        });
    }
}

fn losses(cases: &mut Vec<Case>) {
    for (n, k) in [(1, 1), (1, 2), (5, 3), (0, 4), (7, 10), (3, 33), (2, 1000)] {
        for smoothing in ["0", "0.1", "1"] {
            case(cases, &format!("cross_entropy {n} {k}, smoothing {smoothing}"), &move |b| {
                let z = b.weight([n, k]);
                let labels = b.labels(n, k as u32);
                let smoothing = b.graph.scalar(&format!("smoothing {smoothing}"));
                let correct = b.graph.correct(z, labels)?;
                b.outputs.push(("correct".to_string(), correct));
                b.graph.cross_entropy(z, labels, smoothing)
            });
        }
    }
    for (n, k) in [(1, 1), (5, 3), (0, 4), (3, 33), (2, 1000)] {
        for smoothing in ["0", "0.1"] {
            case(cases, &format!("soft_cross_entropy {n} {k}, smoothing {smoothing}"), &move |b| {
                let z = b.weight([n, k]);
                let soft = b.soft_labels(n, k);
                let smoothing = b.graph.scalar(&format!("smoothing {smoothing}"));
                b.graph.soft_cross_entropy(z, soft, smoothing)
            });
        }
    }
    case(cases, "cross_entropy of large logits", &|b| {
        let z = b.variable(Role::Weight, [2, 3], vec![300.0, -300.0, 0.5, 1e4, 1e4 - 1.0, 1e4 - 2.0]);
        let labels = b.labels(2, 3);
        let smoothing = b.graph.scalar("smoothing 0.1");
        b.graph.cross_entropy(z, labels, smoothing)
    });
}
