//! Files that are replaced whole or not at all.

use crate::RecordError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// The resolved plan in a run's folder.
pub const PLAN_FILE: &str = "plan.toml";
/// The run log in a run's folder.
pub const LOG_FILE: &str = "run.jsonl";
/// The last checkpoint in a run's folder.
pub const CHECKPOINT_FILE: &str = "checkpoint";
/// The weights in a run's folder.
pub const WEIGHTS_FILE: &str = "weights.safetensors";

/// Writes a file under a temporary name in the same folder, makes sure that it is on disk, and renames it into place:
/// whoever reads sees the old file or the new one, whenever this is interrupted.
pub fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), RecordError> {
    let temporary = temporary_name(path);
    let replaced = write_and_rename(path, &temporary, write);
    if replaced.is_err() {
        // The error to report is the one above; what is left behind is harmless and replaced next time.
        let _ = fs::remove_file(&temporary);
    }
    replaced.map_err(RecordError::write(path))
}

fn write_and_rename(
    path: &Path,
    temporary: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(temporary)?);
    write(&mut writer)?;
    writer.into_inner().map_err(|e| e.into_error())?.sync_all()?;
    fs::rename(temporary, path)?;
    sync_folder(path)
}

/// Makes a rename or a new file durable; only Unix lets a folder be opened and synced.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// One fixed name for each file, so that what a kill leaves behind is overwritten rather than collected.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn replaces_or_leaves_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_file(&path, |f| f.write_all(b"one")).unwrap();
        let error = replace_file(&path, |f| {
            f.write_all(b"half of tw")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(matches!(error, Err(RecordError::Write { path: p, .. }) if p == path));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
        replace_file(&path, |f| f.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }
}
