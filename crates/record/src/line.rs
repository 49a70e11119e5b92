//! The lines of a run log. Each is one JSON object whose key `line` says what it is; readers skip kinds they do not
//! know and fields they do not know, so that a newer version may add both without a new format number.

use crate::{GradientNoise, Metrics, Position, Summary, number};
use serde::{Deserialize, Serialize};
use sooner_base::{Seed, Updates};
use sooner_plan::Views;
use std::collections::BTreeMap;

/// The version of the run log that this crate writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// One line of a run log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Run(Header),
    /// How training goes: after each of the first updates, then now and then.
    Progress(Progress),
    /// One evaluation.
    Evaluation(Evaluation),
    /// How many examples of the coming batches are read afresh, where that depends on time.
    Fresh(Fresh),
    /// The run goes on from an earlier update.
    Resumed(Resumed),
    /// The run is over.
    End(Box<Summary>),
}

/// Where and by what a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format, [`FORMAT`].
    pub format: u32,
    /// The version of the program.
    pub sooner: String,
    /// What it ran on.
    pub machine: Machine,
    /// What was compiled in.
    pub features: Vec<String>,
    /// What was chosen at run time for this machine, such as the instruction set; it may decide bits.
    pub kernels: BTreeMap<String, String>,
    /// Engine threads; they may decide bits.
    pub threads: usize,
    /// The seed that everything random derives from.
    pub seed: Seed,
    /// Measured peak of those threads, in 1e9 FLOPs a second.
    pub peak_gflops: f64,
    /// When the run began, in seconds since 1970; none where nobody said.
    pub started_unix: Option<f64>,
    /// What was measured to choose pipeline threads and queue, where the plan asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<String>,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores the process may use.
    pub cores: usize,
    /// The operating system.
    pub os: String,
    /// The instruction set architecture.
    pub arch: String,
}

/// How training goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How far the run has come.
    #[serde(flatten)]
    pub at: Position,
    /// The training loss (smoothed labels included), averaged over the updates since the last such line. NaN and
    /// infinity are null in JSON.
    #[serde(with = "number")]
    pub loss: f64,
    /// The last update's learning rate.
    pub learning_rate: f64,
    /// Examples a second of the training clock since the last such line.
    #[serde(with = "number")]
    pub examples_per_second: f64,
    /// The noise of gradients by then, where the plan asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
}

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// How far the run had come.
    #[serde(flatten)]
    pub at: Position,
    /// What was measured.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Whether it meets the run's target; false without one.
    pub met: bool,
    /// How often each image was seen, and what seeing it once came to; none where that is all there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// An evaluation that averaged several views of each image.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The views.
    pub views: Views,
    /// What the image alone, without the other views, came to.
    pub one: Metrics,
}

/// The schedule of a run with `echo = "auto"`: written before the update that uses it, and again when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fresh {
    /// The first update, counted from 1, whose batch is so.
    pub updates: Updates,
    /// Examples of the batch that are read afresh; the others are repeats.
    pub fresh: u32,
}

/// The run goes on from a checkpoint: what was written about later updates no longer holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The update that the checkpoint was taken after; 0 if there was none and the run started over.
    pub updates: Updates,
    /// What the run goes on with: threads and kernels may decide bits. Earlier versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Header>,
    /// Keys of the plan that have another value from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Change>,
}

/// A key of the plan that changed, with both values as plans write them; none where the key is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The dotted key.
    pub key: String,
    /// The value before.
    pub from: Option<String>,
    /// The value from here on.
    pub to: Option<String>,
}

impl Line {
    /// The updates after which the line was written; none for those that are not about one moment.
    pub fn updates(&self) -> Option<Updates> {
        match self {
            Line::Progress(progress) => Some(progress.at.updates),
            Line::Evaluation(evaluation) => Some(evaluation.at.updates),
            Line::Fresh(fresh) => Some(fresh.updates),
            Line::End(summary) => Some(summary.position.updates),
            Line::Run(_) | Line::Resumed(_) => None,
        }
    }

    /// The line as written, newline included.
    pub(crate) fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("lines hold nothing that JSON cannot");
        text.push('\n');
        text
    }
}
