//! Where examples come from: one file a format. The authors' sets end as bytes in memory; the user's own files are held
//! there too where the plan gives a size, and are read while training otherwise.

mod archive;
mod cifar10;
mod files;
mod idx;
pub mod published;
mod shapes;

mod folder;
mod notice;
mod own;
mod pack;
mod shards;
mod text;

mod ahead;
mod http;
mod memory;
mod open;
mod rate;
mod tar;

#[cfg(test)]
mod server;

pub(crate) use http::is_address;

pub use folder::{ImageFolder, Manifest};
pub use memory::Memory;
pub use notice::Notice;
pub use own::{OwnSource, OwnSplits, find_own};
pub use pack::{PackOptions, PackedShard, pack};
pub use rate::{Rate, Throttled};
pub use shards::{ShardSet, Shards};
pub use text::TextWindows;

use crate::{Dataset, DatasetInfo, PipelineError, Splits};
use sooner_base::{Clock, ManualClock, MonotonicClock, Seconds, StageStats};
use sooner_plan::{DataFacts, DataKind, DataPlan, Split};
use std::path::Path;
use std::sync::Arc;

/// Reads all splits of a data set into memory, or draws them with so many threads (the result does not depend on
/// how many). Validation is the last `validation` of the authors' training examples; `train` and `test` keep the first
/// so many of theirs. The clock only measures.
pub fn load(plan: &DataPlan, threads: usize, clock: &dyn Clock) -> Result<Splits, PipelineError> {
    let mut meter = Meter { clock, read: StageStats::default(), decode: StageStats::default() };
    let folder = Path::new(plan.folder()?.unwrap_or_default());
    let real: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let raw = match plan.kind {
        DataKind::ImageFolder | DataKind::Webdataset => return own::splits(plan, threads, &real, meter),
        DataKind::Shapes => return throttle(plan, shapes::splits(plan, threads, meter)?, real),
        DataKind::Mnist => idx::read(&idx::MNIST, folder, &mut meter)?,
        DataKind::FashionMnist => idx::read(&idx::FASHION_MNIST, folder, &mut meter)?,
        DataKind::Cifar10 => cifar10::read(folder, &mut meter)?,
    };
    throttle(plan, split(plan, raw, meter)?, real)
}

/// Puts the plan's rate on reading training examples that are in memory.
fn throttle(plan: &DataPlan, mut splits: Splits, clock: Arc<dyn Clock>) -> Result<Splits, PipelineError> {
    if let Some(rate) = plan.rate_bytes()? {
        let source = Throttled::new(Memory::new(splits.train), Rate::new(rate, clock));
        splits.train = Arc::new(Dataset::streamed(Arc::new(source)));
    }
    Ok(splits)
}

/// The sizes of the splits by what files and headers say, before anything is read whole: a plan can then be checked
/// against them first. Where that needs more than a look, they are those that the plan expects.
pub fn peek(plan: &DataPlan) -> Result<DataFacts, PipelineError> {
    let clock = ManualClock::default();
    let mut meter = Meter { clock: &clock, read: StageStats::default(), decode: StageStats::default() };
    let path = Path::new(plan.folder()?.unwrap_or_default());
    let files = match plan.kind {
        DataKind::Mnist => idx::peek(&idx::MNIST, path, &mut meter)?,
        DataKind::FashionMnist => idx::peek(&idx::FASHION_MNIST, path, &mut meter)?,
        DataKind::Cifar10 => cifar10::peek(path, &mut meter)?,
        _ => return Ok(plan.expected_facts()),
    };
    Ok(plan.facts_of(files))
}

/// The authors' files in memory, before they are split.
struct Raw {
    name: &'static str,
    shape: [usize; 3],
    classes: &'static [&'static str],
    train: Examples,
    test: Examples,
    notices: Vec<Notice>,
}

/// Pixels [N, H, W, C] and N labels.
#[derive(Debug, Default, PartialEq)]
struct Examples {
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl Examples {
    /// Removes and returns the examples from number `at` on.
    fn split_off(&mut self, at: usize, image: usize) -> Examples {
        Examples { pixels: self.pixels.split_off(at * image), labels: self.labels.split_off(at) }
    }

    fn truncate(&mut self, len: usize, image: usize) {
        self.pixels.truncate(len * image);
        self.labels.truncate(len);
    }
}

/// What reading and decoding took.
struct Meter<'a> {
    clock: &'a dyn Clock,
    read: StageStats,
    decode: StageStats,
}

impl Meter<'_> {
    /// Runs a piece of reading.
    fn read<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(self.clock, &mut self.read.busy, work)
    }

    /// Runs a piece of decoding.
    fn decode<T>(&mut self, work: impl FnOnce() -> T) -> T {
        timed(self.clock, &mut self.decode.busy, work)
    }

    /// Counts examples that have passed both.
    fn count(&mut self, examples: usize) {
        self.read.items += examples as u64;
        self.decode.items += examples as u64;
    }
}

fn timed<T>(clock: &dyn Clock, busy: &mut Seconds, work: impl FnOnce() -> T) -> T {
    let since = clock.now();
    let result = work();
    *busy += clock.now() - since;
    result
}

/// Cuts the authors' examples into splits.
fn split(plan: &DataPlan, mut raw: Raw, meter: Meter) -> Result<Splits, PipelineError> {
    let image = raw.shape.iter().product();
    let files = raw.train.labels.len();
    let Some(train) = files.checked_sub(plan.validation).filter(|&train| train > 0) else {
        return Err(PipelineError::Count {
            key: "data.validation",
            split: Split::Val,
            expected: format!("fewer than the {files} examples of the training files"),
            found: plan.validation.to_string(),
            hint: "hold out fewer".into(),
        });
    };
    let val = raw.train.split_off(train, image);
    let limits = [
        ("data.train", Split::Train, plan.train, &mut raw.train),
        ("data.test", Split::Test, plan.test, &mut raw.test),
    ];
    for (key, split, limit, examples) in limits {
        let len = examples.labels.len();
        match limit {
            Some(limit) if limit == 0 || limit > len => {
                return Err(PipelineError::Count {
                    key,
                    split,
                    expected: format!("1 to {len}, the examples that there are"),
                    found: limit.to_string(),
                    hint: "ask for fewer, or leave the key out to use all".into(),
                });
            }
            Some(limit) => examples.truncate(limit, image),
            None => (),
        }
    }
    let Raw { name, shape, classes, train, test, notices } = raw;
    let dataset = |split, Examples { pixels, labels }| {
        let classes = classes.iter().map(|name| name.to_string()).collect();
        let info = DatasetInfo { name: name.to_string(), split, shape, classes };
        Dataset::new(info, pixels, labels).map(Arc::new)
    };
    Ok(Splits {
        train: dataset(Split::Train, train)?,
        val: dataset(Split::Val, val)?,
        test: dataset(Split::Test, test)?,
        read: meter.read,
        decode: meter.decode,
        notices,
        sources: Vec::new(),
    })
}

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod tests;
