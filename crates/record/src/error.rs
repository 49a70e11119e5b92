//! What can be wrong with a run's files.

use sooner_base::Shape;
use sooner_plan::{Complaint, PlanError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a run's files cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The folder holds a record already.
    #[error("{} holds a record already: choose another folder, or remove it", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// The file that is there.
        file: &'static str,
    },
    /// There is something where the folder should be that is not a folder.
    #[error("{} is a file, not a folder: choose another place for the record", path.display())]
    NotAFolder {
        /// The place.
        path: PathBuf,
    },
    /// The folder holds no record.
    #[error("{} holds no record: it has no {file}", folder.display())]
    NoRecord {
        /// The folder.
        folder: PathBuf,
        /// The file that is missing.
        file: &'static str,
    },
    /// Another process writes this record.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The run log.
        path: PathBuf,
    },
    /// A file that this run opened is no longer where it was.
    #[error("{} is gone: somebody has removed or replaced it during the run", path.display())]
    Vanished {
        /// The run log.
        path: PathBuf,
    },
    /// The system refuses to write.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refuses to read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plan of the record cannot be read.
    #[error("{source}")]
    Plan {
        /// Why; its place names the file.
        source: PlanError,
    },
    /// A file of a later version.
    #[error("{} has format {found}; this version reads up to {known}: use a newer sooner", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: String,
        /// The newest that can be read.
        known: String,
    },
    /// A line of the run log, not the last, that cannot be read.
    #[error("{}: line {line} (byte {byte}) cannot be read: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Where the line begins.
        byte: usize,
        /// Why.
        reason: String,
    },
    /// A study's store that cannot be used, or does not take what it is given.
    #[error("study {}: {reason}", path.display())]
    Store {
        /// The store's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Not a checkpoint.
    #[error("{} is no checkpoint: {reason}", path.display())]
    NotCheckpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A checkpoint that is not as it was written.
    #[error("{} is cut off or damaged: its checksum does not hold", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// Not a file of weights.
    #[error("{} is no safetensors file: {reason}", path.display())]
    NotWeights {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file of weights whose metadata cannot be used.
    #[error("{}: its metadata should have {expected}, and has {found}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
    },
    /// A file of weights that ends early or late.
    #[error("{} should have {expected} bytes and has {found}: it is cut off or damaged", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that its header implies.
        expected: u64,
        /// Its length.
        found: u64,
    },
    /// A tensor that is needed and not there.
    #[error("{} has no tensor `{name}`{}", path.display(), nearest_note(nearest))]
    NoTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The name in the file that is most like it.
        nearest: Option<String>,
    },
    /// A tensor of another shape.
    #[error("{}: tensor `{name}` should have shape {expected} and has {found}", path.display())]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The model's shape.
        expected: Shape,
        /// The file's shape.
        found: Shape,
    },
    /// A tensor whose numbers are not f32.
    #[error("{}: tensor `{name}` should hold F32 and holds {found}", path.display())]
    TensorType {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// What it holds.
        found: String,
    },
}

fn nearest_note(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |n| format!("; the nearest is `{n}`"))
}

impl RecordError {
    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> RecordError {
        let path = path.to_path_buf();
        move |source| RecordError::Write { path: path.clone(), source }
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> RecordError {
        let path = path.to_path_buf();
        move |source| RecordError::Read { path: path.clone(), source }
    }

    /// The error in the five fields that every error of the project can be told in.
    pub fn complaint(&self) -> Complaint {
        let tell = |what: &str, place: &Path, expected: String, found: String, hint: &str| Complaint {
            what: what.to_string(),
            place: place.display().to_string(),
            expected,
            found,
            hint: hint.to_string(),
        };
        match self {
            RecordError::Exists { folder, file } => tell(
                "folder holds a record already",
                folder,
                "a new or empty folder".into(),
                format!("{file} in it"),
                "choose another folder, or remove it",
            ),
            RecordError::NotAFolder { path } => tell(
                "place of the record is a file",
                path,
                "a folder, or nothing yet".into(),
                "a file".into(),
                "choose another place",
            ),
            RecordError::NoRecord { folder, file } => {
                let hint = "a run's folder is the one that `sooner train` named at its end";
                tell("no record", folder, format!("a folder with {file}"), format!("no {file}"), hint)
            }
            RecordError::Busy { path } => tell(
                "another process writes this record",
                path,
                "a record that no run writes".into(),
                "a run that has it open".into(),
                "wait for that run, or end it",
            ),
            RecordError::Vanished { path } => tell(
                "record is gone",
                path,
                "the file that this run opened".into(),
                "none, or another".into(),
                "somebody has removed or replaced it during the run",
            ),
            RecordError::Write { path, source } => tell(
                "cannot write",
                path,
                "a place that can be written".into(),
                source.to_string(),
                write_hint(source),
            ),
            RecordError::Read { path, source } => {
                let hint = read_hint(source);
                tell("cannot read", path, "a file that can be read".into(), source.to_string(), hint)
            }
            RecordError::Plan { source } => source.complaint().clone(),
            RecordError::Newer { path, found, known } => tell(
                "file of a later version",
                path,
                format!("format {known} or earlier"),
                format!("format {found}"),
                "use a newer sooner",
            ),
            RecordError::Line { path, line, byte, reason } => tell(
                "line cannot be read",
                path,
                "one JSON object on each line".into(),
                format!("at line {line}, byte {byte}: {reason}"),
                "only a last line that was cut off is dropped; this one was damaged later",
            ),
            RecordError::Store { path, reason } => {
                tell("study's store", path, "a study that takes this".into(), reason.clone(), "")
            }
            RecordError::NotCheckpoint { path, reason } => tell(
                "not a checkpoint",
                path,
                "a checkpoint".into(),
                reason.clone(),
                "remove it to start the run over",
            ),
            RecordError::Damaged { path } => tell(
                "checkpoint is damaged",
                path,
                "a file whose checksum holds".into(),
                "one that is cut off or was changed".into(),
                "restore it from a copy, or remove it to start the run over",
            ),
            RecordError::NotWeights { path, reason } => {
                tell("not weights", path, "a safetensors file".into(), reason.clone(), "")
            }
            RecordError::Metadata { path, expected, found } => tell(
                "weights' metadata cannot be used",
                path,
                expected.clone(),
                found.clone(),
                "did a newer sooner write them? then use that one",
            ),
            RecordError::Length { path, expected, found } => tell(
                "file is cut off or damaged",
                path,
                format!("{expected} bytes"),
                format!("{found} bytes"),
                "copy it again",
            ),
            RecordError::NoTensor { path, name, nearest } => {
                let found =
                    nearest.as_ref().map_or("none like it".to_string(), |n| format!("`{n}` as the nearest"));
                tell(
                    "tensor is missing",
                    path,
                    format!("a tensor `{name}`"),
                    found,
                    "are the weights of this model?",
                )
            }
            RecordError::TensorShape { path, name, expected, found } => tell(
                "tensor has another shape",
                path,
                format!("`{name}` of shape {expected}"),
                format!("shape {found}"),
                "are the weights of this model and these sizes?",
            ),
            RecordError::TensorType { path, name, found } => tell(
                "tensor has another type",
                path,
                format!("`{name}` of F32"),
                found.clone(),
                "convert it to F32",
            ),
        }
    }
}

fn read_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "is its name right?",
        io::ErrorKind::PermissionDenied => "look at its permissions and those of its folder",
        _ => "",
    }
}

fn write_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full: free some space",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "choose a folder that you may write to"
        }
        _ => "",
    }
}
