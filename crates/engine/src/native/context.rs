//! What every kernel is given beside its operands: threads, instruction set, and scratch memory for each thread.

#![allow(unsafe_code)]

use super::pool::{Disjoint, Pool, Task};
use super::simd::Isa;

/// Parallelism, instruction set and scratch for kernels.
pub(crate) struct Context<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) isa: Isa,
    scratch: Disjoint<'a>,
    /// Values of scratch that each thread has.
    each: usize,
}

impl<'a> Context<'a> {
    /// Splits `scratch` evenly among the pool's threads.
    pub(crate) fn new(pool: &'a Pool, isa: Isa, scratch: &'a mut [f32]) -> Context<'a> {
        let each = scratch.len() / pool.threads();
        Context { pool, isa, scratch: Disjoint::new(scratch), each }
    }

    /// Runs tasks like [`Pool::run`], each with scratch of its own that holds leftovers of earlier tasks.
    pub(crate) fn run(&mut self, tasks: usize, run: &(dyn Fn(Task, &mut [f32]) + Sync)) {
        let (scratch, each) = (self.scratch, self.each);
        self.pool.run(tasks, &|task| {
            // SAFETY: no two tasks run with the same worker at the same time, and `&mut self` keeps other jobs out.
            run(task, unsafe { scratch.range(task.worker * each, each) });
        });
    }
}
