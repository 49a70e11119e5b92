//! The input pipeline: sources, shuffling, augmentation, batching and prefetch on worker threads, deterministic to the
//! byte for any number of them. Usable on its own.
//!
//! [`load`] reads a data set into memory; [`Pipeline`] turns it into streams of batches; [`Evaluation`] reads a split in
//! order. Whatever else has examples is a [`Source`], such as [`TextWindows`]. **Invariants:** knows no model; reads no
//! environment; prints nothing; time only measures.
//!
//! A plan, an epoch, batches; here of text, as windows of 8 bytes that each start 4 bytes after the last:
//!
//! ```
//! use sooner_base::{MonotonicClock, Seed};
//! use sooner_pipeline::{Dataset, Pipeline, TextWindows};
//! use sooner_plan::{NormalizePlan, PipelinePlan, ShuffleKind, StagePlan};
//! use std::sync::Arc;
//!
//! let path = std::env::temp_dir().join(format!("sooner-text-{}", std::process::id()));
//! std::fs::write(&path, "the quick brown fox jumps over the lazy dog")?;
//! let windows = TextWindows::open(&[&path], 8, 4)?;
//!
//! // Features are (x / 255 - mean) / std: with these constants each is its byte.
//! let bytes = NormalizePlan { mean: vec![0.0], std: vec![1.0 / 255.0] };
//! let stages =
//!     vec![StagePlan::Shuffle(ShuffleKind::Epoch), StagePlan::Normalize(bytes), StagePlan::Batch(4)];
//! let plan = PipelinePlan { threads: 2, ..PipelinePlan::new(stages) };
//! let data = Arc::new(Dataset::streamed(Arc::new(windows)));
//! let pipeline = Pipeline::new(&plan, data, Seed(1), Arc::new(MonotonicClock::start()))?;
//! for batch in pipeline.epoch(0) {
//!     let batch = batch?; // features [N, 1, 8, 1]; what follows each window is its label
//!     for (window, next) in batch.features.chunks_exact(8).zip(&batch.labels) {
//!         let text: String = window.iter().map(|&byte| byte as u8 as char).collect();
//!         println!("{text:?} is followed by {:?}", *next as u8 as char);
//!         assert!("the quick brown fox jumps over the lazy dog".contains(&text));
//!     }
//!     pipeline.recycle(batch); // its memory serves a later one
//! }
//! std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;

mod dataset;
mod decode;
mod sample;
mod source;

mod chain;
mod notes;
mod pixels;
mod recipe;
mod resample;
mod stages;

mod auto;
mod budget;
mod control;
mod evaluation;
mod fill;
mod items;
mod pipeline;
mod profile;
mod store;
mod stream;
mod workers;

pub use auto::AutoStream;
pub use dataset::{Dataset, DatasetInfo, Splits};
pub use decode::{DecodeError, Decoder, ImageHeader, Oddities};
pub use error::PipelineError;
pub use evaluation::Evaluation;
pub use items::BadExample;
pub use notes::Note;
pub use pipeline::Pipeline;
pub use profile::{
    Cut, CutTimes, Gauge, Profile, Repeats, Side, StageProfile, StageShare, Tried, Tuned, cuts, without_echo,
};
pub use recipe::Position;
pub use sample::{Image, Source};
pub use source::{
    ImageFolder, Manifest, Memory, Notice, OwnSource, OwnSplits, PackOptions, PackedShard, Rate, ShardSet,
    Shards, TextWindows, Throttled, find_own, load, pack,
};
pub use source::{peek, published};
pub use stages::Mixing;
pub use stream::{Next, Stream};

#[cfg(test)]
mod auto_tests;
#[cfg(test)]
mod echo_tests;
#[cfg(test)]
mod guarantee_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod sequential_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod virtual_time;
