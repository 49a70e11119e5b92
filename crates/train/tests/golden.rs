//! Ten losses of two small runs, frozen. They may change only together with a stated change of what they depend on: the
//! generator, the drawings, the order of examples, augmentation, initial values, a model's graph, the optimiser. Kernels
//! may move them by rounding, hence the tolerance; the naive executor in f64 is held to the same numbers.

use sooner_base::{Clock, MonotonicClock};
use sooner_engine::naive::Naive;
use sooner_engine::native::{Kernels, Native, NativeOptions};
use sooner_engine::{Feed, State};
use sooner_models::Model;
use sooner_pipeline::{Pipeline, Position, load};
use sooner_plan::{Plan, Setting};
use std::num::NonZeroUsize;
use std::sync::Arc;

const UPDATES: usize = 10;

fn plan(settings: &[&str]) -> Plan {
    let mut plan =
        Plan::parse(sooner_models::workload("shapes-cnn").expect("the default").toml).expect("valid");
    let common = ["data.train=70", "data.validation=10", "data.test=10", "pipeline.stages.batch=16"];
    let all = common.iter().chain(settings).map(|s| Setting::parse(s).expect("key=value"));
    plan.apply(&all.collect::<Vec<_>>()).expect("legal settings");
    plan
}

/// The losses of the first updates, by the native executor with these kernels and by the naive one in f64.
fn losses(plan: &Plan, kernels: Kernels) -> (Vec<f64>, Vec<f64>) {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let splits = load(&plan.data, 1, clock.as_ref()).expect("drawings");
    let pipeline =
        Pipeline::new(&plan.pipeline, splits.train.clone(), plan.seed, clock).expect("valid stages");
    let mut model = Model::new(&plan.model, pipeline.shape(), 10).expect("a model");
    let mut stream = pipeline.stream(Position::default());
    let (mut native, mut naive) = (Vec::new(), Vec::new());
    let mut states = None;
    for _ in 0..UPDATES {
        let batch = stream.next().expect("endless").expect("no error");
        let program = model.update_program(batch.len(), &plan.optimizer).expect("a program");
        let (fast, exact) = states.get_or_insert_with(|| {
            let start = State::init(&program.vars, plan.seed);
            (start.clone(), start.convert::<f64>())
        });
        let scalar = |name: &String| match name.as_str() {
            "learning_rate" => 0.05,
            "momentum" => 0.9,
            "weight_decay" => 0.0005,
            _ => 0.0,
        };
        let scalars: Vec<f32> = program.graph.scalars().iter().map(scalar).collect();
        let options = NativeOptions { threads: NonZeroUsize::new(2).expect("two"), kernels };
        let mut compiled = Native::compile(&program, &options).expect("compiles");
        let feed =
            Feed { features: &batch.features, labels: &batch.labels, scalars: &scalars, ..Feed::default() };
        compiled.run(fast, &feed).expect("runs");
        native.push(f64::from(compiled.output(0)[0]));

        let features: Vec<f64> = batch.features.iter().map(|v| f64::from(*v)).collect();
        let scalars: Vec<f64> = scalars.iter().map(|v| f64::from(*v)).collect();
        let mut plain = Naive::<f64>::new(&program);
        plain
            .run(
                exact,
                &Feed { features: &features, labels: &batch.labels, scalars: &scalars, ..Feed::default() },
            )
            .expect("runs");
        naive.push(plain.output(0)[0]);
    }
    (native, naive)
}

fn check(settings: &[&str], golden: [f64; UPDATES]) {
    let plan = plan(settings);
    for kernels in Kernels::available() {
        let (native, naive) = losses(&plan, kernels);
        for (executor, found) in [("native", native), ("naive", naive)] {
            let far = found.iter().zip(&golden).any(|(a, b)| (a - b).abs() > 2e-3 * b.abs());
            assert!(!far, "{executor}, {}: found {found:.6?}, expected {golden:?}", kernels.name());
        }
    }
}

#[test]
fn resnet9_losses_are_frozen() {
    let golden =
        [2.248738, 2.388904, 2.297541, 2.313978, 2.278743, 2.321703, 2.224440, 2.279492, 2.286961, 2.402519];
    check(&["model.channels=[4, 4, 8, 8]"], golden);
}

#[test]
fn resnet8_losses_are_frozen() {
    let golden =
        [2.303278, 2.330413, 2.328457, 2.322446, 2.268076, 2.321208, 2.274717, 2.301579, 2.317477, 2.345135];
    check(&["model.kind=resnet8", "model.channels=[4, 8, 8]"], golden);
}
