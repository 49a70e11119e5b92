//! Where a run's batches come from: a stream that is a function of the plan, or with `echo = "auto"` one that depends on
//! time, whose schedule goes into the record before the update that uses it.

use crate::run::{Run, place_after};
use crate::{ResumeError, TrainError};
use sooner_base::{Batch, FreshExamples, Updates};
use sooner_pipeline::{AutoStream, Next, Pipeline, PipelineError, Stream};
use sooner_record::{Fresh, Line};

/// A run's batches.
pub(crate) enum Feed {
    Planned(Box<Stream>),
    Auto(Box<AutoStream>),
}

impl Feed {
    /// The next batch; over where a schedule that is followed is.
    pub(crate) fn next_unless(&mut self, unwanted: &dyn Fn() -> bool) -> Result<Next, PipelineError> {
        match self {
            Feed::Planned(stream) => stream.next_unless(unwanted),
            Feed::Auto(stream) => stream.next_unless(unwanted),
        }
    }
}

/// What a run with `echo = "auto"` keeps in mind.
#[derive(Debug, Default)]
pub(crate) struct AutoRun {
    /// Fresh examples until the run's end, and until the schedule's horizon.
    pub(crate) total: FreshExamples,
    pub(crate) horizon: FreshExamples,
    /// Those of every batch up to where this process began.
    pub(crate) done: Vec<u32>,
    /// Those that are to follow; none where time decides.
    pub(crate) replay: Option<Vec<u32>>,
    /// Those of the last batch.
    pub(crate) last: Option<u32>,
    /// What the record's last line of them says.
    pub(crate) said: Option<u32>,
}

impl Run<'_, '_> {
    /// Opens the stream of batches that follow those used so far.
    pub(crate) fn feed(&self, pipeline: &Pipeline) -> Result<Feed, TrainError> {
        match &self.auto {
            None => Ok(Feed::Planned(Box::new(pipeline.stream(place_after(self.updates, pipeline))))),
            Some(auto) => {
                let stream = pipeline.auto(&auto.done, auto.replay.clone());
                Ok(Feed::Auto(Box::new(stream.expect("the plan's echo stage is `auto`")?)))
            }
        }
    }

    /// What `echo = "auto"` starts from: the schedule up to a checkpoint, and what is left of one to follow.
    pub(crate) fn take_up_auto(&mut self) -> Result<(), ResumeError> {
        let Some(auto) = &mut self.auto else { return Ok(()) };
        let (done, replay) = (std::mem::take(&mut self.job.start.fresh), self.job.start.replay.take());
        let sum = |schedule: &[u32]| schedule.iter().map(|&n| u64::from(n)).sum::<u64>();
        let expected = (self.updates, self.fresh);
        let found = (done.len() as u64, sum(&done));
        if found != expected {
            return Err(ResumeError::Schedule { expected, found });
        }
        if let Some(schedule) = replay {
            let begins = schedule.get(..done.len()).unwrap_or(&schedule);
            if begins != done {
                let found = (begins.len() as u64, sum(begins));
                return Err(ResumeError::Schedule { expected, found });
            }
            auto.replay = Some(schedule[done.len()..].to_vec());
        }
        (auto.last, auto.done) = (done.last().copied(), done);
        Ok(())
    }

    /// Writes down how many of a batch's examples are fresh, before the update that uses it.
    pub(crate) fn note_fresh(&mut self, batch: &Batch) -> Result<(), TrainError> {
        let Some(auto) = &mut self.auto else { return Ok(()) };
        let fresh = batch.fresh as u32;
        auto.last = Some(fresh);
        if auto.said.replace(fresh) != Some(fresh) {
            self.writer.append(&Line::Fresh(Fresh { updates: Updates(self.updates + 1), fresh }))?;
        }
        Ok(())
    }

    /// Whether the last batch of a run with `echo = "auto"` was the first to read into another epoch.
    pub(crate) fn enters_epoch(&self) -> bool {
        let n = self.pace.train_examples;
        let last = self.auto.as_ref().and_then(|auto| auto.last).map_or(0, u64::from);
        self.fresh / n > (self.fresh - last) / n
    }

    /// Whether all of the run's length is used.
    pub(crate) fn is_over(&self) -> bool {
        match &self.auto {
            None => self.updates >= self.total || self.exhausted,
            Some(auto) => self.fresh >= auto.total.0 || self.exhausted,
        }
    }

    /// Which share of the run's length is used.
    pub(crate) fn share(&self) -> f64 {
        match &self.auto {
            None => self.updates as f64 / self.total as f64,
            Some(auto) => self.fresh as f64 / auto.total.0 as f64,
        }
    }
}
