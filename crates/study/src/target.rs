//! Targets, and what the trials of one point needed to meet them.

use crate::error::{Fault, StudyError};
use crate::trial::{Measure, Progress, Status, Trial};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a metric is compared with a target's value; the operator decides whether equality counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// `<`
    #[serde(rename = "<")]
    Below,
    /// `<=`
    #[serde(rename = "<=")]
    AtMost,
    /// `>`
    #[serde(rename = ">")]
    Above,
    /// `>=`
    #[serde(rename = ">=")]
    AtLeast,
}

impl Operator {
    /// Whether lower values of the metric are better.
    pub fn lower_is_better(self) -> bool {
        matches!(self, Operator::Below | Operator::AtMost)
    }

    fn text(self) -> &'static str {
        match self {
            Operator::Below => "<",
            Operator::AtMost => "<=",
            Operator::Above => ">",
            Operator::AtLeast => ">=",
        }
    }
}

/// What trials are to reach. Any metric by name: trials may be commands that measure what this program does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The metric, as `SPLIT.METRIC`.
    pub metric: String,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with.
    pub value: f64,
}

impl Target {
    /// Whether a measured value meets the target, as written; NaN never does.
    pub fn met(&self, value: f64) -> bool {
        match self.operator {
            Operator::Below => value < self.value,
            Operator::AtMost => value <= self.value,
            Operator::Above => value > self.value,
            Operator::AtLeast => value >= self.value,
        }
    }

    /// The first evaluation that meets the target; `None` if none does or the trial is not complete.
    pub fn first_met<'t>(&self, trial: &'t Trial) -> Option<&'t Progress> {
        let mut evaluations = trial.series.of(&self.metric);
        let met = evaluations.find(|(_, value)| self.met(*value))?;
        (trial.status == Status::Complete).then_some(met.0)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.metric, self.operator.text(), self.value)
    }
}

impl FromStr for Target {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<Target, StudyError> {
        let fail = |expected, found: &str| Err(StudyError::Target(Fault::new(text, expected, found)));
        let Some(start) = text.find(['<', '>']) else {
            return fail("SPLIT.METRIC OP VALUE with OP one of < <= > >=", text);
        };
        // Longer operators first: `<` begins `<=`.
        let operators = [Operator::AtMost, Operator::AtLeast, Operator::Below, Operator::Above];
        let operator = operators.into_iter().find(|o| text[start..].starts_with(o.text()));
        let operator = operator.expect("the text there starts with < or >");
        let metric = text[..start].trim();
        let dotted = metric.split('.').filter(|part| !part.is_empty() && !part.contains(char::is_whitespace));
        if dotted.count() < 2 {
            return fail("SPLIT.METRIC, for example val.error, before the operator", metric);
        }
        let number = text[start + operator.text().len()..].trim();
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Target { metric: metric.into(), operator, value }),
            _ => fail("a finite number after the operator", number),
        }
    }
}

/// What the best trial of a point needed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Best {
    /// The trial's number.
    pub trial: u64,
    /// What it needed, in the measure asked for.
    pub amount: f64,
    /// All of its progress at that evaluation.
    pub progress: Progress,
}

/// The result of one point of a study's axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToTarget {
    /// The trial that needed least, of equal ones the lowest number; `None` if none met the target.
    pub best: Option<Best>,
    /// What each complete trial needed, in order of their numbers; infinite for a censored one.
    pub amounts: Vec<f64>,
    /// Complete trials that met the target.
    pub reached: usize,
    /// Complete trials whose budget ended before.
    pub censored: usize,
    /// Trials that diverged.
    pub infeasible: usize,
    /// Trials left out.
    pub incomplete: usize,
}

/// What the trials of one point needed to meet the target, in one measure. Resolution is that of the evaluations. Err if a
/// trial that met it did not record that measure.
pub fn to_target(trials: &[Trial], target: &Target, measure: Measure) -> Result<ToTarget, StudyError> {
    let mut ordered: Vec<&Trial> = trials.iter().collect();
    ordered.sort_by_key(|trial| trial.number);
    let count = |status| trials.iter().filter(|trial| trial.status == status).count();
    let mut result = ToTarget {
        best: None,
        amounts: Vec::new(),
        reached: 0,
        censored: 0,
        infeasible: count(Status::Infeasible),
        incomplete: count(Status::Incomplete),
    };
    for trial in ordered.into_iter().filter(|trial| trial.status == Status::Complete) {
        let Some(progress) = target.first_met(trial) else {
            result.amounts.push(f64::INFINITY);
            result.censored += 1;
            continue;
        };
        let amount = measure.of(progress).ok_or_else(|| {
            let place = format!("trial {}", trial.number);
            StudyError::Estimate(Fault::new(place, format!("{} at each evaluation", measure.name()), "none"))
        })?;
        result.amounts.push(amount);
        result.reached += 1;
        if result.best.is_none_or(|best| amount < best.amount) {
            result.best = Some(Best { trial: trial.number, amount, progress: *progress });
        }
    }
    Ok(result)
}

/// The first `count` complete trials by number, with the infeasible ones among them, so that every point of a study is
/// judged by equally many. Err if there are fewer.
pub fn first_complete(trials: &[Trial], count: usize) -> Result<Vec<&Trial>, StudyError> {
    let mut ordered: Vec<&Trial> = trials.iter().filter(|t| t.status != Status::Incomplete).collect();
    ordered.sort_by_key(|trial| trial.number);
    let complete = ordered.iter().enumerate().filter(|(_, trial)| trial.status == Status::Complete);
    let places: Vec<usize> = complete.map(|(place, _)| place).collect();
    match count.checked_sub(1).map(|last| places.get(last)) {
        None => Ok(Vec::new()),
        Some(Some(&last)) => {
            ordered.truncate(last + 1);
            Ok(ordered)
        }
        Some(None) => {
            let expected = format!("{count} complete trials");
            Err(StudyError::Estimate(Fault::new("trials", expected, places.len()).hint("run more trials")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::trial;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn targets_read_and_print_alike() {
        for (text, printed) in [
            ("val.error<0.30", "val.error<0.3"),
            (" test.accuracy >= 0.94 ", "test.accuracy>=0.94"),
            ("val.bbox.map>1e-1", "val.bbox.map>0.1"),
            ("val.loss <= 3.9", "val.loss<=3.9"),
        ] {
            assert_eq!(target(text).to_string(), printed);
            assert_eq!(target(printed), target(text));
        }
        for bad in [
            "",
            "val.error",
            "error<0.3",
            "val.<0.3",
            ".error<1",
            "val.error<",
            "val.error<x",
            "val.error<nan",
            "val.error=0.3",
            "val.error<<0.3",
            "val err.or<1",
            "<0.3",
        ] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_operator_decides_equality() {
        let met = |text, value| target(text).met(value);
        assert!(!met("v.e<0.3", 0.3) && met("v.e<=0.3", 0.3) && met("v.e<0.3", 0.2999));
        assert!(!met("v.a>0.3", 0.3) && met("v.a>=0.3", 0.3) && met("v.a>0.3", 0.3001));
        for text in ["v.e<0.3", "v.e<=0.3", "v.e>0.3", "v.e>=0.3"] {
            assert!(!met(text, f64::NAN));
        }
    }

    #[test]
    fn the_first_evaluation_that_meets_it_counts() {
        use Status::*;
        let trials = [
            // Out of order; best is 40, tied by trials 7 and 3; trial 9 is faster but diverged; 5 never meets it.
            trial(7, Complete, 8, &[(0, 0.9), (40, 0.1), (50, 0.4)]),
            trial(3, Complete, 8, &[(0, 0.9), (20, 0.3), (40, 0.29), (60, 0.1)]),
            trial(5, Complete, 8, &[(0, 0.9), (99, 0.3)]),
            trial(9, Infeasible, 8, &[(10, 0.1), (20, f64::NAN)]),
            trial(2, Incomplete, 8, &[(1, 0.1)]),
            trial(1, Complete, 8, &[(0, f64::NAN), (70, 0.2)]),
        ];
        let result = to_target(&trials, &target("val.error<0.3"), Measure::Updates).unwrap();
        let best = result.best.unwrap();
        assert_eq!((best.trial, best.amount, best.progress.examples.0), (3, 40.0, 320));
        assert_eq!(result.amounts, [70.0, 40.0, f64::INFINITY, 40.0]);
        assert_eq!((result.reached, result.censored, result.infeasible, result.incomplete), (3, 1, 1, 1));
        let amount = |m| to_target(&trials, &target("val.error<0.3"), m).unwrap().best.unwrap().amount;
        assert_eq!(
            [Measure::Examples, Measure::FreshExamples, Measure::Epochs, Measure::Seconds].map(amount),
            [320.0, 320.0, 0.32, 4.0]
        );
        let equal = to_target(&trials, &target("val.error<=0.3"), Measure::Updates).unwrap();
        assert_eq!((equal.best.unwrap().amount, equal.censored), (20.0, 0));
        let never = to_target(&trials, &target("val.other<0.3"), Measure::Updates).unwrap();
        assert_eq!((never.best, never.censored), (None, 4));
    }

    #[test]
    fn an_unrecorded_measure_is_an_error() {
        let mut one = trial(4, Status::Complete, 8, &[]);
        let mut progress = crate::trial::tests::progress(5, 8);
        progress.seconds = None;
        one.series.push(progress, [("val.error", 0.1)]);
        let error = to_target(&[one], &target("val.error<0.3"), Measure::Seconds).unwrap_err();
        expect_test::expect![
            "no estimate: trial 4: expected training seconds at each evaluation, found none"
        ]
        .assert_eq(&error.to_string());
    }

    #[test]
    fn points_are_judged_by_equally_many_complete_trials() {
        use Status::*;
        let statuses = [Complete, Infeasible, Incomplete, Complete, Complete, Infeasible, Complete];
        let mut trials: Vec<Trial> =
            statuses.iter().enumerate().map(|(i, &status)| trial(i as u64, status, 1, &[])).collect();
        trials.reverse();
        let numbers =
            |count| first_complete(&trials, count).map(|t| t.iter().map(|t| t.number).collect::<Vec<_>>());
        assert_eq!(numbers(0), Ok(vec![]));
        assert_eq!(numbers(2), Ok(vec![0, 1, 3]));
        assert_eq!(numbers(4), Ok(vec![0, 1, 3, 4, 5, 6]));
        assert!(numbers(5).unwrap_err().to_string().contains("expected 5 complete trials, found 4"));
    }
}
