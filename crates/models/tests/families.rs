//! Every family trains: narrow versions natively and on the naive executor in f64 side by side, and every built-in
//! network at its full size for two updates of a small batch.

use sooner_base::{Batch, Mix, Origin, Purpose, Seed, Shape};
use sooner_engine::naive::Naive;
use sooner_engine::native::{Kernels, Native, NativeOptions};
use sooner_engine::{Feed, Program, State};
use sooner_models::{Model, workload, workloads};
use sooner_plan::{ModelPlan, Plan};
use std::num::NonZeroUsize;

/// A batch of noise and random labels; mixed in pairs if so.
fn batch(examples: usize, [h, w, c]: [usize; 3], classes: usize, mixed: bool) -> Batch {
    let mut rng = Seed(5).key(Purpose::Synthesis, 1).at(0, 0, 0);
    let labels: Vec<u32> = (0..examples).map(|_| rng.below(classes as u32)).collect();
    let mixes = labels.iter().rev().map(|&label| Mix { label, weight: 0.3 });
    Batch {
        features: (0..examples * h * w * c).map(|_| rng.range(-1.0, 1.0)).collect(),
        shape: Shape::from([examples, h, w, c]),
        mixes: if mixed { mixes.collect() } else { Vec::new() },
        labels,
        origins: (0..examples).map(|i| Origin { epoch: 0, index: i as u64, echo: 0 }).collect(),
        fresh: examples,
    }
}

/// What scalars are fed as.
fn scalars(program: &Program, plan: &Plan, learning_rate: f32) -> Vec<f32> {
    // The run's first update; only the rate is the test's own.
    let at = plan.moment(plan.data.expected_facts().train_examples, 0);
    let value = |name: &String| match name.as_str() {
        "learning_rate" => learning_rate,
        name => plan.scalar(name, at).unwrap_or_else(|| panic!("no plan has a say in `{name}`")) as f32,
    };
    program.graph.scalars().iter().map(value).collect()
}

fn native(program: &Program) -> Native {
    let options = NativeOptions { threads: NonZeroUsize::new(2).expect("two"), kernels: Kernels::Auto };
    Native::compile(program, &options).expect("compiles")
}

/// Three updates on one batch by both executors from the same state; their losses and, after the last update, logits of
/// the evaluation.
fn side_by_side(model: &str, input: [usize; 3], mixed: bool) {
    let (classes, examples) = (5, 5);
    let mut plan = Plan::parse(workload("shapes-cnn").expect("built in").toml).expect("valid");
    plan.model = ModelPlan::parse(model).unwrap_or_else(|e| panic!("{model}: {e}"));
    if mixed {
        plan.set("pipeline.stages=[{batch=5},{mixup=1.0}]").expect("legal");
    }
    plan.optimizer.label_smoothing = 0.1;
    let mut net = Model::new(&plan.model, input, classes).expect("fits").trained_by(&plan);
    let batch = batch(examples, input, classes, mixed);
    let program = net.update_program(examples, &plan.optimizer).expect("a program");
    let scalars = scalars(&program, &plan, 0.02);
    let mut soft = Vec::new();
    if mixed {
        batch.write_distributions(classes, &mut soft);
    }
    let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let (features64, scalars64, soft64) = (wide(&batch.features), wide(&scalars), wide(&soft));

    let mut fast = State::init(&program.vars, plan.seed);
    let mut exact = fast.convert::<f64>();
    let (mut native_update, mut naive_update) = (native(&program), Naive::<f64>::new(&program));
    let mut losses = Vec::new();
    let (labels, origins) = (&batch.labels[..], &batch.origins[..]);
    for _ in 0..3 {
        let feed = Feed {
            features: &batch.features,
            labels,
            scalars: &scalars,
            soft_labels: &soft,
            origins,
            ..Feed::default()
        };
        native_update.run(&mut fast, &feed).expect("runs");
        let feed = Feed {
            features: &features64,
            labels,
            scalars: &scalars64,
            soft_labels: &soft64,
            origins,
            ..Feed::default()
        };
        naive_update.run(&mut exact, &feed).expect("runs");
        let (found, expect) = (f64::from(native_update.output(0)[0]), naive_update.output(0)[0]);
        assert!((found - expect).abs() < 1e-3 * expect, "{model}: {found} natively, {expect} in f64");
        assert_eq!(f64::from(native_update.output(1)[0]), naive_update.output(1)[0], "{model}: correct");
        losses.push(expect);
    }
    // The same batch three times: what is learned of it must show.
    assert!(losses[2] < losses[0], "{model}: {losses:?}");

    let eval = net.eval_program(2).expect("a program");
    let (mut native_eval, mut naive_eval) = (native(&eval), Naive::<f64>::new(&eval));
    let (values, none) = (2 * input.iter().product::<usize>(), Feed::<f32>::default());
    let feed = Feed { features: &batch.features[..values], labels: &labels[..2], ..none };
    native_eval.run(&mut fast, &feed).expect("runs");
    let feed = Feed { features: &features64[..values], labels: &labels[..2], ..Feed::default() };
    naive_eval.run(&mut exact, &feed).expect("runs");
    let largest = naive_eval.output(2).iter().fold(1.0, |most: f64, v| most.max(v.abs()));
    for (found, expect) in native_eval.output(2).iter().zip(naive_eval.output(2)) {
        assert!((f64::from(*found) - expect).abs() < 1e-2 * largest, "{model}: logits {found} {expect}");
    }
}

const GHOST: &str = "norm = { statistics = { ghost = 2 }, gain = { fixed = 1.0 } }";

#[test]
fn fully_connected_and_simple_cnn() {
    side_by_side("kind = \"softmax\"", [6, 6, 1], false);
    side_by_side("kind = \"fully-connected\"\nhidden = [9, 7, 5]\nactivation = \"tanh\"", [6, 6, 1], false);
    side_by_side("kind = \"fully-connected\"\nhidden = [16, 16]\ndropout = 0.25", [6, 6, 1], true);
    side_by_side("kind = \"simple-cnn\"\nchannels = [4, 6]", [28, 28, 1], false);
    side_by_side(
        "kind = \"simple-cnn\"\nchannels = [4, 6]\nactivation = \"silu\"\ndropout = 0.25",
        [28, 28, 1],
        true,
    );
}

#[test]
fn residual_networks() {
    side_by_side("kind = \"resnet8\"\nchannels = [4, 6, 8]", [16, 16, 3], false);
    side_by_side("kind = \"resnet32\"\nchannels = [4, 6, 8]", [16, 16, 3], false);
    side_by_side(
        &format!("kind = \"resnet32\"\nchannels = [4, 6, 8]\nblocks = 1\n{GHOST}"),
        [16, 16, 3],
        false,
    );
    for prep in ["plain", "norm-relu"] {
        side_by_side(
            &format!("kind = \"dawn-resnet18\"\nchannels = [4, 6, 8, 8]\nprep = \"{prep}\""),
            [32, 32, 3],
            false,
        );
    }
    side_by_side("kind = \"resnet50\"\nchannels = [3, 4, 5, 6]\nblocks = [2, 1, 1, 1]", [64, 64, 3], false);
}

#[test]
fn vgg() {
    let sizes = "kind = \"vgg11\"\nchannels = [4, 4, 6, 6, 8, 8, 8, 8]\nhidden = [16, 16]";
    side_by_side(sizes, [32, 32, 3], false);
    side_by_side(&format!("{sizes}\ndropout = 0.25\nnorm = {{}}"), [32, 32, 3], true);
}

#[test]
fn pages_networks() {
    let sizes = "channels = [4, 6, 8, 8]\nlogit_scale = 0.125";
    let resnet9 =
        |more: &str| side_by_side(&format!("kind = \"resnet9\"\n{sizes}\n{more}"), [32, 32, 3], false);
    resnet9("");
    resnet9("pool = \"before-activation\"");
    resnet9("pool = \"before-norm\"\nactivation = { celu = 0.3 }");
    resnet9(&format!("pool = \"before-norm\"\nactivation = {{ celu = 0.3 }}\n{GHOST}"));
    resnet9("activation = { celu = 0.075 }");
    resnet9(&format!("whiten = {{ patch = 3, images = 10, eps = 0.01 }}\n{GHOST}"));
    let backbone = |down: &str, extras: &str, head: &str| {
        let kind =
            format!("kind = \"backbone\"\ndownsampling = \"{down}\"\nextras = {extras}\nhead = \"{head}\"");
        side_by_side(&format!("{kind}\n{sizes}\nnorm = {{ gain = \"uniform\" }}"), [32, 32, 3], false);
    };
    let none = "[\"none\", \"none\", \"none\"]";
    backbone("stride-1x1", none, "average-max");
    backbone("stride-3x3", none, "average-max");
    backbone("pool", none, "max");
    backbone("pool", "[\"convolution\", \"residual\", \"none\"]", "max");
}

#[test]
fn airbench() {
    for convolutions in [2, 3] {
        let sizes = format!("channels = [6, 8, 8]\nconvolutions = {convolutions}\nlogit_scale = 0.111");
        for images in [10, 0] {
            let whiten = format!("whiten = {{ patch = 2, images = {images}, eps = 0.0005 }}");
            let norm = "norm = { gain = { fixed = 1.0 }, rate = 0.4, eps = 1e-12 }";
            side_by_side(&format!("kind = \"airbench\"\n{sizes}\n{whiten}\n{norm}"), [32, 32, 3], false);
        }
    }
}

/// Pooling commutes with what rises, element by element: with an activation such as ReLU, and with normalisation by given
/// statistics. (In training it does not: fewer elements make other statistics.)
#[test]
fn pooling_before_the_activation_changes_nothing() {
    let logits = |pool: &str| {
        let text =
            format!("kind = \"resnet9\"\nchannels = [4, 6, 8, 8]\nlogit_scale = 0.125\npool = \"{pool}\"");
        let mut model = Model::new(&ModelPlan::parse(&text).expect("valid"), [32, 32, 3], 10).expect("fits");
        let program = model.eval_program(3).expect("a program");
        let batch = batch(3, [32, 32, 3], 10, false);
        let mut eval = native(&program);
        let feed = Feed { features: &batch.features, labels: &batch.labels, ..Feed::default() };
        eval.run(&mut State::init(&program.vars, Seed(3)), &feed).expect("runs");
        eval.output(2).to_vec()
    };
    let after = logits("after-activation");
    assert_eq!(after, logits("before-activation"));
    assert_eq!(after, logits("before-norm"));
}

/// Two updates of a few examples, at full size; images of ResNet-50 are made smaller.
#[test]
fn every_workload_trains_a_few_updates() {
    for w in workloads() {
        let plan = Plan::parse(w.toml).expect("valid");
        let facts = plan.data.expected_facts();
        let mut input = plan.pipeline.image_shape(facts.image);
        if input[0] > 64 {
            input = [64, 64, input[2]];
        }
        let mut model = Model::new(&plan.model, input, facts.classes).expect("fits").trained_by(&plan);
        let batch = batch(4, input, facts.classes, false);
        let program = model.update_program(4, &plan.optimizer).expect("a program");
        let mut update = native(&program);
        let mut state = State::init(&program.vars, plan.seed);
        // A small step for every group, also where a plan states one group's rate as thousands of another's.
        let largest = plan.optimizer.groups.iter().map(|group| group.rate_scale).fold(10.0, f64::max);
        let scalars = scalars(&program, &plan, (1e-2 / largest) as f32);
        let losses = [(); 2].map(|()| {
            let feed = Feed {
                features: &batch.features,
                labels: &batch.labels,
                scalars: &scalars,
                origins: &batch.origins,
                ..Feed::default()
            };
            update.run(&mut state, &feed).expect("runs");
            f64::from(update.output(0)[0])
        });
        // From a guess among ten classes, give or take what the head's initial values make of it; and down from there.
        let fine = (1.0..6.0).contains(&losses[0]) && losses[1] < 1.2 * losses[0];
        assert!(fine, "{}: {losses:?}", w.name);
        assert_ne!(losses[0], losses[1], "{}", w.name);
    }
}
