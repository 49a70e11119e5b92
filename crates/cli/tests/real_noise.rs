//! The gradient noise scale that a run logs, against its definition: the trace of the covariance of single examples'
//! gradients over the squared norm of their mean, at fixed weights, on real MNIST. `SOONER_DATA` as in `real_data.rs`:
//! without it this skips, loudly.

mod support;

use serde_json::Value;
use sooner_base::{MonotonicClock, NoisePair, NoiseScale, mean, sample_sd};
use sooner_engine::native::{Kernels, Native, Pool};
use sooner_engine::{Feed, State};
use sooner_models::{EXAMPLE_WEIGHT, Model};
use sooner_pipeline::{Dataset, Pipeline, load};
use sooner_plan::Plan;
use sooner_record::{RunReader, WEIGHTS_FILE, Weights};
use sooner_train::{Programs, start_from};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use support::{real_data, run, say};

/// The examples that gradients are of, and updates in which the run goes through them sixteen times.
const EXAMPLES: usize = 2048;
const BATCH: usize = 64;
const EPOCHS: usize = 16;

/// Signal or noise of a pair.
type Part = fn(&NoisePair) -> f64;

/// `sooner train` on the first examples of MNIST.
fn train(folder: &Path, data: &Path, out: &str, more: &[&str]) -> Value {
    let (data, examples, batch) = (
        data.to_str().expect("UTF-8"),
        format!("data.train={EXAMPLES}"),
        format!("pipeline.stages.batch={BATCH}"),
    );
    let mut words = vec!["train", "mnist-cnn", "--data", data, "--out", out, "--target", "none", "--json"];
    for setting in [&*examples, &batch, "data.validation=100", "data.test=100", "run.evaluate={updates=1000}"]
    {
        words.extend(["--set", setting]);
    }
    words.extend(more);
    let done = run(folder, &words);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    done.json()
}

/// Signal and noise of the examples by their definition. Batches are drawn without putting back: what estimates from
/// them then have as expectations, exactly, is the sample covariance, and the mean's squared norm less its share of that.
fn truth(pipeline: &Pipeline, data: Arc<Dataset>, plan: &Plan, weights: &Weights) -> NoisePair {
    let mut model = Model::new(&plan.model, pipeline.shape(), data.classes()).expect("a network");
    let part = model.part_program(1).expect("a program");
    let pool = Arc::new(Pool::new(NonZeroUsize::MIN));
    let mut native = Native::compile_on(&part.program, Kernels::Auto, pool).expect("compiled");
    let mut state = State::init(model.vars(), plan.seed);
    start_from(model.vars(), &mut state, weights, &[]).expect("weights of this network");
    let scalar = |name: &String| match name.as_str() {
        EXAMPLE_WEIGHT => 1.0,
        name => plan.scalar(name, plan.moment(EXAMPLES, 0)).expect("a scalar of the loss") as f32,
    };
    let scalars: Vec<f32> = part.program.graph.scalars().iter().map(scalar).collect();
    let mut leaf = vec![0.0f32; part.leaf.len()];
    let (mut sum, mut squares, mut count) = (vec![0.0f64; part.leaf.gradients().len()], 0.0, 0.0);
    let mut examples = pipeline.evaluation(data, 1).expect("examples");
    while let Some(example) = examples.next_batch().expect("an example") {
        let feed = Feed {
            features: &example.features,
            labels: &example.labels,
            scalars: &scalars,
            origins: &example.origins,
            ..Feed::default()
        };
        native.compute(&state, &feed).expect("gradients");
        part.leaf.write(|i| native.output(i), 1, &mut leaf);
        for (sum, value) in sum.iter_mut().zip(&leaf[part.leaf.gradients()]) {
            *sum += f64::from(*value);
            squares += f64::from(*value).powi(2);
        }
        count += 1.0;
    }
    assert_eq!(count, EXAMPLES as f64);
    let signal = sum.iter().map(|s| (s / count).powi(2)).sum::<f64>();
    let noise = (squares - count * signal) / (count - 1.0);
    NoisePair { signal: signal - noise / count, noise }
}

/// The estimates of every update that the run makes, by the programs that it makes them with.
fn estimates(pipeline: &Pipeline, classes: usize, plan: &Plan, weights: &Weights) -> Vec<NoisePair> {
    let model = Model::new(&plan.model, pipeline.shape(), classes).expect("a network");
    let pool = Arc::new(Pool::new(NonZeroUsize::MIN));
    let mut programs = Programs::for_plan(plan, model, Kernels::Auto, pool);
    let vars = programs.compile(&[BATCH], &plan.optimizer).expect("compiled");
    let mut state = State::init(&vars, plan.seed);
    start_from(&vars, &mut state, weights, &[]).expect("weights of this network");
    programs.measure_noise(true);
    let batches = (0..EPOCHS as u32).flat_map(|epoch| pipeline.epoch(epoch));
    let update = |(n, batch): (usize, Result<_, _>)| {
        let at = plan.moment(EXAMPLES, n as u64);
        programs.run_update(&mut state, &batch.expect("a batch"), plan, at).expect("an update").noise
    };
    batches.enumerate().map(update).map(|noise| noise.expect("an estimate")).collect()
}

#[test]
fn the_noise_scale_that_mnist_runs_log_is_that_of_its_examples() {
    let test = "real-noise";
    let Some(data) = real_data(test, "mnist").map(|root| root.join("mnist")) else { return };
    let here = support::folder();
    // Away from the beginning, where the signal is so strong that anything could estimate it.
    train(here.path(), &data, "before", &["--epochs", "2"]);
    let epochs = EPOCHS.to_string();
    let still = [
        "--init",
        "before",
        "--replicas",
        "2",
        "--epochs",
        &epochs,
        "--set",
        "run.noise_scale=1",
        "--set",
        "optimizer={kind=\"sgd\"}",
        "--set",
        // So small that no weight changes.
        "schedule={kind=\"constant\",learning_rate=1e-30}",
    ];
    let told = train(here.path(), &data, "still", &still)["gradient"].clone();
    let read = |name: &str| Weights::read(&here.path().join(name).join(WEIGHTS_FILE)).expect("weights");
    let weights = read("before");
    assert_eq!(weights.tensors, read("still").tensors, "the weights were to stay as they are");

    let plan = RunReader::open(&here.path().join("still")).expect("a record").plan;
    let clock = Arc::new(MonotonicClock::start());
    let splits = load(&plan.data, 1, clock.as_ref()).expect("data");
    let pipeline = Pipeline::new(&plan.pipeline, splits.train.clone(), plan.seed, clock).expect("a pipeline");
    let truth = truth(&pipeline, splits.train.clone(), &plan, &weights);
    let pairs = estimates(&pipeline, splits.train.classes(), &plan, &weights);
    assert_eq!(pairs.len(), EPOCHS * EXAMPLES / BATCH);

    // What was logged is the running average of these.
    let mut average = NoiseScale::new(0.99);
    pairs.iter().for_each(|pair| average.push(*pair));
    let average = average.pair().expect("estimates");
    let parts: [(&str, Part); 2] = [("signal", |p| p.signal), ("noise", |p| p.noise)];
    for (name, part) in parts {
        let logged = told[name].as_f64().expect("a number");
        assert!((logged / part(&average) - 1.0).abs() < 1e-6, "{name}: {logged} logged, {average:?}");
        let values: Vec<f64> = pairs.iter().map(part).collect();
        let (middle, sd) = (mean(&values).expect("values"), sample_sd(&values).expect("values"));
        // The running average weighs the last ones: as many as 199 estimates of equal weight.
        for (what, value, n) in [("logged", logged, 199.0), ("mean", middle, values.len() as f64)] {
            let error = sd / f64::sqrt(n);
            let apart = (value - part(&truth)) / error;
            say(&format!(
                "REAL DATA {test}: {name} {:.6} by definition over {EXAMPLES} examples; {what} {value:.6} of n = {n}, \
                 standard error {error:.6}, {apart:+.2} of them apart",
                part(&truth),
            ));
            assert!(apart.abs() < 4.0, "{name} {what}: {value}, truly {}, error {error}", part(&truth));
        }
    }
    say(&format!(
        "REAL DATA {test}: noise scale {:.2} examples by definition, {} logged",
        truth.noise / truth.signal,
        told["scale"]
    ));
}
