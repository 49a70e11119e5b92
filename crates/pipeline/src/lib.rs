//! The input pipeline: sources, shuffling, augmentation, batching and prefetch on worker threads, deterministic to the
//! byte for any number of them. Usable on its own.
//!
//! [`load`] reads a data set into memory; [`Pipeline`] turns it into streams of batches; [`Evaluation`] reads a split in
//! order. **Invariants:** knows no model; reads no environment; prints nothing; time only measures.

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
    Cut, CutTimes, Gauge, Profile, Repeats, Side, StageProfile, Tried, Tuned, cuts, without_echo,
};
pub use recipe::Position;
pub use sample::{Image, Source};
pub use source::{
    ImageFolder, Manifest, Memory, Notice, OwnSource, OwnSplits, PackOptions, PackedShard, Rate, ShardSet,
    Shards, TextWindows, Throttled, find_own, load, pack,
};
pub use source::{peek, published};
pub use stages::Mixing;
pub use stream::Stream;

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
