//! The user's own files: which splits a folder or address has, and each as a source, or held in memory.

use super::folder::{ImageFolder, Manifest, hash};
use super::notice::Notice;
use super::rate::Rate;
use super::shards::{ShardSet, Shards};
use super::{Meter, timed};
use crate::decode::Decoder;
use crate::resample::Resampler;
use crate::{Dataset, Image, Oddities, PipelineError, Source, Splits};
use sooner_base::{Bytes, Clock, Permutation, Purpose, Seed};
use sooner_plan::{DataKind, DataPlan, Split};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Images decoded between two looks at what is left to do.
const SLICE: usize = 16;
/// Most bytes of one decoded image: more is a mistake, or an attack on memory.
const MOST_IMAGE: Bytes = Bytes(1 << 30);
/// The seed of which examples are held out or kept: the same for every run, so that no run sees another's held-out ones.
const SEED: Seed = Seed(0x484f_4c44);

/// A split's source with what it can tell about itself.
#[derive(Debug, Clone)]
pub enum OwnSource {
    /// Files.
    Folder(Arc<ImageFolder>),
    /// Members of tar shards.
    Shards(Arc<Shards>),
}

impl OwnSource {
    /// The source as the pipeline takes it.
    pub fn source(&self) -> Arc<dyn Source> {
        match self {
            OwnSource::Folder(source) => source.clone(),
            OwnSource::Shards(source) => source.clone(),
        }
    }

    /// The same examples without a rate and read by themselves, for what is not trained on.
    fn unrated(&self) -> OwnSource {
        match self {
            OwnSource::Folder(source) => OwnSource::Folder(Arc::new(source.unrated())),
            OwnSource::Shards(source) => OwnSource::Shards(Arc::new(source.unrated())),
        }
    }

    /// What was odd about images decoded so far.
    pub fn oddities(&self) -> Oddities {
        match self {
            OwnSource::Folder(source) => source.oddities(),
            OwnSource::Shards(source) => source.oddities(),
        }
    }

    /// The label of each example, which the index has without reading one.
    pub fn labels(&self) -> Vec<u32> {
        match self {
            OwnSource::Folder(source) => source.files().iter().map(|(_, label)| *label).collect(),
            OwnSource::Shards(source) => source.labels(),
        }
    }

    /// A number that two class lists share only if they are the same (FNV-1a of 64 bits: against accidents, not against
    /// malice).
    pub fn class_hash(&self) -> u64 {
        hash(self.source().info().classes.iter().map(String::as_str))
    }

    /// The same of the examples' names and their order.
    pub fn name_hash(&self) -> u64 {
        hash(self.names().iter().map(String::as_str))
    }

    /// The names of examples: paths below the split's folder, or keys.
    pub fn names(&self) -> Vec<String> {
        match self {
            OwnSource::Folder(source) => source.files().iter().map(|(path, _)| path.clone()).collect(),
            OwnSource::Shards(source) => source.keys(),
        }
    }
}

/// What there is before it is split as the plan says.
#[derive(Debug, Clone)]
pub struct OwnSplits {
    /// What updates are computed on.
    pub train: OwnSource,
    /// What the files themselves hold out; none where they do not.
    pub val: Option<OwnSource>,
    /// The test files, if there are any.
    pub test: Option<OwnSource>,
    /// What a person should know.
    pub notices: Vec<Notice>,
}

/// Finds the splits of the user's own files, without decoding one. The clock serves the plan's rate, which is that of
/// reading training examples: an evaluation takes its time outside the training clock.
pub fn find_own(plan: &DataPlan, clock: &Arc<dyn Clock>) -> Result<OwnSplits, PipelineError> {
    let path = plan.folder()?.unwrap_or_default();
    let path_is_remote = super::http::is_address(path);
    let rate = match plan.rate_bytes()? {
        Some(rate) => Some(Arc::new(Rate::new(rate, clock.clone()))),
        // What is fetched ahead must be able to stop.
        None => path_is_remote.then(|| Arc::new(Rate::unlimited(clock.clone()))),
    };
    let decoder = Decoder::new(&plan.images(), MOST_IMAGE);
    match plan.kind {
        DataKind::Webdataset => shard_splits(plan, path, decoder, rate),
        _ => folder_splits(plan, Path::new(path), decoder, rate),
    }
}

fn folder_splits(
    plan: &DataPlan,
    path: &Path,
    decoder: Decoder,
    rate: Option<Arc<Rate>>,
) -> Result<OwnSplits, PipelineError> {
    if !path.is_dir() {
        return Err(PipelineError::Missing {
            path: path.into(),
            expected: "a folder of images, with a folder for each class".into(),
            found: if path.exists() { "a file" } else { "nothing" }.into(),
            hint: "name the folder with --data DIR".into(),
        });
    }
    let part = |names: &[&str]| names.iter().map(|name| path.join(name)).find(|path| path.is_dir());
    let train = part(&["train"]);
    // Without a folder of that name the classes lie right here, and everything is for training.
    let others = train.is_some();
    let train = train.unwrap_or_else(|| path.to_path_buf());
    let mut notices = Vec::new();
    let mut source = |folder: &Path, split, classes: Option<&[String]>| {
        let rate = rate.clone().filter(|_| split == Split::Train);
        let mut manifest = Manifest::scan(folder, classes)?;
        notices.append(&mut manifest.notices);
        if manifest.files.is_empty() {
            return Err(PipelineError::Missing {
                path: folder.into(),
                expected: "JPEG or PNG files in the folders of the classes".into(),
                found: "none".into(),
                hint: "names end in .jpg, .jpeg or .png".into(),
            });
        }
        Ok(Arc::new(ImageFolder::new(folder, split, manifest, decoder.clone(), rate)))
    };
    let train = source(&train, Split::Train, None)?;
    check_classes(plan, train.info().classes.len())?;
    let mut other = |names: &[&str], split| {
        let folder = others.then(|| part(names)).flatten();
        let found = folder.map(|folder| source(&folder, split, Some(&train.info().classes)));
        found.map(|source| source.map(OwnSource::Folder)).transpose()
    };
    let val = other(&["val", "valid", "validation"], Split::Val)?;
    let test = other(&["test"], Split::Test)?;
    Ok(OwnSplits { train: OwnSource::Folder(train.clone()), val, test, notices })
}

fn shard_splits(
    plan: &DataPlan,
    path: &str,
    decoder: Decoder,
    rate: Option<Arc<Rate>>,
) -> Result<OwnSplits, PipelineError> {
    let set = ShardSet::find(path)?;
    let mut notices = Vec::new();
    let mut source = |split, classes: Option<usize>| -> Result<Option<Arc<Shards>>, PipelineError> {
        let rate = rate.clone().filter(|_| split == Split::Train);
        let shards = Shards::open(&set, split, &plan.shards(), (decoder.clone(), rate), classes)?;
        Ok(shards.map(|(shards, mut odd)| {
            notices.append(&mut odd);
            Arc::new(shards)
        }))
    };
    let Some(train) = source(Split::Train, plan.classes)? else {
        return Err(PipelineError::Missing {
            path: path.into(),
            expected: "training shards with examples".into(),
            found: "none".into(),
            hint: "names are NAME.tar, .tar.gz or .tar.zst, for training train-NAME.tar or train/NAME.tar"
                .into(),
        });
    };
    let classes = train.info().classes.len();
    check_classes(plan, classes)?;
    let val = source(Split::Val, Some(classes))?.map(OwnSource::Shards);
    let test = source(Split::Test, Some(classes))?.map(OwnSource::Shards);
    Ok(OwnSplits { train: OwnSource::Shards(train), val, test, notices })
}

fn check_classes(plan: &DataPlan, found: usize) -> Result<(), PipelineError> {
    match plan.classes {
        Some(expected) if expected != found => Err(PipelineError::Count {
            key: "data.classes",
            split: Split::Train,
            expected: format!("{found} classes, those of the training files"),
            found: expected.to_string(),
            hint: "leave the key out to take what there is".into(),
        }),
        _ => Ok(()),
    }
}

/// The splits as the plan asks for them: held in memory where it gives a size, otherwise read while training.
/// Where the files hold nothing out, `validation` examples of the training files are, chosen by a fixed key; `train`
/// and `test` keep so many, chosen the same way, in the files' order.
pub(super) fn splits(
    plan: &DataPlan,
    threads: usize,
    clock: &Arc<dyn Clock>,
    mut meter: Meter,
) -> Result<Splits, PipelineError> {
    let OwnSplits { train, val, test, notices } =
        timed(clock.as_ref(), &mut meter.read.busy, || find_own(plan, clock))?;
    let all = train.source().len();
    let (kept, held) = match &val {
        Some(_) => ((0..all as u64).collect(), Vec::new()),
        None if plan.validation >= all => {
            return Err(PipelineError::Count {
                key: "data.validation",
                split: Split::Val,
                expected: format!("fewer than the {all} examples of the training files"),
                found: plan.validation.to_string(),
                hint: "hold out fewer, or put files into a folder val beside train".into(),
            });
        }
        None => choose(all, plan.validation),
    };
    let kept = limit("data.train", Split::Train, kept, plan.train)?;
    let from_train = |indices, split| part_of(train.source(), indices, split);
    let of = |source: &Option<OwnSource>, key, split, most: Option<usize>| match source {
        None => Ok(None),
        Some(own) => {
            let indices = limit(key, split, (0..own.source().len() as u64).collect(), most)?;
            Ok::<_, PipelineError>(Some(part_of(own.source(), indices, split)))
        }
    };
    let some_val = (plan.validation > 0).then_some(plan.validation);
    let val_part = of(&val, "data.validation", Split::Val, some_val)?;
    // Held out of the training files, they are read beside them and not by them, which may be in the middle of a shard.
    let held_out = (val_part.is_none() && !held.is_empty()).then(|| train.unrated());
    let val_part = val_part.unwrap_or_else(|| match &held_out {
        Some(own) => part_of(own.source(), held, Split::Val),
        None => from_train(held, Split::Val),
    });
    // A resolved plan says 0 where there is no test split.
    let test_part = of(&test, "data.test", Split::Test, plan.test)?;
    let test_part = test_part.unwrap_or_else(|| from_train(Vec::new(), Split::Test));
    let mut dataset = |part: Part| -> Result<Arc<Dataset>, PipelineError> {
        let Some(side) = plan.images().size else {
            return Ok(Arc::new(Dataset::streamed(Arc::new(part))));
        };
        let examples = part.len() as u64;
        let held = timed(clock.as_ref(), &mut meter.decode.busy, || hold(&part, side, threads));
        meter.read.items += examples;
        meter.decode.items += examples;
        held.map(Arc::new)
    };
    let [train_part, val_part, test_part] =
        [from_train(kept, Split::Train), val_part, test_part].map(&mut dataset);
    let sources = [Some(train), val, test, held_out].into_iter().flatten().collect();
    Ok(Splits {
        train: train_part?,
        val: val_part?,
        test: test_part?,
        read: meter.read,
        decode: meter.decode,
        notices,
        sources,
    })
}

/// All of `n` indices but `held` of them, and those; both in order.
fn choose(n: usize, held: usize) -> (Vec<u64>, Vec<u64>) {
    let order = Permutation::new(SEED.key(Purpose::Shuffle, 0), 0, n as u64);
    let (mut kept, mut out): (Vec<_>, Vec<_>) = (
        (held as u64..n as u64).map(|i| order.get(i)).collect(),
        (0..held as u64).map(|i| order.get(i)).collect(),
    );
    kept.sort_unstable();
    out.sort_unstable();
    (kept, out)
}

/// So many of these indices, spread over all of them.
fn limit(
    key: &'static str,
    split: Split,
    indices: Vec<u64>,
    most: Option<usize>,
) -> Result<Vec<u64>, PipelineError> {
    let len = indices.len();
    match most {
        None => Ok(indices),
        Some(most) if most == len => Ok(indices),
        Some(most) if most == 0 || most > len => Err(PipelineError::Count {
            key,
            split,
            expected: format!("1 to {len}, the examples that there are"),
            found: most.to_string(),
            hint: "ask for fewer, or leave the key out to use all".into(),
        }),
        Some(most) => Ok(choose(len, most).1.into_iter().map(|i| indices[i as usize]).collect()),
    }
}

fn part_of(source: Arc<dyn Source>, indices: Vec<u64>, split: Split) -> Part {
    let mut info = source.info().clone();
    info.split = split;
    // The shards of a part are those of the whole, with fewer examples each.
    let shards = source.shards().map(|shards| {
        let mut end = 0;
        let ends = shards.iter().map(|count| {
            end += count;
            indices.partition_point(|&index| index < end) as u64
        });
        let ends: Vec<u64> = ends.collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        ends.iter().zip(starts).map(|(end, start)| end - start).collect()
    });
    Part { source, info, indices, shards }
}

/// Some examples of a source, in its order.
#[derive(Debug)]
struct Part {
    source: Arc<dyn Source>,
    info: crate::DatasetInfo,
    indices: Vec<u64>,
    shards: Option<Vec<u64>>,
}

impl Source for Part {
    fn info(&self) -> &crate::DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        self.source.read(self.indices[index as usize], into, cancelled)
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        self.source.decode(self.indices[index as usize], bytes, at_least, into)
    }

    fn shards(&self) -> Option<&[u64]> {
        self.shards.as_deref()
    }

    fn label(&self, index: u64) -> Option<u32> {
        self.source.label(self.indices[index as usize])
    }

    fn hold_up(&self, held: bool) {
        self.source.hold_up(held);
    }
}

/// Reads and decodes a whole source with so many threads (0 counts as 1), each image scaled to cover a square. The
/// first bad example, in the source's order, is the error.
pub(super) fn hold(source: &dyn Source, side: usize, threads: usize) -> Result<Dataset, PipelineError> {
    let mut info = source.info().clone();
    info.shape = [side, side, info.shape[2]];
    let size: usize = info.shape.iter().product();
    let n = source.len();
    let (mut pixels, mut labels) = (vec![0; n * size], vec![0; n]);
    let slices = pixels.chunks_mut(SLICE * size).zip(labels.chunks_mut(SLICE)).enumerate();
    let work = Mutex::new((slices, None::<(usize, PipelineError)>));
    let lock = || work.lock().unwrap_or_else(PoisonError::into_inner);
    let run = || {
        let (mut bytes, mut image, mut square) = (Vec::new(), Image::default(), Image::default());
        let mut resampler = Resampler::default();
        loop {
            let mut guard = lock();
            // All slices before a bad one have been given out, so that the first bad example is found.
            let Some((slice, (pixels, labels))) = guard.1.is_none().then(|| guard.0.next()).flatten() else {
                return;
            };
            drop(guard);
            for (i, (out, label)) in pixels.chunks_exact_mut(size).zip(labels).enumerate() {
                let index = slice * SLICE + i;
                let result = source
                    .read(index as u64, &mut bytes, &AtomicBool::new(false))
                    .and_then(|()| source.decode(index as u64, &bytes, Some([side, side]), &mut image));
                match result {
                    Ok(class) => *label = class,
                    Err(error) => {
                        let first = &mut lock().1;
                        if first.as_ref().is_none_or(|(at, _)| index < *at) {
                            *first = Some((index, error));
                        }
                        return;
                    }
                }
                resampler.cover(&image, side, &mut square);
                out.copy_from_slice(&square.pixels);
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
    let error = work.into_inner().unwrap_or_else(PoisonError::into_inner).1;
    match error {
        Some((_, error)) => Err(error),
        None => Dataset::new(info, pixels, labels),
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
