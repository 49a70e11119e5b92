//! The time law of echoing in real time: stages that really sleep and spin, measured against what the law says.
//! `cargo bench -p sooner-pipeline --bench time_law`
//!
//! Each row is one run of a pipeline with one worker: t_up milliseconds of reading (sleeping, or spinning on a core) an
//! example, t_down of the consumer's for each use, echo factor e. The law: max(t_up, e t_down), and on cores that both
//! share also (w_up + e w_down) / c. The last two rows read over a line of so many bytes a second: half the rate is twice R.

use sooner_base::{Clock, MonotonicClock, Seconds, Seed};
use sooner_pipeline::{
    Dataset, DatasetInfo, Gauge, Image, Pipeline, PipelineError, Position, Rate, Source, Throttled,
};
use sooner_plan::{EchoFactor, EchoPlan, PipelinePlan, Split, StagePlan};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How an example's time is spent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Sleep,
    Spin,
}

fn spend(kind: Kind, seconds: f64) {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    match kind {
        // Sleeping is late by a part of a millisecond; the rest is waited out.
        Kind::Sleep => std::thread::sleep(Duration::from_secs_f64(seconds)),
        Kind::Spin => {
            while Instant::now() < until {
                black_box(until);
            }
        }
    }
}

#[derive(Debug)]
struct Costly {
    info: DatasetInfo,
    kind: Kind,
    seconds: f64,
    bytes: usize,
}

impl Costly {
    fn new(kind: Kind, seconds: f64, bytes: usize) -> Costly {
        let classes = vec!["one".to_string()];
        let info = DatasetInfo { name: "costly".into(), split: Split::Train, shape: [1, 1, 1], classes };
        Costly { info, kind, seconds, bytes }
    }
}

impl Source for Costly {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        1_000_000
    }

    fn read(&self, _: u64, into: &mut Vec<u8>, _: &AtomicBool) -> Result<(), PipelineError> {
        into.resize(self.bytes, 0);
        if self.seconds > 0.0 {
            spend(self.kind, self.seconds);
        }
        Ok(())
    }

    fn decode(
        &self,
        _: u64,
        _: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        into.shape = [1, 1, 1];
        into.pixels.clear();
        into.pixels.push(0);
        Ok(0)
    }
}

/// Seconds of an upstream example, and the share of time that the consumer waited.
fn run(source: Costly, down: (Kind, f64), echo: f64, seconds: f64) -> (f64, f64) {
    const BATCH: usize = 4;
    let stage = EchoPlan { factor: EchoFactor::Fixed(echo), buffer: 0 };
    let plan = PipelinePlan {
        threads: 1,
        ..PipelinePlan::new(vec![StagePlan::Echo(stage), StagePlan::Batch(BATCH)])
    };
    let clock = Arc::new(MonotonicClock::start());
    let data = Arc::new(Dataset::streamed(Arc::new(source)));
    let pipeline = Pipeline::new(&plan, data, Seed(1), clock.clone()).expect("a plan that fits");
    let mut stream = pipeline.stream(Position::default());
    let (mut fresh, mut waited, mut since) = (0, 0.0, clock.now());
    for update in 0.. {
        if update == 16 {
            (fresh, waited, since) = (0, 0.0, clock.now());
        }
        if update > 16 && (clock.now() - since).0 > seconds && update % (4 * echo as usize) == 0 {
            break;
        }
        let asked = clock.now();
        let batch = stream.next().expect("an endless stream").expect("no example is bad");
        waited += (clock.now() - asked).0;
        fresh += batch.fresh;
        spend(down.0, down.1 * batch.len() as f64);
        pipeline.recycle(batch);
    }
    let took = (clock.now() - since).0;
    (took / fresh as f64, waited / took)
}

/// R of a line of so many bytes a second, as `sooner profile` measures it.
fn ratio(bytes_a_second: u64) -> f64 {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::start());
    let rate = Rate::new(sooner_base::Bytes(bytes_a_second), clock.clone());
    let source = Throttled::new(Costly::new(Kind::Spin, 0.0, 4000), rate);
    let gauge = Gauge {
        plan: PipelinePlan { threads: 1, ..PipelinePlan::new(vec![StagePlan::Batch(16)]) },
        data: Arc::new(Dataset::streamed(Arc::new(source))),
        seed: Seed(1),
        clock: clock.clone(),
        cpu: clock,
        seconds: Seconds(1.5),
    };
    let mut update = |batch: &sooner_base::Batch| {
        spend(Kind::Spin, 0.001 * batch.len() as f64);
        Ok::<_, PipelineError>(())
    };
    let profile = gauge.profile(&mut update, &mut || ()).expect("a profile");
    profile.cuts.first().expect("a cut").ratio()
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    println!("{cores} cores; milliseconds an upstream example\n");
    println!(
        "{:<28} {:>6} {:>6} {:>4} {:>9} {:>9} {:>7} {:>6} {:>6}",
        "", "t_up", "t_down", "e", "law", "measured", "off", "idle", "law"
    );
    let (up, down) = (0.006, 0.001);
    for (name, up_kind, down_kind) in [
        ("sleep against sleep", Kind::Sleep, Kind::Sleep),
        ("sleep against spin", Kind::Sleep, Kind::Spin),
        ("spin against spin", Kind::Spin, Kind::Spin),
    ] {
        for echo in [1.0, 2.0, 4.0, 6.0, 8.0, 12.0] {
            let work = |kind: Kind, seconds: f64| if kind == Kind::Spin { seconds } else { 0.0 };
            let shared = (work(up_kind, up) + echo * work(down_kind, down)) / cores;
            let law = up.max(echo * down).max(shared);
            let idle = 1.0 - echo * down / law;
            let (found, waited) = run(Costly::new(up_kind, up, 0), (down_kind, down), echo, 1.5);
            println!(
                "{name:<28} {:>6.1} {:>6.1} {echo:>4} {:>9.3} {:>9.3} {:>6.1}% {:>6.3} {:>6.3}",
                1e3 * up,
                1e3 * down,
                1e3 * law,
                1e3 * found,
                100.0 * (found / law - 1.0),
                waited,
                idle
            );
        }
    }
    let (full, half) = (ratio(1_000_000), ratio(500_000));
    println!(
        "\nreading at 1 MB/s, 4000 bytes and 1 ms of update an example: R = {full:.3} (4 by the numbers)"
    );
    println!("reading at half the rate: R = {half:.3}, {:.3} times as much", half / full);
}
