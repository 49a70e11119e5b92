//! Trains a linear classifier on CIFAR-10 with candle, fed by the pipeline: `cargo run --release -- FOLDER`, with FOLDER
//! the authors' binary files.

use candle_core::{D, Device, Result, Tensor, Var};
use sooner_base::{Batch, MonotonicClock, Seed};
use sooner_pipeline::{Pipeline, load};
use sooner_plan::{
    CropPlan, DataPlan, FlipKind, NormalizePlan, Padding, PipelinePlan, ShuffleKind, StagePlan,
};
use std::error::Error;
use std::sync::Arc;

/// A batch as candle's tensors: features [N, H, W, C] and classes [N]. candle's convolutions want channels first:
/// `features.permute((0, 3, 1, 2))?.contiguous()?`.
fn tensors(batch: &Batch, device: &Device) -> Result<(Tensor, Tensor)> {
    let features = Tensor::from_slice(&batch.features, batch.shape.dims(), device)?;
    Ok((features, Tensor::from_slice(&batch.labels, batch.labels.len(), device)?))
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
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

    let device = Device::Cpu;
    let (inputs, classes) = (pipeline.shape().iter().product::<usize>(), splits.train.classes());
    let weight = Var::zeros((inputs, classes), candle_core::DType::F32, &device)?;
    let bias = Var::zeros(classes, candle_core::DType::F32, &device)?;
    let logits = |features: &Tensor| features.flatten_from(1)?.matmul(&weight)?.broadcast_add(&bias);
    for epoch in 0..3 {
        let mut sum = 0.0;
        for batch in pipeline.epoch(epoch) {
            let batch = batch?;
            let (features, labels) = tensors(&batch, &device)?;
            let logits = logits(&features)?;
            let right = logits.gather(&labels.unsqueeze(1)?, 1)?.squeeze(1)?;
            let loss = (logits.log_sum_exp(D::Minus1)? - right)?.mean_all()?;
            let gradients = loss.backward()?;
            for var in [&weight, &bias] {
                let gradient = gradients.get(var).ok_or("a variable without a gradient")?;
                var.set(&(var.as_tensor() - (gradient * 0.01)?)?)?;
            }
            sum += f64::from(loss.to_scalar::<f32>()?) * batch.len() as f64;
            // The memory serves a later batch.
            pipeline.recycle(batch);
        }
        let (mut right, mut evaluation) = (0.0, pipeline.evaluation(splits.val.clone(), 500)?);
        while let Some(batch) = evaluation.next_batch()? {
            let (features, labels) = tensors(batch, &device)?;
            let equal = logits(&features)?.argmax(D::Minus1)?.eq(&labels)?;
            right += equal.to_dtype(candle_core::DType::F32)?.sum_all()?.to_scalar::<f32>()?;
        }
        let (examples, held_out) = (splits.train.len() as f64, splits.val.len() as f32);
        println!(
            "epoch {epoch}: training loss {:.4}, validation accuracy {:.4}",
            sum / examples,
            right / held_out
        );
    }
    Ok(())
}
