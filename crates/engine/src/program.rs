//! A program: a graph, what it changes in the variables, and what it returns. One optimiser update, or one
//! evaluation of a batch, is one run of a program.

use crate::collective::Lane;
use crate::graph::{Graph, NodeId};
use crate::update::Update;
use crate::var::Vars;
use sooner_base::Origin;

/// A graph, the updates it makes, and the values it returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The variables it may read and change.
    pub vars: Vars,
    /// The values it computes.
    pub graph: Graph,
    /// The changes it makes, after all values are computed.
    pub updates: Vec<Update>,
    /// The values it returns, by name.
    pub outputs: Vec<(String, NodeId)>,
}

impl Program {
    /// The position of a named output.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|(n, _)| n == name)
    }
}

/// What one run of a program is given; numbers are f32 for the native executor, f32 or f64 for the naive one.
#[derive(Debug, Clone, Copy)]
pub struct Feed<'a, T = f32> {
    /// As many values as the program's features node has.
    pub features: &'a [T],
    /// As many class numbers as the program's labels node has.
    pub labels: &'a [u32],
    /// One value for each of [`Graph::scalars`].
    pub scalars: &'a [T],
    /// As many values as the program's soft labels node has, if it has one.
    pub soft_labels: &'a [T],
    /// Where each example came from, if anything in the program is random: it decides what.
    pub origins: &'a [Origin],
    /// As many values as [`Graph::given_len`] says.
    pub given: &'a [T],
    /// The program's place among others that run at the same time; none if it runs alone.
    pub lane: Option<Lane<'a>>,
}

impl<T> Default for Feed<'_, T> {
    /// Nothing of anything.
    fn default() -> Self {
        Feed {
            features: &[],
            labels: &[],
            scalars: &[],
            soft_labels: &[],
            origins: &[],
            given: &[],
            lane: None,
        }
    }
}

/// The values of all variables, by [`VarId::index`](crate::VarId::index).
#[derive(Debug, Clone, PartialEq)]
pub struct State<T = f32> {
    /// One dense row-major tensor for each variable.
    pub values: Vec<Vec<T>>,
}
