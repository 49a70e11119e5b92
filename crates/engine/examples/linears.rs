//! The speed of linear layers, one by one: forward, gradient by the input, gradient by the weights, in GFLOP/s.
//!
//! usage: linears [THREADS [KERNELS [PART OF A LAYER'S NAME]]] (2, auto, all); the fastest and the median of 15 runs each.

use sooner_base::{MonotonicClock, Seed, Shape};
use sooner_engine::{
    Feed, Graph, Init, Kernels, LargePages, Native, NativeOptions, Program, Role, State, Var, Vars, gradients,
};
use std::num::NonZeroUsize;

#[global_allocator]
static ALLOCATOR: LargePages = LargePages;

/// Batch, inputs, outputs.
const LAYERS: [[usize; 3]; 9] = [
    [4096, 784, 1024],
    [4096, 1024, 10],
    [4096, 1024, 1024],
    [1024, 784, 1024],
    [256, 784, 1024],
    [64, 784, 1024],
    [64, 1024, 10],
    [1000, 300, 100],
    [512, 4096, 512],
];
const RUNS: usize = 15;

fn main() {
    let mut words = std::env::args().skip(1);
    let threads = words.next().map_or(2, |word| word.parse().expect("a number of threads"));
    let kernels = words.next().map_or(Kernels::Auto, |word| Kernels::named(&word).expect("kernels"));
    let options = NativeOptions { threads: NonZeroUsize::new(threads).expect("not zero"), kernels };
    println!("{:<24} {:>14} {:>14} {:>14}", "layer", "forward", "input", "weights");
    let wanted = words.next();
    for layer in LAYERS {
        let [batch, inputs, outputs] = layer;
        let name = format!("{batch} x {inputs} > {outputs}");
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let rates = measure(layer, &options).map(|[best, median]| format!("{best:.0} ({median:.0})"));
        println!("{name:<24} {:>14} {:>14} {:>14}", rates[0], rates[1], rates[2]);
    }
}

/// By operation: the fastest and the median.
fn measure([batch, inputs, outputs]: [usize; 3], options: &NativeOptions) -> [[f64; 2]; 3] {
    let mut vars = Vars::new();
    let mut graph = Graph::new();
    let mut declare = |name: &str, shape: Shape| {
        let var = Var { name: name.to_string(), shape, init: Init::HeNormal, role: Role::Weight };
        vars.declare(var).expect("names differ")
    };
    // The input as a variable, so that its gradient is wanted too.
    let x = declare("x", Shape::from([batch, inputs]));
    let w = declare("w", Shape::from([inputs, outputs]));
    let [x, w] = [x, w].map(|id| graph.read(&vars, id));
    let y = graph.linear(x, w).expect("it fits");
    // A gradient that is not the same everywhere.
    let squares = graph.mul(y, y).expect("it fits");
    let loss = graph.sum(squares).expect("it fits");
    let grads = gradients(&mut graph, loss, &[x, w]).expect("they exist");
    let outputs_of = vec![("y".into(), loss), ("dx".into(), grads[0]), ("dw".into(), grads[1])];
    let program = Program { vars, graph, updates: vec![], outputs: outputs_of };
    let mut native = Native::compile(&program, options).expect("the kernels are available");
    let mut state = State::init(&program.vars, Seed(1));
    let clock = MonotonicClock::start();
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..RUNS {
        for time in native.run_timed(&mut state, &Feed::default(), &clock).expect("it fits") {
            let at = match time.op {
                "linear" => 0,
                "linear_grad_input" => 1,
                "linear_grad_weight" => 2,
                _ => continue,
            };
            seconds[at].push(time.seconds.0);
        }
    }
    let flops = 2.0 * (batch * inputs * outputs) as f64;
    seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        [seconds[0], seconds[seconds.len() / 2]].map(|seconds| flops / seconds * 1e-9)
    })
}
