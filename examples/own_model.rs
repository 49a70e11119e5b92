//! Trains and saves a network of your own on your arrays; `bench/peers/own_model_logits.py FOLDER` is it in PyTorch.

use sooner_base::{MonotonicClock, Shape};
use sooner_engine::{Activation, EngineError, Feed, Init, NodeId, State, Window, native};
use sooner_models::{Conv, Model, Net, workload};
use sooner_pipeline::{Dataset, DatasetInfo, Pipeline};
use sooner_plan::{Plan, Split};
use sooner_record::{TensorRef, write_tensors};
use sooner_train::{Programs, save_weights};
use std::{error::Error, num::NonZeroUsize, path::Path, sync::Arc};

/// Your network: examples `[N, H, W, C]` to one number a class, `[N, 2]`.
fn network(net: &mut Net, x: NodeId) -> Result<NodeId, EngineError> {
    let h = net.conv("conv", x, Conv { channels: 8, window: Window::same(3, 1), init: Init::HeNormal })?;
    let h = net.batch_norm("norm", h)?;
    let h = net.graph.activate(h, Activation::Gelu)?;
    let h = net.graph.max_pool(h, Window::valid(2, 2))?;
    let h = net.dropout(h, 0.1)?;
    let logits = net.linear("head", h, 2, Init::TorchUniform)?;
    net.bias("head", logits)
}

/// Your arrays: bytes `[N, 12, 10, 1]` and N classes. Here, grainy stripes that stand or lie.
fn arrays(split: Split, examples: usize) -> Result<Arc<Dataset>, Box<dyn Error>> {
    let classes = ["standing", "lying"].map(String::from).to_vec();
    let info = DatasetInfo { name: "stripes".into(), split, shape: [12, 10, 1], classes };
    let grain = |n: usize| (n * 2_654_435_761 + split as usize * 97) % 1013 % 120;
    let stripe = |n: usize| [n % 10, n % 120 / 10][n / 120 % 2] / 2 % 2 * 120;
    let pixels = (0..examples * 120).map(|n| (stripe(n) + grain(n)) as u8).collect();
    Ok(Arc::new(Dataset::new(info, pixels, (0..examples).map(|i| i as u32 % 2).collect())?))
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Path::new(&std::env::args().nth(1).ok_or("which folder?")?)).map(|a| println!("accuracy {a:.3}"))
}

pub(crate) fn run(folder: &Path) -> Result<f64, Box<dyn Error>> {
    let mut plan = Plan::parse(workload("shapes-cnn").ok_or("no such workload")?.toml)?.with_epochs(5.0);
    plan.set("pipeline.stages=[{shuffle='epoch'}, {normalize={mean=[0.5], std=[0.25]}}, {batch=32}]")?;
    let (train, held_out) = (arrays(Split::Train, 640)?, arrays(Split::Val, 200)?);
    let pipeline = Pipeline::new(&plan.pipeline, train, plan.seed, Arc::new(MonotonicClock::start()))?;
    let model = Model::own("stripes", pipeline.shape(), 2, network)?;
    let pool = Arc::new(native::Pool::new(NonZeroUsize::MIN));
    let mut programs = Programs::for_plan(&plan, model, native::Kernels::Auto, pool);
    let vars = programs.compile(&[32], &plan.optimizer)?;
    let mut state = State::init(&vars, plan.seed);
    for (update, batch) in (0..5).flat_map(|epoch| pipeline.epoch(epoch)).enumerate() {
        programs.run_update(&mut state, &batch?, &plan, plan.moment(640, update as u64))?;
    }
    let mut examples = pipeline.evaluation(held_out, 200)?;
    let batch = examples.next_batch()?.ok_or("no examples")?;
    let eval = programs.eval(200)?;
    eval.run(&mut state, &Feed { features: &batch.features, labels: &batch.labels, ..Feed::default() })?;
    save_weights(&folder.join("weights.safetensors"), &vars, &state)?;
    let seen = TensorRef { name: "examples", shape: &batch.shape, values: &batch.features };
    let logits = TensorRef { name: "logits", shape: &Shape::from([200, 2]), values: eval.output(2) };
    write_tensors(&folder.join("held_out.safetensors"), &[seen, logits])?;
    Ok(f64::from(eval.output(1)[0]) / 200.0)
}
