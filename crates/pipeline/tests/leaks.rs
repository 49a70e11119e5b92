//! Alone in its process, so that threads and memory can be counted.

use sooner_base::{MonotonicClock, Seed};
use sooner_pipeline::{Dataset, DatasetInfo, Pipeline, Position};
use sooner_plan::{PipelinePlan, ShuffleKind, Split, StagePlan};
use std::sync::Arc;
use std::time::Instant;

/// A number from this process's status, such as its threads or its resident KiB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_thousand_partial_epochs_leave_nothing() {
    let n = 512;
    let info = DatasetInfo {
        name: "made".into(),
        split: Split::Train,
        shape: [16, 16, 3],
        classes: vec!["one".into()],
    };
    let data = Arc::new(Dataset::new(info, vec![7; n * 16 * 16 * 3], vec![0; n]).unwrap());
    let plan = PipelinePlan {
        stages: vec![StagePlan::Shuffle(ShuffleKind::Epoch), StagePlan::Batch(64)],
        threads: 3,
        budget: "16MiB".into(),
        ..PipelinePlan::new(Vec::new())
    };
    let pipeline = Pipeline::new(&plan, data, Seed(1), Arc::new(MonotonicClock::start())).unwrap();
    let mut before = (0, 0);
    let mut slowest = 0.0f64;
    for epoch in 0..1100 {
        let mut stream = if epoch % 2 == 0 {
            pipeline.epoch(epoch)
        } else {
            pipeline.stream(Position { epoch, batch: u64::from(epoch) % 8 })
        };
        for _ in 0..epoch % 4 {
            pipeline.recycle(stream.next().unwrap().unwrap());
        }
        if epoch % 5 == 0 {
            pipeline.pause();
        }
        let since = Instant::now();
        drop(stream);
        slowest = slowest.max(since.elapsed().as_secs_f64());
        pipeline.resume();
        if epoch == 100 {
            before = (status("Threads:"), status("VmRSS:"));
        }
    }
    let after = (status("Threads:"), status("VmRSS:"));
    assert_eq!(after.0, before.0, "threads");
    // A leak of one batch an epoch would be 200 MB.
    assert!(after.1 < before.1 + 20_000, "resident KiB {} then {}", before.1, after.1);
    assert!(slowest < 1.0, "dropping took {slowest} s");
}
