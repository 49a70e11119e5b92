//! The data section.

use crate::words::word;
use crate::{DataFacts, DataKind, DataPlan, PlanError};

pub(crate) fn check(data: &DataPlan, facts: &DataFacts) -> Result<(), PlanError> {
    let kind = word(&data.kind);
    match &data.path {
        Some(path) if !data.kind.has_files() => {
            return Err(PlanError::impossible(
                "data drawn by code have no folder",
                "data.path",
                format_args!("no path with kind \"{kind}\""),
                format_args!("\"{path}\""),
                "leave --data out, or choose a workload that reads files",
            ));
        }
        Some(path) if path.is_empty() => {
            return Err(PlanError::value("data.path", "a folder", "an empty text", ""));
        }
        _ => {}
    }
    if data.train == Some(0) {
        return Err(PlanError::value(
            "data.train",
            "at least 1 example",
            0,
            "leave the key out to train on all",
        ));
    }
    check_own_files(data, &kind)?;
    // Only of these do the files' sizes bound what may be asked for.
    if data.kind.file_examples().is_none() {
        return Ok(());
    }
    let (left, test) = (facts.train_examples, facts.test_examples);
    let train = left + facts.val_examples;
    let of_files = |n: usize, split: &str| format!("the {n} {split} examples of {kind}");
    if left == 0 {
        return Err(PlanError::impossible(
            "validation leaves nothing to train on",
            "data.validation",
            format_args!("fewer than {}", of_files(train, "training")),
            data.validation,
            "",
        ));
    }
    if data.train.is_some_and(|n| n > left) {
        return Err(PlanError::impossible(
            "the plan wants more examples than there are",
            "data.train",
            format_args!("at most the {left} training examples that validation leaves of {train}"),
            data.train.unwrap_or(0),
            "",
        ));
    }
    if data.test.is_some_and(|n| n > test) {
        return Err(PlanError::impossible(
            "the plan wants more examples than there are",
            "data.test",
            format_args!("at most {}", of_files(test, "test")),
            data.test.unwrap_or(0),
            "",
        ));
    }
    Ok(())
}

/// Keys that only some kinds have, and what they may hold.
fn check_own_files(data: &DataPlan, kind: &str) -> Result<(), PlanError> {
    let only = |place: &str, kinds: &str| {
        let expected = format_args!("no such key with kind \"{kind}\"").to_string();
        let hint = format!("it is for the kinds {kinds}");
        Err(PlanError::impossible(
            "these data have nothing to apply the key to",
            place,
            expected,
            "a value",
            &hint,
        ))
    };
    if !data.kind.has_own_sizes() {
        if data.classes.is_some() {
            return only("data.classes", "image-folder and webdataset");
        }
        if data.images.is_some() {
            return only("data.images", "image-folder and webdataset");
        }
    }
    if data.kind != DataKind::Webdataset && data.shards.is_some() {
        return only("data.shards", "webdataset");
    }
    if data.rate_bytes()?.is_some_and(|rate| rate.0 == 0) {
        return Err(PlanError::value(
            "data.rate",
            "at least 1 byte a second",
            0,
            "leave the key out for no limit",
        ));
    }
    if let Some(classes) = data.classes
        && !(1..=1_000_000).contains(&classes)
    {
        return Err(PlanError::value("data.classes", "1 to 1000000 classes", classes, ""));
    }
    let images = data.images();
    if ![1, 3].contains(&images.channels) {
        return Err(PlanError::value("data.images.channels", "1 or 3", images.channels, ""));
    }
    match images.size {
        Some(size) if !(1..=4096).contains(&size) => {
            Err(PlanError::value("data.images.size", "1 to 4096 pixels", size, ""))
        }
        _ => Ok(()),
    }
}
