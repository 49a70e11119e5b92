//! What a run comes to: the object that the command prints last, and that ends the run log.

use crate::{Seen, number};
use serde::{Deserialize, Serialize};
use sooner_base::{Epochs, Examples, FreshExamples, NoisePair, NoiseScale, Seconds, Updates};
use sooner_plan::{Metric, Split, Target};
use std::collections::BTreeMap;
use std::fmt;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It met its target.
    Reached,
    /// It had no target and went to its end.
    Done,
    /// Its length was over before the target was met.
    Budget,
    /// Its loss left the finite numbers, or the bound set for it.
    Diverged,
    /// It was told to stop.
    Interrupted,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Reached => "reached",
            Status::Done => "done",
            Status::Budget => "budget",
            Status::Diverged => "diverged",
            Status::Interrupted => "interrupted",
        })
    }
}

/// How far a run had come at one moment, in every unit that is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Updates taken.
    pub updates: Updates,
    /// Passes of fresh reads over the training split.
    pub epochs: Epochs,
    /// Examples read.
    pub fresh_examples: FreshExamples,
    /// Examples that went into updates, repeats included.
    pub examples: Examples,
    /// The training clock: without evaluations, checkpoints, loading and building.
    pub training_seconds: Seconds,
    /// Since the plan was resolved.
    pub wall_seconds: Seconds,
}

/// One evaluation of a whole split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// What was evaluated.
    pub split: Split,
    /// Mean cross entropy in nats, without label smoothing. NaN and infinity are null in JSON.
    #[serde(with = "number")]
    pub loss: f64,
    /// Share of examples classified wrongly.
    pub error: f64,
    /// Share of examples classified rightly.
    pub accuracy: f64,
}

impl Metrics {
    /// From sums over a split. Error and accuracy are each one division, so that a target that names the same
    /// fraction compares equal: 1500 wrong of 5000 are exactly `0.30`. Panics if nothing was evaluated.
    pub fn from_sums(split: Split, loss: f64, correct: u64, examples: u64) -> Metrics {
        assert!(correct <= examples && examples > 0, "{correct} right of {examples}");
        let n = examples as f64;
        Metrics {
            split,
            loss: loss / n,
            error: (examples - correct) as f64 / n,
            accuracy: correct as f64 / n,
        }
    }

    /// The value of one metric.
    pub fn get(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Loss => self.loss,
            Metric::Error => self.error,
            Metric::Accuracy => self.accuracy,
        }
    }

    /// Whether this meets the target; never if it is of another split, nor where the loss is no finite number: what a
    /// network that has broken down gets right is no result.
    pub fn meets(&self, target: &Target) -> bool {
        self.split == target.split && self.loss.is_finite() && target.met(self.get(target.metric))
    }
}

/// The trainer thread's time, partitioned; sums to wall time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeSplit {
    /// Loading files, building programs, preprocessing.
    pub prepare: Seconds,
    /// Waiting for batches.
    pub wait: Seconds,
    /// Updates.
    pub train: Seconds,
    /// Evaluations.
    pub evaluate: Seconds,
    /// Writing checkpoints and weights.
    pub checkpoint: Seconds,
    /// Writing the record and telling whoever watches.
    pub log: Seconds,
}

impl TimeSplit {
    /// The sum of all parts: wall time.
    pub fn wall(&self) -> Seconds {
        self.prepare + self.wait + self.train + self.evaluate + self.checkpoint + self.log
    }
}

/// How near the run came to the machine's limit. FLOPs count 2 for a multiply-add, three forward passes an update,
/// convolution and linear only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// FLOPs of one example's update.
    pub flops_per_example: u64,
    /// Measured peak of the run's engine threads, in 1e9 FLOPs a second.
    pub peak_gflops: f64,
    /// How long the run's updates would take at that peak.
    pub seconds_at_peak: Seconds,
    /// The share of the peak that the updates reached; may exceed 1 where convolutions are computed with fewer
    /// multiplications than are counted.
    #[serde(with = "number")]
    pub share: f64,
}

/// A training loss, and the update that it was of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossAt {
    /// Updates taken, that one included.
    pub updates: Updates,
    /// The mean loss of its batch, smoothed labels included.
    pub loss: f64,
}

/// Where a run left the losses that its plan's guard accepts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Updates taken then.
    pub updates: Updates,
    /// The loss that was not accepted: of that update's batch, or of the evaluation after it. NaN and infinity are
    /// null in JSON.
    #[serde(with = "number")]
    pub loss: f64,
    /// The last training loss before it that was a finite number; none if there was none.
    pub last_finite: Option<LossAt>,
}

/// The gradient's signal and noise, estimated from the parts of batches: averages over the last 100 estimates or so,
/// each taken by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GradientNoise {
    /// The squared norm of the true gradient.
    #[serde(with = "number")]
    pub signal: f64,
    /// The trace of the covariance of one example's gradient.
    #[serde(with = "number")]
    pub noise: f64,
    /// Noise over signal, the batch size at which they are equal; none while either average is not above 0.
    pub scale: Option<f64>,
}

impl GradientNoise {
    /// What a running estimate has come to; none before its first part.
    pub fn of(estimate: &NoiseScale) -> Option<GradientNoise> {
        let NoisePair { signal, noise } = estimate.pair()?;
        Some(GradientNoise { signal, noise, scale: estimate.value() })
    }
}

/// What a person should know of the data that a run read, and of what its pipeline made of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataReport {
    /// In hexadecimal, a number that two lists of classes share only if they are the same; none for published sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_hash: Option<String>,
    /// The same of the training examples' names and their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example_hash: Option<String>,
    /// What is odd about the data or the order of stages, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Of the examples that went into updates, those that show what an earlier one of the same batch showed; none where
    /// no stage repeats examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<Examples>,
    /// Examples that were left out because they could not be read or decoded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bad: Vec<BadExample>,
}

/// An example that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadExample {
    /// Its number in the training split's own order.
    pub index: u64,
    /// Where the fault is: a path, and an offset where one is known.
    pub place: String,
    /// What was expected and found.
    pub reason: String,
}

impl DataReport {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == DataReport::default()
    }
}

/// What a run comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The plan's name.
    pub workload: String,
    /// How it ended.
    pub status: Status,
    /// What was to be reached, as the plan writes it.
    pub target: Option<String>,
    /// When the target was first met.
    pub reached_at: Option<Position>,
    /// The evaluation that is best by the target's metric (accuracy without a target); none before the first.
    pub best: Option<Metrics>,
    /// The last evaluation.
    #[serde(rename = "final")]
    pub last: Option<Metrics>,
    /// What the last evaluation came to without its other views of each image; none where there are none,
    /// or where another process made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Seconds of the evaluation that judged the final weights, which newer races count as training; none where the run
    /// stops at its target, or where another process made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_evaluation: Option<Seconds>,
    /// Where it diverged; none unless it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<Divergence>,
    /// How far the run came.
    pub position: Position,
    /// The epochs that the plan says, where the whole updates that they take are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded_from: Option<Epochs>,
    /// Examples a second of the training clock.
    #[serde(with = "number")]
    pub examples_per_second: f64,
    /// The trainer thread's time.
    pub time: TimeSplit,
    /// Busy seconds of each pipeline stage, summed over its threads; beside the trainer's time, not part of it.
    pub stages: BTreeMap<String, Seconds>,
    /// What a person should know of its data.
    #[serde(default, skip_serializing_if = "DataReport::is_empty")]
    pub data: DataReport,
    /// How near the machine's limit it came.
    pub ceiling: Ceiling,
    /// The noise of gradients, where the plan asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<GradientNoise>,
    /// The run's folder; none if nothing was kept.
    pub record: Option<String>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_loss_that_is_no_number_meets_nothing() {
        for target in ["val.error<=1", "val.accuracy>=0", "val.loss<=inf", "val.loss>=0"] {
            let Ok(target) = Target::parse(target) else { continue };
            let meets = |loss| Metrics::from_sums(Split::Val, loss, 10, 100).meets(&target);
            assert!(!meets(f64::NAN) && !meets(f64::INFINITY) && meets(200.0), "{target:?}");
        }
    }

    pub(crate) fn summary() -> Summary {
        let position = Position {
            updates: Updates(704),
            epochs: Epochs(1.0),
            fresh_examples: FreshExamples(45_000),
            examples: Examples(45_000),
            training_seconds: Seconds(12.5),
            wall_seconds: Seconds(15.0),
        };
        let metrics = Metrics::from_sums(Split::Val, 5500.0, 3500, 5000);
        Summary {
            workload: "test".into(),
            status: Status::Reached,
            target: Some("val.error<=0.30".into()),
            reached_at: Some(position),
            best: Some(metrics),
            last: Some(metrics),
            diverged: None,
            position,
            seen: None,
            final_evaluation: None,
            rounded_from: None,
            examples_per_second: 3600.0,
            time: TimeSplit {
                prepare: Seconds(1.0),
                train: Seconds(12.5),
                log: Seconds(1.5),
                ..Default::default()
            },
            stages: BTreeMap::from([("augment".to_string(), Seconds(0.5))]),
            data: DataReport::default(),
            ceiling: Ceiling {
                flops_per_example: 250_000_000,
                peak_gflops: 170.0,
                seconds_at_peak: Seconds(6.25),
                share: 0.5,
            },
            gradient: None,
            record: Some("runs/test".into()),
        }
    }

    #[test]
    fn the_object_that_is_printed() {
        let text = serde_json::to_string_pretty(&summary()).unwrap();
        expect![[r#"
            {
              "workload": "test",
              "status": "reached",
              "target": "val.error<=0.30",
              "reached_at": {
                "updates": 704,
                "epochs": 1.0,
                "fresh_examples": 45000,
                "examples": 45000,
                "training_seconds": 12.5,
                "wall_seconds": 15.0
              },
              "best": {
                "split": "val",
                "loss": 1.1,
                "error": 0.3,
                "accuracy": 0.7
              },
              "final": {
                "split": "val",
                "loss": 1.1,
                "error": 0.3,
                "accuracy": 0.7
              },
              "position": {
                "updates": 704,
                "epochs": 1.0,
                "fresh_examples": 45000,
                "examples": 45000,
                "training_seconds": 12.5,
                "wall_seconds": 15.0
              },
              "examples_per_second": 3600.0,
              "time": {
                "prepare": 1.0,
                "wait": 0.0,
                "train": 12.5,
                "evaluate": 0.0,
                "checkpoint": 0.0,
                "log": 1.5
              },
              "stages": {
                "augment": 0.5
              },
              "ceiling": {
                "flops_per_example": 250000000,
                "peak_gflops": 170.0,
                "seconds_at_peak": 6.25,
                "share": 0.5
              },
              "record": "runs/test"
            }"#]]
        .assert_eq(&text);
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary());
    }

    #[test]
    fn a_loss_that_is_no_number_is_null() {
        let metrics = Metrics { loss: f64::INFINITY, ..Metrics::from_sums(Split::Test, 1.0, 1, 1) };
        let text = serde_json::to_string(&metrics).unwrap();
        assert_eq!(text, r#"{"split":"test","loss":null,"error":0.0,"accuracy":1.0}"#);
        assert!(serde_json::from_str::<Metrics>(&text).unwrap().loss.is_nan());
    }

    #[test]
    fn divergence_is_told_where_there_is_one() {
        let last_finite = Some(LossAt { updates: Updates(6), loss: 2.5 });
        let mut diverged = summary();
        diverged.diverged = Some(Divergence { updates: Updates(7), loss: f64::NAN, last_finite });
        let text = serde_json::to_string(&diverged).unwrap();
        let told = r#""diverged":{"updates":7,"loss":null,"last_finite":{"updates":6,"loss":2.5}},"#;
        assert!(text.contains(told), "{text}");
        let read = serde_json::from_str::<Summary>(&text).unwrap().diverged.unwrap();
        assert!(read.loss.is_nan() && read.last_finite == last_finite);
    }

    #[test]
    fn noise_of_gradients_is_told_where_it_was_measured() {
        let mut estimate = NoiseScale::new(0.99);
        assert_eq!(GradientNoise::of(&estimate), None);
        estimate.push(NoisePair { signal: 0.5, noise: 40.0 });
        let mut noisy = summary();
        noisy.gradient = GradientNoise::of(&estimate);
        let text = serde_json::to_string(&noisy).unwrap();
        assert!(text.contains(r#""gradient":{"signal":0.5,"noise":40.0,"scale":80.0},"#), "{text}");
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), noisy);
    }

    #[test]
    fn targets_compare_with_exact_fractions() {
        let metrics = Metrics::from_sums(Split::Val, 0.0, 3500, 5000);
        let meets = |text: &str| metrics.meets(&Target::parse(text).unwrap());
        assert!(meets("val.error<=0.30") && !meets("val.error<0.30"));
        assert!(meets("val.accuracy>=0.70") && !meets("val.accuracy>0.70"));
        assert!(!meets("test.accuracy>=0.5"));
    }

    #[test]
    fn time_sums_to_wall() {
        assert_eq!(summary().time.wall(), summary().position.wall_seconds);
    }
}
