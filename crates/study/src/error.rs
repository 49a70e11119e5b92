//! What can be wrong with what a study is given.

use std::fmt;

/// Where something is wrong, what was expected there, what was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The parameter, key, or file and line.
    pub place: String,
    /// What would have been right.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// What to do next; empty if `expected` says it all.
    pub hint: String,
}

impl Fault {
    /// A fault without a hint.
    pub(crate) fn new(
        place: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Fault {
        Fault {
            place: place.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
            hint: String::new(),
        }
    }

    /// The same with advice.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Fault {
        self.hint = hint.to_string();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.place, self.expected, self.found)?;
        if !self.hint.is_empty() {
            write!(f, " (hint: {})", self.hint)?;
        }
        Ok(())
    }
}

/// What a study was asked to do and cannot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.what(), self.fault())]
#[non_exhaustive]
pub enum StudyError {
    /// A study's file that cannot be used.
    Definition(Fault),
    /// A search space that cannot be searched.
    Space(Fault),
    /// A sequence of points that cannot be drawn.
    Points(Fault),
    /// A target that cannot be read.
    Target(Fault),
    /// Too little or unusable data for an estimate.
    Estimate(Fault),
    /// A noisy quadratic model that makes no sense.
    Nqm(Fault),
    /// A file of the batch-science layout that cannot be read.
    BatchScience(Fault),
    /// A DAWNBench table that cannot be read.
    DawnBench(Fault),
}

impl StudyError {
    /// What is wrong, in a few words.
    pub fn what(&self) -> &'static str {
        match self {
            StudyError::Definition(_) => "impossible study",
            StudyError::Space(_) => "impossible search space",
            StudyError::Points(_) => "impossible sequence of points",
            StudyError::Target(_) => "malformed target",
            StudyError::Estimate(_) => "no estimate",
            StudyError::Nqm(_) => "impossible noisy quadratic model",
            StudyError::BatchScience(_) => "malformed batch-science data",
            StudyError::DawnBench(_) => "malformed DAWNBench table",
        }
    }

    /// The parts of the message, for callers that print them one by one.
    pub fn fault(&self) -> &Fault {
        match self {
            StudyError::Definition(fault)
            | StudyError::Space(fault)
            | StudyError::Points(fault)
            | StudyError::Target(fault)
            | StudyError::Estimate(fault)
            | StudyError::Nqm(fault)
            | StudyError::BatchScience(fault)
            | StudyError::DawnBench(fault) => fault,
        }
    }
}
