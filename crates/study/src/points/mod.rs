//! Where a study's trials lie in the unit cube: a pure function of (study seed, trial number), so that any number of
//! workers, in any order and after any restart, draw the same points, and more trials only add points.

mod halton;
mod scramble;
mod sobol;

use crate::error::{Fault, StudyError};
use halton::Halton;
use serde::{Deserialize, Serialize};
use sobol::Sobol;
use sooner_base::{Purpose, Seed};

/// How points are spread over the unit cube.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sequence {
    /// Halton's, scrambled: evenly spread, for any number of dimensions.
    Halton,
    /// Sobol's, scrambled: spread more evenly still at powers of two, for up to 32 dimensions.
    Sobol,
    /// Independent uniform points.
    Random,
    /// Every combination of so many equidistant values in each dimension, ends included, the last dimension running
    /// fastest; a single value is the middle.
    Grid(Vec<u32>),
}

enum Source {
    Halton(Halton),
    Sobol(Sobol),
    Random,
    Grid(Vec<u64>),
}

/// The points of one study.
pub struct Points {
    source: Source,
    seed: Seed,
    dims: usize,
}

/// More would mean bases whose first digit no study ever counts through.
const MAX_DIMS: usize = 256;

impl Points {
    /// The points of `sequence` in `dims` dimensions, one for each metaparameter. Err if it has no such points: too many
    /// dimensions, or a grid of another number of dimensions or without values.
    pub fn new(sequence: &Sequence, seed: Seed, dims: usize) -> Result<Points, StudyError> {
        let fail = |fault| Err(StudyError::Points(fault));
        if dims > MAX_DIMS {
            return fail(Fault::new("metaparameters", format!("at most {MAX_DIMS}"), dims));
        }
        let source = match sequence {
            Sequence::Halton => Source::Halton(Halton::new(dims)),
            Sequence::Sobol if dims > sobol::MAX_DIMS => {
                let expected = format!("at most {} for sobol", sobol::MAX_DIMS);
                return fail(Fault::new("metaparameters", expected, dims).hint("halton takes more"));
            }
            Sequence::Sobol => Source::Sobol(Sobol::new(dims)),
            Sequence::Random => Source::Random,
            Sequence::Grid(counts) => {
                if counts.len() != dims {
                    let expected = format!("{dims} numbers, one for each metaparameter");
                    return fail(Fault::new("grid", expected, format!("{} numbers", counts.len())));
                }
                let counts: Vec<u64> = counts.iter().map(|&n| u64::from(n)).collect();
                let size = counts.iter().try_fold(1u64, |size, &n| size.checked_mul(n));
                match size {
                    None => return fail(Fault::new("grid", "fewer than 2^64 points", "more")),
                    Some(0) => {
                        return fail(Fault::new("grid", "at least one value of each metaparameter", 0));
                    }
                    Some(_) => Source::Grid(counts),
                }
            }
        };
        Ok(Points { source, seed, dims })
    }

    /// How many points there are; `None` if they never end.
    pub fn len(&self) -> Option<u64> {
        match &self.source {
            Source::Grid(counts) => Some(counts.iter().product()),
            _ => None,
        }
    }

    /// Whether there are no points: never, but `len` wants the question answered.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The point of trial `trial`, one coordinate in [0, 1] for each dimension (1 itself only on a grid); `None` past the
    /// end of a grid.
    pub fn point(&self, trial: u64) -> Option<Vec<f64>> {
        if self.len().is_some_and(|len| trial >= len) {
            return None;
        }
        let key = |dim: usize| self.seed.key(Purpose::Study, dim as u64);
        let mut below: u64 = self.len().unwrap_or(1);
        let coordinate = |dim: usize| match &self.source {
            Source::Halton(halton) => halton.coordinate(dim, trial, Some(key(dim))),
            Source::Sobol(sobol) => sobol.coordinate(dim, trial, Some(key(dim))),
            Source::Random => key(dim).at(0, trial, 0).f64(),
            Source::Grid(counts) => {
                below /= counts[dim];
                match (trial / below % counts[dim], counts[dim]) {
                    (_, 1) => 0.5,
                    (k, n) => k as f64 / (n - 1) as f64,
                }
            }
        };
        Some((0..self.dims).map(coordinate).collect())
    }
}

#[cfg(test)]
mod tests;
