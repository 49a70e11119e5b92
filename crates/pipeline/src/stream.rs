//! A stream of batches from one place on, made inline or by worker threads, the same to the byte.

use crate::PipelineError;
use crate::control::{Control, Lane};
use crate::pipeline::Shared;
use crate::recipe::{Position, Recipe, Scratch};
use crate::workers::{Queue, Workers, attempt};
use sooner_base::{Batch, Seconds, StageStats};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Examples drawn and written between two looks at the clock and at whether to go on: a fraction of a millisecond.
const SLICE: u64 = 64;

/// Batches in order. After an error it ends.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    from: Position,
    /// Batches handed out.
    taken: u64,
    /// Batches to hand out; none for ever.
    limit: Option<u64>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Inline(Box<Scratch>),
    Threads(Workers<Batch>),
    /// An error to hand out first, then nothing.
    Ended(Option<PipelineError>),
}

impl Stream {
    /// Starts the worker threads; if that fails, the error is the first item.
    pub(crate) fn new(shared: Arc<Shared>, from: Position, limit: Option<u64>) -> Stream {
        let source = if shared.threads == 0 {
            Source::Inline(Box::default())
        } else {
            let queue = Queue { depth: shared.depth, item: shared.batch_bytes };
            let fillers = (0..shared.threads).map(|_| {
                let (shared, mut scratch) = (shared.clone(), Scratch::default());
                move |number: u64, batch: &mut Batch, cancelled: &AtomicBool| {
                    let at = place(from, number, shared.recipe.batches());
                    fill(&shared.recipe, &shared.control, cancelled, at, batch, &mut scratch);
                    Ok(())
                }
            });
            match Workers::spawn(queue, shared.control.clone(), fillers) {
                Ok(workers) => Source::Threads(workers),
                Err(error) => Source::Ended(Some(error)),
            }
        };
        let mut stream = Stream { shared, from, taken: 0, limit, source };
        stream.issue();
        stream
    }

    /// The place of the next batch: where a stream must start to give the rest of this one.
    pub fn next_position(&self) -> Position {
        place(self.from, self.taken, self.shared.recipe.batches())
    }

    fn has(&self, number: u64) -> bool {
        // A stream ends with the last epoch that a u32 can name, rather than wrap.
        let epochs = u64::from(u32::MAX - self.from.epoch) + 1;
        let left = epochs.saturating_mul(self.shared.recipe.batches()).saturating_sub(self.from.batch);
        number < self.limit.unwrap_or(u64::MAX).min(left)
    }

    /// Gives the workers as many jobs as may be out.
    fn issue(&mut self) {
        while let Source::Threads(workers) = &self.source {
            let next = workers.next_job();
            if !workers.has_room() || !self.has(next) {
                return;
            }
            let buffer = self.shared.buffer();
            if let Source::Threads(workers) = &mut self.source {
                workers.issue(buffer);
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Result<Batch, PipelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !matches!(self.source, Source::Ended(_)) && !self.has(self.taken) {
            self.source = Source::Ended(None);
        }
        let at = self.next_position();
        let result = match &mut self.source {
            Source::Ended(error) => return error.take().map(Err),
            Source::Inline(scratch) => {
                self.shared.control.resume();
                let mut batch = self.shared.buffer();
                let Shared { recipe, control, .. } = &*self.shared;
                let filled = attempt(self.taken, || {
                    fill(recipe, control, &AtomicBool::new(false), at, &mut batch, scratch);
                    Ok(())
                });
                control.book(Lane::Batch, StageStats { items: 1, ..StageStats::default() });
                filled.map(|()| batch)
            }
            Source::Threads(workers) => workers.take(),
        };
        match &result {
            Ok(_) => {
                self.taken += 1;
                self.issue();
            }
            Err(_) => self.source = Source::Ended(None),
        }
        Some(result)
    }
}

/// The place of the `number`th batch after `from`.
fn place(from: Position, number: u64, batches: u64) -> Position {
    let batch = from.batch + number;
    Position { epoch: from.epoch.saturating_add((batch / batches) as u32), batch: batch % batches }
}

/// Makes the batch of one place, slice by slice; leaves early when cancelled.
fn fill(
    recipe: &Recipe,
    control: &Control,
    cancelled: &AtomicBool,
    at: Position,
    batch: &mut Batch,
    scratch: &mut Scratch,
) {
    let places = recipe.lay_out(at.batch, batch);
    let (mut shuffle, mut augment) = (StageStats::default(), StageStats::default());
    let mut start = places.start;
    while start < places.end && control.go_on(cancelled) {
        let end = places.end.min(start + SLICE);
        let times = [
            control.now(),
            {
                recipe.choose(at.epoch, start..end, batch);
                control.now()
            },
            {
                recipe.write(batch, scratch);
                control.now()
            },
        ];
        add(&mut shuffle, end - start, times[1] - times[0]);
        add(&mut augment, end - start, times[2] - times[1]);
        start = end;
    }
    control.book(Lane::Shuffle, shuffle);
    control.book(Lane::Augment, augment);
}

fn add(stats: &mut StageStats, items: u64, busy: Seconds) {
    stats.items += items;
    stats.busy += busy;
}
