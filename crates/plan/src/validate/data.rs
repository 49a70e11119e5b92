//! The data section.

use crate::words::word;
use crate::{DataPlan, PlanError};

pub(crate) fn check(data: &DataPlan) -> Result<(), PlanError> {
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
    let Some((train, test)) = data.kind.file_examples() else {
        return Ok(());
    };
    let of_files = |n: usize, split: &str| format!("the {n} {split} examples of {kind}");
    if data.validation >= train {
        return Err(PlanError::impossible(
            "validation leaves nothing to train on",
            "data.validation",
            format_args!("fewer than {}", of_files(train, "training")),
            data.validation,
            "",
        ));
    }
    let left = train - data.validation;
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
