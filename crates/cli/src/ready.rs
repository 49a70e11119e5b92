//! From a plan to a run that can start: engine, peak, data, given weights.

use crate::fail::Failure;
use crate::machine::{self, CpuClock, Engine};
use crate::settle;
use crate::shelf::Shelf;
use sooner_base::{Clock, MonotonicClock, Seconds};
use sooner_engine::State;
use sooner_engine::native::Kernels;
use sooner_models::Model;
use sooner_pipeline::{Gauge, Pipeline, Splits};
use sooner_plan::{DataFacts, InitPlan, Plan};
use sooner_record::{Header, RunReader, TimeSplit, Weights};
use sooner_train::{Checkpoints, Job, Programs, Start, Stopwatch, data_notes, start_from};
use std::path::Path;
use std::sync::Arc;

/// Everything that a run needs beside its record.
pub(crate) struct Ready {
    /// Resolved.
    pub(crate) plan: Plan,
    pub(crate) facts: DataFacts,
    pub(crate) splits: Arc<Splits>,
    pub(crate) engine: Engine,
    pub(crate) peak_gflops: f64,
    /// What a person should know of the data and the stages before the run.
    pub(crate) notes: Vec<String>,
    /// What was measured to choose pipeline threads and queue; none where the plan did not ask for it.
    pub(crate) tuned: Option<String>,
    clock: Arc<dyn Clock>,
}

impl Ready {
    /// Resolves the plan, measures the machine and loads the data. The stopwatch starts when the plan is resolved;
    /// a resumed run's goes on from the time that it had spent, and how much of its preparation was preprocessing.
    pub(crate) fn new(
        typed: &Plan,
        kernels: Kernels,
        spent: Option<(TimeSplit, Seconds)>,
    ) -> anyhow::Result<(Ready, Stopwatch)> {
        Ready::on_shelf(typed, kernels, spent, (&Shelf::default(), &|| false))
    }

    /// The same where runs before this one may have read the data already, or where nobody wants them any more.
    pub(crate) fn on_shelf(
        typed: &Plan,
        kernels: Kernels,
        spent: Option<(TimeSplit, Seconds)>,
        (shelf, unwanted): (&Shelf, &dyn Fn() -> bool),
    ) -> anyhow::Result<(Ready, Stopwatch)> {
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
        let expected = settle::peek(typed)?;
        let plan = typed.resolve(&expected, machine::cores())?;
        let engine = Engine::for_plan(&plan, plan.run.threads.unwrap_or(1), kernels);
        let peak = engine.measure_peak(clock.as_ref());

        let watch = match spent {
            None => Stopwatch::start(clock.clone()),
            Some((split, preprocess)) => Stopwatch::resume(clock.clone(), &split, preprocess),
        };
        // As typed: of the user's own files the plan so far has only a guess of how many there are.
        let splits = shelf.get(&typed.data, engine.pool.threads(), &clock, unwanted)?;
        let facts = settle::facts(&splits);
        // The authors' sets have the expected sizes; the user's own files of the same format may not.
        let plan = if facts == expected { plan } else { typed.resolve(&facts, machine::cores())? };
        shelf.add_name(&typed.data, &plan.data);
        let (peak_gflops, notes) = (peak.peak.gflops, Vec::new());
        let mut ready = Ready { plan, facts, splits, engine, peak_gflops, notes, tuned: None, clock };
        ready.notes = data_notes(&ready.splits, &ready.pipeline()?);
        ready.notes.extend(peak.note());
        // What cannot be built fails before the record's folder is made.
        settle::check_model(&ready.model()?)?;
        ready.tune()?;
        Ok((ready, watch))
    }

    fn pipeline(&self) -> anyhow::Result<Pipeline> {
        let Ready { plan, splits, clock, .. } = self;
        Ok(Pipeline::new(&plan.pipeline, splits.train.clone(), plan.seed, clock.clone())?)
    }

    /// The network that the plan names, for what the pipeline makes of these data.
    pub(crate) fn model(&self) -> anyhow::Result<Model> {
        Ok(Model::new(&self.plan.model, self.pipeline()?.shape(), self.facts.classes)?)
    }

    /// The programs that a run of this plan trains with, for measuring them: none is compiled yet.
    pub(crate) fn programs(&self) -> anyhow::Result<Programs> {
        let Ready { plan, engine, .. } = self;
        Ok(Programs::for_plan(plan, self.model()?, engine.kernels, engine.pool.clone()))
    }

    /// Measures this plan's pipeline, for so many seconds each time.
    pub(crate) fn gauge(&self, seconds: f64) -> Gauge {
        Gauge {
            plan: self.plan.pipeline.clone(),
            data: self.splits.train.clone(),
            seed: self.plan.seed,
            clock: self.clock.clone(),
            cpu: Arc::new(CpuClock),
            seconds: Seconds(seconds),
        }
    }

    /// The schedule of repeats that the plan wants followed; none where it wants none.
    pub(crate) fn read_replay(&self) -> anyhow::Result<Option<Vec<u32>>> {
        let Some(folder) = &self.plan.run.replay else { return Ok(None) };
        let record = RunReader::open(Path::new(folder))?;
        let schedule = record.log.last_update().and_then(|last| record.log.fresh(last));
        schedule.map(Some).ok_or_else(|| {
            let fields = [
                "a record of a run with echo = \"auto\"",
                "no schedule of fresh examples in its run.jsonl",
                "runs without \"auto\" are the same every time: train them again without --replay",
            ];
            Failure::world("there is no schedule to follow", folder, fields).into()
        })
    }

    /// Reads the weights that the plan starts from, if it names any, and writes their sum into the plan, so that it
    /// means the same weights for ever; a sum that is there already must be theirs.
    /// So must their tensors be the network's.
    pub(crate) fn read_init(&mut self) -> anyhow::Result<Option<Weights>> {
        if self.plan.run.init.is_none() {
            return Ok(None);
        }
        let model = self.model()?;
        let Some(InitPlan { weights, crc32, except }) = &mut self.plan.run.init else { return Ok(None) };
        let read = Weights::read(Path::new(weights))?;
        start_from(model.vars(), &mut State::init(model.vars(), self.plan.seed), &read, except)?;
        let sum = format!("{:08x}", read.crc32);
        match crc32 {
            Some(known) if *known != sum => {
                let what = "the weights that this plan starts from have changed";
                let fields = [
                    &*format!("a file with CRC-32 {known}"),
                    &format!("CRC-32 {sum}"),
                    "bring the old file back, or start a new run from this one",
                ];
                Err(Failure::world(what, weights, fields).into())
            }
            _ => {
                *crc32 = Some(sum);
                Ok(Some(read))
            }
        }
    }

    /// The first line of the run's log.
    pub(crate) fn header(&self) -> Header {
        let header = self.engine.header(&self.plan, self.peak_gflops, machine::unix_seconds());
        Header { tuned: self.tuned.clone(), ..header }
    }

    /// The run itself.
    pub(crate) fn job(&self, watch: Stopwatch, start: Start, checkpoints: Checkpoints) -> Job<'_> {
        Job {
            plan: &self.plan,
            facts: self.facts.clone(),
            splits: &self.splits,
            start,
            checkpoints,
            pool: self.engine.pool.clone(),
            kernels: self.engine.kernels,
            peak_gflops: self.peak_gflops,
            clock: self.clock.clone(),
            watch,
        }
    }

    /// Updates until the run's end.
    pub(crate) fn total_updates(&self) -> u64 {
        self.plan.total_updates(self.facts.train_examples).0
    }
}
