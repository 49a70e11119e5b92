//! The noisy quadratic model (Zhang, Li, Nado, Martens, Sachdeva, Dahl, Shallue, Grosse, 2019), solved exactly: a
//! workload whose updates-to-target at any batch size and echo factor need no training, so the whole method of a study
//! can be checked against it.
//!
//! Dimension i, from 1, has curvature h = 1/i. A fresh batch gives the gradient h theta + noise of variance h / batch;
//! the noise is held for the batch's `echo` updates. Theta starts at 1 in every dimension, the velocity at 0. The
//! expected loss is the sum of h E[theta^2] / 2.

mod curve;
mod moments;
mod search;
mod trial;

pub use curve::loss_curve;
pub use search::{fresh_batches_to_goal, solve};
pub use trial::run_trial;

use crate::error::{Fault, StudyError};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The update rules of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NqmOptimizer {
    /// theta -= rate gradient.
    Sgd,
    /// Heavy ball: v = g v + gradient, theta -= rate v.
    Momentum,
    /// Nesterov: v = g v + gradient, theta -= rate (g v + gradient).
    Nesterov,
}

impl NqmOptimizer {
    /// The momenta g of the search grid.
    pub fn momenta(self) -> &'static [f64] {
        match self {
            NqmOptimizer::Sgd => &[0.0],
            NqmOptimizer::Momentum | NqmOptimizer::Nesterov => &[0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99],
        }
    }

    /// As it is written on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            NqmOptimizer::Sgd => "sgd",
            NqmOptimizer::Momentum => "momentum",
            NqmOptimizer::Nesterov => "nesterov",
        }
    }
}

impl FromStr for NqmOptimizer {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<NqmOptimizer, StudyError> {
        [NqmOptimizer::Sgd, NqmOptimizer::Momentum, NqmOptimizer::Nesterov]
            .into_iter()
            .find(|o| o.name() == text)
            .ok_or_else(|| StudyError::Nqm(Fault::new("optimizer", "sgd, momentum or nesterov", text)))
    }
}

/// One question to the model: how many fresh batches does the best learning rate and momentum need?
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NqmSpec {
    /// Number of dimensions.
    pub dims: usize,
    /// The target, as a share of the initial loss: reached when the loss is strictly below it.
    pub goal: f64,
    /// The update rule.
    pub optimizer: NqmOptimizer,
    /// Examples in a batch.
    pub batch: u64,
    /// Updates made with each fresh batch.
    pub echo: u32,
}

impl NqmSpec {
    /// The curvature of dimension `i`, counted from 0.
    pub fn curvature(&self, i: usize) -> f64 {
        1.0 / (i + 1) as f64
    }

    /// The loss before the first update.
    pub fn initial_loss(&self) -> f64 {
        (0..self.dims).map(|i| 0.5 * self.curvature(i)).sum()
    }

    /// Checks that the question makes sense. Err names the field.
    pub fn check(&self) -> Result<(), StudyError> {
        let fail = |place, expected, found: &dyn std::fmt::Display| {
            Err(StudyError::Nqm(Fault::new(place, expected, found)))
        };
        if self.dims == 0 || self.dims > 100_000 {
            return fail("dims", "1 to 100000", &self.dims);
        }
        if !(self.goal > 0.0 && self.goal < 1.0) {
            return fail("goal", "a share of the initial loss, above 0 and below 1", &self.goal);
        }
        if self.batch == 0 {
            return fail("batch", "at least 1 example", &self.batch);
        }
        if self.echo == 0 || self.echo > 65_536 {
            return fail("echo", "1 to 65536 updates from each batch", &self.echo);
        }
        Ok(())
    }
}

/// The answer: the fewest fresh batches to the goal over the grid, and one best cell of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NqmCell {
    /// Examples in a batch.
    pub batch: u64,
    /// Updates made with each fresh batch.
    pub echo: u32,
    /// Fresh batches to the goal.
    pub fresh_batches: u64,
    /// Updates to the goal: fresh batches times the echo factor.
    pub updates: u64,
    /// The best learning rate, per update.
    pub learning_rate: f64,
    /// The best momentum.
    pub momentum: f64,
}

#[cfg(test)]
mod tests;
