//! The speed of convolutions, layer by layer: forward, gradient by the input, gradient by the weights, in effective
//! GFLOP/s of the direct count.
//!
//! usage: convolutions [THREADS [KERNELS [PART OF A LAYER'S NAME]]] (2, auto, all); the fastest of 7 runs each.

use sooner_base::{MonotonicClock, Seed, Shape};
use sooner_engine::{
    Feed, Graph, Init, Kernels, Native, NativeOptions, Program, Role, State, Var, Vars, Window, gradients,
};
use std::num::NonZeroUsize;

/// Batch, extent, input channels, filters; and the taps of a window: 3, whose results are as many as pixels, or 5 without
/// padding.
const LAYERS: [[usize; 5]; 28] = [
    [128, 32, 3, 64, 3],
    [128, 32, 64, 128, 3],
    [128, 16, 128, 128, 3],
    [128, 16, 128, 256, 3],
    [128, 8, 256, 512, 3],
    [128, 4, 512, 512, 3],
    [512, 4, 512, 512, 3],
    [128, 32, 16, 16, 3],
    [128, 16, 32, 32, 3],
    [64, 8, 64, 64, 3],
    [32, 32, 16, 16, 3],
    [32, 16, 32, 32, 3],
    [32, 8, 64, 64, 3],
    [128, 8, 64, 64, 3],
    [1, 16, 32, 32, 3],
    [128, 16, 16, 32, 3],
    [128, 8, 128, 128, 3],
    [1, 32, 16, 16, 3],
    [1024, 8, 64, 64, 3],
    [256, 31, 24, 64, 3],
    [128, 31, 24, 128, 3],
    [128, 16, 32, 64, 3],
    [256, 15, 64, 256, 3],
    [256, 7, 256, 256, 3],
    [256, 28, 1, 32, 5],
    [1, 12, 32, 64, 5],
    [32, 12, 32, 64, 5],
    [256, 12, 32, 64, 5],
];

fn main() {
    let mut words = std::env::args().skip(1);
    let threads = words.next().map_or(2, |word| word.parse().expect("a number of threads"));
    let kernels = words.next().map_or(Kernels::Auto, |word| Kernels::named(&word).expect("kernels"));
    let options = NativeOptions { threads: NonZeroUsize::new(threads).expect("not zero"), kernels };
    println!("{:<28} {:>8} {:>8} {:>8}", "layer", "forward", "input", "weights");
    let wanted = words.next();
    for layer in LAYERS {
        let [batch, extent, channels, filters, taps] = layer;
        let name = format!("{batch} x {extent}^2, {channels} > {filters}, {taps}x{taps}");
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let rates = measure(layer, &options);
        println!("{name:<28} {:>8.0} {:>8.0} {:>8.0}", rates[0], rates[1], rates[2]);
    }
}

fn measure([batch, extent, channels, filters, taps]: [usize; 5], options: &NativeOptions) -> [f64; 3] {
    let mut vars = Vars::new();
    let mut graph = Graph::new();
    let mut declare = |name: &str, shape: Shape| {
        let var = Var { name: name.to_string(), shape, init: Init::HeNormal, role: Role::Weight };
        vars.declare(var).expect("names differ")
    };
    // The input as a variable, so that its gradient is wanted too.
    let x = declare("x", Shape::from([batch, extent, extent, channels]));
    let w = declare("w", Shape::from([taps, taps, channels, filters]));
    let [x, w] = [x, w].map(|id| graph.read(&vars, id));
    let window = if taps == 3 { Window::same(3, 1) } else { Window::valid(taps, 1) };
    let y = graph.conv2d(x, w, window).expect("it fits");
    let pixels = graph.shape(y).len() / filters;
    let loss = graph.sum(y).expect("it fits");
    let grads = gradients(&mut graph, loss, &[x, w]).expect("they exist");
    let outputs = vec![("y".into(), loss), ("dx".into(), grads[0]), ("dw".into(), grads[1])];
    let program = Program { vars, graph, updates: vec![], outputs };
    let mut native = Native::compile(&program, options).expect("the kernels are available");
    let mut state = State::init(&program.vars, Seed(1));
    let clock = MonotonicClock::start();
    let mut best = [f64::INFINITY; 3];
    for _ in 0..7 {
        for time in native.run_timed(&mut state, &Feed::default(), &clock).expect("it fits") {
            let at = match time.op {
                "conv2d" => 0,
                "conv2d_grad_input" => 1,
                "conv2d_grad_weight" => 2,
                _ => continue,
            };
            best[at] = best[at].min(time.seconds.0);
        }
    }
    let flops = 2.0 * (pixels * taps * taps * channels * filters) as f64;
    best.map(|seconds| flops / seconds * 1e-9)
}
