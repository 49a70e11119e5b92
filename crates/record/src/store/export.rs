//! A study as one text: JSON lines, the definition first and then one line for each finished trial, so that a study can
//! outlive its machine, be compared by eye, and be read by anything.

use super::{StoredStudy, StoredTrial, TrialState};
use crate::RecordError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The version of the export that this crate writes, and the newest that it reads.
pub const STUDY_FORMAT: u32 = 1;

/// A study and its finished trials.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyExport {
    /// The definition.
    pub study: StoredStudy,
    /// Its finished trials, by point and number.
    pub trials: Vec<StoredTrial>,
}

#[derive(Serialize, Deserialize)]
struct First {
    format: u32,
    #[serde(flatten)]
    study: StoredStudy,
}

impl StudyExport {
    /// Leaves out what is still running.
    pub fn new(study: StoredStudy, mut trials: Vec<StoredTrial>) -> StudyExport {
        trials.retain(|trial| trial.state != TrialState::Running);
        StudyExport { study, trials }
    }

    /// The text.
    pub fn to_text(&self) -> String {
        let line =
            |value: serde_json::Result<String>| value.expect("studies hold nothing that JSON cannot") + "\n";
        let first = First { format: STUDY_FORMAT, study: self.study.clone() };
        let mut text = line(serde_json::to_string(&first));
        for trial in &self.trials {
            text.push_str(&line(serde_json::to_string(trial)));
        }
        text
    }

    /// Reads the text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<StudyExport, RecordError> {
        let mut byte = 0;
        let mut export: Option<StudyExport> = None;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let malformed = |reason: serde_json::Error| RecordError::Line {
                path: path.to_path_buf(),
                line: index + 1,
                byte,
                reason: reason.to_string(),
            };
            match &mut export {
                None => {
                    let first: First = serde_json::from_str(line).map_err(malformed)?;
                    if first.format > STUDY_FORMAT {
                        return Err(RecordError::Newer {
                            path: path.to_path_buf(),
                            found: first.format.to_string(),
                            known: STUDY_FORMAT.to_string(),
                        });
                    }
                    export = Some(StudyExport { study: first.study, trials: Vec::new() });
                }
                Some(export) => export.trials.push(serde_json::from_str(line).map_err(malformed)?),
            }
            byte += line.len();
        }
        export.ok_or_else(|| RecordError::Store { path: path.to_path_buf(), reason: "it is empty".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::contract::{study, trial};
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        let mut finished = trial(0, 3, TrialState::Diverged);
        finished.parameters.insert("learning_rate".into(), 0.1 + 0.2);
        finished.evaluations[0].metrics.insert("val.loss".into(), f64::INFINITY);
        let export = StudyExport::new(study(2), vec![finished, trial(1, 0, TrialState::Running)]);
        assert_eq!(export.trials.len(), 1, "what is running is no result");
        let text = export.to_text();
        assert!(text.contains(r#""val.loss":null"#), "{text}");
        let back = StudyExport::parse(&text, Path::new("x.jsonl")).unwrap();
        assert_eq!(back.study, export.study);
        assert_eq!(back.trials[0].parameters, export.trials[0].parameters);
        assert!(back.trials[0].evaluations[0].metrics["val.loss"].is_nan());
        assert_eq!(back.to_text(), text);
    }

    #[test]
    fn says_where_it_is_damaged() {
        let text = StudyExport::new(study(1), vec![trial(0, 0, TrialState::Complete)]).to_text();
        let cut = &text[..text.len() - 10];
        let error = StudyExport::parse(cut, Path::new("x.jsonl")).unwrap_err();
        assert!(matches!(error, RecordError::Line { line: 2, .. }), "{error}");
        let newer = text.replacen("\"format\":1", "\"format\":9", 1);
        assert!(matches!(StudyExport::parse(&newer, Path::new("x")), Err(RecordError::Newer { .. })));
        assert!(StudyExport::parse("", Path::new("x")).is_err());
    }
}
