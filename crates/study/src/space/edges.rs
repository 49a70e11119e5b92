//! The check that the best trial does not lie near an end of a range, and ranges grown there.

use super::{Parameter, Range, Scale, Space};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The lowest value.
    Low,
    /// The highest value.
    High,
}

/// A value near an end of its range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    /// The metaparameter's place in the space.
    pub parameter: usize,
    /// Its name.
    pub name: String,
    /// Which end.
    pub side: Side,
    /// The value.
    pub value: f64,
    /// Distance to that end, as a share of the range on its scale.
    pub distance: f64,
    /// Whether the range can go on there: not past a floor or ceiling.
    pub can_widen: bool,
}

/// A best value nearer to an end of its range than this share of it is at the edge.
const EDGE: f64 = 0.1;

impl Space {
    /// The ends of ranges that a best trial's metaparameters lie near and that can be widened; none if it lacks one of them.
    pub fn tight_edges(&self, parameters: &BTreeMap<String, f64>) -> Vec<Edge> {
        let values = self.parameters.iter().map(|p| parameters.get(&p.name).copied());
        let edges = values.collect::<Option<Vec<f64>>>().map(|values| self.edges(&values, EDGE));
        edges.into_iter().flatten().filter(|edge| edge.can_widen).collect()
    }

    /// The ends of ranges that these values lie near: nearer than `margin` of the range on its scale, or beyond. Discrete
    /// values have no ends. A best trial at an edge that can be widened makes a study's result doubtful.
    pub fn edges(&self, values: &[f64], margin: f64) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (i, (parameter, unit)) in self.parameters.iter().zip(self.place(values)).enumerate() {
            let (Some(unit), false) = (unit, matches!(parameter.range, Range::Discrete { .. })) else {
                continue;
            };
            for (side, distance) in [(Side::Low, unit), (Side::High, 1.0 - unit)] {
                if distance < margin {
                    edges.push(Edge {
                        parameter: i,
                        name: parameter.name.clone(),
                        side,
                        value: values[i],
                        distance,
                        can_widen: parameter.widened(side, 0.5).is_some(),
                    });
                }
            }
        }
        edges
    }

    /// The space with the ranges at `edges` grown there by `share` of their width on their scale, up to their floors and
    /// ceilings. Edges that cannot be widened are left as they are.
    pub fn widen(&self, edges: &[Edge], share: f64) -> Space {
        let mut wider = self.clone();
        for edge in edges {
            let parameter = &mut wider.parameters[edge.parameter];
            if let Some(range) = parameter.widened(edge.side, share) {
                parameter.range = range;
            }
        }
        wider
    }
}

impl Parameter {
    /// The range grown on one side; `None` if it cannot grow there.
    fn widened(&self, side: Side, share: f64) -> Option<Range> {
        let (min, max) = self.range.ends();
        let end = if side == Side::Low { min } else { max };
        let scale = match self.range {
            Range::Real { scale, .. } | Range::Integer { scale, .. } => scale,
            Range::Discrete { .. } => return None,
        };
        let grow = share * (scale.even(max) - scale.even(min));
        let new = match side {
            Side::Low => scale.value(scale.even(min) - grow).max(self.floor.unwrap_or(f64::NEG_INFINITY)),
            Side::High => scale.value(scale.even(max) + grow).min(self.ceiling.unwrap_or(f64::INFINITY)),
        };
        let range = match (&self.range, side) {
            (Range::Real { .. }, Side::Low) => Range::Real { min: new, max, scale },
            (Range::Real { .. }, Side::High) => Range::Real { min, max: new, scale },
            (Range::Integer { max, .. }, Side::Low) => {
                let lowest = if scale == Scale::Log { 1.0 } else { f64::MIN };
                Range::Integer {
                    min: new.floor().max(lowest).max(self.floor.map_or(f64::MIN, f64::ceil)) as i64,
                    max: *max,
                    scale,
                }
            }
            (Range::Integer { min, .. }, Side::High) => Range::Integer {
                min: *min,
                max: new.ceil().min(self.ceiling.map_or(f64::MAX, f64::floor)) as i64,
                scale,
            },
            (Range::Discrete { .. }, _) => return None,
        };
        let (low, high) = range.ends();
        let moved = if side == Side::Low { low < end } else { high > end };
        (moved && range.check(&self.name).is_ok()).then_some(range)
    }
}
