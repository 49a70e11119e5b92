//! Writing a run's folder.

use crate::files::sync_folder;
use crate::{Header, LOG_FILE, Line, PLAN_FILE, RecordError, WEIGHTS_FILE, replace_file};
use sooner_plan::Plan;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The open record of a run: the plan and the first line are on disk from the start, so that a folder that cannot be
/// written is known before any work.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    log: LineFile,
}

impl RunWriter {
    /// Creates the folder if need be, and in it the plan and the run log. Fails if there is a record already, and
    /// then leaves everything as it was.
    pub fn create(folder: &Path, plan: &Plan, header: &Header) -> Result<RunWriter, RecordError> {
        if folder.exists() && !folder.is_dir() {
            return Err(RecordError::NotAFolder { path: folder.to_path_buf() });
        }
        for file in [LOG_FILE, PLAN_FILE, WEIGHTS_FILE] {
            if folder.join(file).symlink_metadata().is_ok() {
                return Err(RecordError::Exists { folder: folder.to_path_buf(), file });
            }
        }
        let was_there = folder.exists();
        fs::create_dir_all(folder).map_err(RecordError::write(folder))?;
        let opened = RunWriter::open(folder, plan, header);
        if opened.is_err() {
            // The error to report is why it failed; these would only add that nothing was there to remove.
            let _ = fs::remove_file(folder.join(LOG_FILE));
            let _ = fs::remove_file(folder.join(PLAN_FILE));
            if !was_there {
                let _ = fs::remove_dir(folder);
            }
        }
        opened
    }

    fn open(folder: &Path, plan: &Plan, header: &Header) -> Result<RunWriter, RecordError> {
        let mut log = LineFile::create(&folder.join(LOG_FILE))?;
        let text = plan.to_toml();
        replace_file(&folder.join(PLAN_FILE), |file| file.write_all(text.as_bytes()))?;
        log.append(&Line::Run(header.clone()))?;
        log.sync()?;
        Ok(RunWriter { folder: folder.to_path_buf(), log })
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the run's weights belong.
    pub fn weights_path(&self) -> PathBuf {
        self.folder.join(WEIGHTS_FILE)
    }

    /// Adds a line: one write of the whole line. If the system takes only part of it (a full disk), the part is
    /// taken back, so that a later line can still be read.
    pub fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        self.log.append(line)
    }

    /// Returns when every line is on disk.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.log.sync()
    }
}

/// A file that only ever grows by whole lines.
#[derive(Debug)]
struct LineFile {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends.
    whole: u64,
    /// Whether something may lie beyond that end.
    torn: bool,
}

impl LineFile {
    fn create(path: &Path) -> Result<LineFile, RecordError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.map_err(RecordError::write(path))?;
        sync_folder(path).map_err(RecordError::write(path))?;
        Ok(LineFile { path: path.to_path_buf(), file, whole: 0, torn: false })
    }

    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        if self.torn {
            self.file.set_len(self.whole).map_err(RecordError::write(&self.path))?;
            self.torn = false;
        }
        let text = line.to_text();
        if let Err(source) = self.file.write_all(text.as_bytes()) {
            self.torn = self.file.set_len(self.whole).is_err();
            return Err(RecordError::Write { path: self.path.clone(), source });
        }
        self.whole += text.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RecordError> {
        self.file.sync_all().map_err(RecordError::write(&self.path))
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
pub(crate) mod tests;
