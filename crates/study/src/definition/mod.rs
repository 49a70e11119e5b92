//! A study's file: which workload, over which axes, which metaparameters are tuned at each of their points, how many
//! trials each gets, to what target and within what budget. Pure: text comes in, points come out; what a key of the
//! workload's plan means is known to whoever runs the trials.

mod points;
#[cfg(test)]
mod tests;

pub use points::{Confirms, PointPlan, place_points};

use crate::error::{Fault, StudyError};
use crate::points::{Points, Sequence};
use crate::space::{Parameter, Space};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use sooner_base::Seed;
use std::collections::BTreeMap;
use std::fmt;

/// A study as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyPlan {
    /// What it is called.
    pub name: String,
    /// What it asks, in a sentence for its report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Decides every trial's metaparameters and its own seed.
    #[serde(default = "first_seed")]
    pub seed: Seed,
    /// The built-in workload or plan file that trials train; none if they are commands, or if workloads are an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What to reach, as `SPLIT.METRIC OP VALUE`.
    pub target: String,
    /// How many feasible trials each point gets.
    pub trials: u64,
    /// How many may diverge or fail at a point before it is given up; ten times `trials` if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_lost: Option<u64>,
    /// How trials are spread over the search space.
    #[serde(default = "halton")]
    pub sequence: Sequence,
    /// Stop a trial after so many times the updates that the best one at its point has needed so far: it cannot be the
    /// best. At least 1; trials go on to their budget if none. Which of them are cut then depends on their timing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_best: Option<f64>,
    /// Threads of each trial.
    #[serde(default = "one")]
    pub threads: usize,
    /// The most a trial may use.
    #[serde(default)]
    pub budget: TrialBudget,
    /// What is compared: every combination of these values is a point.
    #[serde(default)]
    pub axes: toml::Table,
    /// Keys of the workload's plan that are the same for all trials.
    #[serde(default)]
    pub set: toml::Table,
    /// What is tuned at each point.
    #[serde(default)]
    pub tune: Vec<Parameter>,
    /// Trials that are commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecPlan>,
    /// Runs of each point's best trial with other seeds, once its search is done; none if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmPlan>,
    /// What is different at some points; a later one counts over an earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<AtPlan>,
}

fn first_seed() -> Seed {
    Seed(1)
}

fn halton() -> Sequence {
    Sequence::Halton
}

fn one() -> usize {
    1
}

/// The most a trial may use; where several are given, whichever ends first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialBudget {
    /// Updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<u64>,
    /// Examples in updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<u64>,
    /// Passes over the training split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<f64>,
    /// Wall seconds, evaluations included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl TrialBudget {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == TrialBudget::default()
    }

    fn check(&self, place: &str) -> Result<(), StudyError> {
        let good = |v: f64| v > 0.0 && v.is_finite();
        let numbers =
            [self.updates.map(|v| v as f64), self.examples.map(|v| v as f64), self.epochs, self.seconds];
        match numbers.into_iter().flatten().find(|v| !good(*v)) {
            Some(bad) => Err(fault(place, "numbers above 0", bad)),
            None => Ok(()),
        }
    }
}

/// Runs that repeat each point's best trial with other seeds: the best of a search was lucky too, and how lucky is not
/// seen in the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmPlan {
    /// How many, each with a seed of its own.
    pub runs: u64,
    /// Let them go on after they met the target to the end of the budget, so that their final quality can be compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_the_end: bool,
    /// Keys of the workload's plan for these runs alone, such as those that measure the noise of gradients.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub set: toml::Table,
}

impl ConfirmPlan {
    /// Those keys, dotted.
    pub fn settings(&self) -> Vec<(String, toml::Value)> {
        dotted(&self.set)
    }
}

/// Trials that are commands. `{NAME}` in an argument or a value of the environment stands for the trial's value of an
/// axis or metaparameter, or for `seed`, `trial`, `point`, `attempt`; `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecPlan {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// Added to the environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The most wall seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// Let a command go on after it met the target, instead of ending it there.
    #[serde(default)]
    pub to_the_end: bool,
}

/// What is different at the points that have these values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtPlan {
    /// Values of axes, one or a list for each; all must match.
    pub axes: toml::Table,
    /// Metaparameters that these points do not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Replaces metaparameters of the same name.
    #[serde(default)]
    pub tune: Vec<Parameter>,
    /// Replaces the budget, if it limits anything.
    #[serde(default)]
    pub budget: TrialBudget,
    /// Leave these points out: they would train the same as others, such as an echo factor of 1 at another place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
}

/// A value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A whole number, such as a batch size.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// A word, such as an optimiser's.
    Word(String),
}

impl AxisValue {
    /// The value as a number; none for a word.
    pub fn number(&self) -> Option<f64> {
        match self {
            AxisValue::Whole(n) => Some(*n as f64),
            AxisValue::Number(x) => Some(*x),
            AxisValue::Word(_) => None,
        }
    }

    fn read(value: &toml::Value, place: &str) -> Result<AxisValue, StudyError> {
        Ok(match value {
            toml::Value::Integer(n) => AxisValue::Whole(*n),
            toml::Value::Float(x) if x.is_finite() => AxisValue::Number(*x),
            toml::Value::String(word) => AxisValue::Word(word.clone()),
            other => return Err(fault(place, "numbers or words", other)),
        })
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Whole(n) => n.fmt(f),
            AxisValue::Number(x) => x.fmt(f),
            AxisValue::Word(word) => word.fmt(f),
        }
    }
}

fn fault(place: &str, expected: impl fmt::Display, found: impl fmt::Display) -> StudyError {
    StudyError::Definition(Fault::new(place, expected, found))
}

/// The axis of whole workloads: models and data sets are compared by it.
pub const WORKLOAD: &str = "workload";

/// Names that placeholders have beside axes and metaparameters.
pub const PLACEHOLDERS: [&str; 4] = ["seed", "trial", "point", "attempt"];

impl StudyPlan {
    /// Reads and checks a study's file.
    pub fn parse(text: &str) -> Result<StudyPlan, StudyError> {
        let plan: StudyPlan = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            fault(&format!("line {line}"), "a study's file", error.message())
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a study's plan holds nothing that TOML cannot")
    }

    /// The target, read.
    pub fn target(&self) -> Result<Target, StudyError> {
        self.target.parse()
    }

    /// How many feasible trials a point gets, and how many may be lost there before it is given up.
    pub fn wanted(&self, point: &PointPlan) -> (u64, u64) {
        match (&point.confirms, &self.confirm) {
            (None, _) => (self.trials, self.most_lost.unwrap_or(self.trials.saturating_mul(10))),
            (Some(_), Some(confirm)) => (confirm.runs, confirm.runs),
            // Runs that nobody asks for any more stay as they are.
            (Some(_), None) => (0, 0),
        }
    }

    /// What the trials of a point train: the axis `workload`, or else what is the same for all; none of commands.
    pub fn workload_at<'a>(&'a self, point: &'a PointPlan) -> Option<&'a str> {
        match point.value(WORKLOAD) {
            Some(AxisValue::Word(name)) => Some(name),
            _ => self.workload.as_deref(),
        }
    }

    /// Axes in the order of the file, with their values.
    pub fn axes(&self) -> Result<Vec<(String, Vec<AxisValue>)>, StudyError> {
        let mut axes = Vec::new();
        flatten(&self.axes, "", &mut |name, value| {
            let place = format!("axes.{name}");
            let list = value.as_array().ok_or_else(|| fault(&place, "a list of values", value))?;
            let values: Vec<AxisValue> =
                list.iter().map(|v| AxisValue::read(v, &place)).collect::<Result<_, _>>()?;
            if values.is_empty() {
                return Err(fault(&place, "at least one value", "none"));
            }
            if let Some((_, twice)) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
                return Err(fault(&place, "different values", format!("{twice} twice")));
            }
            axes.push((name.to_string(), values));
            Ok(())
        })?;
        Ok(axes)
    }

    /// The fixed keys of the workload's plan, dotted.
    pub fn settings(&self) -> Vec<(String, toml::Value)> {
        dotted(&self.set)
    }

    fn check(&self) -> Result<(), StudyError> {
        if self.name.is_empty() || self.name.contains(['/', '\\']) || self.name.starts_with('.') {
            return Err(fault("name", "a name that can be a folder's", format!("`{}`", self.name)));
        }
        self.target()?;
        if self.trials == 0 {
            return Err(fault("trials", "at least 1", 0));
        }
        if self.threads == 0 {
            return Err(fault("threads", "at least 1", 0));
        }
        if let Some(bad) = self.beyond_best.filter(|b| !(*b >= 1.0 && b.is_finite())) {
            return Err(fault("beyond_best", "at least 1, or a trial that is best could be cut", bad));
        }
        self.budget.check("budget")?;
        let axes = self.axes()?;
        let space = Space::new(self.tune.clone())?;
        let mut names: Vec<&str> = PLACEHOLDERS.to_vec();
        for name in axes.iter().map(|a| &a.0).chain(self.tune.iter().map(|p| &p.name)) {
            if names.contains(&name.as_str()) {
                return Err(fault(
                    name,
                    "each name once over axes, metaparameters and placeholders",
                    "twice",
                ));
            }
            names.push(name);
        }
        Points::new(&self.sequence, self.seed, space.parameters().len())?;
        if self.confirm.as_ref().is_some_and(|c| c.runs == 0) {
            return Err(fault("confirm.runs", "at least 1", 0));
        }
        let workloads = axes.iter().find(|(name, _)| name == WORKLOAD).map(|(_, values)| values);
        if let Some(bad) = workloads.and_then(|v| v.iter().find(|w| !matches!(w, AxisValue::Word(_)))) {
            return Err(fault("axes.workload", "names of workloads", bad));
        }
        match (&self.workload, &self.exec) {
            (Some(_), None) if workloads.is_none() => {}
            (None, None) if workloads.is_some() => {}
            (Some(_), None) => return Err(fault("workload", "one, or an axis of them", "both")),
            (None, Some(exec)) => self.check_exec(exec, &names)?,
            (Some(_), Some(_)) => return Err(fault("exec", "a workload or a command", "both")),
            (None, None) => return Err(fault("workload", "a workload or [exec]", "neither")),
        }
        for (i, at) in self.at.iter().enumerate() {
            let place = format!("at {}", i + 1);
            at.budget.check(&place)?;
            let mut named = at.tune.iter().map(|p| &p.name).chain(&at.without);
            if let Some(other) = named.find(|name| self.tune.iter().all(|q| q.name != **name)) {
                let expected = "metaparameters that are tuned elsewhere";
                return Err(fault(&place, expected, format!("`{other}`")));
            }
        }
        // Spaces of single points are checked when they are made.
        self.points().map(|_| ())
    }

    fn check_exec(&self, exec: &ExecPlan, names: &[&str]) -> Result<(), StudyError> {
        if exec.command.is_empty() {
            return Err(fault("exec.command", "a program and its arguments", "nothing"));
        }
        if let Some(bad) = exec.time_limit.filter(|t| !(*t > 0.0 && t.is_finite())) {
            return Err(fault("exec.time_limit", "seconds above 0", bad));
        }
        for text in exec.command.iter().chain(exec.env.values()) {
            fill(text, &|name| names.contains(&name).then(String::new)).map_err(|name| {
                let expected = format!("a placeholder of {}", names.join(", "));
                fault("exec", expected, format!("{{{name}}} in `{text}`"))
            })?;
        }
        if !self.set.is_empty() {
            return Err(fault("set", "nothing, for commands have no plan", "keys"));
        }
        Ok(())
    }
}

fn dotted(table: &toml::Table) -> Vec<(String, toml::Value)> {
    let mut settings = Vec::new();
    let all = flatten(table, "", &mut |name, value| {
        settings.push((name.to_string(), value.clone()));
        Ok(())
    });
    all.expect("nothing is refused");
    settings
}

/// Visits the values of nested tables by their dotted names.
fn flatten(
    table: &toml::Table,
    above: &str,
    visit: &mut dyn FnMut(&str, &toml::Value) -> Result<(), StudyError>,
) -> Result<(), StudyError> {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(inner, &name, visit)?,
            value => visit(&name, value)?,
        }
    }
    Ok(())
}

/// A text with its placeholders replaced. Err holds the name of one that has no value, or what follows an open brace
/// that is never closed.
pub fn fill(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            filled.push_str(brace);
            rest = after;
        } else if brace == "{" {
            let (name, after) = rest.split_once('}').ok_or_else(|| rest.to_string())?;
            filled.push_str(&value(name).ok_or_else(|| name.to_string())?);
            rest = after;
        } else {
            return Err(format!("}}{rest}"));
        }
    }
    filled.push_str(rest);
    Ok(filled)
}
