//! The input pipeline: sources, shuffling, augmentation, batching and prefetch on worker threads, deterministic to the
//! byte for any number of them. Usable on its own.
//!
//! [`load`] reads a data set into memory; [`Pipeline`] turns it into streams of batches; [`Evaluation`] reads a split in
//! order. **Invariants:** knows no model; reads no environment; prints nothing; time only measures.

mod error;

mod dataset;
mod sample;
mod source;

mod pixels;
mod recipe;
mod stages;

mod budget;
mod control;
mod evaluation;
mod pipeline;
mod stream;
mod workers;

pub use dataset::{Dataset, DatasetInfo, Splits};
pub use error::PipelineError;
pub use evaluation::Evaluation;
pub use pipeline::Pipeline;
pub use recipe::Position;
pub use sample::{Image, Source};
pub use source::load;
pub use stream::Stream;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
