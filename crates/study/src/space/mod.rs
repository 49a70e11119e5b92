//! Search spaces: which metaparameters a study tunes, over which ranges and on which scales; and the check that the best
//! trial does not lie at an edge, which would fake an early end of perfect scaling.

mod edges;
mod range;

pub use edges::{Edge, Side};
pub use range::{Range, Scale};

use crate::error::{Fault, StudyError};
use serde::{Deserialize, Serialize};

/// One metaparameter of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name, for example `learning_rate`.
    pub name: String,
    /// Its values.
    pub range: Range,
    /// The lowest value that makes sense at all; widening stops there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// The highest value that makes sense at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
}

/// The metaparameters of a study, checked: every range can be searched and no name comes twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    parameters: Vec<Parameter>,
}

impl Space {
    /// Err names the parameter whose range cannot be searched, or whose name comes twice or is empty.
    pub fn new(parameters: Vec<Parameter>) -> Result<Space, StudyError> {
        for (i, parameter) in parameters.iter().enumerate() {
            let Parameter { name, range, floor, ceiling } = parameter;
            if name.is_empty() {
                return Err(StudyError::Space(Fault::new(format!("parameter {}", i + 1), "a name", "none")));
            }
            if parameters[..i].iter().any(|other| other.name == *name) {
                return Err(StudyError::Space(Fault::new(name, "each parameter once", "two of this name")));
            }
            range.check(name).map_err(StudyError::Space)?;
            let (low, high) = range.ends();
            if let Some(floor) = floor.filter(|floor| floor.is_nan() || *floor > low) {
                let expected = format!("no value below {floor}, its floor");
                return Err(StudyError::Space(Fault::new(name, expected, low)));
            }
            if let Some(ceiling) = ceiling.filter(|ceiling| ceiling.is_nan() || *ceiling < high) {
                let expected = format!("no value above {ceiling}, its ceiling");
                return Err(StudyError::Space(Fault::new(name, expected, high)));
            }
        }
        Ok(Space { parameters })
    }

    /// The parameters, in the order of a point's coordinates.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The values at a point of the unit cube, one coordinate for each parameter. Panics for another number of them.
    pub fn values(&self, point: &[f64]) -> Vec<f64> {
        assert_eq!(point.len(), self.parameters.len(), "a point of another space");
        self.parameters.iter().zip(point).map(|(parameter, unit)| parameter.range.value(*unit)).collect()
    }

    /// The place of each value in the unit cube: outside of [0, 1] beyond the range, `None` where it has none. A whole
    /// number's place counts from the first at 0 to the last at 1, a discrete value's is the middle of its share.
    pub fn place(&self, values: &[f64]) -> Vec<Option<f64>> {
        assert_eq!(values.len(), self.parameters.len(), "values of another space");
        self.parameters.iter().zip(values).map(|(parameter, value)| parameter.range.unit(*value)).collect()
    }
}

#[cfg(test)]
mod tests;
