//! The speed of linear layers, one by one: forward, gradient by the input, gradient by the weights, and that with a step of
//! the optimiser, in GFLOP/s.
//!
//! usage: linears [THREADS [KERNELS [PART OF A LAYER'S NAME]]] (2, auto, all); the fastest and the median of 15 runs each.

use sooner_base::{MonotonicClock, Seed, Shape};
use sooner_engine::{
    Feed, Graph, Init, Kernels, LargePages, Native, NativeOptions, OptimizerSpec, Program, Role, Rule, State,
    Var, Vars, add_optimizer, gradients,
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
    println!("{:<24} {:>14} {:>14} {:>14} {:>14}", "layer", "forward", "input", "weights", "step");
    let wanted = words.next();
    for layer in LAYERS {
        let [batch, inputs, outputs] = layer;
        let name = format!("{batch} x {inputs} > {outputs}");
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let rates = measure(layer, &options).map(|[best, median]| format!("{best:.0} ({median:.0})"));
        println!("{name:<24} {:>14} {:>14} {:>14} {:>14}", rates[0], rates[1], rates[2], rates[3]);
    }
}

/// By operation: the fastest and the median.
fn measure(layer: [usize; 3], options: &NativeOptions) -> [[f64; 2]; 4] {
    let [forward, input, weights, _] = time(layer, options, false);
    let [_, _, _, step] = time(layer, options, true);
    let flops = 2.0 * layer.iter().product::<usize>() as f64;
    [forward, input, weights, step].map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        [seconds[0], seconds[seconds.len() / 2]].map(|seconds| flops / seconds * 1e-9)
    })
}

/// The seconds of each run: of three operations, or of the last with the optimiser's step.
fn time([batch, inputs, outputs]: [usize; 3], options: &NativeOptions, steps: bool) -> [Vec<f64>; 4] {
    let mut vars = Vars::new();
    let mut graph = Graph::new();
    let mut declare = |name: &str, shape: Shape| {
        let var = Var { name: name.to_string(), shape, init: Init::HeNormal, role: Role::Weight };
        vars.declare(var).expect("names differ")
    };
    let w = declare("w", Shape::from([inputs, outputs]));
    // The input as a variable, so that its gradient is wanted too.
    let x = (!steps).then(|| declare("x", Shape::from([batch, inputs])));
    let [x, w] = [x, Some(w)].map(|id| match id {
        Some(id) => graph.read(&vars, id),
        None => graph.features([batch, inputs]),
    });
    let y = graph.linear(x, w).expect("it fits");
    // A gradient that is not the same everywhere.
    let squares = graph.mul(y, y).expect("it fits");
    let loss = graph.sum(squares).expect("it fits");
    let program = if steps {
        let updates =
            add_optimizer(&mut vars, &mut graph, loss, &OptimizerSpec::new(Rule::Sgd)).expect("it fits");
        Program { vars, graph, updates, outputs: vec![] }
    } else {
        let grads = gradients(&mut graph, loss, &[x, w]).expect("they exist");
        let outputs = vec![("y".into(), loss), ("dx".into(), grads[0]), ("dw".into(), grads[1])];
        Program { vars, graph, updates: vec![], outputs }
    };
    let mut native = Native::compile(&program, options).expect("the kernels are available");
    let mut state = State::init(&program.vars, Seed(1));
    let features: Vec<f32> =
        (0..if steps { batch * inputs } else { 0 }).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect();
    // A rate of 0: the values stay what they are.
    let scalars = vec![0.0; program.graph.scalars().len()];
    let feed = Feed { features: &features, scalars: &scalars, ..Feed::default() };
    let clock = MonotonicClock::start();
    let mut seconds = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        let mut step = 0.0;
        for time in native.run_timed(&mut state, &feed, &clock).expect("it fits") {
            match time.op {
                "linear" => seconds[0].push(time.seconds.0),
                "linear_grad_input" => seconds[1].push(time.seconds.0),
                "linear_grad_weight" => {
                    seconds[2].push(time.seconds.0);
                    step += time.seconds.0;
                }
                "update" => step += time.seconds.0,
                _ => {}
            }
        }
        seconds[3].push(step);
    }
    seconds
}
