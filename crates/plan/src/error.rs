//! What can be wrong with a plan, as data: a person reads the message, a program the fields.

use serde::Serialize;
use std::fmt;

/// One thing that is wrong, in the five fields that every error of the project can be told in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Complaint {
    /// What is wrong, in a few words.
    pub what: String,
    /// Where: a key, a place in a file, an option.
    #[serde(rename = "where")]
    pub place: String,
    /// What would have been right.
    pub expected: String,
    /// What there is instead.
    pub found: String,
    /// What to do next; empty if nothing more can be said.
    pub hint: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: expected {}, found {}", self.place, self.what, self.expected, self.found)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {}", self.hint) }
    }
}

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text is not TOML.
    #[error("{0}")]
    Syntax(Box<Complaint>),
    /// A key that means nothing where it stands.
    #[error("{complaint}")]
    UnknownKey {
        /// The five fields; its hint names the nearest key.
        complaint: Box<Complaint>,
        /// The legal key most like it.
        nearest: Option<String>,
        /// Every legal key there.
        keys: Vec<String>,
    },
    /// A key that has to be there is not.
    #[error("{0}")]
    MissingKey(Box<Complaint>),
    /// A value of the wrong form, or outside its range.
    #[error("{0}")]
    Value(Box<Complaint>),
    /// Two settings decide the same thing.
    #[error("{0}")]
    Overlap(Box<Complaint>),
    /// Values that are fine alone and impossible together.
    #[error("{0}")]
    Impossible(Box<Complaint>),
}

impl PlanError {
    /// The five fields.
    pub fn complaint(&self) -> &Complaint {
        match self {
            PlanError::UnknownKey { complaint, .. } => complaint,
            PlanError::Syntax(c)
            | PlanError::MissingKey(c)
            | PlanError::Value(c)
            | PlanError::Overlap(c)
            | PlanError::Impossible(c) => c,
        }
    }

    /// The same error, its place preceded by the name of the file that the plan was read from.
    pub fn in_file(mut self, name: &str) -> PlanError {
        let complaint = match &mut self {
            PlanError::UnknownKey { complaint, .. } => complaint,
            PlanError::Syntax(c)
            | PlanError::MissingKey(c)
            | PlanError::Value(c)
            | PlanError::Overlap(c)
            | PlanError::Impossible(c) => c,
        };
        complaint.place = format!("{name}: {}", complaint.place);
        self
    }

    pub(crate) fn value(place: &str, expected: &str, found: impl fmt::Display, hint: &str) -> PlanError {
        PlanError::Value(complain("value cannot be used", place, expected, found, hint))
    }

    pub(crate) fn impossible(
        what: &str,
        place: &str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
        hint: &str,
    ) -> PlanError {
        PlanError::Impossible(complain(what, place, expected, found, hint))
    }
}

pub(crate) fn complain(
    what: &str,
    place: &str,
    expected: impl fmt::Display,
    found: impl fmt::Display,
    hint: &str,
) -> Box<Complaint> {
    Box::new(Complaint {
        what: what.to_string(),
        place: place.to_string(),
        expected: expected.to_string(),
        found: found.to_string(),
        hint: hint.to_string(),
    })
}
