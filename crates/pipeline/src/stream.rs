//! A stream of batches from one place on, made inline or by worker threads, the same to the byte.

use crate::PipelineError;
use crate::control::Lane;
use crate::fill::fill;
use crate::items::{Scratch, Session};
use crate::pipeline::Shared;
use crate::recipe::Position;
use crate::workers::{Queue, Workers, attempt};
use sooner_base::{Batch, Shape, StageStats};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Batches in order. After an error it ends.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    session: Arc<Session>,
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

impl Source {
    /// Starts worker threads, where the plan has any, that make the batches from one place on.
    fn start(shared: &Arc<Shared>, session: &Arc<Session>, from: Position) -> Source {
        if shared.threads == 0 {
            return Source::Inline(Box::default());
        }
        let queue = Queue { depth: shared.depth, item: shared.batch_bytes, timeout: shared.timeout() };
        let fillers = (0..shared.threads).map(|_| {
            let (shared, session, mut scratch) = (shared.clone(), session.clone(), Scratch::default());
            move |number: u64, batch: &mut Batch, cancelled: &AtomicBool| {
                let at = place(from, number, shared.recipe.batches());
                // Only now: buffers of batches that nobody works on yet would be memory in use, and cold when used.
                *batch = shared.buffer();
                fill(&shared, &session, cancelled, at, batch, &mut scratch)
            }
        });
        match Workers::spawn(queue, shared.control.clone(), fillers) {
            Ok(workers) => Source::Threads(workers),
            Err(error) => Source::Ended(Some(error)),
        }
    }
}

impl Stream {
    /// Starts the worker threads; if that fails, the error is the first item.
    pub(crate) fn new(shared: Arc<Shared>, from: Position, limit: Option<u64>) -> Stream {
        let session = Arc::new(Session::new(&shared.recipe, from, shared.held_budget));
        let source = Source::start(&shared, &session, from);
        let mut stream = Stream { shared, session, from, taken: 0, limit, source };
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

    /// Ends the worker threads and starts new ones for the epoch that begins.
    fn renew(&mut self, at: Position) {
        if let Source::Ended(_) = self.source {
            return;
        }
        self.source = Source::Ended(None);
        self.limit = self.limit.map(|limit| limit - self.taken);
        (self.from, self.taken) = (at, 0);
        self.source = Source::start(&self.shared, &self.session, at);
        self.issue();
    }

    /// Gives the workers as many jobs as may be out.
    fn issue(&mut self) {
        while let Source::Threads(workers) = &self.source {
            let next = workers.next_job();
            let over = self.shared.renews_workers() && self.from.batch + next >= self.shared.recipe.batches();
            if !workers.has_room() || !self.has(next) || over {
                return;
            }
            let nothing = Batch::empty(Shape::from([0, 0, 0, 0]));
            if let Source::Threads(workers) = &mut self.source {
                workers.issue(nothing);
            }
        }
    }
}

/// What a stream gives whoever may give up waiting.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Batch),
    /// No other batch comes.
    Over,
    /// It was not wanted any more while it was waited for; it is the next one still.
    Unwanted,
}

impl Next {
    /// What an iterator gives of the next batch to whoever always wants it.
    pub(crate) fn wanted(next: Result<Next, PipelineError>) -> Option<Result<Batch, PipelineError>> {
        match next {
            Ok(Next::Batch(batch)) => Some(Ok(batch)),
            Ok(Next::Over) => None,
            Ok(Next::Unwanted) => unreachable!("it is always wanted"),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Stream {
    /// The next batch; while worker threads make it, `unwanted` is asked ten times a second.
    pub fn next_unless(&mut self, unwanted: &dyn Fn() -> bool) -> Result<Next, PipelineError> {
        if !matches!(self.source, Source::Ended(_)) && !self.has(self.taken) {
            self.source = Source::Ended(None);
        }
        let at = self.next_position();
        if self.shared.renews_workers() && at.epoch > self.from.epoch {
            self.renew(at);
        }
        let result = match &mut self.source {
            Source::Ended(error) => return error.take().map_or(Ok(Next::Over), Err),
            Source::Inline(scratch) => {
                self.shared.control.resume();
                let mut batch = self.shared.buffer();
                let filled = attempt(self.taken, || {
                    fill(&self.shared, &self.session, &AtomicBool::new(false), at, &mut batch, scratch)
                });
                let bytes = self.shared.batch_bytes;
                self.shared
                    .control
                    .book(Lane::Batch, StageStats { items: 1, bytes, ..StageStats::default() });
                filled.map(|()| batch)
            }
            Source::Threads(workers) => match workers.take_unless(unwanted) {
                Some(result) => result,
                None => return Ok(Next::Unwanted),
            },
        };
        match &result {
            Ok(_) => {
                self.taken += 1;
                self.issue();
            }
            Err(_) => self.source = Source::Ended(None),
        }
        result.map(Next::Batch)
    }
}

impl Iterator for Stream {
    type Item = Result<Batch, PipelineError>;

    fn next(&mut self) -> Option<Self::Item> {
        Next::wanted(self.next_unless(&|| false))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.note_held(&self.session);
    }
}

/// The place of the `number`th batch after `from`.
fn place(from: Position, number: u64, batches: u64) -> Position {
    let batch = from.batch + number;
    Position { epoch: from.epoch.saturating_add((batch / batches) as u32), batch: batch % batches }
}
