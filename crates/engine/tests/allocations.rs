//! A run of a compiled program allocates nothing. One test in a file of its own, because it counts for the whole
//! process.

#![allow(unsafe_code)]

use sooner_base::Seed;
use sooner_engine::{
    Feed, Graph, Init, Kernels, Native, NativeOptions, NodeId, OptimizerSpec, Program, Role, Rule, State,
    Update, Var, Vars, Window, add_optimizer,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: handed on to the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: handed on to the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Net {
    vars: Vars,
    graph: Graph,
    updates: Vec<Update>,
}

impl Net {
    fn var(&mut self, name: &str, shape: &[usize], role: Role) -> NodeId {
        let init = match role {
            Role::Running => Init::UnitStats,
            Role::Weight => Init::HeNormal,
            _ => Init::Constant(0.5),
        };
        let var = Var { name: name.to_string(), shape: sooner_base::Shape::new(shape), init, role };
        let id = self.vars.declare(var).expect("names are unique");
        self.graph.read(&self.vars, id)
    }

    /// 3x3 convolution, bias, batch normalisation with running statistics, ReLU.
    fn layer(&mut self, name: &str, x: NodeId, channels: usize, stride: usize) -> NodeId {
        let from = self.graph.shape(x).last();
        let w = self.var(&format!("{name}.weight"), &[3, 3, from, channels], Role::Weight);
        let b = self.var(&format!("{name}.bias"), &[channels], Role::Bias);
        let gain = self.var(&format!("{name}.gain"), &[channels], Role::Gain);
        let shift = self.var(&format!("{name}.shift"), &[channels], Role::Bias);
        self.var(&format!("{name}.running"), &[2, channels], Role::Running);
        let g = &mut self.graph;
        let y = g.conv2d(x, w, Window::same(3, stride)).expect("shapes fit");
        let y = g.add_bias(y, b).expect("shapes fit");
        let stats = g.batch_stats(y).expect("shapes fit");
        let var = self.vars.find(&format!("{name}.running")).expect("declared above");
        let count = g.shape(y).len() / channels;
        self.updates.push(Update::RunningStats { var, stats, rate: 0.1, counts: vec![count] });
        let y = g.normalize(y, stats, [gain, shift], 1e-5).expect("shapes fit");
        g.relu(y).expect("shapes fit")
    }
}

/// One of most operations, with a residual block, max pooling and an optimiser with velocities.
fn program(batch: usize) -> Program {
    let mut net = Net { vars: Vars::new(), graph: Graph::new(), updates: vec![] };
    let x = net.graph.features([batch, 16, 16, 3]);
    let labels = net.graph.labels(batch);
    let x = net.layer("first", x, 16, 1);
    let branch = net.layer("branch", x, 24, 2);
    let shortcut = net.graph.avg_pool(x, Window::valid(2, 2)).expect("shapes fit");
    let shortcut = net.graph.pad_channels(shortcut, 24).expect("shapes fit");
    let x = net.graph.add(branch, shortcut).expect("shapes fit");
    let x = net.graph.max_pool(x, Window::valid(2, 2)).expect("shapes fit");
    let x = net.graph.global_avg_pool(x).expect("shapes fit");
    let w = net.var("linear.weight", &[24, 10], Role::Weight);
    let logits = net.graph.linear(x, w).expect("shapes fit");
    let smoothing = net.graph.scalar("label_smoothing");
    let losses = net.graph.cross_entropy(logits, labels, smoothing).expect("shapes fit");
    let loss = net.graph.sum(losses).expect("shapes fit");
    let correct = net.graph.correct(logits, labels).expect("shapes fit");
    let correct = net.graph.sum(correct).expect("shapes fit");
    let spec = OptimizerSpec::new(Rule::Nesterov);
    let Net { mut vars, mut graph, mut updates } = net;
    updates.extend(add_optimizer(&mut vars, &mut graph, loss, &spec).expect("the loss has gradients"));
    Program { vars, graph, updates, outputs: vec![("loss".into(), loss), ("correct".into(), correct)] }
}

#[test]
fn a_run_allocates_nothing() {
    let batch = 20;
    let program = program(batch);
    let features: Vec<f32> = (0..batch * 16 * 16 * 3).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect();
    let labels: Vec<u32> = (0..batch as u32).map(|i| i % 10).collect();
    let scalars = vec![0.01; program.graph.scalars().len()];
    let feed = Feed { features: &features, labels: &labels, scalars: &scalars, ..Feed::default() };
    for kernels in Kernels::available() {
        for threads in [1, 3] {
            let threads = NonZeroUsize::new(threads).expect("not zero");
            let options = NativeOptions { threads, kernels };
            let mut native = Native::compile(&program, &options).expect("the kernels are available");
            let mut state = State::init(&program.vars, Seed(1));
            // Threads allocate when they start, so their first job is not counted.
            native.run(&mut state, &feed).expect("the feed fits");
            let before = COUNT.load(Ordering::SeqCst);
            for _ in 0..5 {
                native.run(&mut state, &feed).expect("the feed fits");
            }
            let allocated = COUNT.load(Ordering::SeqCst) - before;
            assert_eq!(allocated, 0, "{kernels:?} on {threads} threads");
            assert!(native.output(0)[0].is_finite());
        }
    }
}
