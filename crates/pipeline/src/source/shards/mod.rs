//! Tar shards in the WebDataset convention: members whose names differ only in their ending are one example, such as
//! `a/0001.jpg` and `a/0001.cls`.
//!
//! **Key and field.** A member's name is cut at the first dot after its last slash (`data.shards.key = "first-dot"`), or
//! at the last dot (`"last-dot"`): what stands before, with the folder, is the key; what stands after, in lower case,
//! the field. Folders, members whose base name begins with a dot, and kinds without content are passed over. Links
//! stand for what they name. The image is the field `jpg`, `jpeg` or `png`; the label is `cls`, a number or a class name.
//!
//! Opening reads every shard once and keeps an index: where each image lies, and its label. Plain local shards are then
//! read at random; packed and remote ones from front to back ([`stream`]). Where `NAME.index` lies beside a shard, as
//! `sooner data pack` writes it, that pass is spared.

mod index;
mod set;
mod stream;

pub(super) use index::{Indexed, ShardIndex};
pub use set::ShardSet;
pub(super) use set::{CLASSES, LIST};

use super::notice::Notice;
use super::open::{self, Packing};
use super::rate::{Rate, cancelled_at};
use crate::decode::Decoder;
use crate::{DatasetInfo, Image, Oddities, PipelineError, Source};
use sooner_plan::{ShardsPlan, Split};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use stream::Forward;

/// One split of a set of shards.
#[derive(Debug)]
pub struct Shards {
    info: DatasetInfo,
    shards: Vec<Shard>,
    /// Examples of each shard, and of all before each.
    counts: Vec<u64>,
    starts: Vec<u64>,
    decoder: Decoder,
    rate: Option<Arc<Rate>>,
    oddities: Mutex<Oddities>,
}

#[derive(Debug)]
struct Shard {
    path: String,
    index: ShardIndex,
    /// For shards that can only be read from front to back.
    forward: Option<Mutex<Forward>>,
}

impl Shards {
    /// Opens the shards of a split; none if the set has none for it, or no example in them. `classes` is the number of
    /// classes if it is known; otherwise it is that of the set's list, or one more than the largest label.
    pub fn open(
        set: &ShardSet,
        split: Split,
        plan: &ShardsPlan,
        (decoder, rate): (Decoder, Option<Arc<Rate>>),
        classes: Option<usize>,
    ) -> Result<Option<(Shards, Vec<Notice>)>, PipelineError> {
        let mut notices = Vec::new();
        let mut shards = Vec::new();
        for path in set.of(split) {
            let (packing, index) = index::of_shard(path, plan, set.classes(), &mut notices)?;
            let random = packing == Packing::Plain && !super::http::is_address(path);
            let forward = (!random).then(|| Mutex::new(Forward::new(&index)));
            shards.push(Shard { path: path.clone(), index, forward });
        }
        let counts: Vec<u64> = shards.iter().map(|shard| shard.index.examples.len() as u64).collect();
        if counts.iter().sum::<u64>() == 0 {
            return Ok(None);
        }
        let starts = counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
        let examples = || shards.iter().flat_map(|shard| shard.index.examples.iter());
        let found = examples().map(|example| example.label as usize + 1).max().unwrap_or(0);
        let names = match set.classes() {
            [] => (0..classes.unwrap_or(found)).map(|label| label.to_string()).collect(),
            names => names.to_vec(),
        };
        if found > names.len() {
            let too_high =
                |shard: &&Shard| shard.index.examples.iter().any(|e| e.label as usize >= names.len());
            let path = shards.iter().find(too_high).map_or_else(String::new, |shard| shard.path.clone());
            return Err(PipelineError::Malformed {
                path: path.into(),
                offset: 0,
                expected: format!("labels below {} classes", names.len()),
                found: format!("label {}", found - 1),
                hint: "name the number of classes with data.classes, or in classes.txt beside the shards"
                    .into(),
            });
        }
        let mut sizes = vec![0u64; names.len()];
        examples().for_each(|example| sizes[example.label as usize] += 1);
        for (class, _) in names.iter().zip(&sizes).filter(|(_, size)| **size == 0) {
            notices.push(Notice::EmptyClass { class: class.clone(), place: format!("the {split} shards") });
        }
        let sequential = shards.iter().any(|shard| shard.forward.is_some());
        if let Some(runs) = long_runs(examples().map(|example| example.label)).filter(|_| sequential) {
            notices.push(runs);
        }
        let shape = [0, 0, decoder.channels()];
        let info = DatasetInfo { name: "webdataset".into(), split, shape, classes: names };
        let oddities = Mutex::default();
        Ok(Some((Shards { info, shards, counts, starts, decoder, rate, oddities }, notices)))
    }

    /// The same shards without a rate and read by themselves, for what is not trained on.
    pub(super) fn unrated(&self) -> Shards {
        let shards = self.shards.iter().map(|shard| Shard {
            path: shard.path.clone(),
            index: shard.index.clone(),
            forward: shard.forward.as_ref().map(|_| Mutex::new(Forward::new(&shard.index))),
        });
        Shards {
            info: self.info.clone(),
            shards: shards.collect(),
            counts: self.counts.clone(),
            starts: self.starts.clone(),
            decoder: self.decoder.clone(),
            rate: None,
            oddities: Mutex::default(),
        }
    }

    /// What was odd about images decoded so far.
    pub fn oddities(&self) -> Oddities {
        *self.oddities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The label of each example.
    pub fn labels(&self) -> Vec<u32> {
        self.shards
            .iter()
            .flat_map(|shard| shard.index.examples.iter().map(|example| example.label))
            .collect()
    }

    /// The key of each example.
    pub fn keys(&self) -> Vec<String> {
        let keys = |shard: &Shard| shard.index.examples.iter().map(|e| e.key.clone()).collect::<Vec<_>>();
        self.shards.iter().flat_map(keys).collect()
    }

    fn locate(&self, index: u64) -> (&Shard, usize) {
        let shard = self.starts.partition_point(|&start| start <= index) - 1;
        // Shards without examples share their start with the next one; the last of them is the right one.
        (&self.shards[shard], (index - self.starts[shard]) as usize)
    }

    /// The shard and member of an example, for messages.
    fn name(&self, index: u64) -> PathBuf {
        let (shard, i) = self.locate(index);
        format!("{}, member {}", shard.path, shard.index.examples[i].key).into()
    }
}

/// A warning if labels come in runs so long that a buffer cannot mix them.
fn long_runs(labels: impl Iterator<Item = u32>) -> Option<Notice> {
    let (mut longest, mut run, mut last, mut examples) = (0u64, 0u64, None, 0u64);
    let mut classes = std::collections::BTreeSet::new();
    for label in labels {
        run = if last == Some(label) { run + 1 } else { 1 };
        longest = longest.max(run);
        last = Some(label);
        examples += 1;
        classes.insert(label);
    }
    // In random order a run of 50 has a chance of 2^-49 even with two classes.
    (classes.len() > 1 && longest >= 50).then_some(Notice::Runs { longest, examples })
}

impl Source for Shards {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.counts.iter().sum::<u64>() as usize
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        let (shard, i) = self.locate(index);
        let example = &shard.index.examples[i];
        let path = || PathBuf::from(&shard.path);
        if let Some(forward) = &shard.forward {
            let mut forward = forward.lock().unwrap_or_else(PoisonError::into_inner);
            return forward.read(&shard.path, example.at, self.rate.as_ref(), into);
        }
        into.clear();
        let read = File::open(&shard.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(example.at))?;
            file.take(example.size).read_to_end(into)
        });
        let n = read.map_err(|source| PipelineError::Read { path: path(), source })? as u64;
        if n < example.size {
            return Err(PipelineError::Malformed {
                path: self.name(index),
                offset: example.at + n,
                expected: format!("{} bytes, as when the shard was opened", example.size),
                found: "the end of the file".into(),
                hint: "leave shards alone while they are read".into(),
            });
        }
        match self.rate.as_ref().is_none_or(|rate| rate.wait(n, cancelled)) {
            true => Ok(()),
            false => Err(cancelled_at(&shard.path)),
        }
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        let oddities =
            self.decoder.decode(bytes, at_least, into).map_err(|error| error.of(self.name(index)))?;
        *self.oddities.lock().unwrap_or_else(PoisonError::into_inner) += oddities;
        let (shard, i) = self.locate(index);
        Ok(shard.index.examples[i].label)
    }

    fn shards(&self) -> Option<&[u64]> {
        self.shards.iter().any(|shard| shard.forward.is_some()).then_some(&self.counts[..])
    }

    fn label(&self, index: u64) -> Option<u32> {
        let (shard, i) = self.locate(index);
        Some(shard.index.examples[i].label)
    }

    fn hold_up(&self, held: bool) {
        self.rate.iter().for_each(|rate| rate.hold_up(held));
    }
}

/// Opens a shard's bytes from the front, unpacked.
fn open_shard(path: &str, rate: Option<Arc<Rate>>) -> Result<(Packing, Box<dyn Read + Send>), PipelineError> {
    open::open(path, rate).map_err(|source| PipelineError::Read { path: path.into(), source })
}

#[cfg(test)]
mod tests;
