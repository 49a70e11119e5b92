//! Checkpoints: everything that a killed run needs to go on as if it had never been killed.
//!
//! Format: the line `sooner-checkpoint-1`; the header's length (u64); the header, one JSON object; the tensors' values
//! (f32), in the header's order, row-major; CRC-32 of everything before it (u32). Numbers are little-endian. A file
//! is read whole or not at all: whatever was cut off or changed, if only by a bit, is refused.

use crate::{
    CHECKPOINT_FILE, LossAt, Metrics, Position, RecordError, Tensor, TensorRef, TimeSplit, replace_file,
};
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use sooner_base::{Examples, NoiseScale, Seconds, Shape};
use sooner_plan::Plan;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The version of checkpoints that this crate writes, and the only one that it reads.
pub const CHECKPOINT_FORMAT: &str = "sooner-checkpoint-1";

const FAMILY: &str = "sooner-checkpoint-";

/// What a checkpoint says beside the values of variables.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointAbout {
    /// The version of the program that wrote it.
    pub sooner: String,
    /// The resolved plan.
    pub plan: Plan,
    /// Engine threads; they may decide bits.
    pub threads: usize,
    /// The kernels that ran; they may decide bits.
    pub kernels: String,
    /// How far the run had come, by the clock too.
    pub position: Position,
    /// The next batch: the pass over the data, and the batch within it.
    pub next: (u32, u64),
    /// The trainer thread's time so far.
    pub time: TimeSplit,
    /// The share of `time.prepare` that is on the training clock.
    pub preprocess: Seconds,
    /// Busy seconds of each pipeline stage so far.
    pub stages: BTreeMap<String, Seconds>,
    /// Examples of batches so far that showed what an earlier one of the same batch showed.
    pub duplicates: Examples,
    /// Whether the evaluation that is due at this position, if one is, has been made.
    pub evaluated: bool,
    /// The best evaluation so far.
    pub best: Option<Metrics>,
    /// The last evaluation so far.
    pub last: Option<Metrics>,
    /// When the target was first met.
    pub reached_at: Option<Position>,
    /// The last training loss that was a finite number.
    pub last_finite: Option<LossAt>,
    /// The running estimate of the noise of gradients, where the plan asks for it.
    pub noise: Option<NoiseScale>,
}

/// A checkpoint that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it says.
    pub about: CheckpointAbout,
    /// The values of all variables by name, those of the optimiser included.
    pub tensors: BTreeMap<String, Tensor>,
}

/// The JSON object: the plan as its text, and where each tensor lies.
#[derive(Serialize, Deserialize)]
struct Header {
    sooner: String,
    plan: String,
    threads: usize,
    kernels: String,
    position: Position,
    epoch: u32,
    batch: u64,
    time: TimeSplit,
    preprocess: Seconds,
    stages: BTreeMap<String, Seconds>,
    /// Earlier versions did not count them.
    #[serde(default)]
    duplicates: Examples,
    evaluated: bool,
    best: Option<Metrics>,
    last: Option<Metrics>,
    reached_at: Option<Position>,
    last_finite: Option<LossAt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    noise: Option<NoiseScale>,
    tensors: Vec<(String, Vec<usize>)>,
}

/// Writes a checkpoint, replacing the one before whole or not at all. Panics if values do not fill their shape.
pub fn write_checkpoint(
    path: &Path,
    about: &CheckpointAbout,
    tensors: &[TensorRef],
) -> Result<(), RecordError> {
    let header =
        serde_json::to_vec(&Header::of(about, tensors)).expect("headers hold nothing that JSON cannot");
    replace_file(path, |file| {
        let mut file = Summed { file, sum: Hasher::new() };
        file.write_all(CHECKPOINT_FORMAT.as_bytes())?;
        file.write_all(b"\n")?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        let mut chunk = Vec::with_capacity(4 * CHUNK);
        for values in tensors.iter().flat_map(|t| t.values.chunks(CHUNK)) {
            chunk.clear();
            chunk.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            file.write_all(&chunk)?;
        }
        let Summed { file, sum } = file;
        file.write_all(&sum.finalize().to_le_bytes())
    })
}

/// Values that are turned into bytes at a time.
const CHUNK: usize = 1 << 14;

/// Passes bytes on and sums them up.
struct Summed<W> {
    file: W,
    sum: Hasher,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Header {
    fn of(about: &CheckpointAbout, tensors: &[TensorRef]) -> Header {
        let about = about.clone();
        let place = |t: &TensorRef| {
            assert_eq!(t.values.len(), t.shape.len(), "values of `{}`", t.name);
            (t.name.to_string(), t.shape.dims().to_vec())
        };
        Header {
            sooner: about.sooner,
            plan: about.plan.to_toml(),
            threads: about.threads,
            kernels: about.kernels,
            position: about.position,
            epoch: about.next.0,
            batch: about.next.1,
            time: about.time,
            preprocess: about.preprocess,
            stages: about.stages,
            duplicates: about.duplicates,
            evaluated: about.evaluated,
            best: about.best,
            last: about.last,
            reached_at: about.reached_at,
            last_finite: about.last_finite,
            noise: about.noise,
            tensors: tensors.iter().map(place).collect(),
        }
    }

    fn into_about(self, path: &Path) -> Result<CheckpointAbout, RecordError> {
        let place = format!("{}: its plan", path.display());
        let plan = Plan::parse(&self.plan).map_err(|e| RecordError::Plan { source: e.in_file(&place) })?;
        Ok(CheckpointAbout {
            sooner: self.sooner,
            plan,
            threads: self.threads,
            kernels: self.kernels,
            position: self.position,
            next: (self.epoch, self.batch),
            time: self.time,
            preprocess: self.preprocess,
            stages: self.stages,
            duplicates: self.duplicates,
            evaluated: self.evaluated,
            best: self.best,
            last: self.last,
            reached_at: self.reached_at,
            last_finite: self.last_finite,
            noise: self.noise,
        })
    }
}

impl Checkpoint {
    /// The checkpoint in a run's folder; none if there is none.
    pub fn find(folder: &Path) -> Result<Option<Checkpoint>, RecordError> {
        let path = folder.join(CHECKPOINT_FILE);
        match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Checkpoint::read(&path).map(Some),
        }
    }

    /// Reads a checkpoint.
    pub fn read(path: &Path) -> Result<Checkpoint, RecordError> {
        let bytes = fs::read(path).map_err(RecordError::read(path))?;
        check_format(&bytes, path)?;
        let damaged = || RecordError::Damaged { path: path.to_path_buf() };
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        // The sum holds, so what follows was written as it is; a fault now is another program's.
        let rest = &content[CHECKPOINT_FORMAT.len() + 1..];
        let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged())?;
        let (header, values) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let mut header: Header = serde_json::from_slice(header).map_err(|e| {
            let reason = format!("its header cannot be read: {e}");
            RecordError::NotCheckpoint { path: path.to_path_buf(), reason }
        })?;
        let places = std::mem::take(&mut header.tensors);
        let tensors = read_tensors(places, values).ok_or_else(damaged)?;
        Ok(Checkpoint { about: header.into_about(path)?, tensors })
    }
}

/// None if the values are not exactly those of the tensors.
fn read_tensors(places: Vec<(String, Vec<usize>)>, mut bytes: &[u8]) -> Option<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    for (name, extents) in places {
        let len = extents.iter().try_fold(4usize, |len, extent| len.checked_mul(*extent))?;
        let (own, rest) = bytes.split_at_checked(len)?;
        let values = own.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        tensors.insert(name, Tensor { shape: Shape::new(extents), values });
        bytes = rest;
    }
    bytes.is_empty().then_some(tensors)
}

/// Tells a checkpoint of this version from those of others, from one that is cut off, and from other files.
fn check_format(bytes: &[u8], path: &Path) -> Result<(), RecordError> {
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let known = CHECKPOINT_FORMAT.as_bytes();
    if first == known && bytes.len() > known.len() {
        return Ok(());
    }
    let path = path.to_path_buf();
    if known.starts_with(first) && first.len() == bytes.len() {
        return Err(RecordError::Damaged { path });
    }
    let first = String::from_utf8_lossy(&first[..first.len().min(40)]);
    match first.strip_prefix(FAMILY) {
        Some(version) if version.parse::<u32>().is_ok() => {
            Err(RecordError::Newer { path, found: first.to_string(), known: CHECKPOINT_FORMAT.to_string() })
        }
        _ => {
            let reason = format!("it does not begin with `{CHECKPOINT_FORMAT}`");
            Err(RecordError::NotCheckpoint { path, reason })
        }
    }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
pub(crate) mod tests;
