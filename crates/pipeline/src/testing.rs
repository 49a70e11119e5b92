//! What this crate's tests share.

use crate::{Dataset, DatasetInfo, Pipeline, PipelineError};
use sooner_base::{Batch, ManualClock, Seed};
use sooner_plan::{CropPlan, FlipKind, NormalizePlan, Padding, PipelinePlan, ShuffleKind, Split, StagePlan};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Runs a test's body with a deadline in seconds, so that a hang is a failure.
pub(crate) fn within<T: Send + 'static>(seconds: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done_in, done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = body();
        let _ = done_in.send(());
        result
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = done.recv_timeout(Duration::from_secs(seconds)) {
        panic!("not done within {seconds} s");
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Images whose bytes tell example and place, in three classes.
pub(crate) fn dataset(n: usize, shape: [usize; 3]) -> Arc<Dataset> {
    let size: usize = shape.iter().product();
    let pixels = (0..n * size).map(|i| (i / size * 31 + i % size * 7) as u8).collect();
    let labels = (0..n as u32).map(|i| i % 3).collect();
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    let info = DatasetInfo { name: "made".into(), split: Split::Train, shape, classes };
    Arc::new(Dataset::new(info, pixels, labels).unwrap())
}

pub(crate) fn plan(stages: Vec<StagePlan>, threads: usize) -> PipelinePlan {
    PipelinePlan { threads, ..PipelinePlan::new(stages) }
}

pub(crate) fn crop(size: usize, pad: usize, padding: Padding) -> StagePlan {
    StagePlan::Crop(CropPlan { size, pad, padding })
}

pub(crate) fn normalize(mean: &[f64], std: &[f64]) -> StagePlan {
    StagePlan::Normalize(NormalizePlan { mean: mean.to_vec(), std: std.to_vec() })
}

/// The usual stages of image training for three channels.
pub(crate) fn usual(size: usize, batch: usize) -> Vec<StagePlan> {
    vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        crop(size, 2, Padding::Reflect),
        StagePlan::Flip(FlipKind::Alternate),
        normalize(&[0.4, 0.5, 0.6], &[0.2, 0.3, 0.4]),
        StagePlan::Batch(batch),
    ]
}

pub(crate) fn pipeline(plan: &PipelinePlan, data: &Arc<Dataset>) -> Result<Pipeline, PipelineError> {
    Pipeline::new(plan, data.clone(), Seed(11), Arc::new(ManualClock::default()))
}

/// FNV-1a over everything in a batch, bit for bit.
pub(crate) fn hash(batch: &Batch) -> u64 {
    let mut bytes: Vec<u8> = batch.features.iter().flat_map(|f| f.to_bits().to_le_bytes()).collect();
    bytes.extend(batch.labels.iter().flat_map(|label| label.to_le_bytes()));
    bytes.extend(batch.origins.iter().flat_map(|o| {
        [u64::from(o.epoch), o.index, u64::from(o.echo)].into_iter().flat_map(u64::to_le_bytes)
    }));
    bytes.extend(batch.mixes.iter().flat_map(|mix| mix.weight.to_bits().to_le_bytes()));
    bytes.extend(batch.mixes.iter().flat_map(|mix| mix.label.to_le_bytes()));
    bytes.extend(batch.shape.dims().iter().flat_map(|&extent| (extent as u64).to_le_bytes()));
    fnv(&bytes)
}

pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
