//! What the pipeline hands to a consumer.

use crate::Shape;

/// Where an example came from; together with the seed it decides every random choice made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The example's index in its source, from 0.
    pub index: u64,
    /// Which repeat of the example this is, from 0 (the fresh one).
    pub echo: u32,
}

/// A batch of examples, ready for an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Features of all examples, row-major, `shape[0]` examples.
    pub features: Vec<f32>,
    /// `[N, H, W, C]` for images.
    pub shape: Shape,
    /// Class of each example, N of them.
    pub labels: Vec<u32>,
    /// Origin of each example, N of them.
    pub origins: Vec<Origin>,
}

impl Batch {
    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether the batch has no examples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
