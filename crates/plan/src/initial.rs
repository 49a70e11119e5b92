//! How variables start, where not as the network's family has it.

use crate::{GroupMatch, PlanError};
use serde::{Deserialize, Serialize};

/// A choice of variables and how they start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitialPlan {
    /// Which variables; the first rule that holds one decides.
    pub parameters: GroupMatch,
    /// Only those whose names start like this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// How they start.
    pub kind: InitialKind,
    /// Multiplies orthogonal matrices; 1 if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
}

/// How variables start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitialKind {
    /// Normal, with a variance of 2 over the number of inputs.
    HeNormal,
    /// Normal, with a variance of 1 over the number of inputs.
    LecunNormal,
    /// Uniform within 1 over the root of the number of inputs.
    TorchUniform,
    /// Random matrices of orthonormal rows or columns.
    Orthogonal,
    /// Convolutions that pass on their channels; filters beyond them are zero.
    Dirac,
    /// The same, with filters beyond them as `torch-uniform`.
    DiracUniform,
    /// Zero.
    Zero,
}

pub(crate) fn check(rules: &[InitialPlan]) -> Result<(), PlanError> {
    for (i, rule) in rules.iter().enumerate() {
        let Some(gain) = rule.gain else { continue };
        let place = format!("run.initial.{i}.gain");
        if rule.kind != InitialKind::Orthogonal {
            return Err(PlanError::impossible(
                "key of another kind",
                &place,
                "none but with kind \"orthogonal\"",
                gain,
                "leave it out",
            ));
        }
        if !(gain.is_finite() && gain > 0.0) {
            return Err(PlanError::value(&place, "a number above 0", format_args!("{gain:?}"), ""));
        }
    }
    Ok(())
}
