//! The pipeline section: stages in order, as data.

use crate::{EchoPlan, JitterPlan, PlanError, RandomResizedCropPlan};
use serde::{Deserialize, Deserializer, Serialize};
use sooner_base::Bytes;

/// From the training split to batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlan {
    /// In stream order; each is a table with one key, the stage's name.
    pub stages: Vec<StagePlan>,
    /// Worker threads beside the trainer's; 0 works inline, in the consumer's thread.
    #[serde(default = "one")]
    pub threads: usize,
    /// Batches that may be under way or ready beside the consumer's; by default two a thread and two more, and those that
    /// repeats fill. The budget may have room for fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// Choose `threads` and `queue` before the run by what is measured, with at most so many threads; the resolved plan of
    /// the run has what was chosen, and not this key. The stream is the same for any choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<usize>,
    /// Bytes over all queues and buffers, never exceeded: a number, or text such as "2GiB".
    #[serde(default = "default_budget", deserialize_with = "text_or_number")]
    pub budget: String,
    /// What to do with an example that cannot be read or decoded.
    #[serde(default)]
    pub on_bad: OnBad,
    /// What becomes of an epoch's last examples where they do not fill a batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_batch: LastBatch,
    /// Seconds after which a batch that does not come is an error; none waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// What is the same every epoch, and is not done again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: Keep,
    /// How random choices are drawn; the values are the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub draws: Draws,
    /// How long worker threads live.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workers: WorkerLife,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What is kept in memory of the work that is the same every epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// Nothing: every example is read and decoded each time it is used afresh.
    #[default]
    Nothing,
    /// Images as the stages without chance at the front leave them, within the budget.
    Memory,
}

/// How random choices are drawn. Both give the same values; the slow way is there to measure what the other brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Draws {
    /// Stage by stage for a slice of examples at once.
    #[default]
    Bulk,
    /// One example and one stage at a time.
    Single,
}

/// How long worker threads live. The stream is the same; the slow way is there to measure what the other brings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerLife {
    /// As long as the stream.
    #[default]
    Run,
    /// One epoch: new threads for each.
    Epoch,
}

/// Height and width once the shorter side is `size`; unknown, 0, where they were.
fn resized([height, width]: [usize; 2], size: usize) -> [usize; 2] {
    let shorter = height.min(width);
    if shorter == 0 {
        return [0; 2];
    }
    [height, width].map(|side| ((side as f64 * size as f64 / shorter as f64).round() as usize).max(1))
}

impl PipelinePlan {
    /// These stages with everything else as a plan has it that says nothing.
    pub fn new(stages: Vec<StagePlan>) -> PipelinePlan {
        PipelinePlan {
            stages,
            threads: one(),
            queue: None,
            tune: None,
            budget: default_budget(),
            on_bad: OnBad::default(),
            last_batch: LastBatch::default(),
            timeout: None,
            keep: Keep::default(),
            draws: Draws::default(),
            workers: WorkerLife::default(),
        }
    }

    /// The plan's echo stage, and whether it comes after `batch` and repeats batches.
    pub fn echo(&self) -> Option<(EchoPlan, bool)> {
        let mut batched = false;
        self.stages.iter().find_map(|stage| match stage {
            StagePlan::Batch(_) => {
                batched = true;
                None
            }
            StagePlan::Echo(echo) => Some((*echo, batched)),
            _ => None,
        })
    }

    /// Examples a batch; none if the plan has no batch stage.
    pub fn batch_size(&self) -> Option<usize> {
        self.stages.iter().find_map(|stage| match stage {
            StagePlan::Batch(size) => Some(*size),
            _ => None,
        })
    }

    /// Height, width and channels of what comes out of all stages, of images of these; sizes are 0 where they are not
    /// known.
    pub fn image_shape(&self, [height, width, channels]: [usize; 3]) -> [usize; 3] {
        let [h, w] = self.stages.iter().fold([height, width], |size, stage| stage.image_size(size));
        [h, w, channels]
    }

    /// Whether examples are mixed with others of their batch, labels too.
    pub fn mixes_labels(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, StagePlan::Mixup(_) | StagePlan::Cutmix(_)))
    }

    /// The budget, read.
    pub fn budget_bytes(&self) -> Result<Bytes, PlanError> {
        crate::words::bytes_of("pipeline.budget", &self.budget)
    }
}

impl StagePlan {
    /// Height and width of what comes out of the stage, of images of these; 0 where they are not known.
    pub(crate) fn image_size(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        match self {
            StagePlan::Resize(size) => resized([height, width], *size),
            StagePlan::CenterCrop(size) => [*size; 2],
            StagePlan::RandomResizedCrop(crop) => [crop.size; 2],
            StagePlan::Crop(crop) => [crop.size; 2],
            _ => [height, width],
        }
    }

    /// What the stage is called in plans.
    pub fn name(&self) -> &'static str {
        match self {
            StagePlan::Shuffle(_) => "shuffle",
            StagePlan::Echo(_) => "echo",
            StagePlan::Resize(_) => "resize",
            StagePlan::CenterCrop(_) => "center-crop",
            StagePlan::RandomResizedCrop(_) => "random-resized-crop",
            StagePlan::Crop(_) => "crop",
            StagePlan::Flip(_) => "flip",
            StagePlan::Jitter(_) => "jitter",
            StagePlan::Cutout(_) => "cutout",
            StagePlan::Normalize(_) => "normalize",
            StagePlan::Batch(_) => "batch",
            StagePlan::Mixup(_) => "mixup",
            StagePlan::Cutmix(_) => "cutmix",
        }
    }
}

pub(crate) fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    Ok(match Either::deserialize(from)? {
        Either::Number(n) => n.to_string(),
        Either::Text(text) => text,
    })
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

/// What becomes of the examples behind an epoch's last full batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LastBatch {
    /// They are a smaller batch.
    #[default]
    Keep,
    /// They are not used in this epoch; in a shuffled one they are others every time.
    Drop,
}

impl LastBatch {
    /// Of so many examples, those that batches of this size hold.
    pub fn held(self, examples: u64, batch: u64) -> u64 {
        match self {
            LastBatch::Keep => examples,
            LastBatch::Drop => examples / batch * batch,
        }
    }
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StagePlan {
    /// The order of examples.
    Shuffle(ShuffleKind),
    /// Use every item that comes by several times.
    Echo(EchoPlan),
    /// Scale, so that the shorter side has so many pixels; the shape is kept.
    Resize(usize),
    /// Keep the middle square of so many pixels.
    CenterCrop(usize),
    /// A cut of random area and shape, scaled to one size.
    RandomResizedCrop(RandomResizedCropPlan),
    /// Pad, then cut a square at a random place.
    Crop(CropPlan),
    /// Mirror left and right.
    Flip(FlipKind),
    /// Change brightness, contrast, saturation and hue at random.
    Jitter(JitterPlan),
    /// Cover a square of so many pixels at a random place, wholly inside the image: black before normalisation, the
    /// mean colour after it.
    Cutout(usize),
    /// (x / 255 - mean) / std for each channel.
    Normalize(NormalizePlan),
    /// Examples a batch.
    Batch(usize),
    /// Blend each example with another of its batch, labels too; the share is drawn from Beta(a, a) once a batch.
    Mixup(f64),
    /// Paste a box of another example of the batch over each, labels in proportion to area; the share is drawn from
    /// Beta(a, a) once a batch.
    Cutmix(f64),
}

/// The order of examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShuffleKind {
    /// A keyed permutation of the whole epoch, another every epoch; of data that can only be read from front to back
    /// (packed or remote shards) what `Buffer` does, with [`ShuffleKind::BUFFER`] examples.
    Epoch,
    /// Shards in a keyed order, another every epoch, and a buffer of so many examples from which they are drawn.
    Buffer(usize),
}

impl ShuffleKind {
    /// Examples of the buffer where the plan says nothing.
    pub const BUFFER: usize = 4096;
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

#[cfg(test)]
mod tests {
    use crate::testing::plan;

    #[test]
    fn budgets() {
        let bytes = |text: &str| {
            let mut plan = plan();
            plan.pipeline.budget = text.to_string();
            plan.pipeline.budget_bytes().ok().map(|b| b.0)
        };
        assert_eq!(bytes("1"), Some(1));
        assert_eq!(
            (bytes("3KiB"), bytes("2 MiB"), bytes(" 2gib ")),
            (Some(3 << 10), Some(2 << 20), Some(2 << 30))
        );
        assert_eq!((bytes("1TiB"), bytes("12B")), (Some(1 << 40), Some(12)));
        for wrong in ["", "GiB", "1.5GiB", "-1", "1GB", "1 G", "16777216TiB", "18446744073709551616", "0x10"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
