//! CIFAR-10, the binary version: five training files and one test file of 10,000 records each. A record is a label
//! byte and 3072 pixels, plane by plane: 1024 red, 1024 green, 1024 blue, each row-major.

use super::{Examples, Meter, Raw, files};
use crate::PipelineError;
use std::path::{Path, PathBuf};

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PLANE;
const RECORDS: usize = 10_000;
const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const HINT: &str = "fetch and unpack cifar-10-binary.tar.gz again";

/// Reads the six files of a folder, or of `cifar-10-batches-bin` in it.
pub(super) fn read(folder: &Path, meter: &mut Meter) -> Result<Raw, PipelineError> {
    let names: Vec<String> = (1..=5).map(|i| format!("data_batch_{i}.bin")).collect();
    let what = "CIFAR-10 in its binary version (not the Python one)";
    let folder = files::locate(folder, &["cifar-10-batches-bin"], &names[..1], what)?;
    let train: Vec<PathBuf> = names
        .iter()
        .map(|name| files::require(&folder, std::slice::from_ref(name)))
        .collect::<Result<_, _>>()?;
    let test = files::require(&folder, &["test_batch.bin".to_string()])?;
    let records = records(train.iter().chain([&test]))?;

    let mut buffer = Vec::new();
    let mut examples = Examples::default();
    for path in &train {
        read_file(path, records, &mut buffer, &mut examples, meter)?;
    }
    let mut test_examples = Examples::default();
    read_file(&test, records, &mut buffer, &mut test_examples, meter)?;
    Ok(Raw {
        name: "cifar10",
        shape: [SIDE, SIDE, 3],
        classes: &CLASSES,
        train: examples,
        test: test_examples,
    })
}

/// Records in each file. The authors' have 10,000; a smaller set in the same format is fine as long as its files
/// are of one length, since a file cut off between two records could not be told otherwise.
fn records<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<usize, PipelineError> {
    let files: Vec<(&PathBuf, u64)> =
        paths.map(|path| Ok((path, files::length(path)?))).collect::<Result<_, PipelineError>>()?;
    let malformed = |path: &Path, offset, expected, found| PipelineError::Malformed {
        path: path.into(),
        offset,
        expected,
        found,
        hint: HINT.into(),
    };
    for &(path, len) in &files {
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
            return Err(malformed(
                path,
                len - rest,
                expected,
                format!("{rest} bytes, then the end of the file"),
            ));
        }
    }
    let longest = files.iter().map(|&(_, len)| len).max().unwrap_or(0);
    if let Some(&(path, len)) = files.iter().find(|&&(_, len)| len < longest) {
        let expected = format!("{} records, as in the longest of the six files", longest / RECORD as u64);
        let found = format!("the end of the file after {}", len / RECORD as u64);
        return Err(malformed(path, len, expected, found));
    }
    Ok((longest / RECORD as u64) as usize)
}

/// Appends the examples of one file.
fn read_file(
    path: &Path,
    records: usize,
    buffer: &mut Vec<u8>,
    examples: &mut Examples,
    meter: &mut Meter,
) -> Result<(), PipelineError> {
    meter.read(|| files::read_up_to(path, (records * RECORD) as u64, buffer))?;
    meter.decode(|| decode(path, buffer, examples))?;
    meter.count(records);
    Ok(())
}

/// From planes to interleaved pixels.
fn decode(path: &Path, bytes: &[u8], examples: &mut Examples) -> Result<(), PipelineError> {
    let (records, _) = bytes.as_chunks::<RECORD>();
    examples.labels.reserve(records.len());
    let start = examples.pixels.len();
    examples.pixels.resize(start + records.len() * 3 * PLANE, 0);
    let images = examples.pixels[start..].chunks_exact_mut(3 * PLANE);
    for (i, (record, image)) in records.iter().zip(images).enumerate() {
        let label = record[0];
        if usize::from(label) >= CLASSES.len() {
            return Err(PipelineError::Malformed {
                path: path.into(),
                offset: (i * RECORD) as u64,
                expected: "a label from 0 to 9".into(),
                found: label.to_string(),
                hint: HINT.into(),
            });
        }
        examples.labels.push(u32::from(label));
        let (red, rest) = record[1..].split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        let (pixels, _) = image.as_chunks_mut::<3>();
        for (((pixel, &r), &g), &b) in pixels.iter_mut().zip(red).zip(green).zip(blue) {
            *pixel = [r, g, b];
        }
    }
    Ok(())
}
