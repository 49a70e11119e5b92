//! Scales and ranges: from a place in [0, 1] to a value, and back.

use crate::error::Fault;
use serde::{Deserialize, Serialize};

/// The scale on which a range is searched evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly in the value.
    Linear,
    /// Evenly in the value's logarithm.
    Log,
    /// Evenly in the logarithm of 1 - value: for momentum, whose effect goes as 1 / (1 - momentum).
    OneMinusLog,
}

/// The values a metaparameter may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Range {
    /// Any number from `min` to `max`.
    Real {
        /// The lowest value.
        min: f64,
        /// The highest value.
        max: f64,
        /// How they are spread.
        scale: Scale,
    },
    /// Any whole number from `min` to `max`, ends included.
    Integer {
        /// The lowest value.
        min: i64,
        /// The highest value.
        max: i64,
        /// How they are spread; `OneMinusLog` is impossible here.
        scale: Scale,
    },
    /// One of a few values, equally often.
    Discrete {
        /// The values.
        values: Vec<f64>,
    },
}

/// The largest whole number up to which all are exact as doubles.
const EXACT: i64 = 1 << 53;

impl Scale {
    /// The coordinate in which the scale is even, rising with the value.
    pub(super) fn even(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.ln(),
            // ln_1p keeps values near 0 apart.
            Scale::OneMinusLog => -(-value).ln_1p(),
        }
    }

    pub(super) fn value(self, even: f64) -> f64 {
        match self {
            Scale::Linear => even,
            Scale::Log => even.exp(),
            Scale::OneMinusLog => -(-even).exp_m1(),
        }
    }

    /// Whether `value` has a finite coordinate.
    fn admits(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Scale::Linear => true,
                Scale::Log => value > 0.0,
                Scale::OneMinusLog => value < 1.0,
            }
    }

    fn limits(self) -> &'static str {
        match self {
            Scale::Linear => "finite numbers",
            Scale::Log => "finite numbers above 0 on a log scale",
            Scale::OneMinusLog => "finite numbers below 1 on a one-minus-log scale",
        }
    }
}

impl Range {
    /// What the range may not be, as a fault at `place`.
    pub(super) fn check(&self, place: &str) -> Result<(), Fault> {
        let rising = |min: &dyn std::fmt::Display, max: &dyn std::fmt::Display| {
            Fault::new(place, "min below max", format!("{min} to {max}"))
                .hint("one value: use a discrete range of it")
        };
        match self {
            Range::Real { min, max, scale } => {
                if let Some(bad) = [min, max].into_iter().find(|v| !scale.admits(**v)) {
                    return Err(Fault::new(place, scale.limits(), bad));
                }
                // Also true of ends whose distance overflows or vanishes on the scale.
                let width = scale.even(*max) - scale.even(*min);
                if !(width > 0.0 && width.is_finite()) { Err(rising(min, max)) } else { Ok(()) }
            }
            Range::Integer { min, max, scale } => {
                if *scale == Scale::OneMinusLog {
                    let found = "one-minus-log";
                    return Err(Fault::new(place, "a linear or log scale for whole numbers", found));
                }
                if let Some(bad) = [min, max].into_iter().find(|v| **v < -EXACT || **v > EXACT) {
                    return Err(Fault::new(place, "whole numbers within 2^53", bad));
                }
                if *scale == Scale::Log && *min < 1 {
                    return Err(Fault::new(place, "whole numbers from 1 on a log scale", min));
                }
                if min < max { Ok(()) } else { Err(rising(min, max)) }
            }
            Range::Discrete { values } => {
                if values.is_empty() {
                    return Err(Fault::new(place, "at least one value", "none"));
                }
                if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
                    return Err(Fault::new(place, "finite values", bad));
                }
                let repeated = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v));
                match repeated {
                    Some((_, value)) => Err(Fault::new(place, "different values", format!("{value} twice"))),
                    None => Ok(()),
                }
            }
        }
    }

    /// The value at `unit` in [0, 1], never outside the range.
    pub(super) fn value(&self, unit: f64) -> f64 {
        // 0 and 1 give the ends themselves; rounding may not carry anything past them.
        let unit = unit.clamp(0.0, 1.0);
        match self {
            Range::Real { min, max, .. } if unit == 0.0 || min == max => *min,
            Range::Real { max, .. } if unit == 1.0 => *max,
            Range::Real { min, max, scale } => {
                let (low, high) = (scale.even(*min), scale.even(*max));
                scale.value(low + unit * (high - low)).clamp(*min, *max)
            }
            Range::Integer { min, max, scale } => {
                // Each number stands for the stretch up to the next.
                let (low, high) = (scale.even(*min as f64), scale.even(*max as f64 + 1.0));
                scale.value(low + unit * (high - low)).floor().clamp(*min as f64, *max as f64)
            }
            Range::Discrete { values } => {
                values[((unit * values.len() as f64) as usize).min(values.len() - 1)]
            }
        }
    }

    /// Where a value lies, in [0, 1] on the scale; outside of it for a value outside the range. `None` if there is no
    /// such place: off the scale, or not one of the discrete values.
    pub(super) fn unit(&self, value: f64) -> Option<f64> {
        match self {
            Range::Real { min, max, scale } => scale.admits(value).then(|| {
                let (low, high) = (scale.even(*min), scale.even(*max));
                (scale.even(value) - low) / (high - low)
            }),
            Range::Integer { min, max, scale } => scale.admits(value).then(|| {
                let (low, high) = (scale.even(*min as f64), scale.even(*max as f64));
                (scale.even(value) - low) / (high - low)
            }),
            Range::Discrete { values } => {
                let place = values.iter().position(|v| *v == value)?;
                Some((place as f64 + 0.5) / values.len() as f64)
            }
        }
    }

    /// Lowest and highest value.
    pub(super) fn ends(&self) -> (f64, f64) {
        match self {
            Range::Real { min, max, .. } => (*min, *max),
            Range::Integer { min, max, .. } => (*min as f64, *max as f64),
            Range::Discrete { values } => (
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
        }
    }
}
