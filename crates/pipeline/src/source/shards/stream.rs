//! Reading a shard from front to back while examples are asked for in nearly that order. What has to be read over is
//! held until it is asked for; going back to what is no longer held begins the shard again, which is slow and right.

use super::super::rate::Rate;
use super::ShardIndex;
use crate::PipelineError;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

/// A shard being read, and what was read over.
///
/// At the end of an epoch the next one's first examples are asked for before this one's last: what the pass before had
/// read over stays until it is asked for or another pass begins, so that two epochs in use do not make each other
/// begin again, and what a stream that was dropped never asked for is not kept for ever.
pub(super) struct Forward {
    /// Size and number of uses of each image, by place.
    images: BTreeMap<u64, (u64, u32)>,
    stream: Option<Box<dyn Read + Send>>,
    at: u64,
    /// Content and uses left, of this pass and of the one before it.
    held: Held,
    before: Held,
}

type Held = BTreeMap<u64, (Vec<u8>, u32)>;

/// Takes one use of what lies at a place.
fn take(held: &mut Held, at: u64, into: &mut Vec<u8>) -> bool {
    let Some((content, left)) = held.get_mut(&at) else { return false };
    *left -= 1;
    if *left > 0 {
        into.clear();
        into.extend_from_slice(content);
    } else if let Some((content, _)) = held.remove(&at) {
        *into = content;
    }
    true
}

impl Forward {
    pub(super) fn new(index: &ShardIndex) -> Forward {
        let mut images = BTreeMap::new();
        for example in &index.examples {
            images.entry(example.at).or_insert((example.size, 0)).1 += 1;
        }
        Forward { images, stream: None, at: 0, held: Held::new(), before: Held::new() }
    }

    /// Reads the image at a place into `into`.
    pub(super) fn read(
        &mut self,
        path: &str,
        at: u64,
        rate: Option<&Arc<Rate>>,
        into: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        if take(&mut self.before, at, into) || take(&mut self.held, at, into) {
            return Ok(());
        }
        if self.stream.is_none() || at < self.at {
            self.before = std::mem::take(&mut self.held);
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
        write!(f, "Forward at {}, {} held", self.at, self.held.len() + self.before.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::Indexed;
    use super::*;
    use std::io::Write;

    /// A shard of single bytes, without tar's headers: what lies where is all that counts here.
    fn shard(bytes: &[u8]) -> (tempfile::NamedTempFile, Forward) {
        let mut file = tempfile::NamedTempFile::new().expect("a folder");
        file.write_all(bytes).expect("written");
        let example = |at: usize| Indexed { key: at.to_string(), label: 0, at: at as u64, size: 1 };
        let index = ShardIndex { examples: (0..bytes.len()).map(example).collect() };
        (file, Forward::new(&index))
    }

    fn check(forward: &mut Forward, path: &str, order: &[u64], held: usize) {
        let mut out = Vec::new();
        for &at in order {
            forward.read(path, at, None, &mut out).expect("readable");
            assert_eq!(out, [at as u8]);
        }
        assert_eq!(forward.held.len() + forward.before.len(), held, "after {order:?}");
    }

    /// The next epoch begins before this one is over, and neither makes the other begin again.
    #[test]
    fn two_epochs_at_once() {
        let bytes: Vec<u8> = (0..10).collect();
        let (file, mut forward) = shard(&bytes);
        let path = file.path().to_str().expect("UTF-8");
        check(&mut forward, path, &[3, 1, 0, 5, 9, 2], 4);
        // 4, 6, 7 and 8 of the first epoch are outstanding.
        check(&mut forward, path, &[1, 0], 4);
        check(&mut forward, path, &[4, 8], 2);
        check(&mut forward, path, &[3, 2, 7, 6], 0);
        check(&mut forward, path, &[5, 4, 9, 8, 7, 6], 0);
    }

    /// Passes that are broken off leave no more than the last two of them.
    #[test]
    fn nothing_is_kept_for_ever() {
        let bytes: Vec<u8> = (0..40).collect();
        let (file, mut forward) = shard(&bytes);
        let path = file.path().to_str().expect("UTF-8");
        for _ in 0..100 {
            let mut out = Vec::new();
            forward.read(path, 30, None, &mut out).expect("readable");
            forward.read(path, 5, None, &mut out).expect("readable");
            assert!(forward.held.len() + forward.before.len() <= 2 * 30);
        }
    }
}
