//! The points of a study's axes, each with its own search space and budget, since what is good for a small batch is not
//! good for a large one.

use super::{AtPlan, AxisValue, StudyPlan, TrialBudget, fault};
use crate::error::StudyError;
use crate::points::Points;
use crate::space::{Parameter, Space};
use serde::{Deserialize, Serialize};
use sooner_base::{Purpose, Seed};
use std::collections::BTreeMap;

/// One point of a study's axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointPlan {
    /// Axes and this point's values, in the order of the file.
    pub axes: Vec<(String, AxisValue)>,
    /// What is tuned here.
    pub tune: Vec<Parameter>,
    /// The most a trial may use here.
    pub budget: TrialBudget,
    /// What its runs repeat with other seeds; none where metaparameters are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirms: Option<Confirms>,
}

/// A trial that is run again with other seeds: the best one of the point that has these axes and searches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confirms {
    /// Its number there.
    pub trial: u64,
    /// Its metaparameters.
    pub values: BTreeMap<String, f64>,
}

impl PointPlan {
    /// The value on an axis.
    pub fn value(&self, axis: &str) -> Option<&AxisValue> {
        self.axes.iter().find(|(name, _)| name == axis).map(|(_, value)| value)
    }

    /// In words: `batch 32, optimizer sgd`.
    pub fn label(&self) -> String {
        let parts: Vec<String> = self.axes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let label = if parts.is_empty() { "the only point".to_string() } else { parts.join(", ") };
        match &self.confirms {
            None => label,
            Some(confirms) => format!("{label}, trial {} over seeds", confirms.trial),
        }
    }

    /// Whether another point stands for the same trials.
    pub fn is(&self, other: &PointPlan) -> bool {
        self.axes == other.axes && self.confirms == other.confirms
    }

    /// The space that is searched here. Panics if it was not checked.
    pub fn space(&self) -> Space {
        Space::new(self.tune.clone()).expect("spaces are checked when points are made")
    }

    /// The text that the store keeps.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a point holds nothing that JSON cannot")
    }

    /// Reads that text.
    pub fn parse(text: &str) -> Result<PointPlan, StudyError> {
        let point: PointPlan =
            serde_json::from_str(text).map_err(|e| fault("point", "a point as stored", e))?;
        Space::new(point.tune.clone())?;
        Ok(point)
    }
}

impl StudyPlan {
    /// Every combination of the axes' values, the last axis running fastest.
    pub fn points(&self) -> Result<Vec<PointPlan>, StudyError> {
        let only =
            PointPlan { axes: Vec::new(), tune: self.tune.clone(), budget: self.budget, confirms: None };
        let mut points = vec![only];
        for (name, values) in self.axes()? {
            let extended = points.iter().flat_map(|point| {
                values.iter().map(|value| {
                    let mut point = point.clone();
                    point.axes.push((name.clone(), value.clone()));
                    point
                })
            });
            points = extended.collect();
        }
        // Points that are left out stay until the end, so that what is said of them is checked like any other.
        let mut kept = vec![true; points.len()];
        for at in &self.at {
            let mut matched = false;
            for (point, kept) in points.iter_mut().zip(&mut kept) {
                if matches(at, point)? {
                    matched = true;
                    apply(at, point);
                    *kept &= !at.skip;
                }
            }
            if !matched {
                return Err(fault("at", "values that some point has", &at.axes));
            }
        }
        let mut kept = kept.into_iter();
        points.retain(|_| kept.next().expect("one for each point"));
        if points.is_empty() {
            return Err(fault("at", "a point that is not left out", "none"));
        }
        for point in &points {
            Space::new(point.tune.clone())?;
            if point.budget.is_empty() && self.exec.is_none() {
                let expected = "budget.updates, examples, epochs or seconds";
                return Err(fault("budget", expected, format!("none at {}", point.label())));
            }
        }
        Ok(points)
    }

    /// The metaparameters of a trial: a function of the study's seed and the trial's number within the space of its point.
    /// `None` past the end of a grid.
    pub fn draw(&self, point: &PointPlan, number: u64) -> Option<BTreeMap<String, f64>> {
        if let Some(confirms) = &point.confirms {
            return Some(confirms.values.clone());
        }
        let space = point.space();
        let dims = space.parameters().len();
        let points = Points::new(&self.sequence, self.seed, dims).expect("checked when the study was read");
        let values = space.values(&points.point(number)?);
        Some(space.parameters().iter().map(|p| p.name.clone()).zip(values).collect())
    }

    /// The seed that a trial trains with, a function of the study's seed, its point and its number; below 2^31, as other
    /// programs want it.
    pub fn trial_seed(&self, point: u64, number: u64) -> Seed {
        // Points count dimensions of the sequence from 0, resampling has a salt of its own; this is a third stream.
        const SALT: u64 = 0x5eed;
        Seed(u64::from(self.seed.key(Purpose::Study, SALT).derive(point).at(0, number, 0).u32() >> 1))
    }
}

fn matches(at: &AtPlan, point: &PointPlan) -> Result<bool, StudyError> {
    for (axis, wanted) in &at.axes {
        let place = format!("at.axes.{axis}");
        let value = point.value(axis).ok_or_else(|| fault(&place, "an axis of the study", axis))?;
        let list = wanted.as_array().map_or_else(|| std::slice::from_ref(wanted), Vec::as_slice);
        let mut found = false;
        for wanted in list {
            found |= AxisValue::read(wanted, &place)? == *value;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn apply(at: &AtPlan, point: &mut PointPlan) {
    point.tune.retain(|p| !at.without.contains(&p.name));
    for parameter in &at.tune {
        if let Some(place) = point.tune.iter_mut().find(|p| p.name == parameter.name) {
            *place = parameter.clone();
        }
    }
    if !at.budget.is_empty() {
        point.budget = at.budget;
    }
}

/// Numbers for the points of a definition: those that were there before, told by their axes, keep theirs, new ones follow.
/// Points that confirm others stay.
pub fn place_points(new: Vec<PointPlan>, old: &[(u64, PointPlan)]) -> Vec<(u64, PointPlan)> {
    let mut next = old.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
    let mut placed: Vec<(u64, PointPlan)> = new
        .into_iter()
        .map(|point| match old.iter().find(|(_, o)| o.is(&point)) {
            Some((id, _)) => (*id, point),
            None => {
                next += 1;
                (next - 1, point)
            }
        })
        .collect();
    placed.extend(old.iter().filter(|(_, o)| o.confirms.is_some()).cloned());
    placed.sort_by_key(|(id, _)| *id);
    placed
}
