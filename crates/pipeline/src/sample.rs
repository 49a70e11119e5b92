//! What a source of examples is to the rest of the pipeline: anything that reads example `index` when asked. Reading
//! (waiting for bytes) and decoding (turning them into pixels) are two calls, because they keep different things busy
//! and are reported apart.

use crate::{DatasetInfo, PipelineError};
use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

/// An image of its own size, row-major [H, W, C] bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// H x W x C bytes.
    pub pixels: Vec<u8>,
}

impl Clone for Image {
    fn clone(&self) -> Image {
        Image { shape: self.shape, pixels: self.pixels.clone() }
    }

    /// Keeps the memory of what was there.
    fn clone_from(&mut self, from: &Image) {
        self.shape = from.shape;
        self.pixels.clone_from(&from.pixels);
    }
}

/// Examples that are read one at a time, in any order, by any thread.
///
/// Whatever is wrong with one example (a damaged file, a missing member) is an error of `read` or `decode`, never a
/// panic; with `on_bad = "skip"` the pipeline lists it and goes on.
pub trait Source: Send + Sync + Debug {
    /// Name, split, shape and classes. Height and width are 0 where images have sizes of their own; the channels are
    /// always known, and every image that `decode` gives has as many.
    fn info(&self) -> &DatasetInfo;

    /// The number of examples of one pass.
    fn len(&self) -> usize;

    /// Whether there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the bytes of one example into `into`, replacing what is there. May wait for a disk, a network or a rate
    /// limit, but must look at `cancelled` at least ten times a second while it does, and return at once when it is
    /// set; what it has read then is thrown away.
    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError>;

    /// Turns what `read` gave for this example into pixels, and returns its label. With `at_least`, the image may be
    /// decoded at a reduced scale, as long as neither height nor width becomes smaller than these.
    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError>;

    /// For sources that are cheap to read only in their own order, such as compressed shards: the number of examples of
    /// each shard, in order. Such a source is asked for the examples of a shard in ascending order, displaced by no
    /// more than the plan's shuffle buffer; it holds what it had to read over until it is asked for.
    fn shards(&self) -> Option<&[u64]> {
        None
    }

    /// The label of an example where it is known without reading it, from an index or a folder's name.
    fn label(&self, _index: u64) -> Option<u32> {
        None
    }

    /// Told when training stands still, as in an evaluation, and when it goes on: what the source fetches ahead by itself
    /// must stop meanwhile, or it would be a head start outside the training clock. `read` may wait until then; whoever
    /// waits for a batch lets the source go on first.
    fn hold_up(&self, _held: bool) {}
}
