//! `echo = "auto"`: batches of whatever is fresh when the trainer asks, filled up with repeats, so that it never waits
//! while there is something to train on. How many fresh examples a batch has depends on time; everything else is a
//! function of the plan and of those numbers, the schedule: `Batch::fresh` of each batch, in order. Whoever records
//! them can have the same stream again, or go on from any place of it.

use crate::PipelineError;
use crate::fill::write_slice;
use crate::items::{Item, Scratch, make};
use crate::pipeline::Shared;
use crate::stages::Pick;
use crate::stream::Next;
use crate::workers::{Queue, Workers};
use sooner_base::{Batch, Bytes, Key, Origin};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What may be drawn again: examples read before, each with its uses so far.
#[derive(Debug, Clone)]
struct Reservoir {
    batch: usize,
    max: u32,
    /// The most examples in it.
    room: usize,
    key: Key,
    /// Fresh examples drawn so far, over all epochs.
    fresh: u64,
    /// Batches drawn so far.
    batches: u64,
    pool: Vec<Reusable>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reusable {
    /// Its number among all fresh examples.
    fresh: u64,
    uses: u32,
}

impl Reservoir {
    /// The fewest fresh examples that the next batch needs.
    fn least(&self) -> usize {
        self.batch.saturating_sub(self.pool.len())
    }

    /// The next batch with so many fresh examples: the number of each among all fresh ones, and its use. No example
    /// comes twice in a batch. Second, the numbers that will not be drawn again.
    fn draw(&mut self, fresh: usize) -> (Vec<Reusable>, Vec<u64>) {
        let mut rng = self.key.at(0, self.batches, 0);
        let repeats = self.batch - fresh;
        let mut drawn = Vec::with_capacity(self.batch);
        for i in 0..repeats {
            let other = i + rng.below((self.pool.len() - i) as u32) as usize;
            self.pool.swap(i, other);
            drawn.push(self.pool[i]);
            self.pool[i].uses += 1;
        }
        for _ in 0..fresh {
            drawn.push(Reusable { fresh: self.fresh, uses: 0 });
            self.pool.push(Reusable { fresh: self.fresh, uses: 1 });
            self.fresh += 1;
        }
        self.batches += 1;
        let mut gone: Vec<u64> = self.pool.iter().filter(|r| r.uses >= self.max).map(|r| r.fresh).collect();
        self.pool.retain(|r| r.uses < self.max);
        let excess = self.pool.len().saturating_sub(self.room);
        if excess > 0 {
            self.pool.sort_unstable_by_key(|r| r.fresh);
            gone.extend(self.pool.drain(..excess).map(|r| r.fresh));
        }
        (drawn, gone)
    }
}

/// Batches of a plan with `echo = "auto"`: an endless stream, or one of a given schedule. After an error it ends.
#[derive(Debug)]
pub struct AutoStream {
    shared: Arc<Shared>,
    workers: Option<Workers<Option<Item>>>,
    /// The number, among all fresh examples, of the first one that the workers make.
    from: u64,
    reservoir: Reservoir,
    held: HashMap<u64, Arc<Item>>,
    /// What the coming batches must have of fresh examples; none where time decides.
    schedule: Option<std::vec::IntoIter<u32>>,
    scratch: Scratch,
    /// The fresh examples of the next batch, where they were decided on and nobody waited for them.
    decided: Option<usize>,
}

impl AutoStream {
    /// Goes on after the batches of `done`; then follows `schedule`, or where there is none, time.
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: Key,
        done: &[u32],
        schedule: Option<Vec<u32>>,
    ) -> Result<AutoStream, PipelineError> {
        let recipe = &shared.recipe;
        let max = recipe.auto.expect("the caller has looked");
        let batch = recipe.batch().min(recipe.data().len());
        let room = batch.saturating_mul(max as usize);
        let mut reservoir = Reservoir { batch, max, room, key, fresh: 0, batches: 0, pool: Vec::new() };
        for &fresh in done {
            check(&reservoir, fresh)?;
            reservoir.draw(fresh as usize);
        }
        let from = reservoir.fresh;
        // Reading ahead by two batches hides the time of one update.
        let queue = Queue { depth: 2 * batch, item: Bytes(0), timeout: shared.timeout() };
        let fillers = (0..shared.threads.max(1)).map(|_| {
            let (shared, mut scratch) = (shared.clone(), Scratch::default());
            move |number: u64, slot: &mut Option<Item>, cancelled: &AtomicBool| {
                *slot = make_fresh(&shared, from + number, &mut scratch, cancelled)?;
                Ok(())
            }
        });
        let workers = Some(Workers::spawn(queue, shared.control.clone(), fillers)?);
        let (held, scratch) = (HashMap::new(), Scratch::default());
        let schedule = schedule.map(Vec::into_iter);
        let mut stream =
            AutoStream { shared, workers, from, reservoir, held, schedule, scratch, decided: None };
        stream.issue();
        Ok(stream)
    }

    fn issue(&mut self) {
        let Some(workers) = &mut self.workers else { return };
        while workers.has_room() {
            workers.issue(None);
        }
    }

    /// Fresh examples of the next batch: what is ready, but no more than fit and no fewer than are needed.
    fn decide(&mut self) -> Option<Result<usize, PipelineError>> {
        let least = self.reservoir.least();
        match &mut self.schedule {
            Some(schedule) => {
                let fresh = schedule.next()?;
                Some(check(&self.reservoir, fresh).map(|()| fresh as usize))
            }
            None => {
                let ready = self.workers.as_mut().map_or(0, |workers| workers.ready_now());
                Some(Ok(ready.clamp(least, self.reservoir.batch)))
            }
        }
    }

    /// None where the batch was not wanted any more while it was waited for.
    fn fill(&mut self, fresh: usize, unwanted: &dyn Fn() -> bool) -> Result<Option<Batch>, PipelineError> {
        for number in self.reservoir.fresh..self.reservoir.fresh + fresh as u64 {
            // Taken before whoever waited gave up.
            if self.held.contains_key(&number) {
                continue;
            }
            let workers = self.workers.as_mut().expect("the stream has not ended");
            debug_assert!(number >= self.from);
            let Some(item) = workers.take_unless(unwanted) else {
                self.decided = Some(fresh);
                return Ok(None);
            };
            let item = item?.expect("only a cancelled worker leaves a slot empty");
            self.held.insert(number, Arc::new(item));
            self.issue();
        }
        let (drawn, gone) = self.reservoir.draw(fresh);
        let shared = self.shared.clone();
        let (recipe, never) = (&shared.recipe, AtomicBool::new(false));
        let mut batch = shared.buffer();
        recipe.lay_out(drawn.len() as u64, &mut batch);
        self.scratch.items.clear();
        self.scratch.bases.clear();
        for Reusable { fresh, uses } in drawn {
            let item = match self.held.get(&fresh) {
                Some(item) => item.clone(),
                // After resuming, what was held before is read again when it is drawn.
                None => {
                    let (items, bases) =
                        (std::mem::take(&mut self.scratch.items), std::mem::take(&mut self.scratch.bases));
                    let made = make_fresh(&shared, fresh, &mut self.scratch, &never)?;
                    (self.scratch.items, self.scratch.bases) = (items, bases);
                    let item = Arc::new(made.expect("nobody cancels"));
                    self.held.insert(fresh, item.clone());
                    item
                }
            };
            let epoch = (fresh / recipe.data().len() as u64) as u32;
            batch.origins.push(Origin { epoch, index: item.index, echo: item.base + uses });
            batch.fresh += usize::from(uses == 0);
            self.scratch.bases.push(item.base);
            self.scratch.items.push(item);
        }
        write_slice(recipe, recipe.chain.mode(), &mut batch, &mut self.scratch);
        if let Some((mix, _)) = &recipe.mix {
            mix.apply([0, self.reservoir.batches - 1, 0], &mut batch);
        }
        gone.iter().for_each(|number| drop(self.held.remove(number)));
        shared.duplicates.examples.fetch_add(batch.len() as u64, Ordering::Relaxed);
        shared.duplicates.duplicates.fetch_add(batch.duplicates() as u64, Ordering::Relaxed);
        Ok(Some(batch))
    }

    /// The next batch; while it is waited for, `unwanted` is asked ten times a second.
    pub fn next_unless(&mut self, unwanted: &dyn Fn() -> bool) -> Result<Next, PipelineError> {
        if self.workers.is_none() {
            return Ok(Next::Over);
        }
        let decided = self.decided.take().map(Ok).or_else(|| self.decide());
        let result = match decided {
            None => Ok(Next::Over),
            Some(fresh) => fresh
                .and_then(|fresh| self.fill(fresh, unwanted))
                .map(|batch| batch.map_or(Next::Unwanted, Next::Batch)),
        };
        if matches!(result, Ok(Next::Over) | Err(_)) {
            self.workers = None;
        }
        result
    }
}

impl Iterator for AutoStream {
    type Item = Result<Batch, PipelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        Next::wanted(self.next_unless(&|| false))
    }
}

/// A schedule of another plan, or a damaged one, asks for what cannot be.
fn check(reservoir: &Reservoir, fresh: u32) -> Result<(), PipelineError> {
    let range = reservoir.least()..=reservoir.batch;
    if range.contains(&(fresh as usize)) {
        return Ok(());
    }
    Err(PipelineError::Schedule {
        batch: reservoir.batches,
        least: *range.start() as u64,
        most: *range.end() as u64,
        found: u64::from(fresh),
    })
}

/// Makes a fresh example by its number over all epochs.
pub(crate) fn make_fresh(
    shared: &Shared,
    number: u64,
    scratch: &mut Scratch,
    cancelled: &AtomicBool,
) -> Result<Option<Item>, PipelineError> {
    let examples = shared.recipe.data().len() as u64;
    let (epoch, item) = ((number / examples) as u32, number % examples);
    let order = shared.recipe.order.epoch(epoch);
    let origin = Origin { epoch, index: order.index(item), echo: 0 };
    make(shared, &order, Pick { item: item as u32, origin }, scratch, cancelled)
}
