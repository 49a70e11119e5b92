//! The layout in which the raw data of "Measuring the effects of data parallelism on neural network training" (Shallue,
//! Lee, Antognini, Sohl-Dickstein, Frostig, Dahl, 2018) was published, read from text; whoever calls reads the files.
//!
//! ```text
//! DATASET/MODEL/OPTIMIZER/BATCH/study.json                    one search: its ranges, and when a trial is complete
//! DATASET/MODEL/OPTIMIZER/BATCH/TRIAL/metadata.json           one trial: its status and metaparameters
//! DATASET/MODEL/OPTIMIZER/BATCH/TRIAL/measurements.csv        its evaluations, at irregular updates
//! ```
//! A data set's name may have several parts, such as `mnist_subsets/mnist_6875`. A step there is an update here, and
//! `val/classification_error` is the metric `val.classification_error`.

mod published;
#[cfg(test)]
mod tests;

pub use published::{published_target, train_examples};

use crate::error::{Fault, StudyError};
use crate::space::{Parameter, Range, Scale};
use crate::trial::{Progress, Series, Status, Trial};
use serde_json::{Map, Value};
use sooner_base::{Epochs, Examples, FreshExamples, Updates};
use std::collections::BTreeMap;

/// Which file of the layout a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchScienceFile {
    /// `study.json`.
    Study,
    /// `metadata.json` of a trial.
    Metadata(u64),
    /// `measurements.csv` of a trial.
    Measurements(u64),
}

/// A workload at one batch size: one folder of the layout, one point of a study's batch axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchSciencePoint {
    /// The data set, with any folders above it.
    pub dataset: String,
    /// The model.
    pub model: String,
    /// The optimiser.
    pub optimizer: String,
    /// Examples in a batch.
    pub batch: u64,
}

/// What a path below the layout's top folder, with `/` between its parts, is part of; `None` if it is no file of the
/// layout.
pub fn batch_science_path(path: &str) -> Option<(BatchSciencePoint, BatchScienceFile)> {
    let (folder, name) = path.rsplit_once('/')?;
    let (folder, file) = match name {
        "study.json" => (folder, BatchScienceFile::Study),
        "metadata.json" | "measurements.csv" => {
            let (folder, trial) = folder.rsplit_once('/')?;
            let trial = trial.parse().ok()?;
            let metadata = name == "metadata.json";
            (
                folder,
                if metadata {
                    BatchScienceFile::Metadata(trial)
                } else {
                    BatchScienceFile::Measurements(trial)
                },
            )
        }
        _ => return None,
    };
    let (folder, batch) = folder.rsplit_once('/')?;
    let (folder, optimizer) = folder.rsplit_once('/')?;
    let (dataset, model) = folder.rsplit_once('/')?;
    let filled = [dataset, model, optimizer].iter().all(|part| !part.is_empty());
    let point = BatchSciencePoint {
        dataset: dataset.into(),
        model: model.into(),
        optimizer: optimizer.into(),
        batch: batch.parse().ok().filter(|&batch| batch > 0)?,
    };
    filled.then_some((point, file))
}

/// A search at one batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchScienceStudy {
    /// Examples in a batch.
    pub batch: u64,
    /// Updates after which a trial counts as complete; `None` if a time budget decided.
    pub train_updates: Option<u64>,
    /// The metaparameters searched. A range of a single value is a discrete one here.
    pub parameters: Vec<Parameter>,
}

/// Reads a `study.json`. Err names the file (by `name`) and key.
pub fn parse_study(name: &str, text: &str) -> Result<BatchScienceStudy, StudyError> {
    let study = Object::parse(name, text)?;
    let batch = study.whole("batch_size")?;
    if batch == 0 {
        return Err(study.fault("batch_size", "at least 1", &Value::from(0)));
    }
    let train_updates = Some(study.whole("train_steps")?).filter(|&steps| steps > 0);
    let configs = study.object("parameter_configs")?;
    let parameters = configs.map.keys().map(|key| parameter(key, &configs.object(key)?));
    Ok(BatchScienceStudy { batch, train_updates, parameters: parameters.collect::<Result<_, _>>()? })
}

fn parameter(name: &str, config: &Object) -> Result<Parameter, StudyError> {
    let scale = match config.text("scale").unwrap_or("") {
        "" | "LINEAR_SCALE" => Scale::Linear,
        "LOG_SCALE" => Scale::Log,
        "REVERSE_LOG_SCALE" => Scale::OneMinusLog,
        _ => return Err(config.unlike("scale", "LINEAR_SCALE, LOG_SCALE or REVERSE_LOG_SCALE")),
    };
    let ends = || Ok::<_, StudyError>((config.number("min_value")?, config.number("max_value")?));
    let range = match config.text("type").unwrap_or("") {
        "DISCRETE" => {
            let points = config.map.get("feasible_points").and_then(Value::as_array);
            let values: Option<Vec<f64>> = points.and_then(|points| points.iter().map(number).collect());
            Range::Discrete {
                values: values.ok_or_else(|| config.unlike("feasible_points", "a list of numbers"))?,
            }
        }
        "DOUBLE" => match ends()? {
            (min, max) if min == max => Range::Discrete { values: vec![min] },
            (min, max) => Range::Real { min, max, scale },
        },
        "INTEGER" => match ends()? {
            (min, max) if min == max => Range::Discrete { values: vec![min] },
            (min, max) if min.fract() == 0.0 && max.fract() == 0.0 => {
                Range::Integer { min: min as i64, max: max as i64, scale }
            }
            (min, _) if min.fract() != 0.0 => return Err(config.unlike("min_value", "a whole number")),
            _ => return Err(config.unlike("max_value", "a whole number")),
        },
        _ => return Err(config.unlike("type", "DOUBLE, INTEGER or DISCRETE")),
    };
    Ok(Parameter { name: name.into(), range, floor: None, ceiling: None })
}

/// Reads a trial's `metadata.json`: its number, status and metaparameters, without evaluations. Err names the file (by
/// `name`) and key.
pub fn parse_metadata(name: &str, text: &str) -> Result<Trial, StudyError> {
    let metadata = Object::parse(name, text)?;
    let status = match metadata.text("status").unwrap_or("") {
        "COMPLETE" => Status::Complete,
        "INCOMPLETE" => Status::Incomplete,
        "INFEASIBLE" => Status::Infeasible,
        _ => return Err(metadata.unlike("status", "COMPLETE, INCOMPLETE or INFEASIBLE")),
    };
    let values = metadata.object("parameters")?;
    let parameters: Result<BTreeMap<String, f64>, StudyError> =
        values.map.keys().map(|key| Ok((key.clone(), values.number(key)?))).collect();
    Ok(Trial {
        number: metadata.whole("trial_id")?,
        status,
        parameters: parameters?,
        series: Series::default(),
    })
}

/// Reads a trial's `measurements.csv`, which may have its rows in any order and empty fields where nothing was measured.
/// `train_examples` is the size of the training split, for epochs. Err names the file (by `name`) and line.
pub fn parse_measurements(
    name: &str,
    text: &str,
    batch: u64,
    train_examples: Option<u64>,
) -> Result<Series, StudyError> {
    let fail = |line: usize, expected: &str, found: &str| {
        StudyError::BatchScience(Fault::new(format!("{name} line {line}"), expected, format!("{found:?}")))
    };
    let mut lines = text.trim_end().lines().enumerate().map(|(i, line)| (i + 1, line));
    let header: Vec<&str> =
        lines.next().map_or(Vec::new(), |(_, line)| line.split(',').map(str::trim).collect());
    let Some(step_column) = header.iter().position(|column| *column == "step") else {
        return Err(fail(1, "a header with a column named step", &header.join(",")));
    };
    let metrics: Vec<String> = header.iter().map(|column| column.replace('/', ".")).collect();
    let mut rows: Vec<(u64, Vec<f64>)> = Vec::new();
    for (line, content) in lines {
        let fields: Vec<&str> = content.split(',').map(str::trim).collect();
        if fields.len() != header.len() {
            return Err(fail(line, &format!("{} fields separated by commas", header.len()), content));
        }
        let value = |text: &&str| match *text {
            "" => Ok(f64::NAN),
            text => text.parse().map_err(|_| fail(line, "a number", text)),
        };
        let values: Vec<f64> = fields.iter().map(value).collect::<Result<_, _>>()?;
        let step =
            whole(values[step_column]).ok_or_else(|| fail(line, "a whole step", fields[step_column]))?;
        if step.checked_mul(batch).is_none() {
            return Err(fail(line, "fewer than 2^64 examples", fields[step_column]));
        }
        rows.push((step, values));
    }
    rows.sort_by_key(|(step, _)| *step);
    let mut series = Series::default();
    for (step, values) in rows {
        let examples = step * batch;
        let progress = Progress {
            updates: Updates(step),
            examples: Examples(examples),
            fresh: FreshExamples(examples),
            epochs: train_examples.map(|all| Epochs(examples as f64 / all as f64)),
            seconds: None,
        };
        let named = metrics.iter().zip(values).enumerate().filter(|(column, _)| *column != step_column);
        series.push(progress, named.map(|(_, (metric, value))| (metric.as_str(), value)));
    }
    Ok(series)
}

/// A whole number that a double holds exactly.
fn whole(value: f64) -> Option<u64> {
    (value >= 0.0 && value <= (1u64 << 53) as f64 && value.fract() == 0.0).then_some(value as u64)
}

/// A number, or a string that is one: both occur in files of several writers.
fn number(value: &Value) -> Option<f64> {
    let found = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    found.filter(|v| v.is_finite())
}

/// A JSON object that knows where it is.
struct Object {
    place: String,
    map: Map<String, Value>,
}

impl Object {
    fn parse(name: &str, text: &str) -> Result<Object, StudyError> {
        let fail = |found: &dyn std::fmt::Display| {
            StudyError::BatchScience(Fault::new(name, "a JSON object", found))
        };
        match serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
            Ok(Value::Object(map)) => Ok(Object { place: name.into(), map }),
            Ok(other) => Err(fail(&other)),
            Err(error) => Err(fail(&error)),
        }
    }

    fn fault(&self, key: &str, expected: &str, found: &Value) -> StudyError {
        StudyError::BatchScience(Fault::new(format!("{} {key}", self.place), expected, found))
    }

    fn unlike(&self, key: &str, expected: &str) -> StudyError {
        match self.map.get(key) {
            Some(value) => self.fault(key, expected, value),
            None => {
                StudyError::BatchScience(Fault::new(format!("{} {key}", self.place), expected, "no such key"))
            }
        }
    }

    fn object(&self, key: &str) -> Result<Object, StudyError> {
        let map =
            self.map.get(key).and_then(Value::as_object).ok_or_else(|| self.unlike(key, "an object"))?;
        Ok(Object { place: format!("{} {key}", self.place), map: map.clone() })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.map.get(key).and_then(Value::as_str)
    }

    fn number(&self, key: &str) -> Result<f64, StudyError> {
        self.map.get(key).and_then(number).ok_or_else(|| self.unlike(key, "a finite number"))
    }

    fn whole(&self, key: &str) -> Result<u64, StudyError> {
        let found = self.map.get(key).and_then(number).and_then(whole);
        found.ok_or_else(|| self.unlike(key, "a whole number from 0"))
    }
}
