//! Writing a run's folder.

use crate::files::sync_folder;
use crate::{
    CHECKPOINT_FILE, CheckpointAbout, Header, LOG_FILE, Line, Log, PLAN_FILE, RecordError, Resumed,
    TensorRef, WEIGHTS_FILE, replace_file, write_checkpoint,
};
use sooner_plan::Plan;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The open record of a run: the plan and the first line are on disk from the start, so that a folder that cannot be
/// written is known before any work.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    log: LineFile,
    /// What the record of a run that goes on does not say yet.
    going_on: Option<Box<GoingOn>>,
}

/// What is written where a run goes on.
#[derive(Debug)]
struct GoingOn {
    /// Only where a kill came before the first line.
    header: Option<Header>,
    resumed: Resumed,
    plan: Plan,
}

impl RunWriter {
    /// Creates the folder if need be, and in it the plan and the run log. Fails if there is a record already, and
    /// then leaves everything as it was.
    pub fn create(folder: &Path, plan: &Plan, header: &Header) -> Result<RunWriter, RecordError> {
        if folder.exists() && !folder.is_dir() {
            return Err(RecordError::NotAFolder { path: folder.to_path_buf() });
        }
        for file in [LOG_FILE, PLAN_FILE, WEIGHTS_FILE, CHECKPOINT_FILE] {
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
        // The plan first: with it alone a run that is killed now can start over.
        write_plan(folder, plan)?;
        let mut log = LineFile::create(&folder.join(LOG_FILE))?;
        log.append(&Line::Run(header.clone()))?;
        log.sync()?;
        Ok(RunWriter { folder: folder.to_path_buf(), log, going_on: None })
    }

    /// Opens a run's folder to go on with it. What a kill left behind the log's last whole line goes; the log says that
    /// the run goes on, and the plan is replaced if it is another now, with [`RunWriter::begin`] or the first line. Fails
    /// if a process writes the record already, or the log is damaged.
    pub fn resume(
        folder: &Path,
        plan: &Plan,
        header: &Header,
        resumed: &Resumed,
    ) -> Result<RunWriter, RecordError> {
        let (log, read) = LineFile::open(&folder.join(LOG_FILE))?;
        let header = read.header.is_none().then(|| header.clone());
        let going_on = Some(Box::new(GoingOn { header, resumed: resumed.clone(), plan: plan.clone() }));
        Ok(RunWriter { folder: folder.to_path_buf(), log, going_on })
    }

    /// Says that the run goes on, if it does and that is not said yet: for when it is known that it can. Until then the
    /// record is what it was.
    pub fn begin(&mut self) -> Result<(), RecordError> {
        let Some(going_on) = &mut self.going_on else { return Ok(()) };
        if let Some(header) = &going_on.header {
            self.log.append(&Line::Run(header.clone()))?;
            going_on.header = None;
        }
        self.log.append(&Line::Resumed(going_on.resumed.clone()))?;
        // Before the plan: should it change and then a kill come, the log says what it changed to.
        self.log.sync()?;
        write_plan(&self.folder, &going_on.plan)?;
        self.going_on = None;
        Ok(())
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
        self.begin()?;
        self.log.append(line)
    }

    /// Returns when every line is on disk, in the folder that was opened.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.log.sync()
    }

    /// Replaces the checkpoint. Every line appended so far is on disk before it is.
    pub fn checkpoint(&mut self, about: &CheckpointAbout, tensors: &[TensorRef]) -> Result<(), RecordError> {
        self.begin()?;
        self.log.sync()?;
        write_checkpoint(&self.folder.join(CHECKPOINT_FILE), about, tensors)
    }
}

fn write_plan(folder: &Path, plan: &Plan) -> Result<(), RecordError> {
    let (path, text) = (folder.join(PLAN_FILE), plan.to_toml());
    if fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    replace_file(&path, |file| file.write_all(text.as_bytes()))
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
        lock(&file, path)?;
        sync_folder(path).map_err(RecordError::write(path))?;
        Ok(LineFile { path: path.to_path_buf(), file, whole: 0, torn: false })
    }

    /// Opens a log to go on with it, or begins one, and returns what it says. Cuts off a last line that is not whole.
    fn open(path: &Path) -> Result<(LineFile, Log), RecordError> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = file.map_err(RecordError::write(path))?;
        lock(&file, path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(RecordError::read(path))?;
        let log = Log::parse(&bytes, path)?;
        let whole = log.partial.as_ref().map_or(bytes.len(), |partial| partial.byte) as u64;
        file.set_len(whole).map_err(RecordError::write(path))?;
        sync_folder(path).map_err(RecordError::write(path))?;
        Ok((LineFile { path: path.to_path_buf(), file, whole, torn: false }, log))
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
        self.file.sync_all().map_err(RecordError::write(&self.path))?;
        // An unlinked file takes lines without complaint and keeps none of them.
        let here = self.file.metadata().and_then(|here| Ok(same_file(&here, &self.path.metadata()?)));
        match here {
            Ok(true) => Ok(()),
            _ => Err(RecordError::Vanished { path: self.path.clone() }),
        }
    }
}

/// Two runs that wrote one record would leave nonsense. A file system that knows no locks is no reason to refuse.
fn lock(file: &File, path: &Path) -> Result<(), RecordError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(RecordError::Busy { path: path.to_path_buf() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(unix)]
fn same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Elsewhere an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn same_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
#[path = "writer_tests.rs"]
pub(crate) mod tests;
