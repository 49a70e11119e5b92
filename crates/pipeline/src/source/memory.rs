//! A data set in memory as a source, so that a rate can be put on reading it: the cost of a slow store, without one.

use crate::{Dataset, DatasetInfo, Image, PipelineError, Source};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Examples in memory, given out one at a time; their bytes are their pixels.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Dataset>);

impl Memory {
    /// A source of these examples. Panics if they are not in memory.
    pub fn new(data: Arc<Dataset>) -> Memory {
        assert_eq!(data.labels().len(), data.len(), "the examples are not in memory");
        Memory(data)
    }
}

impl Source for Memory {
    fn info(&self) -> &DatasetInfo {
        self.0.info()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, _: &AtomicBool) -> Result<(), PipelineError> {
        into.clear();
        into.extend_from_slice(self.0.image(index as usize));
        Ok(())
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        into.shape = self.0.shape();
        into.pixels.clear();
        into.pixels.extend_from_slice(bytes);
        Ok(self.0.labels()[index as usize])
    }

    fn label(&self, index: u64) -> Option<u32> {
        self.0.labels().get(index as usize).copied()
    }
}
