//! Memory for a lowered program: lifetimes, results that overwrite their operands, and a place for everything.

use super::lower::{Lowered, Source, Value};
use super::memory::{Request, layout};

/// A stretch of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Where a step finds its memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub(crate) out: Place,
    pub(crate) workspace: Place,
    /// The operand that the result overwrites.
    pub(crate) in_place: Option<usize>,
}

/// Places for all steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Placed>,
    /// Values of the arena.
    pub(crate) len: usize,
    #[cfg(test)]
    pub(crate) lower_bound: usize,
}

impl Plan {
    /// The place of a step's value.
    pub(crate) fn place(&self, value: &Value) -> Option<Place> {
        let Source::Step(step) = value.source else { return None };
        Some(Place { start: self.steps[step].out.start + value.start, len: value.len })
    }
}

/// Plans memory. Results of steps that are outputs or updates' operands are kept to the end.
pub(crate) fn plan(low: &Lowered) -> Plan {
    let end = low.steps.len();
    let last = last_uses(low);
    // Steps that share memory with the first of them: step -> number of its buffer.
    let mut buffer_of = vec![0; end];
    let mut buffers: Vec<Request> = vec![];
    let mut in_place = vec![None; end];
    for (at, step) in low.steps.iter().enumerate() {
        let reused = step.kernel.in_place().iter().copied().find(|&arg| {
            let Source::Step(from) = step.args[arg].source else { return false };
            let buffer = buffer_of[from];
            let whole = step.args[arg].start == 0 && step.args[arg].len == step.len && step.len > 0;
            let shares =
                |value: &Value| matches!(value.source, Source::Step(other) if buffer_of[other] == buffer);
            let alone = step.args.iter().filter(|value| shares(value)).count() == 1;
            whole && alone && low.steps[from].len == step.len && last[from] == at
        });
        in_place[at] = reused;
        match reused.map(|arg| step.args[arg].source) {
            Some(Source::Step(from)) => {
                buffer_of[at] = buffer_of[from];
                buffers[buffer_of[at]].last = last[at];
            }
            _ => {
                buffer_of[at] = buffers.len();
                buffers.push(Request { len: step.len, first: at, last: last[at] });
            }
        }
    }
    let results = buffers.len();
    buffers.extend(low.steps.iter().enumerate().map(|(at, step)| Request {
        len: step.workspace,
        first: at,
        last: at,
    }));
    let (starts, len) = layout(&buffers);
    let steps = (0..end).map(|at| Placed {
        out: Place { start: starts[buffer_of[at]], len: low.steps[at].len },
        workspace: Place { start: starts[results + at], len: low.steps[at].workspace },
        in_place: in_place[at],
    });
    Plan {
        steps: steps.collect(),
        len,
        #[cfg(test)]
        lower_bound: super::memory::lower_bound(&buffers),
    }
}

/// By step: the last step that reads its result, or the number of steps if it must outlive them all.
fn last_uses(low: &Lowered) -> Vec<usize> {
    let mut last: Vec<usize> = (0..low.steps.len()).collect();
    for (at, step) in low.steps.iter().enumerate() {
        for value in &step.args {
            if let Source::Step(from) = value.source {
                last[from] = at;
            }
        }
    }
    let deferred = low.deferred.iter().flatten().flat_map(|deferred| &deferred.args);
    let operands = low.operands.iter().flatten().map(|(_, value)| value).chain(deferred);
    for value in low.outputs.iter().chain(operands) {
        if let Source::Step(from) = value.source {
            last[from] = low.steps.len();
        }
    }
    last
}
