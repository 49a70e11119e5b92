//! What an update does to variables, in vectors.

#![allow(unsafe_code)]

use super::columns::PART;
use super::pool::{Disjoint, Pool};
use super::simd::{Isa, multiversion};
use crate::update::Numbers;
use crate::{Average, State, Step, StepRule, VarId};

/// Mixes a batch's statistics `[G, 2, C]` into running ones; see [`crate::Update::RunningStats`].
pub(crate) fn running_stats(batch: &[f32], rate: f64, counts: &[usize], running: &mut [f32]) {
    let (len, channels) = (running.len(), running.len() / 2);
    let rate = rate as f32;
    let total: usize = counts.iter().sum();
    running.iter_mut().for_each(|v| *v *= 1.0 - rate);
    for (group, &count) in batch.chunks_exact(len.max(1)).zip(counts) {
        let share = rate * (count as f64 / total as f64) as f32;
        let unbias = (count as f64 / (count as f64 - 1.0).max(1.0)) as f32;
        for (i, (running, batch)) in running.iter_mut().zip(group).enumerate() {
            let batch = if i < channels { *batch } else { unbias * batch };
            *running += share * batch;
        }
    }
}

/// One variable's step of an optimiser; see [`StepRule`].
pub(crate) fn step(pool: &Pool, stepper: &Stepper, grad: &[f32]) {
    assert_eq!(grad.len(), stepper.len(), "a gradient has the shape of its variable");
    pool.run(grad.len().div_ceil(PART), &|task| {
        let start = task.index * PART;
        // SAFETY: parts lie apart.
        unsafe { stepper.part(start, &grad[start..grad.len().min(start + PART)]) };
    });
}

/// A step of one variable that may be made in parts.
pub(crate) struct Stepper<'a> {
    isa: Isa,
    rule: Rule,
    param: Disjoint<'a>,
    slots: [Option<Disjoint<'a>>; 2],
}

impl<'a> Stepper<'a> {
    /// A step by these numbers.
    pub(crate) fn new(isa: Isa, step: &Step, numbers: Numbers, state: &'a mut State) -> Stepper<'a> {
        let rule = Rule::new(step, numbers);
        let param = step.param.index();
        let (param, slots) = match step.slots() {
            [None, _] => (Disjoint::new(&mut state.values[param]), [None; 2]),
            [Some(velocity), None] => {
                let [param, velocity] = state
                    .values
                    .get_disjoint_mut([param, velocity.index()])
                    .expect("a slot is a variable of its own");
                let velocity = slot(velocity, param);
                (Disjoint::new(param), [Some(velocity), None])
            }
            [Some(first), Some(second)] => {
                let [param, first, second] = state
                    .values
                    .get_disjoint_mut([param, first.index(), second.index()])
                    .expect("slots are variables of their own");
                let slots = [first, second].map(|values| Some(slot(values, param)));
                (Disjoint::new(param), slots)
            }
        };
        Stepper { isa, rule, param, slots }
    }

    /// Values of the variable.
    pub(crate) fn len(&self) -> usize {
        self.param.len()
    }

    /// Where the values that its step changes lie, from `start` on: so many, in the variable and in what the rule keeps.
    pub(crate) fn places(&self, start: usize) -> ([*const f32; 3], usize) {
        let of =
            |values: Option<Disjoint>| values.map(|values| values.pointer().wrapping_add(start).cast_const());
        let places = [Some(self.param), self.slots[0], self.slots[1]].map(of);
        let count = places.iter().flatten().count();
        (places.map(|place| place.unwrap_or(std::ptr::null())), count)
    }

    /// Makes the step for the values from `start` on, given their gradient.
    ///
    /// # Safety
    /// No part that overlaps with it may be in work at the same time.
    pub(crate) unsafe fn part(&self, start: usize, grad: &[f32]) {
        // SAFETY: handed on to the caller.
        unsafe { self.rows([start, 0], grad.len(), (grad, grad.len())) };
    }

    /// Makes the step for rows of so many values, the first from `start` on, `stride` apart, given rows of their gradient and
    /// how far those are apart: as many as there are of these.
    ///
    /// # Safety
    /// No part that overlaps with the rows may be in work at the same time.
    pub(crate) unsafe fn rows(&self, [start, stride]: [usize; 2], columns: usize, grads: (&[f32], usize)) {
        if columns == 0 {
            return;
        }
        let rows = |values: Disjoint<'a>| Rows { values, start, stride, columns };
        let param = rows(self.param);
        // SAFETY: handed on to the caller; slots are as long as the variable.
        match self.slots.map(|slot| slot.map(rows)) {
            [None, _] => plain(self.isa, self.rule, grads, param),
            [Some(velocity), None] => with_velocity(self.isa, self.rule, grads, [param, velocity]),
            [Some(first), Some(second)] => with_moments(self.isa, self.rule, grads, [param, first, second]),
        }
    }
}

/// Rows of a variable that nothing else has in work.
#[derive(Clone, Copy)]
struct Rows<'a> {
    values: Disjoint<'a>,
    start: usize,
    stride: usize,
    columns: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn row(&self, row: usize) -> &'a mut [f32] {
        // SAFETY: `Stepper::rows` is told that nothing else works on these, and its kernels ask for each row once.
        unsafe { self.values.range(self.start + row * self.stride, self.columns) }
    }
}

/// A slot of the optimiser, to be taken apart like its variable.
fn slot<'a>(slot: &'a mut [f32], param: &[f32]) -> Disjoint<'a> {
    assert_eq!(param.len(), slot.len(), "a slot has the shape of its variable");
    Disjoint::new(slot)
}

impl Step {
    /// The variables that the rule keeps.
    fn slots(&self) -> [Option<VarId>; 2] {
        match &self.rule {
            StepRule::Descent { velocity, .. } => [*velocity, None],
            StepRule::Lars { velocity, .. } => [Some(*velocity), None],
            StepRule::Adam { moments, .. } => moments.map(Some),
            StepRule::Along { .. } => [None, None],
        }
    }
}

/// Mixes a variable into its average, and copies it back if so; see [`Average`].
pub(crate) fn average(pool: &Pool, isa: Isa, average: &Average, decay: f32, state: &mut State) {
    let [mean, theta] = state
        .values
        .get_disjoint_mut([average.var.index(), average.of.index()])
        .expect("an average is a variable of its own");
    let theta = slot(theta, mean);
    pool.parts(mean, PART, &|task, mean| {
        // SAFETY: parts of the variable are as far apart as those of its average.
        let theta = unsafe { theta.range(task.index * PART, mean.len()) };
        mix(isa, decay, theta, mean);
        if average.copy_back {
            theta.copy_from_slice(mean);
        }
    });
}

/// The numbers of a step in f32.
#[derive(Debug, Clone, Copy)]
struct Rule {
    keep: f32,
    rate: f32,
    scale: f32,
    decay: f32,
    momentum: f32,
    second: [f32; 2],
    eps: f32,
    nesterov: bool,
}

impl Rule {
    fn new(step: &Step, numbers: Numbers) -> Rule {
        let nesterov = match step.rule {
            StepRule::Descent { nesterov, .. } | StepRule::Lars { nesterov, .. } => nesterov,
            StepRule::Adam { .. } | StepRule::Along { .. } => false,
        };
        Rule {
            keep: numbers.keep as f32,
            rate: numbers.rate as f32,
            scale: numbers.scale as f32,
            decay: numbers.decay as f32,
            momentum: numbers.momentum as f32,
            second: numbers.second.map(|v| v as f32),
            eps: numbers.eps as f32,
            nesterov,
        }
    }
}

/// What an optimiser keeps below this size becomes 0. Where a gradient stays at 0 (behind a ReLU that never opens, for
/// pixels that are always black) a velocity shrinks to numbers that are too small to be normal and stays there; a
/// processor takes a hundred times as long for those, and no variable can tell them from 0.
const LEAST: f32 = 1e-30;

/// Values of a row of the most usual length.
const SHORT: usize = 64;

#[inline(always)]
fn normal(value: f32) -> f32 {
    // NaN is kept.
    if value.abs() < LEAST { 0.0 } else { value }
}

#[inline(always)]
fn plain_row(rule: Rule, grad: &[f32], param: &mut [f32]) {
    for (theta, grad) in param.iter_mut().zip(grad) {
        *theta = rule.keep * *theta - rule.rate * (rule.scale * grad + rule.decay * *theta);
    }
}

#[inline(always)]
fn row_with_velocity(rule: Rule, grad: &[f32], param: &mut [f32], velocity: &mut [f32]) {
    for ((theta, v), grad) in param.iter_mut().zip(velocity).zip(grad) {
        let g = rule.scale * grad + rule.decay * *theta;
        *v = normal(rule.momentum * *v + g);
        let d = if rule.nesterov { g + rule.momentum * *v } else { *v };
        *theta = rule.keep * *theta - rule.rate * d;
    }
}

#[inline(always)]
fn row_with_moments(rule: Rule, grad: &[f32], param: &mut [f32], first: &mut [f32], second: &mut [f32]) {
    let [kept, correction] = rule.second;
    for (((theta, m), s), grad) in param.iter_mut().zip(first).zip(second).zip(grad) {
        let g = rule.scale * grad + rule.decay * *theta;
        *m = normal(rule.momentum * *m + (1.0 - rule.momentum) * g);
        *s = kept * *s + (1.0 - kept) * g * g;
        *theta = rule.keep * *theta - rule.rate * (*m / ((*s * correction).sqrt() + rule.eps));
    }
}

multiversion! {
    fn plain(rule: Rule, grads: (&[f32], usize), param: Rows) {
        for (row, grad) in grads.0.chunks(grads.1).enumerate() {
            let param = param.row(row);
            // A loop of known length begins at once.
            if let (Some(grad), true) = (grad.first_chunk::<SHORT>(), param.len() == SHORT) {
                plain_row(rule, grad, param.first_chunk_mut::<SHORT>().expect("just seen"));
            } else {
                plain_row(rule, grad, param);
            }
        }
    }

    fn with_velocity(rule: Rule, grads: (&[f32], usize), values: [Rows; 2]) {
        for (row, grad) in grads.0.chunks(grads.1).enumerate() {
            let [param, velocity] = values.map(|rows| rows.row(row));
            row_with_velocity(rule, grad, param, velocity);
        }
    }

    fn with_moments(rule: Rule, grads: (&[f32], usize), values: [Rows; 3]) {
        for (row, grad) in grads.0.chunks(grads.1).enumerate() {
            let [param, first, second] = values.map(|rows| rows.row(row));
            row_with_moments(rule, grad, param, first, second);
        }
    }

    fn mix(decay: f32, theta: &[f32], mean: &mut [f32]) {
        for (mean, theta) in mean.iter_mut().zip(theta) {
            *mean = decay * *mean + (1.0 - decay) * theta;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Kernels;

    #[test]
    fn velocities_end_at_zero_and_nan_stays() {
        for kernels in Kernels::available() {
            let isa = kernels.resolve().expect("it is available");
            let rule = Rule {
                keep: 1.0,
                rate: 0.1,
                scale: 1.0,
                decay: 0.0,
                momentum: 0.9,
                second: [0.999, 1.0],
                eps: 1e-8,
                nesterov: true,
            };
            let count = 19;
            let (mut param, mut velocity) = (vec![1f32; count], vec![1e-3; count]);
            let (mut first, mut second) = (vec![1e-3; count], vec![1e-6; count]);
            (velocity[3], first[3]) = (f32::NAN, f32::NAN);
            let at_rest = vec![0f32; count];
            for _ in 0..1000 {
                fn rows(values: &mut [f32]) -> Rows<'_> {
                    Rows { columns: values.len(), values: Disjoint::new(values), start: 0, stride: 0 }
                }
                let grads = (&at_rest[..], count);
                with_velocity(isa, rule, grads, [&mut param, &mut velocity].map(|values| rows(values)));
                let mut other = vec![0f32; count];
                with_moments(
                    isa,
                    rule,
                    grads,
                    [&mut other, &mut first, &mut second].map(|values| rows(values)),
                );
                let small = |v: &&f32| **v != 0.0 && v.abs() < LEAST;
                assert_eq!(velocity.iter().chain(&first).find(small), None, "{kernels:?}");
            }
            let zero = |(i, v): (usize, &f32)| if i == 3 { v.is_nan() } else { *v == 0.0 };
            assert!(
                velocity.iter().enumerate().all(zero) && first.iter().enumerate().all(zero),
                "{kernels:?}"
            );
        }
    }
}
