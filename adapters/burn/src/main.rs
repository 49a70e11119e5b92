//! Trains a linear classifier on CIFAR-10 with burn, fed by the pipeline: `cargo run --release -- FOLDER`, with FOLDER the
//! authors' binary files.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use sooner_base::{Batch, MonotonicClock, Seed};
use sooner_pipeline::{Pipeline, load};
use sooner_plan::{
    CropPlan, DataPlan, FlipKind, NormalizePlan, Padding, PipelinePlan, ShuffleKind, StagePlan,
};
use std::error::Error;
use std::sync::Arc;

/// A batch as burn's tensors: features [N, H, W, C] and classes [N, 1]. burn's convolutions want channels first:
/// `features.permute([0, 3, 1, 2])`.
fn tensors(batch: &Batch, device: &Device) -> (Tensor<4>, Tensor<2, Int>) {
    let features = TensorData::new(batch.features.clone(), batch.shape.dims().to_vec());
    let labels: Vec<i64> = batch.labels.iter().map(|&label| i64::from(label)).collect();
    let labels = TensorData::new(labels, [batch.len(), 1]);
    (Tensor::from_data(features, device), Tensor::from_data(labels, device))
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    let clock = Arc::new(MonotonicClock::start());
    let data = DataPlan { path: Some(folder), ..DataPlan::parse("kind = \"cifar10\"\nvalidation = 5000")? };
    let splits = load(&data, 1, clock.as_ref())?;
    let normal = NormalizePlan { mean: vec![0.491, 0.482, 0.447], std: vec![0.247, 0.243, 0.262] };
    let stages = vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::Crop(CropPlan { size: 32, pad: 4, padding: Padding::Reflect }),
        StagePlan::Flip(FlipKind::Random),
        StagePlan::Normalize(normal),
        StagePlan::Batch(500),
    ];
    let pipeline = Pipeline::new(&PipelinePlan::new(stages), splits.train.clone(), Seed(1), clock)?;

    let device = Device::flex().autodiff();
    let (inputs, classes) = (pipeline.shape().iter().product::<usize>(), splits.train.classes());
    let mut weight = Tensor::<2>::zeros([inputs, classes], &device).require_grad();
    let mut bias = Tensor::<2>::zeros([1, classes], &device).require_grad();
    for epoch in 0..3 {
        let mut sum = 0.0;
        for batch in pipeline.epoch(epoch) {
            let batch = batch?;
            let (features, labels) = tensors(&batch, &device);
            let logits = features.flatten::<2>(1, 3).matmul(weight.clone()) + bias.clone();
            let loss = log_softmax(logits, 1).gather(1, labels).mean().neg();
            let gradients = loss.backward();
            for var in [&mut weight, &mut bias] {
                let gradient = var.grad(&gradients).ok_or("a variable without a gradient")?;
                *var = (var.clone().inner() - gradient * 0.01).autodiff().require_grad();
            }
            sum += f64::from(loss.into_scalar::<f32>()) * batch.len() as f64;
            // The memory serves a later batch.
            pipeline.recycle(batch);
        }
        let (mut right, mut evaluation) = (0, pipeline.evaluation(splits.val.clone(), 500)?);
        while let Some(batch) = evaluation.next_batch()? {
            let (features, labels) = tensors(batch, &device);
            let logits = features.flatten::<2>(1, 3).matmul(weight.clone()) + bias.clone();
            right += logits.argmax(1).equal(labels).int().sum().into_scalar::<i64>();
        }
        let (examples, held_out) = (splits.train.len() as f64, splits.val.len() as f64);
        let (loss, accuracy) = (sum / examples, right as f64 / held_out);
        println!("epoch {epoch}: training loss {loss:.4}, validation accuracy {accuracy:.4}");
    }
    Ok(())
}
