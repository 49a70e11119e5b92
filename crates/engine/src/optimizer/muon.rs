//! Muon (Jordan, 2024): the momentum of each weight, as a matrix of inputs by outputs, is replaced by the orthogonal
//! matrix nearest to it, more or less, by a few rounds of an iteration of Newton and Schulz. Matrices of one shape go
//! through it together.
//!
//! v' = m v + g; d = g + m v'; X = d / (|d| + 1e-7), then in each round, with A the smaller of X X^T and X^T X,
//! X <- a X + (b A + c A A) X (or X times that); theta -= eta X.

use super::Build;
use crate::{EngineError, MOST_STACKED, NodeId, Op, Step, StepRule, Transposed, Update, VarId};
use sooner_base::Shape;

/// a, b and c of the iteration.
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// Added to norms.
const EPS: f64 = 1e-7;

/// The step of one weight, its gradient not yet a direction.
pub(super) struct Matrix {
    pub(super) step: Step,
    pub(super) velocity: VarId,
    pub(super) momentum: NodeId,
    pub(super) rounds: usize,
    pub(super) renormalize: bool,
}

impl Matrix {
    /// Whether the two can go through the iteration together.
    fn is_alike(&self, other: &Matrix, shape: &Shape, other_shape: &Shape) -> bool {
        shape == other_shape && self.momentum == other.momentum && self.rounds == other.rounds
    }
}

impl Build<'_> {
    /// Adds the steps of all gathered matrices.
    pub(super) fn orthogonalize(&mut self) -> Result<(), EngineError> {
        let mut rest = std::mem::take(&mut self.matrices);
        while !rest.is_empty() {
            let shape = |matrix: &Matrix| self.vars.get(matrix.step.param).shape.clone();
            let like = shape(&rest[0]);
            let (mut batch, mut others) = (vec![], vec![]);
            for matrix in rest {
                let first = batch.first().unwrap_or(&matrix);
                let fits = matrix.is_alike(first, &shape(&matrix), &like) && batch.len() < MOST_STACKED;
                if fits { batch.push(matrix) } else { others.push(matrix) }
            }
            self.batch(batch, &like)?;
            rest = others;
        }
        Ok(())
    }

    /// Matrices of one shape.
    fn batch(&mut self, batch: Vec<Matrix>, shape: &Shape) -> Result<(), EngineError> {
        let outputs = shape.last();
        let inputs = shape.len() / outputs.max(1);
        let stacked = [batch.len(), inputs, outputs];
        let momentum = batch[0].momentum;
        let mut gradients = Vec::with_capacity(batch.len());
        for matrix in &batch {
            gradients.push(match matrix.step.clip {
                Some(clip) => self.graph.scale_by(matrix.step.grad, clip)?,
                None => matrix.step.grad,
            });
        }
        let velocities: Vec<NodeId> = batch.iter().map(|m| self.graph.read(self.vars, m.velocity)).collect();
        let g = self.stack(&gradients, stacked)?;
        let v = self.stack(&velocities, stacked)?;
        let kept = self.graph.scale_by(v, momentum)?;
        let v = self.graph.add(kept, g)?;
        let ahead = self.graph.scale_by(v, momentum)?;
        let d = self.graph.add(ahead, g)?;
        let x = self.iterate(d, batch[0].rounds)?;
        for (row, Matrix { step, velocity, renormalize, .. }) in batch.into_iter().enumerate() {
            let value = self.graph.row(v, row)?;
            let value = self.graph.reshape(value, shape.clone())?;
            let grad = self.graph.row(x, row)?;
            let grad = self.graph.reshape(grad, shape.clone())?;
            let ratio = outputs as f64 / inputs as f64;
            let (norm, scale) = if renormalize {
                (Some((self.squares_of(step.param)?, (outputs as f64).sqrt())), 1.0)
            } else {
                (None, ratio.max(1.0).sqrt())
            };
            self.updates.push(Update::Assign { var: velocity, value, active: step.active });
            // Decay goes by eta alone, so what scales the direction must not be in the rate.
            let grad = if scale == 1.0 { grad } else { self.graph.scale(grad, scale)? };
            let rule = StepRule::Along { norm };
            self.updates.push(Update::Step(Step { grad, rule, decoupled: true, clip: None, ..step }));
        }
        Ok(())
    }

    fn stack(&mut self, parts: &[NodeId], shape: [usize; 3]) -> Result<NodeId, EngineError> {
        let stacked = self.graph.stack(parts)?;
        self.graph.reshape(stacked, shape)
    }

    /// d: `[B, I, O]` -> nearly orthogonal matrices.
    fn iterate(&mut self, d: NodeId, rounds: usize) -> Result<NodeId, EngineError> {
        let [a, b, c] = COEFFICIENTS;
        let shape = self.graph.shape(d).clone();
        // The smaller of the two squares.
        let tall = shape[1] >= shape[2];
        let mut x = self.graph.push(Op::UnitRows { eps: EPS }, &[d])?;
        for _ in 0..rounds {
            let g = &mut *self.graph;
            let square = g.batch_matmul(x, x, if tall { Transposed::Left } else { Transposed::Right })?;
            let fourth = g.batch_matmul(square, square, Transposed::Neither)?;
            let (square, fourth) = (g.scale(square, b)?, g.scale(fourth, c)?);
            let polynomial = g.add(square, fourth)?;
            let (left, right) = if tall { (x, polynomial) } else { (polynomial, x) };
            let product = g.batch_matmul(left, right, Transposed::Neither)?;
            let x_scaled = g.scale(x, a)?;
            x = g.add(x_scaled, product)?;
        }
        Ok(x)
    }
}
