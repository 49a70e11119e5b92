//! Profiles of pipelines of known cost, by a test's time.

use super::*;
use crate::law_tests::{Costly, Read};
use crate::testing::{dataset, plan, usual, within};
use crate::virtual_time::VirtualTime;
use crate::{Dataset, PipelineError, Rate};
use sooner_base::{Batch, Bytes, Clock, ManualClock, Seconds, Seed};
use sooner_plan::{EchoFactor, EchoPlan, FlipKind, JitterPlan, PipelinePlan, ShuffleKind, StagePlan};
use std::sync::Arc;

/// CPU seconds by a test's time.
struct Cpu(Arc<VirtualTime>);

impl Clock for Cpu {
    fn now(&self) -> Seconds {
        self.0.computed()
    }
}

fn gauge(time: &Arc<VirtualTime>, source: Costly, plan: PipelinePlan) -> Gauge {
    Gauge {
        plan,
        data: Arc::new(Dataset::streamed(Arc::new(source))),
        seed: Seed(1),
        clock: time.clone(),
        cpu: Arc::new(Cpu(time.clone())),
        seconds: Seconds(20.0),
        time: Some(time.clone()),
    }
}

/// Reading waits, decoding computes, an update computes on two cores of four.
fn profile(read: fn(&Arc<VirtualTime>) -> Read, threads: usize) -> Profile {
    within(60, move || {
        let time = Arc::new(VirtualTime::new(threads, 4.0));
        let source = Costly::new(&time, read(&time), 0.02);
        let stages = vec![
            StagePlan::Shuffle(ShuffleKind::Epoch),
            StagePlan::Flip(FlipKind::Random),
            StagePlan::Batch(4),
        ];
        let gauge = gauge(&time, source, plan(stages, threads));
        let mut measured = 0;
        let mut update = |batch: &Batch| {
            time.consume(0.0, (0.04 * batch.len() as f64, 2));
            Ok::<_, PipelineError>(())
        };
        let profile = gauge.profile(&mut update, &mut || measured += 1).unwrap();
        assert_eq!(measured, gauge.measurements().unwrap());
        profile
    })
}

fn near(found: Seconds, expect: f64) {
    assert!((found.0 - expect).abs() < 0.01 * expect + 1e-9, "found {found}, expected {expect}");
}

#[test]
fn both_sides_of_every_cut_have_their_times() {
    let profile = profile(|_| Read::Seconds(0.1), 1);
    let positions: Vec<&str> = profile.cuts.iter().map(|c| c.cut.position.as_str()).collect();
    assert_eq!(positions, ["after decode", "after shuffle", "after flip", "after batch"]);
    for cut in &profile.cuts {
        near(cut.upstream.seconds, 0.12);
        near(cut.upstream.work, 0.02);
        near(cut.upstream.workers, 0.12);
        near(cut.downstream.seconds, 0.02);
        near(cut.downstream.work, 0.04);
        assert!((cut.ratio() - 6.0).abs() < 0.1);
    }
    near(profile.together.seconds, 0.12);
    near(profile.together.work, 0.06);
    assert!((profile.idle - 5.0 / 6.0).abs() < 0.01, "{}", profile.idle);
    let busy: Vec<_> = profile.stages.iter().map(|s| (s.name, s.stats.busy.0 / s.seconds.0)).collect();
    let of = |name: &str| busy.iter().find(|(n, _)| *n == name).unwrap().1;
    assert!((of("read") - 0.1 / 0.12).abs() < 0.02 && (of("decode") - 0.02 / 0.12).abs() < 0.02, "{busy:?}");
}

#[test]
fn worker_threads_share_upstream() {
    let profile = profile(|_| Read::Seconds(0.1), 2);
    for cut in &profile.cuts {
        near(cut.upstream.seconds, 0.06);
        near(cut.downstream.seconds, 0.02);
    }
}

/// Where reading dominates, half the rate of the line is twice the ratio, whatever the number of threads.
#[test]
fn half_the_rate_is_twice_the_ratio() {
    let of = |read| profile(read, 2).cuts.last().unwrap().ratio();
    let full = of(|time| Read::Bytes(1000, Rate::new(Bytes(20_000), time.clone())));
    let half = of(|time| Read::Bytes(1000, Rate::new(Bytes(10_000), time.clone())));
    assert!((full - 2.5).abs() < 0.05, "{full}");
    assert!((half / full - 2.0).abs() < 0.02, "{half} against {full}");
}

/// What is advised is what then happens: time with echo is the law's.
#[test]
fn together_with_echo() {
    within(60, || {
        let time = Arc::new(VirtualTime::new(1, f64::INFINITY));
        let source = Costly::new(&time, Read::Seconds(0.06), 0.0);
        let stages = |factor| {
            let echo = EchoPlan { factor: EchoFactor::Fixed(factor), buffer: 8 };
            plan(vec![StagePlan::Echo(echo), StagePlan::Batch(4)], 1)
        };
        let gauge = gauge(&time, source, stages(1.0));
        for (factor, seconds) in [(3.0, 0.06), (6.0, 0.06), (9.0, 0.09)] {
            let mut update = |batch: &Batch| {
                time.consume(0.01 * batch.len() as f64, (0.0, 1));
                Ok::<_, PipelineError>(())
            };
            let (side, idle, _) = gauge.together(&stages(factor), &mut update).unwrap();
            assert!((side.seconds.0 / seconds - 1.0).abs() < 0.03, "{factor}: {side:?}");
            assert!((idle - (1.0 - factor / 6.0f64).max(0.0)).abs() < 0.03, "{factor}: {idle}");
        }
    });
}

#[test]
fn stages_that_are_done_together_share_a_cut() {
    let data = dataset(20, [8, 8, 3]);
    let of = |stages: Vec<StagePlan>| {
        let cuts = cuts(&plan(stages, 1), &data, Seed(1)).unwrap();
        cuts.into_iter().map(|c| (c.index, c.position, c.repeats)).collect::<Vec<_>>()
    };
    let names = |list: &[(usize, String, Repeats)]| list.iter().map(|c| c.1.clone()).collect::<Vec<_>>();
    let found = of(usual(8, 4));
    assert_eq!(
        names(&found),
        ["after memory", "after shuffle", "after crop", "after flip", "after normalize", "after batch"]
    );
    let repeats: Vec<Repeats> = found.iter().map(|c| c.2).collect();
    use Repeats::{Augmented, Batches, Copies};
    assert_eq!(repeats, [Augmented, Augmented, Copies, Copies, Copies, Batches]);

    // An echo stage that is there already is no place; jitter needs pixels of its own.
    let jitter = JitterPlan { brightness: 0.1, contrast: 0.0, saturation: 0.0, hue: 0.0 };
    let echo = EchoPlan { factor: EchoFactor::Fixed(3.0), buffer: 9 };
    let stages = vec![
        StagePlan::Resize(8),
        StagePlan::Echo(echo),
        StagePlan::Jitter(jitter),
        StagePlan::Batch(4),
        StagePlan::Mixup(0.2),
    ];
    let cuts = cuts(&plan(stages, 1), &data, Seed(1)).unwrap();
    let groups: Vec<_> = cuts.iter().map(|c| (c.index, c.group)).collect();
    use super::cuts::Group::{Batches as Whole, Shared};
    assert_eq!(groups, [(0, Shared(0)), (1, Shared(1)), (2, Shared(2)), (3, Whole), (4, Whole)]);
}

/// Of data in memory the plan's own pipeline is measured too; a clock that stands still must not keep it.
#[test]
fn examples_in_memory() {
    struct Ticking(ManualClock);
    impl Clock for Ticking {
        fn now(&self) -> Seconds {
            self.0.advance(Seconds(0.001));
            self.0.now()
        }
    }
    let clock = Arc::new(Ticking(ManualClock::default()));
    let jitter = StagePlan::Jitter(JitterPlan { brightness: 0.1, contrast: 0.0, saturation: 0.0, hue: 0.0 });
    let batches = vec![jitter, StagePlan::Batch(4)];
    for (stages, threads) in [(usual(8, 4), 1), (usual(8, 4), 0), (batches.clone(), 0), (batches, 2)] {
        let gauge = Gauge {
            plan: plan(stages, threads),
            data: dataset(20, [8, 8, 3]),
            seed: Seed(1),
            clock: clock.clone(),
            cpu: clock.clone(),
            seconds: Seconds(0.2),
            time: None,
        };
        let update = &mut |batch: &Batch| {
            assert!(!batch.is_empty());
            Ok::<_, PipelineError>(())
        };
        let profile = gauge.profile(update, &mut || ()).unwrap();
        let ups: Vec<f64> = profile.cuts.iter().map(|c| c.upstream.seconds.0).collect();
        let downs: Vec<f64> = profile.cuts.iter().map(|c| c.downstream.seconds.0).collect();
        assert!(ups.is_sorted() && ups[0] > 0.0, "{ups:?}");
        assert!(downs.iter().rev().is_sorted() && downs[0] > 0.0, "{downs:?}");
    }
}

/// Reading of 0.1 s waits side by side; an update takes 0.03 s an example: four threads are enough, and two are not.
#[test]
fn threads_are_chosen_by_what_is_measured() {
    let of = |most, budget: &'static str| {
        within(60, move || {
            let time = Arc::new(VirtualTime::new(1, 8.0));
            let source = Costly::new(&time, Read::Seconds(0.1), 0.0);
            let plan = PipelinePlan { budget: budget.into(), ..plan(vec![StagePlan::Batch(4)], 1) };
            let gauge = gauge(&time, source, plan);
            let mut update = |batch: &Batch| {
                time.consume(0.03 * batch.len() as f64, (0.0, 1));
                Ok::<_, PipelineError>(())
            };
            gauge.tune(&mut update, [most, 8]).unwrap()
        })
    };
    let free = of(16, "1MiB");
    assert_eq!(free.threads, 4, "{free:?}");
    assert_eq!(free.tried.iter().map(|t| t.threads).collect::<Vec<_>>(), [1, 2, 4], "{free:?}");
    near(free.update, 0.03);
    near(free.tried[0].seconds, 0.1);
    near(free.tried[2].together, 0.03);
    // Four batches arrive together, 0.4 s apart, and an update of one takes 0.12 s.
    assert_eq!(free.queue, 4 + 1 + 4, "{free:?}");
    // Reading is all there is to do, so that all threads are its.
    let read = free.stages.iter().find(|stage| stage.name == "read").unwrap();
    near(read.seconds, 0.1);
    assert!((read.threads - 4.0).abs() < 0.01, "{free:?}");
    let all: f64 = free.stages.iter().map(|stage| stage.threads).sum();
    assert!((all - 4.0).abs() < 1e-9, "{free:?}");
    // Budgets are hard: of threads, and of bytes.
    assert_eq!(of(2, "1MiB").threads, 2);
    let tight = of(16, "600");
    assert!(tight.queue < 9 && tight.queue >= 1, "{tight:?}");
}
