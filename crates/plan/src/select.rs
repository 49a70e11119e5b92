//! Selective back-propagation: which examples of a batch an update is made of.

use crate::PlanError;
use crate::validate::number;
use serde::{Deserialize, Serialize};

/// Updates are made of a part of each batch: its examples are ranked by their loss in a forward pass, and the more an
/// example was wrong, the likelier it is kept (Jiang et al.: "Accelerating deep learning by focusing on the biggest
/// losers", 2019). An example of rank r of n, the largest loss last, has a chance in proportion to (r / n)^power in each
/// draw; so many are drawn without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectPlan {
    /// The share of each batch that is kept, above 0 and at most 1; of any batch at least one example.
    pub keep: f64,
    /// How much a larger loss counts: 0 keeps examples whatever their loss.
    #[serde(default = "one")]
    pub power: f64,
    /// From this share of the run's length on.
    #[serde(default)]
    pub from: f64,
    /// Up to this share of the run's length.
    #[serde(default = "one")]
    pub until: f64,
}

fn one() -> f64 {
    1.0
}

impl SelectPlan {
    /// How many of a batch of so many examples are kept.
    pub fn kept(&self, batch: usize) -> usize {
        ((self.keep * batch as f64).round() as usize).clamp(batch.min(1), batch)
    }

    /// Whether examples are selected once this share of the run's length is behind.
    pub fn holds(&self, share: f64) -> bool {
        (self.from..self.until).contains(&share)
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let SelectPlan { keep, power, from, until } = *self;
        number("run.select.keep", keep, "a share above 0 and at most 1", keep > 0.0 && keep <= 1.0)?;
        number("run.select.power", power, "a number, 0 or more", power >= 0.0)?;
        number("run.select.from", from, "a share from 0 to below `until`", from >= 0.0 && from < until)?;
        number("run.select.until", until, "a share of at most 1", until <= 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: SelectPlan = SelectPlan { keep: 0.5, power: 1.0, from: 0.25, until: 0.75 };

    #[test]
    fn sizes() {
        assert_eq!([0, 1, 2, 7, 100].map(|n| HALF.kept(n)), [0, 1, 1, 4, 50]);
        assert_eq!([0, 1, 7].map(|n| SelectPlan { keep: 1.0, ..HALF }.kept(n)), [0, 1, 7]);
        assert_eq!(SelectPlan { keep: 1e-9, ..HALF }.kept(1000), 1);
    }

    #[test]
    fn from_and_until() {
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| HALF.holds(share)),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn impossible_shares() {
        assert_eq!(HALF.check(), Ok(()));
        let wrong = [
            SelectPlan { keep: 0.0, ..HALF },
            SelectPlan { keep: 1.5, ..HALF },
            SelectPlan { keep: f64::NAN, ..HALF },
            SelectPlan { power: -1.0, ..HALF },
            SelectPlan { power: f64::INFINITY, ..HALF },
            SelectPlan { from: 0.75, ..HALF },
            SelectPlan { from: -0.1, ..HALF },
            SelectPlan { until: 1.01, ..HALF },
        ];
        for plan in wrong {
            assert!(plan.check().unwrap_err().to_string().contains("run.select."), "{plan:?}");
        }
    }
}
