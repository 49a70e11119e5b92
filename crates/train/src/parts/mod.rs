//! Updates of batches that are cut into parts: replicas work on parts at the same time, each on threads of its own, and
//! accumulation has each replica go through several parts, one after the other.
//!
//! Part number `round x replicas + replica` goes to that replica in that round. The leaves of all parts are added in the
//! order of the parts by a tree that depends on their number alone, so an update's bits depend on how many parts there
//! are, but neither on how many of them are computed at the same time nor on when each is ready.
//!
//! Where normalisation is synchronised all parts must run at the same time. Then each has memory of its own, so that
//! accumulation saves none, and the parts of one replica take turns on its threads.

mod cut;
mod executor;
#[cfg(test)]
mod tests;

pub use executor::Executor;

use cut::cut;
use sooner_base::{NoisePair, Origin, SquaredNorm, noise_pair};
use sooner_engine::native::Pool;
use sooner_engine::{EngineError, Feed, Lane, Meeting, PairTree, Program, Real, State, Turn};
use sooner_models::{EXAMPLE_WEIGHT, Leaf, Model, ModelError, PartProgram};
use sooner_plan::OptimizerPlan;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Values of two leaves that are worth adding on several threads.
const WORTH_THREADS: usize = 1 << 16;

/// How batches are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Parts that are computed at the same time.
    pub replicas: usize,
    /// Parts that each replica goes through.
    pub accumulate: usize,
}

impl Split {
    /// The parts of a batch that has as many examples.
    pub fn parts(self) -> usize {
        self.replicas * self.accumulate
    }

    /// The threads of each replica: so many shared out, at least one each.
    pub fn threads(self, threads: usize) -> Vec<NonZeroUsize> {
        let each = |i| threads / self.replicas + usize::from(i < threads % self.replicas);
        (0..self.replicas).map(|i| NonZeroUsize::new(each(i)).unwrap_or(NonZeroUsize::MIN)).collect()
    }
}

/// A batch as the programs take it.
#[derive(Debug, Clone, Copy)]
pub struct Examples<'a, T> {
    /// Features of all examples.
    pub features: &'a [T],
    /// Their classes.
    pub labels: &'a [u32],
    /// Their distributions over classes; empty where programs take none.
    pub soft_labels: &'a [T],
    /// Where they came from.
    pub origins: &'a [Origin],
}

impl<'a, T> Examples<'a, T> {
    fn part(&self, range: &Range<usize>) -> Feed<'a, T> {
        let all = self.labels.len();
        let rows = |values: &'a [T]| {
            let each = values.len() / all;
            &values[each * range.start..each * range.end]
        };
        Feed {
            features: rows(self.features),
            labels: &self.labels[range.clone()],
            soft_labels: rows(self.soft_labels),
            origins: &self.origins[range.clone()],
            ..Feed::default()
        }
    }
}

/// What an update in parts came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartsOutcome {
    /// Mean loss over the batch.
    pub loss: f64,
    /// Examples that were right before the update.
    pub correct: f64,
    /// Estimates of signal and noise from the gradients of the parts; none if not asked for, or of a batch that is one
    /// part.
    pub noise: Option<NoisePair>,
}

/// Builds an executor for a replica's threads, or for the update of all if no replica is named.
pub type Compile<X> = dyn Fn(&Program, Option<usize>) -> Result<X, EngineError> + Send;

/// The programs and the memory of updates in parts.
pub struct Parts<X: Executor> {
    split: Split,
    group: usize,
    synchronised: bool,
    compile: Box<Compile<X>>,
    /// One thread for each place.
    crew: Pool,
    places: Vec<Mutex<Place<X>>>,
    turns: Vec<Turn>,
    apply: Option<Apply<X>>,
    /// Leaves that are not in use.
    spare: Vec<Vec<X::Number>>,
}

/// What works on one part at a time: a replica, or a lane of one.
struct Place<X: Executor> {
    replica: usize,
    programs: Vec<PartOf<X>>,
    leaf: Vec<X::Number>,
    /// The squared norm of the gradients in the leaf.
    squares: f64,
    failed: Option<EngineError>,
}

/// The gradients of a part of so many examples.
struct PartOf<X> {
    examples: usize,
    scalars: Vec<String>,
    leaf: Leaf,
    executor: X,
}

struct Apply<X> {
    leaf: Leaf,
    scalars: Vec<String>,
    executor: X,
}

/// What all parts of one update have in common.
struct Common<'a, X: Executor> {
    state: &'a State<X::Number>,
    examples: Examples<'a, X::Number>,
    scalar: &'a (dyn Fn(&str) -> f64 + Sync),
    leaf: &'a Leaf,
    measure: bool,
}

impl<X: Executor> Parts<X> {
    /// Parts of this model's batches.
    pub fn new(model: &Model, split: Split, compile: Box<Compile<X>>) -> Parts<X> {
        let synchronised = model.is_synchronised();
        let count = if synchronised { split.parts() } else { split.replicas };
        let place = |i| Place {
            replica: i % split.replicas,
            programs: Vec::new(),
            leaf: Vec::new(),
            squares: 0.0,
            failed: None,
        };
        Parts {
            split,
            group: model.group(),
            synchronised,
            compile,
            crew: Pool::new(NonZeroUsize::new(count).expect("a split has parts")),
            places: (0..count).map(|i| Mutex::new(place(i))).collect(),
            turns: (0..split.replicas).map(|_| Turn::default()).collect(),
            apply: None,
            spare: Vec::new(),
        }
    }

    /// Compiles what batches of so many examples take, unless that is done already.
    pub fn prepare(
        &mut self,
        model: &mut Model,
        batch: usize,
        optimizer: &OptimizerPlan,
    ) -> Result<(), ModelError> {
        let places = self.places.len();
        for (i, range) in cut(batch, self.split.parts(), self.group).iter().enumerate() {
            let place = self.places[i % places].get_mut().unwrap_or_else(PoisonError::into_inner);
            if place.programs.iter().any(|part| part.examples == range.len()) {
                continue;
            }
            let PartProgram { mut program, leaf } = model.part_program(range.len())?;
            if self.apply.is_none() {
                let program = model.apply_program(&leaf, optimizer)?;
                let scalars = program.graph.scalars().to_vec();
                let executor = (self.compile)(&program, None)?;
                self.apply = Some(Apply { leaf: leaf.clone(), scalars, executor });
            }
            // The optimiser's variables too: one state serves all programs.
            program.vars = model.vars().clone();
            let executor = (self.compile)(&program, Some(place.replica))?;
            let scalars = program.graph.scalars().to_vec();
            place.programs.push(PartOf { examples: range.len(), scalars, leaf, executor });
        }
        Ok(())
    }

    /// One update on a batch of a size that is prepared. `scalar` gives the programs' scalars by name; `measure` asks for
    /// the noise of gradients.
    pub fn run(
        &mut self,
        state: &mut State<X::Number>,
        examples: Examples<'_, X::Number>,
        scalar: &(dyn Fn(&str) -> f64 + Sync),
        measure: bool,
    ) -> Result<PartsOutcome, EngineError> {
        let batch = examples.labels.len();
        let ranges = cut(batch, self.split.parts(), self.group);
        let Apply { leaf, .. } = self.apply.as_ref().expect("batches of this size are prepared");
        let common = Common::<X> { state, examples, scalar, leaf, measure };
        let mut tree = PairTree::new();
        let mut norms = Vec::new();
        for round in ranges.chunks(self.places.len()) {
            let meeting = self.synchronised.then(|| Meeting::new(round.len()));
            self.crew.run(round.len(), &|task| {
                let i = task.index;
                let lane = meeting.as_ref().map(|m| m.lane(i, Some(&self.turns[i % self.turns.len()])));
                let mut place = self.places[i].lock().unwrap_or_else(PoisonError::into_inner);
                place.work(&common, &round[i], lane);
            });
            let mut failures = Vec::new();
            for (place, range) in self.places.iter_mut().zip(round) {
                let place = place.get_mut().unwrap_or_else(PoisonError::into_inner);
                failures.extend(place.failed.take());
                norms.push((range.len(), place.squares));
                let fresh = self.spare.pop().unwrap_or_default();
                let leaf = std::mem::replace(&mut place.leaf, fresh);
                tree.push(leaf, |a, b| add(&self.crew, &mut self.spare, a, b));
            }
            // Of several the one that is not a mere consequence of another.
            let cause = failures.iter().position(|error| *error != EngineError::LaneLeft);
            if !failures.is_empty() {
                return Err(failures.swap_remove(cause.unwrap_or(0)));
            }
        }
        let total = tree.finish(|a, b| add(&self.crew, &mut self.spare, a, b)).expect("a batch has parts");
        let [loss, correct] = leaf.outcome(&total);
        let noise = if measure { noise(&norms, squares(&total[leaf.gradients()])) } else { None };
        let apply = self.apply.as_mut().expect("as before");
        let scalars: Vec<X::Number> =
            apply.scalars.iter().map(|name| X::Number::from_f64(scalar(name))).collect();
        let feed = Feed { scalars: &scalars, given: &total[apply.leaf.given()], ..Feed::default() };
        apply.executor.run(state, &feed)?;
        self.spare.push(total);
        Ok(PartsOutcome { loss, correct, noise })
    }

    /// The executor of the update that all parts end in, once it is compiled.
    pub fn apply(&self) -> Option<&X> {
        self.apply.as_ref().map(|apply| &apply.executor)
    }

    /// Values of all leaves that are held.
    pub fn leaf_values(&mut self) -> usize {
        let places = self.places.iter_mut().map(|p| p.get_mut().unwrap_or_else(PoisonError::into_inner));
        let held: usize = places.map(|place| place.leaf.capacity()).sum();
        held + self.spare.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Every executor, those of parts first.
    pub fn executors(&mut self) -> impl Iterator<Item = &X> {
        let places = self.places.iter_mut().map(|p| &*p.get_mut().unwrap_or_else(PoisonError::into_inner));
        let parts = places.flat_map(|place| place.programs.iter().map(|part| &part.executor));
        parts.chain(self.apply.iter().map(|apply| &apply.executor))
    }
}

impl<X: Executor> Place<X> {
    /// Works out the leaf of the part, or keeps what went wrong.
    fn work(&mut self, common: &Common<'_, X>, range: &Range<usize>, lane: Option<Lane<'_>>) {
        let attendance = lane.map(Lane::attend);
        let lane = attendance.as_ref().map(|attendance| attendance.lane());
        match self.try_work(common, range, lane) {
            Ok(()) => {
                if let Some(attendance) = attendance {
                    attendance.finish();
                }
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn try_work(
        &mut self,
        common: &Common<'_, X>,
        range: &Range<usize>,
        lane: Option<Lane<'_>>,
    ) -> Result<(), EngineError> {
        let batch = common.examples.labels.len();
        let part = self.programs.iter_mut().find(|part| part.examples == range.len());
        let part = part.expect("batches of this size are prepared");
        let scalars: Vec<X::Number> = part
            .scalars
            .iter()
            .map(|name| match name.as_str() {
                EXAMPLE_WEIGHT => X::Number::from_f64(1.0 / batch as f64),
                name => X::Number::from_f64((common.scalar)(name)),
            })
            .collect();
        let feed = Feed { scalars: &scalars, lane, ..common.examples.part(range) };
        part.executor.compute(common.state, &feed)?;
        self.leaf.resize(common.leaf.len(), X::Number::default());
        // Which groups the part's statistics are of differs from part to part; the leaf's own program knows them.
        part.leaf.write(|i| part.executor.output(i), batch, &mut self.leaf);
        if common.measure {
            self.squares = squares(&self.leaf[common.leaf.gradients()]);
        }
        Ok(())
    }
}

/// Adds one leaf to the other, element by element; the one left over is spare.
fn add<T: Real + Send + Sync>(crew: &Pool, spare: &mut Vec<Vec<T>>, mut a: Vec<T>, b: Vec<T>) -> Vec<T> {
    let tasks = if a.len() < WORTH_THREADS { 1 } else { crew.threads() };
    let length = a.len().div_ceil(tasks).max(1);
    let pairs: Vec<_> = a.chunks_mut(length).zip(b.chunks(length)).map(Mutex::new).collect();
    crew.run(pairs.len(), &|task| {
        let mut pair = pairs[task.index].lock().unwrap_or_else(PoisonError::into_inner);
        let (a, b) = &mut *pair;
        a.iter_mut().zip(*b).for_each(|(a, b)| *a += *b);
    });
    drop(pairs);
    spare.push(b);
    a
}

/// The sum of squares, in f64.
fn squares<T: Real>(values: &[T]) -> f64 {
    values.iter().map(|v| v.to_f64() * v.to_f64()).sum()
}

/// Signal and noise from the squared norms of the parts' shares of the gradient and of their sum. The norm of a part's
/// own mean gradient is that of its share times batch over part, and its expectation is signal + noise / examples: the
/// mean over parts is that of a batch of the harmonic mean of their sizes, exactly.
fn noise(parts: &[(usize, f64)], whole: f64) -> Option<NoisePair> {
    if parts.len() < 2 {
        return None;
    }
    let count = parts.len() as f64;
    let batch: f64 = parts.iter().map(|(examples, _)| *examples as f64).sum();
    let mean = parts.iter().map(|(n, squares)| squares * (batch / *n as f64).powi(2)).sum::<f64>() / count;
    let inverse = parts.iter().map(|(n, _)| 1.0 / *n as f64).sum::<f64>() / count;
    let small = SquaredNorm { batch: 1.0 / inverse, value: mean };
    Some(noise_pair(small, SquaredNorm { batch, value: whole }))
}
