//! The pipeline section: stages that can follow each other, and fit the data.

use super::{number, threads};
use crate::{CropPlan, DataFacts, NormalizePlan, Padding, PipelinePlan, PlanError, StagePlan};

pub(crate) fn check(pipeline: &PipelinePlan, facts: &DataFacts) -> Result<(), PlanError> {
    threads("pipeline.threads", pipeline.threads, 0)?;
    if pipeline.budget_bytes()?.0 == 0 {
        return Err(PlanError::value("pipeline.budget", "more than 0 bytes", "0", ""));
    }
    let [mut height, mut width, channels] = facts.image;
    let mut seen: Vec<&str> = Vec::new();
    for (i, stage) in pipeline.stages.iter().enumerate() {
        let (name, place) = (stage.name(), format!("pipeline.stages.{i}.{}", stage.name()));
        if seen.contains(&"batch") {
            let (what, hint) = match stage {
                StagePlan::Batch(_) => ("a second batch stage", "leave one of them out"),
                _ => ("stage comes after the batch stage", "move it before the batch stage"),
            };
            return Err(PlanError::impossible(what, &place, "examples to work on", "batches", hint));
        }
        if matches!(stage, StagePlan::Shuffle(_) | StagePlan::Normalize(_)) && seen.contains(&name) {
            let expected = format!("one {name} stage");
            return Err(PlanError::impossible(
                "stage comes twice",
                &place,
                expected,
                "two",
                "leave one of them out",
            ));
        }
        match stage {
            StagePlan::Shuffle(_) | StagePlan::Flip(_) => {}
            StagePlan::Crop(crop) => {
                check_crop(crop, [height, width], &place)?;
                (height, width) = (crop.size, crop.size);
            }
            StagePlan::Normalize(normalize) => check_normalize(normalize, channels, &place)?,
            StagePlan::Batch(size) => check_batch(*size, facts.train_examples, &place)?,
        }
        seen.push(name);
    }
    if seen.contains(&"batch") {
        return Ok(());
    }
    let found = if seen.is_empty() { "no stages".to_string() } else { seen.join(", ") };
    Err(PlanError::impossible(
        "there is no batch stage",
        "pipeline.stages",
        "a batch stage at the end",
        found,
        "add { batch = 64 }, or another number of examples",
    ))
}

fn check_crop(crop: &CropPlan, [height, width]: [usize; 2], place: &str) -> Result<(), PlanError> {
    if crop.size == 0 {
        return Err(PlanError::value(&format!("{place}.size"), "at least 1 pixel", 0, ""));
    }
    let side = height.min(width);
    if crop.padding == Padding::Reflect && crop.pad >= side {
        return Err(PlanError::impossible(
            "there are too few pixels to mirror",
            &format!("{place}.pad"),
            format_args!("less than {side} for images of {height}x{width}"),
            crop.pad,
            "pad less, or with padding = \"zero\"",
        ));
    }
    // A slip of the keyboard; and sums of it must not overflow.
    if crop.pad > 1 << 20 {
        return Err(PlanError::value(&format!("{place}.pad"), "at most 1048576 pixels", crop.pad, ""));
    }
    let padded = side + 2 * crop.pad;
    if crop.size > padded {
        return Err(PlanError::impossible(
            "crop is larger than the padded image",
            &format!("{place}.size"),
            format_args!(
                "at most {padded} for images of {height}x{width} with {} pixels on every side",
                crop.pad
            ),
            crop.size,
            "crop less, or pad more",
        ));
    }
    Ok(())
}

fn check_normalize(normalize: &NormalizePlan, channels: usize, place: &str) -> Result<(), PlanError> {
    for (key, values) in [("mean", &normalize.mean), ("std", &normalize.std)] {
        let place = format!("{place}.{key}");
        if values.len() != channels {
            return Err(PlanError::impossible(
                "constants do not fit the channels",
                &place,
                format_args!("{channels}, one for each channel of the data"),
                values.len(),
                "",
            ));
        }
        for (i, value) in values.iter().enumerate() {
            let place = format!("{place}.{i}");
            match key {
                "mean" => number(&place, *value, "a finite number", true)?,
                _ => number(&place, *value, "a number above 0", *value > 0.0)?,
            }
        }
    }
    Ok(())
}

fn check_batch(size: usize, train_examples: usize, place: &str) -> Result<(), PlanError> {
    if size == 0 {
        return Err(PlanError::value(place, "at least 1 example", 0, ""));
    }
    if size > train_examples {
        return Err(PlanError::impossible(
            "batch is larger than the training split",
            place,
            format_args!("at most {train_examples}"),
            size,
            "",
        ));
    }
    Ok(())
}
