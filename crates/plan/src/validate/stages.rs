//! The pipeline section: stages that can follow each other, and fit the data.

use super::{number, threads};
use crate::{
    CropPlan, DataFacts, EchoFactor, EchoPlan, JitterPlan, LastBatch, NormalizePlan, Padding, PipelinePlan,
    PlanError, RandomResizedCropPlan, ShuffleKind, StagePlan,
};

/// The most batches that a queue may hold.
const MOST_QUEUED: usize = 65_536;

pub(crate) fn check(pipeline: &PipelinePlan, facts: &DataFacts) -> Result<(), PlanError> {
    threads("pipeline.threads", pipeline.threads, 0)?;
    if let Some(most) = pipeline.tune {
        threads("pipeline.tune", most, 1)?;
    }
    if let Some(queue) = pipeline.queue.filter(|queue| !(1..=MOST_QUEUED).contains(queue)) {
        let expected = format!("1 to {MOST_QUEUED} batches");
        return Err(PlanError::value(
            "pipeline.queue",
            &expected,
            queue,
            "leave it out to have the usual number",
        ));
    }
    if pipeline.budget_bytes()?.0 == 0 {
        return Err(PlanError::value("pipeline.budget", "more than 0 bytes", "0", ""));
    }
    let auto = pipeline.echo().is_some_and(|(echo, _)| echo.fixed().is_none());
    if auto && pipeline.last_batch == LastBatch::Drop {
        return Err(PlanError::impossible(
            "nothing to drop",
            "pipeline.last_batch",
            "\"keep\": with echo = \"auto\" every batch is full",
            "\"drop\"",
            "leave it out",
        ));
    }
    if let Some(timeout) = pipeline.timeout {
        number("pipeline.timeout", timeout, "seconds above 0", timeout > 0.0)?;
    }
    let [mut height, mut width, channels] = facts.image;
    let mut seen: Vec<&str> = Vec::new();
    for (i, stage) in pipeline.stages.iter().enumerate() {
        let (name, place) = (stage.name(), format!("pipeline.stages.{i}.{}", stage.name()));
        let mixes = matches!(stage, StagePlan::Mixup(_) | StagePlan::Cutmix(_));
        if seen.contains(&"batch") && !mixes && !matches!(stage, StagePlan::Echo(_)) {
            let (what, hint) = match stage {
                StagePlan::Batch(_) => ("a second batch stage", "leave one of them out"),
                _ => ("stage comes after the batch stage", "move it before the batch stage"),
            };
            return Err(PlanError::impossible(what, &place, "examples to work on", "batches", hint));
        }
        if mixes && !seen.contains(&"batch") {
            return Err(PlanError::impossible(
                "stage comes before the batch stage",
                &place,
                "batches, to mix examples within",
                "examples",
                "move it behind the batch stage",
            ));
        }
        if matches!(stage, StagePlan::Shuffle(_) | StagePlan::Normalize(_) | StagePlan::Echo(_))
            && seen.contains(&name)
        {
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
            StagePlan::Shuffle(ShuffleKind::Buffer(size)) if !(1..=1 << 30).contains(size) => {
                let hint = "more mixes better, and holds more in memory";
                return Err(PlanError::value(&place, "a buffer of at least 1 example", size, hint));
            }
            StagePlan::Shuffle(_) | StagePlan::Flip(_) => {}
            StagePlan::Echo(echo) => check_echo(echo, &place)?,
            StagePlan::Resize(size) => {
                check_pixels(*size, &place)?;
            }
            StagePlan::CenterCrop(size) => {
                check_pixels(*size, &place)?;
                if height > 0 && *size > height.min(width) {
                    let expected = format!("at most {}, the shorter side", height.min(width));
                    let what = "crop is larger than the image";
                    return Err(PlanError::impossible(
                        what,
                        &place,
                        expected,
                        size,
                        "crop less, or resize to more",
                    ));
                }
            }
            StagePlan::RandomResizedCrop(crop) => {
                check_random_resized_crop(crop, &place)?;
            }
            StagePlan::Crop(crop) => {
                check_crop(crop, [height, width], &place)?;
            }
            StagePlan::Jitter(jitter) => check_jitter(jitter, channels, &place)?,
            StagePlan::Cutout(size) => {
                check_pixels(*size, &place)?;
                if height > 0 && *size > height.min(width) {
                    let expected = format!("at most {}, the shorter side", height.min(width));
                    let what = "cover is larger than the image";
                    return Err(PlanError::impossible(what, &place, expected, size, "cover less"));
                }
            }
            StagePlan::Normalize(normalize) => check_normalize(normalize, channels, &place)?,
            StagePlan::Batch(size) => check_batch(*size, facts.train_examples, &place)?,
            StagePlan::Mixup(alpha) | StagePlan::Cutmix(alpha) => {
                number(&place, *alpha, "a number above 0", *alpha > 0.0)?;
            }
        }
        [height, width] = stage.image_size([height, width]);
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

fn check_pixels(size: usize, place: &str) -> Result<(), PlanError> {
    const MOST: usize = 1 << 14;
    if (1..=MOST).contains(&size) {
        return Ok(());
    }
    Err(PlanError::value(place, &format!("1 to {MOST} pixels"), size, ""))
}

fn check_echo(echo: &EchoPlan, place: &str) -> Result<(), PlanError> {
    // Beyond this an epoch's repeats are no longer counted in 32 bits for any real set, and nobody gains.
    const MOST: f64 = 4096.0;
    match echo.factor {
        EchoFactor::Fixed(factor) => {
            let place = if echo.buffer > 0 { format!("{place}.factor") } else { place.to_string() };
            number(&place, factor, "a factor from 1 to 4096", (1.0..=MOST).contains(&factor))
        }
        EchoFactor::Auto { max } => {
            let (place, expected) = (format!("{place}.max"), "2 to 4096 uses");
            number(&place, f64::from(max), expected, (2.0..=MOST).contains(&f64::from(max)))?;
            if echo.buffer > 0 {
                return Err(PlanError::impossible(
                    "auto draws repeats at random already",
                    &place.replace(".max", ".buffer"),
                    "no buffer with factor \"auto\"",
                    echo.buffer,
                    "leave it out",
                ));
            }
            Ok(())
        }
    }
}

fn check_random_resized_crop(crop: &RandomResizedCropPlan, place: &str) -> Result<(), PlanError> {
    check_pixels(crop.size, &format!("{place}.size"))?;
    let [low, high] = crop.scale;
    number(&format!("{place}.scale.0"), low, "a share above 0", low > 0.0)?;
    number(&format!("{place}.scale.1"), high, "a share from the first to 1", low <= high && high <= 1.0)?;
    let [low, high] = crop.ratio;
    number(&format!("{place}.ratio.0"), low, "a number above 0", low > 0.0)?;
    number(&format!("{place}.ratio.1"), high, "a number not below the first", low <= high)
}

fn check_jitter(jitter: &JitterPlan, channels: usize, place: &str) -> Result<(), PlanError> {
    let strengths = [("brightness", jitter.brightness), ("contrast", jitter.contrast)];
    for (key, value) in strengths.into_iter().chain([("saturation", jitter.saturation)]) {
        number(&format!("{place}.{key}"), value, "a number from 0 to 1", (0.0..=1.0).contains(&value))?;
    }
    let hue = jitter.hue;
    number(&format!("{place}.hue"), hue, "a share of the circle from 0 to 0.5", (0.0..=0.5).contains(&hue))?;
    if channels != 3 && (jitter.saturation > 0.0 || hue > 0.0) {
        return Err(PlanError::impossible(
            "images have no colour",
            place,
            "3 channels for saturation and hue",
            channels,
            "set both to 0",
        ));
    }
    Ok(())
}

fn check_crop(crop: &CropPlan, [height, width]: [usize; 2], place: &str) -> Result<(), PlanError> {
    if crop.size == 0 {
        return Err(PlanError::value(&format!("{place}.size"), "at least 1 pixel", 0, ""));
    }
    let side = height.min(width);
    if side == 0 {
        return Err(PlanError::impossible(
            "images have sizes of their own",
            place,
            "images of one size",
            "sizes that differ",
            "put resize and center-crop, or random-resized-crop, before it",
        ));
    }
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
