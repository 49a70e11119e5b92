//! Finding and reading files, with errors that say what should be there.

use crate::PipelineError;
use std::fs::{File, metadata, read_dir};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The folder itself, or the first of its subfolders named, that holds `file` under one of its names.
pub(super) fn locate(
    folder: &Path,
    subfolders: &[&str],
    names: &[String],
    what: &str,
) -> Result<PathBuf, PipelineError> {
    let candidates =
        || std::iter::once(folder.to_path_buf()).chain(subfolders.iter().map(|sub| folder.join(sub)));
    if let Some(found) = candidates().find(|folder| find(folder, names).is_some()) {
        return Ok(found);
    }
    let subfolders: Vec<String> = subfolders.iter().map(|sub| format!("{sub}/")).collect();
    Err(PipelineError::Missing {
        path: folder.to_path_buf(),
        expected: format!("{what}: {} here or in {}", names[0], subfolders.join(" or ")),
        found: contents(folder),
        hint:
            "name the folder that the authors' files were unpacked into, or fetch them with `sooner data get`"
                .into(),
    })
}

/// The first of these names that is in the folder.
pub(super) fn find(folder: &Path, names: &[String]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|path| path.exists())
}

/// The file of a folder that already has other files of the set.
pub(super) fn require(folder: &Path, names: &[String]) -> Result<PathBuf, PipelineError> {
    find(folder, names).ok_or_else(|| PipelineError::Missing {
        path: folder.join(&names[0]),
        expected: "a file of the set whose other files are here".into(),
        found: "no such file".into(),
        hint: "fetch or unpack the set again".into(),
    })
}

/// What a person would want to know about a folder that does not have what was looked for.
fn contents(folder: &Path) -> String {
    match read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "no such folder".into(),
        Err(error) => error.to_string(),
        Ok(entries) => {
            let mut names: Vec<String> =
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            match names.len() {
                0 => "an empty folder".into(),
                1..=4 => names.join(", "),
                n => format!("{}, ... ({n} entries)", names[..4].join(", ")),
            }
        }
    }
}

/// The length of a regular file. Asked before opening: opening a named pipe would wait for its writer.
pub(super) fn length(path: &Path) -> Result<u64, PipelineError> {
    let meta = metadata(path).map_err(|source| PipelineError::Read { path: path.into(), source })?;
    if meta.is_file() {
        return Ok(meta.len());
    }
    Err(PipelineError::Missing {
        path: path.into(),
        expected: "a file".into(),
        found: if meta.is_dir() { "a folder" } else { "neither file nor folder" }.into(),
        hint: "fetch or unpack the set again".into(),
    })
}

/// The first bytes of a file, at most `most` of them. Memory grows with what is really there.
pub(super) fn read_up_to(path: &Path, most: u64, into: &mut Vec<u8>) -> Result<(), PipelineError> {
    into.clear();
    let result = File::open(path).and_then(|file| file.take(most).read_to_end(into));
    result.map(|_| ()).map_err(|source| PipelineError::Read { path: path.into(), source })
}
