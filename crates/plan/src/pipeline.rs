//! The pipeline section: stages in order, as data.

use crate::PlanError;
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
    /// Bytes over all queues and buffers, never exceeded: a number, or text such as "2GiB".
    #[serde(default = "default_budget", deserialize_with = "text_or_number")]
    pub budget: String,
    /// What to do with an example that cannot be read or decoded.
    #[serde(default)]
    pub on_bad: OnBad,
}

impl PipelinePlan {
    /// Examples a batch; none if the plan has no batch stage.
    pub fn batch_size(&self) -> Option<usize> {
        self.stages.iter().find_map(|stage| match stage {
            StagePlan::Batch(size) => Some(*size),
            _ => None,
        })
    }

    /// The budget, read.
    pub fn budget_bytes(&self) -> Result<Bytes, PlanError> {
        let text = self.budget.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => Some(0),
            "kib" => Some(10),
            "mib" => Some(20),
            "gib" => Some(30),
            "tib" => Some(40),
            _ => None,
        };
        let bytes = number.parse::<u64>().ok().zip(shift).and_then(|(n, shift)| n.checked_mul(1 << shift));
        bytes.map(Bytes).ok_or_else(|| {
            let hint = match unit.trim().to_ascii_lowercase().as_str() {
                "k" | "kb" => "did you mean KiB (1024 bytes)?",
                "m" | "mb" => "did you mean MiB (1024 KiB)?",
                "g" | "gb" => "did you mean GiB (1024 MiB)?",
                _ => "",
            };
            let expected = "a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB";
            PlanError::value("pipeline.budget", expected, format_args!("\"{}\"", self.budget), hint)
        })
    }
}

impl StagePlan {
    /// What the stage is called in plans.
    pub fn name(&self) -> &'static str {
        match self {
            StagePlan::Shuffle(_) => "shuffle",
            StagePlan::Crop(_) => "crop",
            StagePlan::Flip(_) => "flip",
            StagePlan::Normalize(_) => "normalize",
            StagePlan::Batch(_) => "batch",
        }
    }
}

fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
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
