//! Reading a shard from front to back while examples are asked for in nearly that order. What has to be read over is
//! held until it is asked for; going back to what is no longer held begins the shard again, which is slow and right.

use super::super::rate::Rate;
use super::ShardIndex;
use crate::PipelineError;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// A shard being read, and what was read over.
pub(super) struct Forward {
    /// Size and number of uses of each image, by place.
    images: BTreeMap<u64, (u64, u32)>,
    stream: Option<Box<dyn Read + Send>>,
    at: u64,
    /// Content and uses left.
    held: BTreeMap<u64, (Vec<u8>, u32)>,
}

impl Forward {
    pub(super) fn new(index: &ShardIndex) -> Forward {
        let mut images = BTreeMap::new();
        for example in &index.examples {
            images.entry(example.at).or_insert((example.size, 0)).1 += 1;
        }
        Forward { images, stream: None, at: 0, held: BTreeMap::new() }
    }

    /// Reads the image at a place into `into`.
    pub(super) fn read(
        &mut self,
        path: &str,
        at: u64,
        rate: Option<&Arc<Rate>>,
        into: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        if let Some((content, left)) = self.held.get_mut(&at) {
            into.clear();
            into.extend_from_slice(content);
            *left -= 1;
            if *left == 0 {
                self.held.remove(&at);
            }
            return Ok(());
        }
        if self.stream.is_none() || at < self.at {
            self.held.clear();
            self.at = 0;
            self.stream = Some(super::open_shard(path, rate.cloned())?.1);
        }
        let result = self.advance(at, into);
        result.map_err(|source| {
            self.stream = None;
            PipelineError::Read { path: path.into(), source }
        })
    }

    fn advance(&mut self, to: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        for (&at, &(size, uses)) in self.images.range(self.at..=to) {
            let gap = at - self.at;
            if io::copy(&mut stream.take(gap), &mut io::sink())? < gap {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut content = if at == to { std::mem::take(into) } else { Vec::new() };
            content.clear();
            let n = stream.take(size).read_to_end(&mut content)? as u64;
            self.at = at + n;
            if n < size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let left = if at == to { uses - 1 } else { uses };
            if at == to {
                if left > 0 {
                    self.held.insert(at, (content.clone(), left));
                }
                *into = content;
            } else {
                self.held.insert(at, (content, left));
            }
        }
        // The last image of the shard: the next epoch begins at its front.
        if self.images.range(self.at..).next().is_none() {
            self.stream = None;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Forward {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forward at {}, {} held", self.at, self.held.len())
    }
}
