//! Errors, printed once: as a chain for people, as one object for machines. Exit codes: 1 error, 2 usage.

use serde_json::json;
use sooner_plan::{Complaint, PlanError};
use sooner_study::{Fault, StudyError};
use sooner_train::TrainError;
use std::fmt;
use std::process::ExitCode;

/// A complaint that the command line itself makes.
#[derive(Debug)]
pub(crate) struct Failure {
    complaint: Complaint,
    code: u8,
}

impl Failure {
    /// The user asked for something that does not exist or does not go together: exit code 2.
    pub(crate) fn usage(what: &str, place: &str, [expected, found, hint]: [&str; 3]) -> Failure {
        let complaint = Complaint {
            what: what.to_string(),
            place: place.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
            hint: hint.to_string(),
        };
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

impl std::error::Error for Failure {}

/// Reports what clap could not parse; help and version are no errors.
pub(crate) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let complaint = json!({
            "what": what, "where": "arguments", "expected": "arguments as in `sooner --help`",
            "found": std::env::args().skip(1).collect::<Vec<_>>().join(" "), "hint": "see `sooner --help`",
        });
        println!("{}", json!({ "error": complaint }));
    } else {
        // A closed pipe on the other side is no reason to fail again.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Reports an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let (complaint, code) = classify(error);
    eprintln!("error: {error:#}");
    if json {
        let complaint = match complaint {
            Some(c) => json!(c),
            None => {
                json!({ "what": format!("{error:#}"), "where": "", "expected": "", "found": "", "hint": "" })
            }
        };
        println!("{}", json!({ "error": complaint }));
    }
    ExitCode::from(code)
}

/// The error's five fields, if it has them, and its exit code: a plan that cannot be used is a usage error.
fn classify(error: &anyhow::Error) -> (Option<Complaint>, u8) {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return (Some(failure.complaint.clone()), failure.code);
        }
        if let Some(study) = cause.downcast_ref::<StudyError>() {
            let failure = Failure::study(study);
            return (Some(failure.complaint), failure.code);
        }
        if let Some(plan) = cause.downcast_ref::<PlanError>() {
            return (Some(plan.complaint().clone()), 2);
        }
        if let Some(TrainError::Plan(plan)) = cause.downcast_ref::<TrainError>() {
            return (Some(plan.complaint().clone()), 2);
        }
    }
    (None, 1)
}
