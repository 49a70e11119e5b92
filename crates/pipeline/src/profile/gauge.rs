//! The measurements.

use super::cuts::{Cut, Group, cuts, with_echo, without_echo};
use super::upstream::{Upstream, held};
use crate::{Dataset, Pipeline, PipelineError, Position};
use sooner_base::{Batch, Bytes, Clock, Seconds, Seed, StageStats};
use sooner_plan::{EchoFactor, EchoPlan, OnBad, PipelinePlan};
use std::sync::Arc;

/// Most bytes of items that are held to measure what is behind them.
const MOST_HELD: u64 = 96 << 20;

/// What is measured, by which clocks, and how long.
#[derive(Clone)]
pub struct Gauge {
    /// The plan's pipeline; an echo stage in it is left out.
    pub plan: PipelinePlan,
    /// The training split.
    pub data: Arc<Dataset>,
    /// The plan's seed.
    pub seed: Seed,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// CPU seconds that this process has used.
    pub cpu: Arc<dyn Clock>,
    /// Seconds of each measurement; two batches or updates are the least.
    pub seconds: Seconds,
    /// A test's time, which both clocks read.
    #[cfg(test)]
    pub(crate) time: Option<Arc<crate::virtual_time::VirtualTime>>,
}

/// What one side takes for an example.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Side {
    /// Seconds.
    pub seconds: Seconds,
    /// CPU seconds of all threads.
    pub work: Seconds,
    /// Busy seconds of the pipeline's worker threads, whatever they wait for.
    pub workers: Seconds,
    /// Examples that were measured.
    pub examples: u64,
}

/// Both sides of one place.
#[derive(Debug, Clone, PartialEq)]
pub struct CutTimes {
    /// The place.
    pub cut: Cut,
    /// What is before it, into a sink.
    pub upstream: Side,
    /// What is behind it with the consumer's work, on items in memory.
    pub downstream: Side,
    /// Bytes of an item there: what an echo stage holds.
    pub item: Bytes,
}

impl CutTimes {
    /// How many downstream passes fit into the time of one upstream item.
    pub fn ratio(&self) -> f64 {
        self.upstream.seconds.0 / self.downstream.seconds.0
    }
}

/// One stage of the pipeline as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageProfile {
    /// What it is called.
    pub name: &'static str,
    /// What it did while the whole was measured.
    pub stats: StageStats,
    /// Seconds of that.
    pub seconds: Seconds,
}

/// What a plan's pipeline and its consumer take.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Each stage while everything runs together, in stream order.
    pub stages: Vec<StageProfile>,
    /// In stream order.
    pub cuts: Vec<CutTimes>,
    /// Everything together, as the plan has it without echo.
    pub together: Side,
    /// The share of that time which the consumer waited.
    pub idle: f64,
}

/// Whole batches into a sink.
pub(crate) struct Batches {
    pub(crate) side: Side,
    /// The longest time that two of them were apart.
    pub(crate) gap: Seconds,
    /// The most that the budget lets be under way.
    pub(crate) room: usize,
    /// What each stage did meanwhile.
    pub(crate) stages: Vec<StageProfile>,
}

impl Gauge {
    /// How many measurements `profile` makes.
    pub fn measurements(&self) -> Result<usize, PipelineError> {
        let mut groups: Vec<Group> =
            cuts(&self.plan, &self.data, self.seed)?.iter().map(|c| c.group).collect();
        groups.dedup();
        Ok(2 * groups.len() + 1)
    }

    /// Measures everything. `update` is the consumer's work on a batch; `done` is told after each measurement.
    pub fn profile<E: From<PipelineError>>(
        &self,
        update: &mut dyn FnMut(&Batch) -> Result<(), E>,
        done: &mut dyn FnMut(),
    ) -> Result<Profile, E> {
        let cuts = cuts(&self.plan, &self.data, self.seed)?;
        let mut times: Vec<CutTimes> = Vec::new();
        for cut in cuts {
            if let Some(same) = times.last().filter(|last| last.cut.group == cut.group) {
                let same = same.clone();
                times.push(CutTimes { cut, ..same });
                continue;
            }
            let upstream = self.upstream(&cut)?;
            done();
            let (downstream, item) = self.downstream(&cut, update)?;
            done();
            times.push(CutTimes { cut, upstream, downstream, item });
        }
        smooth(&mut times);
        let (together, idle, stages) = self.together(&self.plan, update)?;
        done();
        Ok(Profile { stages, cuts: times, together, idle })
    }

    /// A pipeline of this gauge's data.
    fn pipeline(&self, plan: &PipelinePlan) -> Result<Pipeline, PipelineError> {
        let pipeline = Pipeline::new(plan, self.data.clone(), self.seed, self.clock.clone())?;
        #[cfg(test)]
        if let Some(time) = &self.time {
            return Ok(pipeline.on(time));
        }
        Ok(pipeline)
    }

    /// What is before a place, into a sink.
    pub fn upstream(&self, cut: &Cut) -> Result<Side, PipelineError> {
        let once = EchoPlan { factor: EchoFactor::Fixed(1.0), buffer: 0 };
        match cut.group {
            Group::Batches => Ok(self.batches()?.side),
            Group::Shared(_) => {
                let pipeline = self.pipeline(&with_echo(&self.plan, cut.index, once))?;
                if pipeline.shared().recipe.is_direct() {
                    return self.choosing(&pipeline);
                }
                let mut upstream = Upstream::new(&pipeline)?;
                let depth = 2 * self.plan.threads + 3;
                let mut side =
                    self.measure(depth, |_| Ok::<_, PipelineError>(upstream.take()?.len() as u64))?;
                // One worker at least is busy all that time, and as many as the work has CPU seconds.
                side.workers = Seconds(side.seconds.0.max(side.work.0));
                Ok(side)
            }
        }
    }

    /// Whole batches into a sink.
    pub(crate) fn batches(&self) -> Result<Batches, PipelineError> {
        let pipeline = self.pipeline(&without_echo(&self.plan))?;
        let mut stream = pipeline.stream(Position::default());
        let (mut last, mut gap) = (self.clock.now(), Seconds(0.0));
        let (mut before, mut began) = (Vec::new(), last);
        let mut side = self.measure(pipeline.depth() + 1, |starts| {
            if starts {
                (before, began) = (pipeline.stats(), self.clock.now());
            }
            let batch = next(&mut stream)?;
            let examples = batch.len() as u64;
            pipeline.recycle(batch);
            let now = self.clock.now();
            gap = if starts { Seconds(0.0) } else { Seconds(gap.0.max((now - last).0)) };
            last = now;
            Ok::<_, PipelineError>(examples)
        })?;
        // One worker at least is busy all that time, and as many as the work has CPU seconds.
        side.workers = Seconds(side.seconds.0.max(side.work.0));
        let stages = since(pipeline.stats(), before, self.clock.now() - began);
        Ok(Batches { side, gap, room: pipeline.room(), stages })
    }

    /// Of examples in memory that are written straight into batches nothing is upstream but their order.
    fn choosing(&self, pipeline: &Pipeline) -> Result<Side, PipelineError> {
        let recipe = &pipeline.shared().recipe;
        let (order, places) = (recipe.order.epoch(0), recipe.order.places());
        let mut at = 0;
        let mut side = self.measure(1, |_| {
            let to = (at + 4096).min(places);
            (at..to).for_each(|place| {
                std::hint::black_box(order.pick(place));
            });
            let examples = to - at;
            at = if to == places { 0 } else { to };
            Ok::<_, PipelineError>(examples)
        })?;
        side.workers = side.seconds;
        side.seconds.0 /= self.plan.threads.max(1) as f64;
        Ok(side)
    }

    /// What is behind a place, on items in memory; and the bytes of such an item.
    pub(crate) fn downstream<E: From<PipelineError>>(
        &self,
        cut: &Cut,
        update: &mut dyn FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(Side, Bytes), E> {
        let plan = without_echo(&self.plan);
        if cut.group == Group::Batches {
            let pipeline = self.pipeline(&plan)?;
            let batch = next(&mut pipeline.stream(Position::default()))?;
            let side = self.measure(1, |_| {
                update(&batch)?;
                Ok::<_, E>(batch.len() as u64)
            })?;
            return Ok((side, pipeline.batch_bytes()));
        }
        let once = EchoPlan { factor: EchoFactor::Fixed(1.0), buffer: 0 };
        let pipeline = self.pipeline(&with_echo(&plan, cut.index, once))?;
        let (data, item) = if pipeline.shared().recipe.is_direct() {
            let [h, w, c] = self.data.shape();
            (self.data.clone(), Bytes((h * w * c) as u64))
        } else {
            let (data, item) = self.hold(&pipeline)?;
            (Arc::new(data), item)
        };
        let rest = PipelinePlan { stages: plan.stages[cut.index..].to_vec(), on_bad: OnBad::Fail, ..plan };
        let behind = Gauge { data, ..self.clone() };
        let (mut side, _, stages) = behind.together(&rest, update)?;
        let busy: f64 = stages.iter().filter(|s| s.name != "batch").map(|s| s.stats.busy.0).sum();
        let items = stages.iter().find(|s| s.name == "augment").map_or(0, |s| s.stats.items);
        side.workers = Seconds(busy / items.max(1) as f64);
        Ok((side, item))
    }

    /// Makes items to measure with.
    fn hold(&self, pipeline: &Pipeline) -> Result<(Dataset, Bytes), PipelineError> {
        let (mut upstream, mut items, mut bytes) = (Upstream::new(pipeline)?, Vec::new(), 0);
        let wanted = (2 * pipeline.batch_size()).min(self.data.len());
        let since = self.clock.now();
        while items.is_empty()
            || items.len() < wanted
                && bytes < MOST_HELD
                && (self.clock.now() - since).0 < 3.0 * self.seconds.0
        {
            for item in upstream.take()? {
                bytes += item.image.pixels.len() as u64;
                items.push(item);
            }
        }
        let item = Bytes(bytes / items.len() as u64);
        // Whole batches only: a consumer may have to prepare for another size.
        let (batch, all) = (pipeline.batch_size(), self.data.len());
        let examples = if batch <= all { 4 * batch } else { all };
        Ok((held(items, self.data.info(), examples)?, item))
    }

    /// A pipeline with its consumer: what both take, the share of time that the consumer waits, and the stages.
    pub fn together<E: From<PipelineError>>(
        &self,
        plan: &PipelinePlan,
        update: &mut dyn FnMut(&Batch) -> Result<(), E>,
    ) -> Result<(Side, f64, Vec<StageProfile>), E> {
        let pipeline = self.pipeline(plan)?;
        let mut stream = pipeline.stream(Position::default());
        let mut before = Vec::new();
        let (mut waited, mut fresh, mut counted, mut began) = (0.0, 0, 0, self.clock.now());
        // What the queue held at first is used up before time counts, or, where updates are slow, makes no difference.
        let side = self.measure(pipeline.depth() + 1, |starts| {
            if starts {
                before = pipeline.stats();
                (waited, fresh, counted, began) = (0.0, 0, 0, self.clock.now());
            }
            let asked = self.clock.now();
            let batch = next(&mut stream)?;
            waited += (self.clock.now() - asked).0;
            update(&batch)?;
            (counted, fresh) = (counted + batch.len() as u64, fresh + batch.fresh as u64);
            let examples = batch.len() as u64;
            pipeline.recycle(batch);
            Ok::<_, E>(examples)
        })?;
        let seconds = self.clock.now() - began;
        let stages = since(pipeline.stats(), before, seconds);
        // Repeats are not counted: time is an upstream example's.
        let passes = if fresh > 0 { counted as f64 / fresh as f64 } else { 1.0 };
        let of = |seconds: Seconds| Seconds(seconds.0 * passes);
        let side = Side { seconds: of(side.seconds), work: of(side.work), ..side };
        Ok((side, (waited / seconds.0.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0), stages))
    }

    /// Calls `one` until the time is up, which starts once it has been called a few times: at least once, and so
    /// often as queues hold, but no longer than the measurement itself. The first call that counts is told so.
    fn measure<E>(&self, warm: usize, mut one: impl FnMut(bool) -> Result<u64, E>) -> Result<Side, E> {
        let began = self.clock.now();
        for call in 0.. {
            one(false)?;
            let spent = (self.clock.now() - began).0;
            if call + 1 >= warm && spent >= 0.25 * self.seconds.0 || spent >= self.seconds.0 {
                break;
            }
        }
        let (since, cpu) = (self.clock.now(), self.cpu.now());
        let (mut examples, mut calls) = (0, 0);
        while calls < 2 || (self.clock.now() - since).0 < self.seconds.0 {
            examples += one(calls == 0)?;
            calls += 1;
        }
        let each = |seconds: Seconds| Seconds(seconds.0 / examples as f64);
        let (seconds, work) = (each(self.clock.now() - since), each(self.cpu.now() - cpu));
        Ok(Side { seconds, work, workers: Seconds(0.0), examples })
    }
}

/// What stages did between two looks at them.
fn since(
    now: Vec<(&'static str, StageStats)>,
    before: Vec<(&'static str, StageStats)>,
    seconds: Seconds,
) -> Vec<StageProfile> {
    let of = |((name, now), (_, before)): ((&'static str, StageStats), (&'static str, StageStats))| {
        let stats = StageStats {
            items: now.items - before.items,
            busy: now.busy - before.busy,
            blocked_in: now.blocked_in - before.blocked_in,
            blocked_out: now.blocked_out - before.blocked_out,
            queue_bytes: now.queue_bytes,
            bytes: Bytes(now.bytes.0 - before.bytes.0),
        };
        StageProfile { name, stats, seconds }
    };
    now.into_iter().zip(before).map(of).collect()
}

/// The stream's next batch; streams of all epochs do not end.
fn next(stream: &mut crate::Stream) -> Result<Batch, PipelineError> {
    stream.next().expect("a stream over all epochs does not end")
}

/// Later cuts have more upstream and less downstream: what is measured the other way round is noise of two equal
/// ones.
fn smooth(times: &mut [CutTimes]) {
    for k in 1..times.len() {
        let before = times[k - 1].upstream;
        let up = &mut times[k].upstream;
        up.seconds.0 = up.seconds.0.max(before.seconds.0);
        up.work.0 = up.work.0.max(before.work.0);
        up.workers.0 = up.workers.0.max(before.workers.0);
    }
    for k in (1..times.len()).rev() {
        let behind = times[k].downstream;
        let down = &mut times[k - 1].downstream;
        down.seconds.0 = down.seconds.0.max(behind.seconds.0);
        down.work.0 = down.work.0.max(behind.work.0);
        down.workers.0 = down.workers.0.max(behind.workers.0);
    }
}
