//! What an update does to variables, in vectors.

#![allow(unsafe_code)]

use super::columns::PART;
use super::pool::{Disjoint, Pool};
use super::simd::{Isa, multiversion};
use crate::{Sgd, State};

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

/// One variable's step of gradient descent; see [`Sgd`]. `numbers` are learning rate, momentum and weight decay.
pub(crate) fn descend(pool: &Pool, isa: Isa, sgd: &Sgd, numbers: [f32; 3], grad: &[f32], state: &mut State) {
    let [rate, momentum, decay] = numbers;
    let rule = Rule {
        rate: rate * sgd.rate_scale as f32,
        momentum,
        decay: decay * sgd.decay_scale as f32,
        nesterov: sgd.nesterov,
    };
    let Some(velocity) = sgd.velocity else {
        let param = &mut state.values[sgd.param.index()];
        pool.parts(param, PART, &|task, param| plain(isa, rule, &grad[task.index * PART..], param));
        return;
    };
    let [param, velocity] = state
        .values
        .get_disjoint_mut([sgd.param.index(), velocity.index()])
        .expect("a velocity is a variable of its own");
    assert_eq!(param.len(), velocity.len(), "a velocity has the shape of its variable");
    let velocity = Disjoint::new(velocity);
    pool.parts(param, PART, &|task, param| {
        let start = task.index * PART;
        // SAFETY: parts of the velocity are as far apart as those of the variable.
        let velocity = unsafe { velocity.range(start, param.len()) };
        with_velocity(isa, rule, &grad[start..], param, velocity);
    });
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    rate: f32,
    momentum: f32,
    decay: f32,
    nesterov: bool,
}

multiversion! {
    fn plain(rule: Rule, grad: &[f32], param: &mut [f32]) {
        for (theta, grad) in param.iter_mut().zip(grad) {
            *theta -= rule.rate * (grad + rule.decay * *theta);
        }
    }

    fn with_velocity(rule: Rule, grad: &[f32], param: &mut [f32], velocity: &mut [f32]) {
        for ((theta, v), grad) in param.iter_mut().zip(velocity).zip(grad) {
            let g = grad + rule.decay * *theta;
            *v = rule.momentum * *v + g;
            let step = if rule.nesterov { g + rule.momentum * *v } else { *v };
            *theta -= rule.rate * step;
        }
    }
}
