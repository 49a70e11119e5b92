//! Targets: `SPLIT.METRIC OP VALUE`, such as `val.error<0.30`. The operator decides whether equality counts.

use crate::error::complain;
use crate::{PlanError, Split};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is measured on a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Mean cross entropy in nats, without label smoothing.
    Loss,
    /// The share of examples that are classified wrongly.
    Error,
    /// The share of examples that are classified rightly.
    Accuracy,
}

impl Metric {
    /// Whether a larger value is a better one.
    pub fn rises(self) -> bool {
        self == Metric::Accuracy
    }

    /// Whether `a` is strictly better than `b`. A NaN is never better, and anything else is better than a NaN.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        let better = if self.rises() { a > b } else { a < b };
        better || (b.is_nan() && !a.is_nan())
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Metric::Loss => "loss",
            Metric::Error => "error",
            Metric::Accuracy => "accuracy",
        })
    }
}

/// How a measured value must compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
        })
    }
}

/// What a run has to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Where it is measured.
    pub split: Split,
    /// What is measured.
    pub metric: Metric,
    /// How it must compare.
    pub op: Op,
    /// With what; error and accuracy are fractions.
    pub value: f64,
}

impl Target {
    /// Reads `SPLIT.METRIC OP VALUE`; spaces between the parts are free. Refuses what can never be met, comparisons
    /// in the wrong direction, and percent.
    pub fn parse(text: &str) -> Result<Target, PlanError> {
        text.parse()
    }

    /// Whether a measured value meets the target, exactly as written. NaN never does.
    pub fn met(&self, value: f64) -> bool {
        match self.op {
            Op::Less => value < self.value,
            Op::LessOrEqual => value <= self.value,
            Op::Greater => value > self.value,
            Op::GreaterOrEqual => value >= self.value,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}{}{}", self.split, self.metric, self.op, self.value)
    }
}

const FORM: &str = "SPLIT.METRIC OP VALUE, such as val.error<0.30";

impl FromStr for Target {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Target, PlanError> {
        let wrong = |what: &str, expected: &str, hint: &str| {
            PlanError::Value(complain(what, "run.target", expected, format_args!("`{text}`"), hint))
        };
        let Some(at) = text.find(['<', '>', '=', '!']) else {
            return Err(wrong("target has no comparison", FORM, ""));
        };
        let (left, right) = text.split_at(at);
        let (op, value) = if let Some(rest) = right.strip_prefix("<=") {
            (Op::LessOrEqual, rest)
        } else if let Some(rest) = right.strip_prefix(">=") {
            (Op::GreaterOrEqual, rest)
        } else if let Some(rest) = right.strip_prefix('<') {
            (Op::Less, rest)
        } else if let Some(rest) = right.strip_prefix('>') {
            (Op::Greater, rest)
        } else {
            let hint = "a measured value is hardly ever equal to a number; say which side counts";
            return Err(wrong("target has an unknown comparison", "<, <=, > or >=", hint));
        };
        let Some((split, metric)) = left.trim().split_once('.') else {
            return Err(wrong("target does not name a split and a metric", FORM, ""));
        };
        let split = match split.trim() {
            "train" => Split::Train,
            "val" => Split::Val,
            "test" => Split::Test,
            other => {
                let hint = nearest_hint(other, &["val", "test", "train", "validation"]);
                return Err(wrong("target names an unknown split", "val, test or train", &hint));
            }
        };
        let metric = match metric.trim() {
            "loss" => Metric::Loss,
            "error" => Metric::Error,
            "accuracy" => Metric::Accuracy,
            other => {
                let hint = nearest_hint(other, &["loss", "error", "accuracy"]);
                return Err(wrong("target names an unknown metric", "loss, error or accuracy", &hint));
            }
        };
        let value = value.trim();
        let Some(value) = value.parse().ok().filter(|v: &f64| v.is_finite()) else {
            let percent = value.strip_suffix('%').and_then(|v| v.trim().parse::<f64>().ok());
            let hint = percent.map_or(String::new(), percent_hint);
            return Err(wrong("target's value is not a number", "a finite number", &hint));
        };
        let target = Target { split, metric, op, value };
        target.check_direction(&wrong)?;
        target.check_range(&wrong)?;
        Ok(target)
    }
}

type Wrong<'a> = dyn Fn(&str, &str, &str) -> PlanError + 'a;

impl Target {
    fn check_direction(&self, wrong: &Wrong) -> Result<(), PlanError> {
        let upward = matches!(self.op, Op::Greater | Op::GreaterOrEqual);
        if upward == self.metric.rises() {
            return Ok(());
        }
        let expected = if self.metric.rises() { "> or >=" } else { "< or <=" };
        let hint = if self.metric == Metric::Loss {
            "training makes the loss smaller".to_string()
        } else {
            format!("training makes the error smaller and the accuracy larger: {}", self.turned())
        };
        Err(wrong("target compares in the wrong direction", expected, &hint))
    }

    /// The same comparison of the opposite metric, for hints: `error>0.1` is `accuracy<0.9`; the useful one of the
    /// two directions is the one with the operator turned around.
    fn turned(&self) -> String {
        let op = match self.op {
            Op::Less => Op::Greater,
            Op::LessOrEqual => Op::GreaterOrEqual,
            Op::Greater => Op::Less,
            Op::GreaterOrEqual => Op::LessOrEqual,
        };
        format!("did you mean {}?", Target { op, ..*self })
    }

    fn check_range(&self, wrong: &Wrong) -> Result<(), PlanError> {
        let unmeetable = "target can never be met";
        match self.metric {
            Metric::Loss if self.value < 0.0 || (self.value == 0.0 && self.op == Op::Less) => {
                Err(wrong(unmeetable, "a loss of 0 or more", "cross entropy is never negative"))
            }
            Metric::Loss => Ok(()),
            Metric::Error | Metric::Accuracy if !(0.0..=1.0).contains(&self.value) => {
                let hint = if (1.0..=100.0).contains(&self.value) {
                    percent_hint(self.value)
                } else {
                    String::new()
                };
                Err(wrong("target's value is not a fraction", "a number from 0 to 1", &hint))
            }
            Metric::Error if self.value == 0.0 && self.op == Op::Less => {
                Err(wrong(unmeetable, "an error that can be undercut", "did you mean <=0?"))
            }
            Metric::Accuracy if self.value == 1.0 && self.op == Op::Greater => {
                Err(wrong(unmeetable, "an accuracy that can be exceeded", "did you mean >=1?"))
            }
            Metric::Error | Metric::Accuracy => Ok(()),
        }
    }
}

fn percent_hint(percent: f64) -> String {
    // Rounded to hide the dust of dividing: 94.1 percent is 0.941, not 0.9409999999999999.
    let fraction = (percent * 1e10).round() / 1e12;
    format!("errors and accuracies are fractions here, never percent; did you mean {fraction}?")
}

fn nearest_hint(typed: &str, known: &[&str]) -> String {
    match crate::nearest::nearest(typed, known.iter().copied()) {
        Some("validation") => "did you mean `val`?".to_string(),
        Some(word) => format!("did you mean `{word}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn reads_what_it_writes() {
        for text in
            ["val.error<0.3", "test.accuracy>=0.94", "val.loss<=0", "train.accuracy>0", "val.error<=0.125"]
        {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Target::parse("  val . error  <  0.30 ").unwrap(),
            Target { split: Split::Val, metric: Metric::Error, op: Op::Less, value: 0.3 }
        );
    }

    #[test]
    fn equality_is_the_operators_affair() {
        let met = |text: &str, value| Target::parse(text).unwrap().met(value);
        assert!(!met("val.error<0.30", 1500.0 / 5000.0) && met("val.error<=0.30", 1500.0 / 5000.0));
        assert!(met("val.error<0.30", 1499.0 / 5000.0) && !met("val.error<=0.30", 1501.0 / 5000.0));
        assert!(met("test.accuracy>=0.94", 9400.0 / 10000.0) && !met("test.accuracy>0.94", 9400.0 / 10000.0));
        for text in ["val.error<=1", "val.loss<1e300", "val.accuracy>=0"] {
            assert!(!met(text, f64::NAN), "{text}");
        }
    }

    #[test]
    fn better_is_strict_and_never_nan() {
        assert!(Metric::Loss.is_better(1.0, 2.0) && Metric::Accuracy.is_better(0.9, 0.8));
        assert!(!Metric::Error.is_better(0.2, 0.2) && !Metric::Accuracy.is_better(0.8, 0.8));
        assert!(Metric::Loss.is_better(1.0, f64::NAN) && !Metric::Loss.is_better(f64::NAN, f64::NAN));
        assert!(!Metric::Accuracy.is_better(f64::NAN, 0.1));
    }

    #[test]
    fn refuses_what_cannot_be_meant() {
        let mut all = String::new();
        for text in [
            "val.error",
            "val.error=0.3",
            "val.error!=0.3",
            "error<0.3",
            "valid.error<0.3",
            "val.eror<0.3",
            "val.error<abc",
            "val.error<nan",
            "val.loss<inf",
            "test.accuracy>=94%",
            "test.accuracy>=94.1",
            "val.error<-0.1",
            "val.accuracy<0.9",
            "val.error>=0.1",
            "val.loss>2",
            "val.loss<0",
            "val.error<0",
            "val.accuracy>1",
            "val.error=<0.3",
            "val.error<<0.3",
            "",
        ] {
            let error = Target::parse(text).unwrap_err();
            all += &format!("{error}\n");
        }
        expect![[r#"
            run.target: target has no comparison: expected SPLIT.METRIC OP VALUE, such as val.error<0.30, found `val.error`
            run.target: target has an unknown comparison: expected <, <=, > or >=, found `val.error=0.3`
            hint: a measured value is hardly ever equal to a number; say which side counts
            run.target: target has an unknown comparison: expected <, <=, > or >=, found `val.error!=0.3`
            hint: a measured value is hardly ever equal to a number; say which side counts
            run.target: target does not name a split and a metric: expected SPLIT.METRIC OP VALUE, such as val.error<0.30, found `error<0.3`
            run.target: target names an unknown split: expected val, test or train, found `valid.error<0.3`
            hint: did you mean `val`?
            run.target: target names an unknown metric: expected loss, error or accuracy, found `val.eror<0.3`
            hint: did you mean `error`?
            run.target: target's value is not a number: expected a finite number, found `val.error<abc`
            run.target: target's value is not a number: expected a finite number, found `val.error<nan`
            run.target: target's value is not a number: expected a finite number, found `val.loss<inf`
            run.target: target's value is not a number: expected a finite number, found `test.accuracy>=94%`
            hint: errors and accuracies are fractions here, never percent; did you mean 0.94?
            run.target: target's value is not a fraction: expected a number from 0 to 1, found `test.accuracy>=94.1`
            hint: errors and accuracies are fractions here, never percent; did you mean 0.941?
            run.target: target's value is not a fraction: expected a number from 0 to 1, found `val.error<-0.1`
            run.target: target compares in the wrong direction: expected > or >=, found `val.accuracy<0.9`
            hint: training makes the error smaller and the accuracy larger: did you mean val.accuracy>0.9?
            run.target: target compares in the wrong direction: expected < or <=, found `val.error>=0.1`
            hint: training makes the error smaller and the accuracy larger: did you mean val.error<=0.1?
            run.target: target compares in the wrong direction: expected < or <=, found `val.loss>2`
            hint: training makes the loss smaller
            run.target: target can never be met: expected a loss of 0 or more, found `val.loss<0`
            hint: cross entropy is never negative
            run.target: target can never be met: expected an error that can be undercut, found `val.error<0`
            hint: did you mean <=0?
            run.target: target can never be met: expected an accuracy that can be exceeded, found `val.accuracy>1`
            hint: did you mean >=1?
            run.target: target has an unknown comparison: expected <, <=, > or >=, found `val.error=<0.3`
            hint: a measured value is hardly ever equal to a number; say which side counts
            run.target: target's value is not a number: expected a finite number, found `val.error<<0.3`
            run.target: target has no comparison: expected SPLIT.METRIC OP VALUE, such as val.error<0.30, found ``
        "#]].assert_eq(&all);
    }

    proptest! {
        #[test]
        fn round_trip(value in 0.0f64..=1.0, op in prop::sample::select(vec!["<", "<="]), spaced in any::<bool>()) {
            let gap = if spaced { " " } else { "" };
            let text = format!("val.error{gap}{op}{gap}{value}");
            let parsed = Target::parse(&text);
            prop_assume!(value > 0.0 || op == "<=");
            let target = parsed.unwrap();
            prop_assert_eq!(target.value, value);
            prop_assert_eq!(Target::parse(&target.to_string()).unwrap(), target);
        }
    }
}
