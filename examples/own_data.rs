//! Trains a small residual network on a folder of your own images, one folder a class:
//! `cargo run --release --example own_data -- FOLDER`, with `FOLDER/train/CLASS/*.jpg` and `FOLDER/val/CLASS/*.png`.

use sooner_base::MonotonicClock;
use sooner_engine::State;
use sooner_engine::native::{Kernels, Pool};
use sooner_models::{Model, workload};
use sooner_pipeline::{Evaluation, Pipeline, load};
use sooner_plan::{DataPlan, Plan, Views};
use sooner_train::{Evaluator, Programs};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    println!("validation accuracy {:.3}", run(&folder, 10.0)?);
    Ok(())
}

/// Trains for so many epochs and returns the accuracy on the images held out.
pub fn run(folder: &str, epochs: f64) -> Result<f64, Box<dyn Error>> {
    // A built-in workload's network, stages and optimiser, on other data: every image scaled to cover 32 x 32.
    let mut plan = Plan::parse(workload("shapes-cnn").ok_or("no such workload")?.toml)?.with_epochs(epochs);
    let data = "kind = \"image-folder\"\nvalidation = 0\nimages = { size = 32 }";
    plan.data = DataPlan { path: Some(folder.to_string()), ..DataPlan::parse(data)? };
    let threads = std::thread::available_parallelism()?;
    let clock = Arc::new(MonotonicClock::start());
    let splits = load(&plan.data, threads.get(), clock.as_ref())?;
    splits.notices.iter().for_each(|notice| println!("note: {notice}"));
    let examples = splits.train.len();
    println!("{examples} images of {}", splits.train.info().classes.join(", "));

    let pipeline = Pipeline::new(&plan.pipeline, splits.train.clone(), plan.seed, clock)?;
    let model = Model::new(&plan.model, pipeline.shape(), splits.train.classes())?;
    let mut programs = Programs::for_plan(&plan, model, Kernels::Auto, Arc::new(Pool::new(threads)));
    let vars = programs.compile(&[plan.batch_size().min(examples)], &plan.optimizer)?;
    let mut state = State::init(&vars, plan.seed);

    let mut update = 0;
    for epoch in 0..epochs as u32 {
        for batch in pipeline.epoch(epoch) {
            let batch = batch?;
            programs.run_update(&mut state, &batch, &plan, plan.moment(examples, update))?;
            pipeline.recycle(batch);
            update += 1;
        }
    }
    let held_out = Evaluation::new(&plan.pipeline, splits.val.clone(), Evaluator::BATCH)?;
    Ok(Evaluator::new(held_out).run(&mut programs, &mut state, Views::One)?.metrics.accuracy)
}
