//! Errors, printed once: as a chain for people, as one object for machines. Exit codes: 1 error, 2 usage.

use clap::error::ErrorKind;
use serde_json::json;
use sooner_engine::EngineError;
use sooner_models::ModelError;
use sooner_pipeline::PipelineError;
use sooner_plan::{Complaint, PlanError};
use sooner_record::{PLAN_FILE, RecordError, WEIGHTS_FILE};
use sooner_study::{Fault, StudyError};
use sooner_train::{Misfit, ResumeError, TrainError};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
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

    /// The user ended the process before there was anything to keep: exit code 130.
    pub(crate) fn interrupted() -> Failure {
        let fields = ["a run to begin", "Ctrl-C while data were read", "nothing was written"];
        Failure { code: 130, ..Failure::usage("interrupted before the run began", "sooner train", fields) }
    }

    /// Whether an error says that the user ended the process.
    pub(crate) fn is_interruption(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == 130)
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
        let printed = error.print();
        // What stderr does not take changes nothing; a help text that nobody gets is a result lost.
        if !error.use_stderr() {
            crate::out::note(printed);
        }
    }
    ExitCode::from(error.exit_code() as u8)
}

/// The arguments as typed; what is no UTF-8 in them is shown as such.
fn typed() -> String {
    let words: Vec<_> = std::env::args_os().skip(1).map(|w| w.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// The most characters of one field, and of a whole message: what was found may be a file's whole content.
const LONGEST_FIELD: usize = 1000;
const LONGEST_TEXT: usize = 4000;

/// A text whose middle is left out where it is long.
fn clipped(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_string();
    }
    let (head, tail) = (most * 3 / 4, most / 5);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start} [{} characters left out] {end}", count - head - tail)
}

/// Says that what was printed did not arrive. A command that went well has failed by that; one that did not keeps its code.
pub(crate) fn lost(error: &io::Error, code: ExitCode) -> ExitCode {
    eprintln!("error: stdout: the result could not be printed: {error}");
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}

/// The error and its causes, those left out that are told by what stands before them.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match &*text {
        "" => cause,
        _ if text.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

/// An error for people: the chain, and what to do next where that does not say it.
fn text(error: &anyhow::Error, complaint: Option<&Complaint>) -> String {
    let text = chain(error);
    match complaint {
        Some(c) if !c.hint.is_empty() && !text.contains(&c.hint) => format!("{text}\nhint: {}", c.hint),
        _ => text,
    }
}

/// Reports an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let (complaint, code) = classify(error);
    eprintln!("error: {}", clipped(&text(error, complaint.as_ref()), LONGEST_TEXT));
    if json {
        let complaint = match complaint {
            Some(c) => json!(Complaint {
                what: clipped(&c.what, LONGEST_FIELD),
                place: clipped(&c.place, LONGEST_FIELD),
                expected: clipped(&c.expected, LONGEST_TEXT),
                found: clipped(&c.found, LONGEST_FIELD),
                hint: clipped(&c.hint, LONGEST_FIELD),
            }),
            None => {
                let what = clipped(&chain(error), LONGEST_TEXT);
                json!({ "what": what, "where": "sooner", "expected": "no error", "found": what, "hint": "" })
            }
        };
        println!("{}", json!({ "error": complaint }));
    }
    ExitCode::from(code)
}

/// The error's five fields, if it has them, and its exit code: what the user asked for and cannot be done is a usage
/// error, what is wrong outside is not.
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
        return Some((record_told(record), 1));
    }
    if let Some(model) = cause.downcast_ref::<ModelError>() {
        return Some(model_told(model));
    }
    if let Some(engine) = cause.downcast_ref::<EngineError>() {
        return Some(engine_told(engine));
    }
    if let Some(misfit) = cause.downcast_ref::<Misfit>() {
        return Some((misfit.complaint(), 1));
    }
    if let Some(resume) = cause.downcast_ref::<ResumeError>() {
        return Some(resume_told(resume));
    }
    match cause.downcast_ref::<TrainError>()? {
        TrainError::Plan(plan) => Some((plan.complaint().clone(), 2)),
        TrainError::Pipeline(pipeline) => Some(pipeline_told(pipeline)),
        TrainError::Record(record) => Some((record_told(record), 1)),
        TrainError::Model(model) => Some(model_told(model)),
        TrainError::Engine(engine) => Some(engine_told(engine)),
        TrainError::Misfit(misfit) => Some((misfit.complaint(), 1)),
        TrainError::Resume(resume) => Some(resume_told(resume)),
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

/// A folder that is no record may hold records, as that of a series over seeds does.
fn record_told(error: &RecordError) -> Complaint {
    let mut complaint = error.complaint();
    let folder = match error {
        RecordError::NoRecord { folder, .. } => Some(folder.as_path()),
        RecordError::Read { path, .. } if path.ends_with(WEIGHTS_FILE) && !path.exists() => path.parent(),
        _ => None,
    };
    if let Some(hint) = folder.and_then(records_within) {
        complaint.hint = hint;
    }
    complaint
}

/// Says which records a folder holds one level below it; none if it holds none.
fn records_within(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut records: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join(PLAN_FILE).is_file()).collect();
    // Those of a series by their numbers.
    records.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    let first = records.first()?.display();
    Some(match records.len() {
        1 => format!("it holds a record, `{first}`: name that"),
        n => format!("it holds {n} records: name one of them, such as `{first}`"),
    })
}

/// Sizes of the plan that do not fit together.
fn model_told(error: &ModelError) -> (Complaint, u8) {
    let told = |what: &str, expected: String, found: String, hint: &str| Complaint {
        what: what.to_string(),
        place: "model".to_string(),
        expected,
        found,
        hint: hint.to_string(),
    };
    let complaint = match error {
        ModelError::Engine(error) => return engine_told(error),
        ModelError::Initial { index, needs, found } => Complaint {
            place: format!("run.initial.{index}"),
            ..told(
                "variables cannot start like this",
                ModelError::initial_needs(*needs),
                found.clone(),
                "narrow the rule by its parameters and prefix",
            )
        },
        ModelError::Group { index, prefix, names } => Complaint {
            place: format!("optimizer.groups.{index}.prefix"),
            ..told(
                "group holds no variable",
                "the beginning of the name of a trained variable of its role".to_string(),
                format!("`{prefix}`"),
                &format!("trained are {}", names.join(", ")),
            )
        },
        ModelError::Input { model, input, source } => told(
            "network cannot take its input",
            format!("sizes of `{model}` that fit examples of shape {input}"),
            source.to_string(),
            "change the model's sizes, or crop or pad the images",
        ),
        ModelError::Logits { model, expected, found } => told(
            "network gives no logits",
            format!("{expected} from `{model}` for one example, one number a class"),
            found.to_string(),
            "end it with a linear layer",
        ),
        ModelError::Unseeded { model } => told(
            "network is random and has no seed",
            format!("`{model}` with the plan's seed"),
            "none".to_string(),
            "call `Model::trained_by`",
        ),
    };
    (complaint, 2)
}

fn resume_told(error: &ResumeError) -> (Complaint, u8) {
    let code = if matches!(error, ResumeError::Over { .. }) { 2 } else { 1 };
    (error.complaint(), code)
}

fn engine_told(error: &EngineError) -> (Complaint, u8) {
    let (place, expected, found) = match error {
        EngineError::Shapes { op, expected, found } => {
            (op.to_string(), expected.to_string(), format!("shapes {found:?}"))
        }
        EngineError::Size { what, expected, found } => {
            (what.clone(), format!("{expected} values"), format!("{found}"))
        }
        EngineError::Label { example, label, classes } => {
            (format!("example {example} of a batch"), format!("a label below {classes}"), label.to_string())
        }
        EngineError::Kernels { wanted } => {
            ("engine".to_string(), "kernels that this machine can execute".to_string(), wanted.to_string())
        }
        other => ("engine".to_string(), "a program that can be built".to_string(), other.to_string()),
    };
    (*Failure::world("engine cannot run this", &place, [&expected, &found, ""]).complaint, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As people read it.
    fn told_as(error: impl Into<anyhow::Error>) -> String {
        let error = error.into();
        text(&error, classify(&error).0.as_ref())
    }

    #[test]
    fn causes_are_told_once_and_hints_too() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let path = PathBuf::from("a");
        let read = told_as(RecordError::Read { path: path.clone(), source: denied() });
        assert_eq!(
            read,
            "cannot read a: permission denied\nhint: look at its permissions and those of its folder"
        );
        let read = told_as(PipelineError::Read { path: path.clone(), source: denied() });
        assert_eq!(read.matches("permission denied").count(), 1, "{read}");
        let damaged = told_as(RecordError::Damaged { path: path.clone() });
        assert!(
            damaged.ends_with("\nhint: restore it from a copy, or remove it to start the run over"),
            "{damaged}"
        );
        let exists = told_as(RecordError::Exists { folder: path, file: "plan.toml" });
        assert_eq!(exists.matches("choose another folder").count(), 1, "{exists}");
        let context = anyhow::Error::new(denied()).context("cannot read b");
        assert_eq!(told_as(context), "cannot read b: permission denied");
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(clipped("short", 5), "short");
        let long: String = ('a'..='z').cycle().take(1001).collect();
        let shown = clipped(&long, 1000);
        assert!(shown.starts_with("abc") && shown.ends_with(&long[990..]) && shown.len() < 1000, "{shown}");
        assert!(shown.contains("[51 characters left out]"), "{shown}");
        assert_eq!(
            clipped(&"ä".repeat(30), 20),
            format!("{0} [11 characters left out] {1}", "ä".repeat(15), "ä".repeat(4))
        );
    }

    /// Every kind of error tells all five fields, also below a context, and has its exit code.
    fn check(error: impl Into<anyhow::Error>, code: u8) {
        let error = error.into().context("while training");
        let (complaint, found) = classify(&error);
        let complaint = complaint.expect("five fields");
        assert_eq!(found, code, "{complaint}");
        let fields = [&complaint.what, &complaint.place, &complaint.expected, &complaint.found];
        assert!(fields.iter().all(|field| !field.is_empty()), "{complaint:?}");
    }

    #[test]
    fn errors_tell_five_fields() {
        let plan_error = || sooner_plan::Plan::parse("name = 1").unwrap_err();
        let missing = || RecordError::NoRecord { folder: PathBuf::from("runs/x"), file: "plan.toml" };
        let engine = || EngineError::Kernels { wanted: "avx512" };
        check(plan_error(), 2);
        check(TrainError::Plan(plan_error()), 2);
        check(PipelineError::Plan(plan_error()), 2);
        check(TrainError::Pipeline(PipelineError::Plan(plan_error())), 2);
        check(PipelineError::Panicked { batch: 3, message: "m".into() }, 1);
        check(missing(), 1);
        check(TrainError::Record(missing()), 1);
        check(engine(), 1);
        check(TrainError::from(ModelError::Engine(engine())), 1);
        let shapes = EngineError::Shapes { op: "conv2d", expected: "[N, H, W, C]", found: vec![] };
        check(ModelError::Input { model: "resnet8".into(), input: [1, 1, 1].into(), source: shapes }, 2);
        check(ModelError::Group { index: 0, prefix: "head".into(), names: vec!["linear.bias".into()] }, 2);
        check(ModelError::Initial { index: 0, needs: 4, found: "`linear.weight` [2, 2]".into() }, 2);
        check(ResumeError::Over { end: 1.0, at: 2.0 }, 2);
        check(TrainError::Resume(ResumeError::Place { expected: (0, 1), found: (1, 0) }), 1);
        let misfit = Misfit {
            path: PathBuf::from("w"),
            missing: vec!["a".into()],
            extra: vec![],
            shapes: vec![],
            unmatched: vec![],
        };
        check(TrainError::Misfit(misfit), 1);
    }
}
