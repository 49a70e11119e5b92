//! The crate's one error type: each variant holds what is wrong with the world, where, and what to do about it.

use crate::source::is_address;
use sooner_base::Bytes;
use sooner_plan::{Complaint, PlanError, Split};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a pipeline could not be built, or why its stream ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum PipelineError {
    /// The plan itself is wrong, whatever the data.
    Plan(PlanError),
    /// A file or folder that should be there is not.
    Missing {
        /// Where it was looked for.
        path: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// A file's content contradicts its format.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file (of a gzipped one, in its unpacked content) the contradiction is.
        offset: u64,
        /// What the format asks for.
        expected: String,
        /// What the file has.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// A file in good form whose content is not what its authors published.
    Differs {
        /// The file.
        path: PathBuf,
        /// Where the first difference is, to the block of a checksum: in the unpacked content of a packed one.
        offset: u64,
        /// What was published.
        expected: String,
        /// What the file has.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// The system refused to read a file.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused to write a file.
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The plan asks for examples that the data set does not have.
    Count {
        /// The plan's key, such as `data.validation`.
        key: &'static str,
        /// The split that it is about.
        split: Split,
        /// What the data allow.
        expected: String,
        /// What the plan asks for.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// Arrays in memory do not make a data set, or not one that fits the pipeline.
    Arrays {
        /// The data set.
        name: String,
        /// What its shape and classes ask for.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A stage cannot work on what reaches it.
    Stage {
        /// The stage's place in the plan, from 0; one past the last where a stage is missing.
        position: usize,
        /// The stage's name.
        stage: &'static str,
        /// The shape or type that it takes.
        expected: String,
        /// The shape or type that reaches it.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// Batches do not fit the byte budget.
    Budget {
        /// Bytes of one batch with its labels and origins.
        batch: Bytes,
        /// The shape of a batch.
        shape: [usize; 4],
        /// Batches that must exist at once: one inline, two with worker threads.
        batches: u64,
        /// The plan's budget.
        budget: Bytes,
    },
    /// One example alone is larger than the byte budget.
    Sample {
        /// The example's index in its source.
        index: u64,
        /// The data set.
        name: String,
        /// Bytes of the example, decoded.
        bytes: Bytes,
        /// The plan's budget.
        budget: Bytes,
    },
    /// A batch did not come in time.
    Stalled {
        /// The source that is waited for.
        name: String,
        /// Batches since the stream began.
        batch: u64,
        /// The plan's limit.
        seconds: f64,
    },
    /// A recorded schedule of `echo = "auto"` does not belong to this plan.
    Schedule {
        /// The batch, from 0.
        batch: u64,
        /// The fewest fresh examples that it can have.
        least: u64,
        /// The most.
        most: u64,
        /// What the schedule says.
        found: u64,
    },
    /// Every example of an epoch is bad, so that none can stand in for another.
    NothingGood {
        /// The data set.
        name: String,
        /// What is wrong with the last one tried.
        last: Box<PipelineError>,
    },
    /// A worker thread could not be started.
    Spawn {
        /// The thread's number, from 0.
        thread: usize,
        /// The system's reason.
        source: io::Error,
    },
    /// A worker panicked: a fault of this program, not of the data. The stream ends here.
    Panicked {
        /// Batches since the stream began.
        batch: u64,
        /// What the panic said.
        message: String,
    },
}

impl PipelineError {
    /// The five fields that every error of the project can be told in.
    pub fn complaint(&self) -> Complaint {
        let complaint = |what: &str, place: String, [expected, found, hint]: [&str; 3]| Complaint {
            what: what.to_string(),
            place,
            expected: expected.to_string(),
            found: found.to_string(),
            hint: hint.to_string(),
        };
        match self {
            PipelineError::Plan(error) => error.complaint().clone(),
            PipelineError::Missing { path, expected, found, hint } => {
                complaint("data are not there", path.display().to_string(), [expected, found, hint])
            }
            PipelineError::Malformed { path, offset, expected, found, hint } => {
                let place = format!("{}, byte {offset}", path.display());
                complaint("file is not what its format says", place, [expected, found, hint])
            }
            PipelineError::Differs { path, offset, expected, found, hint } => {
                let place = format!("{}, byte {offset}", path.display());
                complaint("file is not as its authors published it", place, [expected, found, hint])
            }
            PipelineError::Read { path, source } => {
                let fields = ["a readable file", &source.to_string(), read_hint(path, source)];
                complaint("cannot read", path.display().to_string(), fields)
            }
            PipelineError::Write { path, source } => {
                let hint = "look at the folder's permissions and the room on its disk";
                let fields = ["a file that can be written", &source.to_string(), hint];
                complaint("cannot write", path.display().to_string(), fields)
            }
            PipelineError::Count { key, split, expected, found, hint } => complaint(
                &format!("wrong number of {split} examples"),
                key.to_string(),
                [expected, found, hint],
            ),
            PipelineError::Arrays { name, expected, found } => {
                complaint("arrays are no data set", name.clone(), [expected, found, ""])
            }
            PipelineError::Stage { position, stage, expected, found, hint } => {
                let place = format!("pipeline.stages[{position}] ({stage})");
                complaint("stage cannot work on what reaches it", place, [expected, found, hint])
            }
            PipelineError::Budget { batch, shape, batches, budget } => {
                let expected = format!("at least {batches} x {batch} bytes, the size of a batch {shape:?}");
                let hint = match batches {
                    1 => "raise the budget, or make batches smaller",
                    _ => "raise the budget, make batches smaller, or work inline with pipeline.threads = 0",
                };
                let fields = [&expected, &format!("{budget} bytes"), hint];
                complaint("batches do not fit the budget", "pipeline.budget".into(), fields)
            }
            PipelineError::Sample { index, name, bytes, budget } => {
                let expected = format!("examples below the budget of {budget} bytes");
                let fields =
                    [&expected, &format!("{bytes} bytes"), "raise the budget, or leave the example out"];
                complaint("an example is larger than the budget", format!("{name}, example {index}"), fields)
            }
            PipelineError::Stalled { name, batch, seconds } => {
                let expected = format!("batch {batch} of the stream within {seconds} s");
                let hint = "look at the disk or network behind it, or raise pipeline.timeout";
                complaint("a source does not answer", name.clone(), [&expected, "nothing", hint])
            }
            PipelineError::Schedule { batch, least, most, found } => {
                let expected = format!("{least} to {most} fresh examples");
                let fields = [&expected, &found.to_string(), "use the record of this very plan"];
                complaint("a schedule cannot be followed", format!("batch {batch}"), fields)
            }
            PipelineError::NothingGood { name, last } => {
                let found = format!("none; the last: {last}");
                let fields = ["at least one example that can be read", &found, "look at the files"];
                complaint("no example is good", name.clone(), fields)
            }
            PipelineError::Spawn { thread, source } => {
                let expected = format!("a system that lets worker thread {thread} start");
                let hint = "lower the number of threads, or raise the system's limit";
                complaint(
                    "cannot start a thread",
                    "pipeline.threads".into(),
                    [&expected, &source.to_string(), hint],
                )
            }
            PipelineError::Panicked { batch, message } => {
                let hint = "this is a fault of the program: please report it with the plan";
                complaint(
                    "a worker panicked",
                    format!("batch {batch} of the stream"),
                    ["a batch", message, hint],
                )
            }
        }
    }
}

/// What to do about a file that cannot be read; a file at an address has no permissions, and a server no disk.
fn read_hint(path: &Path, source: &io::Error) -> &'static str {
    let remote = path.to_str().is_some_and(is_address);
    match (remote, source.kind()) {
        (true, io::ErrorKind::NotFound) => "is the address right, and does the server have the file there?",
        (true, io::ErrorKind::InvalidData) => "",
        (true, _) => "does the server run, and can this machine reach it?",
        (false, io::ErrorKind::NotFound) => "is its name right?",
        (false, io::ErrorKind::PermissionDenied) => "look at its permissions and those of its folder",
        (false, _) => "look at the file and the disk that it lies on",
    }
}

impl PipelineError {
    /// Whether the error is about one example, so that another can stand in for it.
    pub fn is_about_an_example(&self) -> bool {
        matches!(
            self,
            PipelineError::Missing { .. } | PipelineError::Malformed { .. } | PipelineError::Read { .. }
        )
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.complaint().fmt(f)
    }
}

impl Error for PipelineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PipelineError::Read { source, .. }
            | PipelineError::Write { source, .. }
            | PipelineError::Spawn { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<PlanError> for PipelineError {
    fn from(error: PlanError) -> PipelineError {
        PipelineError::Plan(error)
    }
}
