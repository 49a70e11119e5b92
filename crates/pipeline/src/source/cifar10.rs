//! CIFAR-10, the binary version: five training files and one test file of 10,000 records each, as files or in the archive
//! they come in. A record is a label byte and 3072 pixels, plane by plane: 1024 red, 1024 green, 1024 blue, each row-major.

use super::archive::{self, Member};
use super::{Examples, Meter, Raw, files};
use crate::PipelineError;
use std::path::{Path, PathBuf};

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
pub(super) const RECORD: usize = 1 + 3 * PLANE;
const RECORDS: usize = 10_000;
pub(super) const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
/// The training files in their order, then the test file.
pub(super) const FILES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];
/// What the authors call the archive of the six files.
pub(super) const ARCHIVE: &str = "cifar-10-binary.tar.gz";
const WHAT: &str = "CIFAR-10 in its binary version (not the Python one)";
const HINT: &str = "fetch and unpack cifar-10-binary.tar.gz again";

/// Where the six files are.
pub(super) enum Place {
    /// Side by side, in the order of `FILES`.
    Files(Vec<PathBuf>),
    /// In one archive.
    Archive(PathBuf),
}

/// Looks in a folder, in `cifar-10-batches-bin` in it, and then for the archive in it; a path to a file is the archive.
pub(super) fn find(path: &Path) -> Result<Place, PipelineError> {
    if path.is_file() {
        return Ok(Place::Archive(path.to_path_buf()));
    }
    let first = FILES[0].to_string();
    match files::locate(path, &["cifar-10-batches-bin"], &[first], WHAT) {
        Ok(folder) => {
            let require = |name: &&str| files::require(&folder, &[name.to_string()]);
            Ok(Place::Files(FILES.iter().map(require).collect::<Result<_, _>>()?))
        }
        Err(mut missing) => {
            if let Some(archive) = files::find(path, &[ARCHIVE.to_string()]) {
                return Ok(Place::Archive(archive));
            }
            if let PipelineError::Missing { hint, .. } = &mut missing {
                *hint = format!(
                    "name the folder that the authors' files were unpacked into, or {ARCHIVE} itself, or fetch them \
                     with `sooner data get`"
                );
            }
            Err(missing)
        }
    }
}

/// Visits the wanted members of the archive.
pub(super) fn walk(path: &Path, meter: &mut Meter, visit: &mut archive::Visit) -> Result<(), PipelineError> {
    archive::walk(path, (&FILES, WHAT, HINT), meter, visit)
}

/// Reads the six files from wherever they are.
pub(super) fn read(path: &Path, meter: &mut Meter) -> Result<Raw, PipelineError> {
    let mut parts: [Examples; 6] = Default::default();
    match find(path)? {
        Place::Files(paths) => {
            let lengths: Vec<u64> = paths.iter().map(|path| files::length(path)).collect::<Result<_, _>>()?;
            let files: Vec<(&Path, u64)> = paths.iter().map(PathBuf::as_path).zip(lengths).collect();
            files.iter().try_for_each(|&(path, len)| check_length(path, len))?;
            check_equal(&files)?;
            let mut buffer = Vec::new();
            for (index, &(path, len)) in files.iter().enumerate() {
                meter.read(|| files::read_up_to(path, len, &mut buffer))?;
                // Their order is known, so that training files need no parts of their own.
                let part = if index < 5 { 0 } else { index };
                read_part(path, &buffer, &mut parts[part], meter)?;
            }
        }
        Place::Archive(path) => {
            let mut lengths: [(PathBuf, u64); 6] = Default::default();
            walk(&path, meter, &mut |member: Member, meter: &mut Meter| {
                let (index, place, size) = (member.index, member.place.clone(), member.size);
                check_length(&place, size)?;
                let bytes = member.content(size, meter)?;
                read_part(&place, &bytes, &mut parts[index], meter)?;
                lengths[index] = (place, size);
                Ok(true)
            })?;
            let files: Vec<(&Path, u64)> = lengths.iter().map(|(path, len)| (path.as_path(), *len)).collect();
            check_equal(&files)?;
        }
    }
    let [first, rest @ .., test] = parts;
    let mut train = first;
    for part in rest {
        train.pixels.extend_from_slice(&part.pixels);
        train.labels.extend_from_slice(&part.labels);
    }
    Ok(Raw { name: "cifar10", shape: [SIDE, SIDE, 3], classes: &CLASSES, train, test, notices: Vec::new() })
}

/// Examples in the training files and in the test file, by the length of the first that is met.
pub(super) fn peek(path: &Path, meter: &mut Meter) -> Result<(usize, usize), PipelineError> {
    let mut length = 0;
    match find(path)? {
        Place::Files(paths) => {
            length = files::length(&paths[0])?;
            check_length(&paths[0], length)?;
        }
        Place::Archive(path) => walk(&path, meter, &mut |member: Member, _: &mut Meter| {
            length = member.size;
            check_length(&member.place, length)?;
            Ok(false)
        })?,
    }
    let records = length as usize / RECORD;
    Ok((5 * records, records))
}

fn malformed(path: &Path, offset: u64, expected: String, found: String) -> PipelineError {
    PipelineError::Malformed { path: path.into(), offset, expected, found, hint: HINT.into() }
}

/// A file of whole records, at most as many as the authors' files have.
fn check_length(path: &Path, len: u64) -> Result<(), PipelineError> {
    let most = (RECORDS * RECORD) as u64;
    if len == 0 {
        return Err(malformed(path, 0, format!("records of {RECORD} bytes"), "an empty file".into()));
    }
    if len > most {
        let expected = format!("the end of the file after {RECORDS} records of {RECORD} bytes");
        return Err(malformed(path, most, expected, format!("{} more bytes", len - most)));
    }
    let rest = len % RECORD as u64;
    if rest != 0 {
        let expected = format!("whole records of {RECORD} bytes");
        let found = format!("{rest} bytes, then the end of the file");
        return Err(malformed(path, len - rest, expected, found));
    }
    Ok(())
}

/// A smaller set than the authors' in the same format is fine as long as its files are of one length, since a file cut
/// off between two records could not be told otherwise.
fn check_equal(files: &[(&Path, u64)]) -> Result<(), PipelineError> {
    let longest = files.iter().map(|&(_, len)| len).max().unwrap_or(0);
    let Some(&(path, len)) = files.iter().find(|&&(_, len)| len < longest) else { return Ok(()) };
    let expected = format!("{} records, as in the longest of the six files", longest / RECORD as u64);
    let found = format!("the end of the file after {}", len / RECORD as u64);
    Err(malformed(path, len, expected, found))
}

/// Appends the examples of one file's bytes.
fn read_part(path: &Path, bytes: &[u8], into: &mut Examples, meter: &mut Meter) -> Result<(), PipelineError> {
    meter.decode(|| decode(path, bytes, into))?;
    meter.count(bytes.len() / RECORD);
    Ok(())
}

/// The first record whose label is no class is an error.
pub(super) fn check_labels(path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
    let mut labels = bytes.iter().step_by(RECORD);
    match labels.position(|&label| usize::from(label) >= CLASSES.len()) {
        None => Ok(()),
        Some(i) => {
            let offset = i * RECORD;
            Err(malformed(path, offset as u64, "a label from 0 to 9".into(), bytes[offset].to_string()))
        }
    }
}

/// From planes to interleaved pixels.
fn decode(path: &Path, bytes: &[u8], examples: &mut Examples) -> Result<(), PipelineError> {
    check_labels(path, bytes)?;
    let (records, _) = bytes.as_chunks::<RECORD>();
    examples.labels.reserve(records.len());
    let start = examples.pixels.len();
    examples.pixels.resize(start + records.len() * 3 * PLANE, 0);
    let images = examples.pixels[start..].chunks_exact_mut(3 * PLANE);
    for (record, image) in records.iter().zip(images) {
        examples.labels.push(u32::from(record[0]));
        let (red, rest) = record[1..].split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        let (pixels, _) = image.as_chunks_mut::<3>();
        for (((pixel, &r), &g), &b) in pixels.iter_mut().zip(red).zip(green).zip(blue) {
            *pixel = [r, g, b];
        }
    }
    Ok(())
}
