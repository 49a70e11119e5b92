//! Tensor programs: a graph of operations with static shapes, automatic differentiation on that graph, optimiser
//! updates as part of it, and executors that run the result. **Invariant:** the engine knows no files, no clock and no
//! environment; threads are given to it.

mod autodiff;
mod collective;
mod graph;
mod init;
mod large;
pub mod naive;
pub mod native;
mod op;
mod ops;
mod optimizer;
mod peak;
mod program;
mod real;
#[cfg(test)]
mod testing;
mod update;
mod var;

pub use autodiff::gradients;
pub use collective::{Attendance, Lane, Meeting, PairTree, Reduction, Turn, in_pairs};
pub use graph::{Dtype, Graph, Node, NodeId};
pub use large::LargePages;
pub use native::{Kernels, Native, NativeOptions, OpTime, Pool, Storage};
pub use op::{Activation, Convolution, Normalization, Op, Transposed, Window};

/// Most tensors that [`Op::Stack`] takes.
pub const MOST_STACKED: usize = 8;

pub use optimizer::{Averaging, Group, OptimizerSpec, Rule, add_gradients, add_optimizer, add_steps};
pub use peak::{Peak, measure_bandwidth, measure_peak};
pub use program::{Feed, Program, State};
pub use real::Real;
pub use update::{Average, Step, StepRule, Update};
pub use var::{Init, Rest, Role, Var, VarId, Vars};

use sooner_base::Shape;

/// What can be wrong with a program or with what it is given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// Operands that an operation cannot take.
    #[error("{op}: expected {expected}, found shapes {found:?}")]
    Shapes {
        /// The operation's name.
        op: &'static str,
        /// What it takes.
        expected: &'static str,
        /// The shapes of its operands.
        found: Vec<Shape>,
    },
    /// A variable declared twice in different ways.
    #[error("variable `{name}` is declared with shape {known} and again, differently, with shape {new}")]
    Redeclared {
        /// The variable.
        name: String,
        /// Its first shape.
        known: Shape,
        /// Its other shape.
        new: Shape,
    },
    /// A feed or a state that does not fit the program.
    #[error("{what}: the program takes {expected} values, found {found}")]
    Size {
        /// What does not fit: `features`, `labels`, `scalars`, or a variable's name.
        what: String,
        /// Values that the program takes.
        expected: usize,
        /// Values that it was given.
        found: usize,
    },
    /// A class number that the program's logits do not have.
    #[error("label {label} of example {example} is not below the {classes} classes of the program")]
    Label {
        /// The example's position in the batch.
        example: usize,
        /// Its label.
        label: u32,
        /// The classes there are.
        classes: usize,
    },
    /// An operation that has no gradient stands between the loss and a value whose gradient was asked for.
    #[error("`{op}` has no gradient; the loss must not depend through it on what is trained")]
    NoGradient {
        /// The operation's name.
        op: &'static str,
    },
    /// A lane that ended early, so that the others have nothing to put their values together with.
    #[error("another part of the batch failed, so this one cannot be finished")]
    LaneLeft,
    /// Kernels that this machine cannot execute.
    #[error("this machine cannot execute `{wanted}` kernels; `auto` takes the widest that it can")]
    Kernels {
        /// The name of the kernels asked for.
        wanted: &'static str,
    },
}
