//! The time law of echoing, on the pipeline's own threads and queues by a clock of the test's (`virtual_time`): stages
//! of known cost, a consumer of known cost, and what comes of them.

use crate::testing::within;
use crate::virtual_time::VirtualTime;
use crate::{Dataset, DatasetInfo, Image, Pipeline, PipelineError, Position, Rate, Source};
use sooner_base::{Bytes, Clock, Seed};
use sooner_plan::{EchoFactor, EchoPlan, PipelinePlan, Split, StagePlan};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Examples of one pixel that cost time to read and cores to decode.
#[derive(Debug)]
pub(crate) struct Costly {
    pub(crate) info: DatasetInfo,
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) read: Read,
    /// CPU seconds of decoding one.
    pub(crate) decode: f64,
}

/// What reading an example takes.
#[derive(Debug)]
pub(crate) enum Read {
    /// Seconds of waiting.
    Seconds(f64),
    /// So many bytes over a line that all readers share.
    Bytes(u64, Rate),
}

impl Costly {
    pub(crate) fn new(time: &Arc<VirtualTime>, read: Read, decode: f64) -> Costly {
        let classes = vec!["one".to_string()];
        let info = DatasetInfo { name: "costly".into(), split: Split::Train, shape: [1, 1, 1], classes };
        Costly { info, time: time.clone(), read, decode }
    }
}

impl Source for Costly {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        100_000
    }

    fn read(&self, _: u64, _: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        match &self.read {
            Read::Seconds(seconds) => self.time.wait(*seconds, cancelled),
            Read::Bytes(bytes, rate) => self.time.wait_until(rate.book(*bytes).0, cancelled),
        }
        Ok(())
    }

    fn decode(
        &self,
        index: u64,
        _: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        if self.decode > 0.0 {
            self.time.compute(self.decode, 1, &AtomicBool::new(false));
        }
        into.shape = [1, 1, 1];
        into.pixels = vec![index as u8];
        Ok(0)
    }
}

/// One side's cost of an item: seconds of waiting, CPU seconds, and the threads that share these.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wait: f64,
    work: f64,
    threads: usize,
}

const fn waits(wait: f64) -> Cost {
    Cost { wait, work: 0.0, threads: 1 }
}

const fn works(work: f64, threads: usize) -> Cost {
    Cost { wait: 0.0, work, threads }
}

/// Where the echo stage stands, how many examples are a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Echo {
    Examples(f64, usize),
    Batches(f64, usize),
}

/// What a run came to, in the steady part of it.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// Seconds an upstream example.
    seconds: f64,
    /// The share of time that the consumer waited.
    idle: f64,
}

/// Runs the pipeline by made-up time. `up` is an example's, `down` one pass over an example.
fn run(cores: f64, up: Cost, down: Cost, echo: Echo) -> Outcome {
    within(60, move || {
        let time = Arc::new(VirtualTime::new(up.threads, cores));
        let source = Costly::new(&time, Read::Seconds(up.wait), up.work);
        let stage = |factor| StagePlan::Echo(EchoPlan { factor: EchoFactor::Fixed(factor), buffer: 0 });
        let (factor, stages) = match echo {
            Echo::Examples(factor, batch) => (factor, vec![stage(factor), StagePlan::Batch(batch)]),
            Echo::Batches(factor, batch) => (factor, vec![StagePlan::Batch(batch), stage(factor)]),
        };
        let plan = PipelinePlan { threads: up.threads, ..PipelinePlan::new(stages) };
        let data = Arc::new(Dataset::streamed(Arc::new(source)));
        let pipeline = Pipeline::new(&plan, data, Seed(1), time.clone()).unwrap().on(&time);
        let mut stream = pipeline.stream(Position::default());
        // The queues fill and empty once; then whole rounds of repeats are timed.
        let round = (factor * 4.0).round() as usize;
        let (mut fresh, mut since, mut waited) = (0, 0.0, 0.0);
        for update in 0..round * 45 {
            if update == round * 9 {
                (fresh, since, waited) = (0, time.now().0, 0.0);
            }
            let asked = time.now().0;
            let batch = stream.next().unwrap().unwrap();
            waited += time.now().0 - asked;
            fresh += batch.fresh;
            let passes = batch.len() as f64;
            time.consume(down.wait * passes, (down.work * passes, down.threads));
            pipeline.recycle(batch);
        }
        let took = time.now().0 - since;
        Outcome { seconds: took / fresh as f64, idle: waited / took }
    })
}

fn assert_near(found: f64, expect: f64, tolerance: f64, what: &str) {
    let near = (found - expect).abs() <= tolerance * expect.abs().max(1e-9);
    assert!(near, "{what}: found {found}, expected {expect}");
}

const APART: f64 = f64::INFINITY;

#[test]
fn with_processors_of_their_own_the_slower_side_sets_the_pace() {
    for (up, down) in [(6.0, 1.0), (1.0, 1.0), (1.0, 4.0), (2.5, 1.0)] {
        let found = run(APART, waits(up), waits(down), Echo::Examples(1.0, 1));
        let ratio: f64 = up / down;
        assert_near(found.seconds, up.max(down), 1e-9, "seconds");
        assert!((found.idle - (1.0 - 1.0 / ratio).max(0.0)).abs() < 1e-9, "{found:?} of {up} {down}");
    }
}

#[test]
fn repeats_are_free_up_to_the_ratio_and_cost_their_time_beyond() {
    let (up, down) = (6.0, 1.0);
    let mut seconds = Vec::new();
    for factor in [1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 9.0, 12.0] {
        for echo in [Echo::Examples(factor, 1), Echo::Examples(factor, 12), Echo::Batches(factor, 2)] {
            let found = run(APART, waits(up), waits(down), echo);
            assert_near(found.seconds, up.max(factor * down), 1e-6, &format!("seconds of {echo:?}"));
            let idle = (1.0 - factor * down / up).max(0.0);
            assert!((found.idle - idle).abs() < 1e-6, "{echo:?}: {found:?}, expected idle {idle}");
            seconds.push(found.seconds);
        }
    }
    assert!(seconds[..15].iter().all(|s| (s - 6.0).abs() < 1e-6), "flat to e = R: {seconds:?}");
}

#[test]
fn more_workers_read_side_by_side() {
    for threads in [1, 2, 3, 4] {
        let up = Cost { threads, ..waits(6.0) };
        let found = run(APART, up, waits(1.0), Echo::Examples(1.0, 1));
        assert_near(found.seconds, (6.0 / threads as f64).max(1.0), 1e-9, &format!("{threads} workers"));
    }
}

/// Where both sides keep their cores busy the law holds to the last digit; where one of them has a rest, it is what
/// cannot be beaten.
#[test]
fn shared_cores_do_no_more_work_than_there_are_cores() {
    let law = |cores: f64, up: Cost, down: Cost, e: f64| {
        let alone = |cost: Cost| cost.wait + cost.work / (cost.threads as f64).min(cores);
        let [t_up, t_down] = [Cost { wait: up.wait / up.threads as f64, ..up }, down].map(alone);
        t_up.max(e * t_down).max((up.work + e * down.work) / cores)
    };
    // One core: everything is added up.
    for e in [1.0, 2.0, 5.0] {
        let (up, down) = (works(3.0, 1), works(1.0, 1));
        let found = run(1.0, up, down, Echo::Examples(e, 1));
        assert_near(found.seconds, law(1.0, up, down, e), 1e-6, &format!("one core, e = {e}"));
        assert_near(found.seconds, 3.0 + e, 1e-6, "one core");
    }
    // Two cores, an update on both, reading that only waits: as with processors of their own.
    for e in [1.0, 4.0, 6.0, 9.0] {
        let (up, down) = (waits(3.0), works(1.0, 2));
        let found = run(2.0, up, down, Echo::Batches(e, 1));
        assert_near(found.seconds, law(2.0, up, down, e), 1e-6, &format!("waiting, e = {e}"));
        assert_near(found.seconds, 3f64.max(0.5 * e), 1e-6, "waiting");
    }
    // Two cores, an update on both, decoding on one of them.
    let mut worst: f64 = 0.0;
    for work in [0.5, 1.0, 2.0, 4.0] {
        for e in [1.0, 2.0, 4.0, 8.0, 16.0] {
            let (up, down) = (works(work, 1), works(1.0, 2));
            let found = run(2.0, up, down, Echo::Examples(e, 1));
            let bound = law(2.0, up, down, e);
            assert!(found.seconds >= bound - 1e-6, "{found:?} is less than {bound}, e = {e}, {work}");
            worst = worst.max(found.seconds / bound);
        }
    }
    assert!(worst < 1.34, "{worst} times the law's time");
}

/// Half the rate of a line that reading waits for is twice the ratio.
#[test]
fn half_the_rate_is_twice_the_ratio() {
    let seconds = |bytes_a_second| {
        within(60, move || {
            let time = Arc::new(VirtualTime::new(2, APART));
            let rate = Rate::new(Bytes(bytes_a_second), time.clone());
            let source = Costly::new(&time, Read::Bytes(1000, rate), 0.001);
            let plan = PipelinePlan { threads: 2, ..PipelinePlan::new(vec![StagePlan::Batch(4)]) };
            let data = Arc::new(Dataset::streamed(Arc::new(source)));
            let pipeline = Pipeline::new(&plan, data, Seed(1), time.clone()).unwrap().on(&time);
            let mut stream = pipeline.stream(Position::default());
            let mut since = 0.0;
            for update in 0..100 {
                pipeline.recycle(stream.next().unwrap().unwrap());
                if update == 19 {
                    since = time.now().0;
                }
            }
            let took = time.now().0 - since;
            took / 320.0
        })
    };
    let (full, half) = (seconds(100_000), seconds(50_000));
    assert_near(full, 0.01, 1e-6, "a thousand bytes at a hundred thousand a second");
    assert_near(half / full, 2.0, 1e-6, "half the rate");
}
