//! The pipeline section: stages in order, as data.

use serde::{Deserialize, Serialize};

/// From the training split to batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlan {
    /// In stream order; each is a table with one key, the stage's name.
    pub stages: Vec<StagePlan>,
    /// Worker threads beside the trainer's; 0 works inline, in the consumer's thread.
    #[serde(default = "one")]
    pub threads: usize,
    /// Bytes over all queues and buffers, never exceeded: a number, or text such as "2GiB".
    #[serde(default = "default_budget")]
    pub budget: String,
    /// What to do with an example that cannot be read or decoded.
    #[serde(default)]
    pub on_bad: OnBad,
}

fn one() -> usize {
    1
}

fn default_budget() -> String {
    "256MiB".to_string()
}

/// What to do with an example that cannot be read or decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBad {
    /// End the stream with an error that names it.
    #[default]
    Fail,
    /// Draw the next planned example instead; counted and listed.
    Skip,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StagePlan {
    /// The order of examples.
    Shuffle(ShuffleKind),
    /// Pad, then cut a square at a random place.
    Crop(CropPlan),
    /// Mirror left and right.
    Flip(FlipKind),
    /// (x / 255 - mean) / std for each channel.
    Normalize(NormalizePlan),
    /// Examples a batch.
    Batch(usize),
}

/// The order of examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShuffleKind {
    /// A keyed permutation of the whole epoch, another every epoch.
    Epoch,
}

/// What lies outside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// Black: 0 before normalisation.
    Zero,
    /// The image mirrored at its edge pixels, which are not repeated.
    Reflect,
}

/// Pad, then cut a square at a random place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CropPlan {
    /// Height and width of the result in pixels.
    pub size: usize,
    /// Pixels added on every side.
    pub pad: usize,
    /// What they hold.
    #[serde(default = "reflect")]
    pub padding: Padding,
}

fn reflect() -> Padding {
    Padding::Reflect
}

/// When an image is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlipKind {
    /// Independently with probability one half.
    Random,
    /// At random in the first epoch, then the other way in every next one (Jordan, 2024).
    Alternate,
}

/// The constants of normalisation, for pixels scaled to [0, 1]; one value for each channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalizePlan {
    /// Subtracted.
    pub mean: Vec<f64>,
    /// Divided by.
    pub std: Vec<f64>,
}
