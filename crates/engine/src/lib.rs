//! Tensor programs: a graph of operations with static shapes, automatic differentiation on that graph, optimiser
//! updates as part of it, and executors that run the result. **Invariant:** the engine knows no files, no clock and no
//! environment; threads are given to it.

mod graph;
mod op;
mod program;
mod var;

pub use graph::{Dtype, Graph, Node, NodeId};
pub use op::{Op, Window};
pub use program::{Feed, Program, Sgd, State, Update};
pub use var::{Init, Role, Var, VarId, Vars};

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
}
