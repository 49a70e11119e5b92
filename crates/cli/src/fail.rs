//! Errors, printed once: as a chain for people, as one object for machines. Exit codes: 1 error, 2 usage.

use clap::error::ErrorKind;
use serde_json::json;
use sooner_models::ModelError;
use sooner_pipeline::PipelineError;
use sooner_plan::{Complaint, PlanError};
use sooner_record::RecordError;
use sooner_study::{Fault, StudyError};
use sooner_train::TrainError;
use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// A complaint that the command line itself makes.
#[derive(Debug)]
pub(crate) struct Failure {
    complaint: Box<Complaint>,
    code: u8,
}

impl Failure {
    /// The user asked for something that does not exist or does not go together: exit code 2.
    pub(crate) fn usage(what: &str, place: &str, [expected, found, hint]: [&str; 3]) -> Failure {
        let complaint = Box::new(Complaint {
            what: what.to_string(),
            place: place.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
            hint: hint.to_string(),
        });
        Failure { complaint, code: 2 }
    }

    /// Something outside is not as it should be, a file or a server: exit code 1.
    pub(crate) fn world(what: &str, place: &str, fields: [&str; 3]) -> Failure {
        Failure { code: 1, ..Failure::usage(what, place, fields) }
    }

    /// The same about a study's input; questions that make no sense are usage errors, malformed files are not.
    fn study(error: &StudyError) -> Failure {
        let Fault { place, expected, found, hint } = error.fault();
        let failure = Failure::world(error.what(), place, [expected, found, hint]);
        match error {
            StudyError::DawnBench(_) | StudyError::BatchScience(_) | StudyError::Estimate(_) => failure,
            _ => Failure { code: 2, ..failure },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.complaint.fmt(f)
    }
}

impl Error for Failure {}

/// Reports what clap could not parse; help and version are no errors.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let what = match error.kind() {
            // Then the text is the help.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing",
            _ => text.lines().next().unwrap_or_default().trim_start_matches("error: "),
        };
        let complaint = json!({
            "what": what, "where": "arguments", "expected": "arguments as in `sooner --help`",
            "found": typed(), "hint": "see `sooner --help`",
        });
        println!("{}", json!({ "error": complaint }));
    } else {
        // A closed pipe on the other side is no reason to fail again.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}

/// The arguments as typed; what is no UTF-8 in them is shown as such.
fn typed() -> String {
    let words: Vec<_> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Reports an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let (complaint, code) = classify(error);
    eprintln!("error: {error:#}");
    if json {
        let complaint = match complaint {
            Some(c) => json!(c),
            None => {
                let what = format!("{error:#}");
                json!({ "what": what, "where": "sooner", "expected": "no error", "found": what, "hint": "" })
            }
        };
        println!("{}", json!({ "error": complaint }));
    }
    ExitCode::from(code)
}

/// The error's five fields, if it has them, and its exit code: a plan that cannot be used is a usage error.
fn classify(error: &anyhow::Error) -> (Option<Complaint>, u8) {
    match error.chain().find_map(told) {
        Some((complaint, code)) => (Some(complaint), code),
        None => (None, 1),
    }
}

/// What one link of the chain can tell. Transparent errors pass over what they hold, so it is asked here.
fn told(cause: &(dyn Error + 'static)) -> Option<(Complaint, u8)> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(((*failure.complaint).clone(), failure.code));
    }
    if let Some(study) = cause.downcast_ref::<StudyError>() {
        let failure = Failure::study(study);
        return Some((*failure.complaint, failure.code));
    }
    if let Some(plan) = cause.downcast_ref::<PlanError>() {
        return Some((plan.complaint().clone(), 2));
    }
    if let Some(pipeline) = cause.downcast_ref::<PipelineError>() {
        return Some(pipeline_told(pipeline));
    }
    if let Some(record) = cause.downcast_ref::<RecordError>() {
        return Some((record.complaint(), 1));
    }
    if let Some(model) = cause.downcast_ref::<ModelError>() {
        return model_told(model);
    }
    match cause.downcast_ref::<TrainError>()? {
        TrainError::Plan(plan) => Some((plan.complaint().clone(), 2)),
        TrainError::Pipeline(pipeline) => Some(pipeline_told(pipeline)),
        TrainError::Record(record) => Some((record.complaint(), 1)),
        TrainError::Model(model) => model_told(model),
        _ => None,
    }
}

/// What the plan asks of the pipeline or the data and they cannot give is a usage error.
fn pipeline_told(error: &PipelineError) -> (Complaint, u8) {
    let usage = matches!(
        error,
        PipelineError::Plan(_)
            | PipelineError::Count { .. }
            | PipelineError::Stage { .. }
            | PipelineError::Budget { .. }
    );
    (error.complaint(), if usage { 2 } else { 1 })
}

/// Sizes of the plan that do not fit together.
fn model_told(error: &ModelError) -> Option<(Complaint, u8)> {
    let ModelError::Input { model, input, source } = error else { return None };
    let complaint = Complaint {
        what: "network cannot take its input".to_string(),
        place: "model".to_string(),
        expected: format!("sizes of `{model}` that fit examples of shape {input}"),
        found: source.to_string(),
        hint: "change the model's sizes, or crop or pad the images".to_string(),
    };
    Some((complaint, 2))
}
