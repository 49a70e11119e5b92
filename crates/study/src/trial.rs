//! What a trial was and what it measured.

use serde::{Deserialize, Serialize};
use sooner_base::{Epochs, Examples, FreshExamples, Seconds, Updates};
use std::collections::BTreeMap;

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It ran to its budget, or until its result was settled; without the target met it is censored.
    Complete,
    /// It diverged. Counted and shown, but its evaluations count for nothing, not even those before it diverged.
    Infeasible,
    /// It was lost or is still running; left out of everything.
    Incomplete,
}

/// How far a trial was at one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Updates made.
    pub updates: Updates,
    /// Examples in them, repeats included.
    pub examples: Examples,
    /// Examples read.
    pub fresh: FreshExamples,
    /// Passes of fresh reads over the training split, where its size is known.
    pub epochs: Option<Epochs>,
    /// The training clock, where there was one.
    pub seconds: Option<Seconds>,
}

/// What a result is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Updates.
    Updates,
    /// Examples in updates, repeats included.
    Examples,
    /// Examples read.
    FreshExamples,
    /// Passes of fresh reads over the training split.
    Epochs,
    /// Seconds of the training clock.
    Seconds,
}

impl Measure {
    /// This measure of some progress; `None` where it was not recorded.
    pub fn of(self, progress: &Progress) -> Option<f64> {
        match self {
            Measure::Updates => Some(progress.updates.0 as f64),
            Measure::Examples => Some(progress.examples.0 as f64),
            Measure::FreshExamples => Some(progress.fresh.0 as f64),
            Measure::Epochs => progress.epochs.map(|e| e.0),
            Measure::Seconds => progress.seconds.map(|s| s.0),
        }
    }

    /// In words, for messages and axes.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Updates => "updates",
            Measure::Examples => "examples",
            Measure::FreshExamples => "fresh examples",
            Measure::Epochs => "epochs",
            Measure::Seconds => "training seconds",
        }
    }
}

/// A trial's evaluations in order, by columns: a study may hold millions of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    progress: Vec<Progress>,
    metrics: BTreeMap<String, Vec<f64>>,
}

impl Series {
    /// Adds an evaluation. Metrics are named `SPLIT.METRIC`; one that an evaluation lacks is NaN there. Panics if it has
    /// fewer updates than the one before.
    pub fn push<'a>(&mut self, progress: Progress, values: impl IntoIterator<Item = (&'a str, f64)>) {
        let before = self.progress.last().map_or(Updates(0), |p| p.updates);
        assert!(progress.updates >= before, "evaluation at {} follows that at {before}", progress.updates);
        let rows = self.progress.len();
        self.progress.push(progress);
        for (name, value) in values {
            match self.metrics.get_mut(name) {
                Some(column) => column.push(value),
                None => {
                    let mut column = vec![f64::NAN; rows];
                    column.push(value);
                    self.metrics.insert(name.to_owned(), column);
                }
            }
        }
        for column in self.metrics.values_mut() {
            column.resize(rows + 1, f64::NAN);
        }
    }

    /// The evaluations of one metric, in order; nothing if it was never measured.
    pub fn of(&self, metric: &str) -> impl Iterator<Item = (&Progress, f64)> {
        let column = self.metrics.get(metric).map_or(&[][..], Vec::as_slice);
        self.progress.iter().zip(column.iter().copied())
    }

    /// The metrics that were measured.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }

    /// Progress at each evaluation.
    pub fn progress(&self) -> &[Progress] {
        &self.progress
    }
}

/// One run of a study at one point of its axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its number in the study; where trials are equally good, the lower counts.
    pub number: u64,
    /// How it ended.
    pub status: Status,
    /// Its metaparameters by name.
    pub parameters: BTreeMap<String, f64>,
    /// What it measured.
    pub series: Series,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Progress after some updates at a batch size, without echo, over 1000 examples, at ten updates a second.
    pub(crate) fn progress(updates: u64, batch: u64) -> Progress {
        let examples = updates * batch;
        Progress {
            updates: Updates(updates),
            examples: Examples(examples),
            fresh: FreshExamples(examples),
            epochs: Some(Epochs(examples as f64 / 1000.0)),
            seconds: Some(Seconds(updates as f64 / 10.0)),
        }
    }

    /// A trial with (updates, val.error) pairs and its learning rate.
    pub(crate) fn trial(number: u64, status: Status, batch: u64, errors: &[(u64, f64)]) -> Trial {
        let mut series = Series::default();
        for &(updates, error) in errors {
            series.push(progress(updates, batch), [("val.error", error)]);
        }
        Trial { number, status, parameters: BTreeMap::new(), series }
    }

    #[test]
    fn columns_stay_aligned() {
        let mut series = Series::default();
        series.push(progress(0, 1), [("a", 1.0)]);
        series.push(progress(5, 1), [("b", 2.0)]);
        series.push(progress(9, 1), [("a", 3.0), ("b", 4.0)]);
        let column = |name| -> Vec<(u64, f64)> { series.of(name).map(|(p, v)| (p.updates.0, v)).collect() };
        let (a, b) = (column("a"), column("b"));
        assert!(a[0] == (0, 1.0) && a[1].1.is_nan() && a[2] == (9, 3.0));
        assert!(b[0].1.is_nan() && b[1..] == [(5, 2.0), (9, 4.0)]);
        assert_eq!(column("c"), []);
        assert_eq!(series.metrics().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn unrecorded_measures_are_none() {
        let mut p = progress(30, 4);
        let all =
            [Measure::Updates, Measure::Examples, Measure::FreshExamples, Measure::Epochs, Measure::Seconds];
        assert_eq!(all.map(|m| m.of(&p)), [Some(30.0), Some(120.0), Some(120.0), Some(0.12), Some(3.0)]);
        (p.epochs, p.seconds) = (None, None);
        assert_eq!(all.map(|m| m.of(&p).is_some()), [true, true, true, false, false]);
    }
}
