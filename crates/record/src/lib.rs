//! The versioned files that a run leaves on disk: the resolved plan, the run log (JSON lines), checkpoints, the
//! weights.
//! **Invariants:** a file is either appended to in whole lines or replaced by rename, so that a kill at any moment
//! leaves something that can be read; no clock is read here.

mod line;
mod number;
mod summary;

mod reader;
mod writer;

mod checkpoint;
mod weights;

mod store;

mod error;
mod files;

pub use checkpoint::{CHECKPOINT_FORMAT, Checkpoint, CheckpointAbout, write_checkpoint};
pub use error::RecordError;
pub use files::{CHECKPOINT_FILE, LOG_FILE, PLAN_FILE, WEIGHTS_FILE, replace_file};
pub use line::{Change, Evaluation, FORMAT, Fresh, Header, Line, Machine, Progress, Resumed, Seen};
pub use reader::{Log, Partial, RunReader};
pub use store::{
    Ask, Draw, Hold, Lease, MemoryStore, Outcome, STUDY_FORMAT, SqliteStore, Store, StoredStudy, StoredTrial,
    StudyExport, StudyPoint, TrialEvaluation, TrialState, Values, check_store,
};
pub use summary::{
    BadExample, Ceiling, DataReport, Divergence, GradientNoise, LossAt, Metrics, Position, Status, Summary,
    TimeSplit,
};
pub use weights::{Tensor, TensorRef, WEIGHTS_FORMAT, Weights, WeightsAbout, write_tensors, write_weights};
pub use writer::RunWriter;
