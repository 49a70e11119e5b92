//! Runs programs: everything is decided and allocated when a program is compiled; a run only computes.

#![allow(unsafe_code)]

use super::context::Context;
use super::cost::{self, Cost};
use super::halves;
use super::kernel::{MAX_ARGS, Operands};
use super::lower::{Deferred, Lowered, Source, Step, Value, lower};
use super::memory::Arena;
use super::plan::{Place, Placed, Plan, plan};
use super::pool::{Disjoint, Pool};
use super::simd::{Choice, Isa, Kernels};
use super::update::{self, Stepper};
use crate::{EngineError, Feed, NodeId, Program, State, Update, naive};
use sooner_base::{Bytes, Clock, Seconds};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How a program is run natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeOptions {
    /// Threads that compute, the caller's included.
    pub threads: NonZeroUsize,
    /// Which kernels to run. The choice decides the last bits of results; the number of threads does not.
    pub kernels: Kernels,
}

/// How values that only the way back still needs are kept until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// As they were computed.
    #[default]
    F32,
    /// Rounded to bf16: half the memory, two more passes over each, gradients with 8 bits of precision in what they are
    /// made of. The way forward has the same bits.
    Bf16,
}

/// A program compiled for this machine.
#[derive(Debug)]
pub struct Native {
    program: Program,
    low: Lowered,
    plan: Plan,
    arena: Arena,
    scratch: Arena,
    pool: Arc<Pool>,
    isa: Isa,
    /// What `Auto` came to.
    kernels: Kernels,
}

/// What one operation of a program took in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct OpTime {
    /// The operation; where several are fused, the first. `store` rounds the result of another, or takes it back. Updates of variables are `update`, with the gradients that they
    /// make themselves.
    pub op: &'static str,
    /// The node that holds its result; none for updates.
    pub node: Option<NodeId>,
    /// Wall time.
    pub seconds: Seconds,
    /// Two for each multiply-add of convolutions and matrix products, as the direct formula counts them.
    pub flops: u64,
    /// Operands read once and the result written once, wherever they are.
    pub bytes: u64,
}

impl OpTime {
    /// The least time at this peak (operations a second) and this bandwidth (bytes a second). Fast algorithms and
    /// values that the caches still hold may take less.
    pub fn floor(&self, peak: f64, bandwidth: f64) -> Seconds {
        let share = |work: u64, rate: f64| if work == 0 { 0.0 } else { work as f64 / rate };
        Seconds(share(self.flops, peak).max(share(self.bytes, bandwidth)))
    }
}

impl Native {
    /// Compiles a program, with threads of its own. Fails if this machine cannot execute the kernels asked for.
    pub fn compile(program: &Program, options: &NativeOptions) -> Result<Native, EngineError> {
        Native::compile_on(program, options.kernels, Arc::new(Pool::new(options.threads)))
    }

    /// Compiles a program for threads that it may share with others; programs that share them take turns.
    pub fn compile_on(program: &Program, kernels: Kernels, pool: Arc<Pool>) -> Result<Native, EngineError> {
        Native::compile_storing(program, (kernels, Storage::F32), pool)
    }

    /// The same with values stored otherwise between the way forward and the way back.
    pub fn compile_storing(
        program: &Program,
        (kernels, storage): (Kernels, Storage),
        pool: Arc<Pool>,
    ) -> Result<Native, EngineError> {
        let isa = kernels.resolve()?;
        let mut low = lower(program, Choice { isa, exact: kernels.is_exact() });
        if storage == Storage::Bf16 {
            halves::store(&mut low);
        }
        let plan = plan(&low);
        let arena = Arena::new(plan.len);
        let steps = low.steps.iter().map(|step| step.kernel.scratch());
        let deferred = low.deferred.iter().flatten().map(|deferred| deferred.outer.scratch());
        let each = steps.chain(deferred).max().unwrap_or(0);
        // Whole cache lines for each thread, and one between them that nobody writes.
        let each = each.next_multiple_of(super::memory::LINE) + super::memory::LINE;
        let scratch = Arena::new(each * pool.threads());
        Ok(Native {
            program: program.clone(),
            low,
            plan,
            arena,
            scratch,
            pool,
            isa,
            kernels: kernels.settled()?,
        })
    }

    /// Computes the program's values, then changes the state by its updates in order. Fails before any change if the
    /// feed or the state does not fit the program, or a label is not a class. Allocates nothing.
    pub fn run(&mut self, state: &mut State, feed: &Feed) -> Result<(), EngineError> {
        self.compute(state, feed)?;
        for at in 0..self.program.updates.len() {
            self.update(at, state, feed);
        }
        Ok(())
    }

    /// Computes the program's values and changes nothing: [`Native::run`] without the updates. Fails like it.
    pub fn compute(&mut self, state: &State, feed: &Feed) -> Result<(), EngineError> {
        naive::check(&self.program, state, feed)?;
        for at in 0..self.low.steps.len() {
            self.step(at, state, feed);
        }
        naive::check_lane(feed)
    }

    /// The program that is run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs like [`Native::run`] and says what each operation took, in order.
    pub fn run_timed(
        &mut self,
        state: &mut State,
        feed: &Feed,
        clock: &dyn Clock,
    ) -> Result<Vec<OpTime>, EngineError> {
        naive::check(&self.program, state, feed)?;
        let mut times = Vec::with_capacity(self.low.steps.len() + 1);
        let mut before = clock.now();
        let mut lap = |op, node, cost: Cost| {
            let now = clock.now();
            times.push(OpTime { op, node, seconds: now - before, flops: cost.flops, bytes: cost.bytes });
            before = now;
        };
        for at in 0..self.low.steps.len() {
            self.step(at, state, feed);
            let step = &self.low.steps[at];
            let graph = &self.program.graph;
            let op = if step.kernel.is_storage() { "store" } else { graph.node(step.head).op.name() };
            lap(op, Some(step.node), cost::step(graph, step));
        }
        for at in 0..self.program.updates.len() {
            self.update(at, state, feed);
        }
        lap("update", None, cost::updates(&self.program, &self.low));
        Ok(times)
    }

    /// The values of the program's output number `index` in the last run; zeros before the first.
    pub fn output(&self, index: usize) -> &[f32] {
        let place = self.plan.place(&self.low.outputs[index]).expect("outputs are results of steps");
        &self.arena.values()[place.start..place.start + place.len]
    }

    /// The kernels that run, for the record: a name that decides the bits of results together with the program.
    pub fn kernels(&self) -> &'static str {
        self.kernels.name()
    }

    /// Memory held besides the state: values between operations, workspace, and the threads' scratch.
    pub fn resident_bytes(&self) -> Bytes {
        Bytes(4 * (self.arena.len() + self.scratch.len()) as u64)
    }

    fn step(&mut self, at: usize, state: &State, feed: &Feed) {
        let Step { kernel, args, .. } = &self.low.steps[at];
        let Placed { out, workspace, in_place } = &self.plan.steps[at];
        let memory = Disjoint::new(self.arena.values_mut());
        // SAFETY: the plan gives the result, the workspace and every operand of a step, except the one that the result
        // overwrites and that is not handed on, places that do not overlap; results of earlier steps are only read.
        let part = |place: &Place| unsafe { memory.range(place.start, place.len) };
        let mut operands =
            Operands { reals: [None; MAX_ARGS], labels: feed.labels, origins: feed.origins, lane: feed.lane };
        for (i, value) in args.iter().enumerate().filter(|(i, _)| *in_place != Some(*i)) {
            operands.reals[i] = match value.source {
                Source::Step(_) => self.plan.place(value).map(|place| &*part(&place)),
                _ => given(value, state, feed),
            };
        }
        let mut cx = Context::new(&self.pool, self.isa, self.scratch.values_mut());
        kernel.run(&mut cx, &operands, part(out), part(workspace));
    }

    fn update(&mut self, at: usize, state: &mut State, feed: &Feed) {
        let operands = &self.low.operands[at];
        let read = |value: &Value| -> &[f32] {
            if let Some(place) = self.plan.place(value) {
                return &self.arena.values()[place.start..place.start + place.len];
            }
            let whole = match value.source {
                Source::Features => feed.features,
                Source::Given => feed.given,
                _ => feed.scalars,
            };
            &whole[value.start..value.start + value.len]
        };
        let number = |id: NodeId| {
            let found = operands.iter().find(|(known, _)| *known == id);
            f64::from(read(&found.expect("an update's scalars are operands of it").1)[0])
        };
        match &self.program.updates[at] {
            Update::RunningStats { var, rate, counts, .. } => {
                update::running_stats(read(&operands[0].1), *rate, counts, &mut state.values[var.index()]);
            }
            Update::Step(step) => {
                let Some(numbers) = step.numbers(number) else { return };
                let stepper = Stepper::new(self.isa, step, numbers, state);
                match &self.low.deferred[at] {
                    Some(Deferred { outer, args }) => {
                        let operands = [read(&args[0]), read(&args[1])];
                        let mut cx = Context::new(&self.pool, self.isa, self.scratch.values_mut());
                        outer.run(&mut cx, operands, &stepper);
                    }
                    None => update::step(&self.pool, &stepper, read(&operands[0].1)),
                }
            }
            Update::Assign { var, active, .. } => {
                if active.is_none_or(|id| number(id) != 0.0) {
                    state.values[var.index()].copy_from_slice(read(&operands[0].1));
                }
            }
            Update::Average(average) => {
                if number(average.due) != 0.0 {
                    let decay = number(average.decay) as f32;
                    update::average(&self.pool, self.isa, average, decay, state);
                }
            }
        }
    }

    /// Fills all memory with NaN, so that a test sees whether results depend on leftovers.
    #[cfg(test)]
    pub(crate) fn poison(&mut self) {
        self.arena.values_mut().fill(f32::NAN);
        self.scratch.values_mut().fill(f32::NAN);
    }

    /// The kernels of the steps, in order.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> impl Iterator<Item = &super::kernel::Kernel> {
        self.low.steps.iter().map(|step| &step.kernel)
    }

    #[cfg(test)]
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// A value that is given from outside; labels are no real values.
fn given<'a>(value: &Value, state: &'a State, feed: &Feed<'a>) -> Option<&'a [f32]> {
    let whole = match value.source {
        Source::Features => feed.features,
        Source::SoftLabels => feed.soft_labels,
        Source::Scalars => feed.scalars,
        Source::Given => feed.given,
        Source::Var(var) => &state.values[var],
        Source::Step(_) | Source::Labels => return None,
    };
    Some(&whole[value.start..value.start + value.len])
}
