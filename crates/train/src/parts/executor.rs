//! What runs the programs of parts. Training uses the native executor; tests hold it against the naive one.

use sooner_engine::naive::Naive;
use sooner_engine::{EngineError, Feed, Native, Real, State};

/// Runs one program.
pub trait Executor: Send {
    /// The numbers it computes with.
    type Number: Real + Default + Send + Sync;

    /// Computes the program's values and changes nothing.
    fn compute(
        &mut self,
        state: &State<Self::Number>,
        feed: &Feed<'_, Self::Number>,
    ) -> Result<(), EngineError>;

    /// Computes the program's values, then makes its updates.
    fn run(
        &mut self,
        state: &mut State<Self::Number>,
        feed: &Feed<'_, Self::Number>,
    ) -> Result<(), EngineError>;

    /// The values of output number `index` in the last run.
    fn output(&self, index: usize) -> &[Self::Number];
}

impl Executor for Native {
    type Number = f32;

    fn compute(&mut self, state: &State, feed: &Feed<'_>) -> Result<(), EngineError> {
        Native::compute(self, state, feed)
    }

    fn run(&mut self, state: &mut State, feed: &Feed<'_>) -> Result<(), EngineError> {
        Native::run(self, state, feed)
    }

    fn output(&self, index: usize) -> &[f32] {
        Native::output(self, index)
    }
}

impl<T: Real + Default + Send + Sync> Executor for Naive<T> {
    type Number = T;

    fn compute(&mut self, state: &State<T>, feed: &Feed<'_, T>) -> Result<(), EngineError> {
        Naive::compute(self, state, feed)
    }

    fn run(&mut self, state: &mut State<T>, feed: &Feed<'_, T>) -> Result<(), EngineError> {
        Naive::run(self, state, feed)
    }

    fn output(&self, index: usize) -> &[T] {
        Naive::output(self, index)
    }
}
