//! What is promised when the world is not well: sources that fail, stall, panic, or hold too much.

use crate::testing::{hash, normalize, plan, within};
use crate::*;
use sooner_base::{Bytes, ManualClock, Seed};
use sooner_plan::{EchoFactor, EchoPlan, FlipKind, OnBad, PipelinePlan, ShuffleKind, Split, StagePlan};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What a source does with the examples of its list.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Damaged,
    Panics,
    /// Never answers, but looks whether it is still wanted.
    Stalls,
}

/// Images of one value each, of sizes that differ; examples of the list are bad.
#[derive(Debug)]
struct Fickle {
    info: DatasetInfo,
    examples: usize,
    bad: Vec<u64>,
    fault: Fault,
    reads: AtomicU64,
}

impl Fickle {
    fn dataset(examples: usize, bad: &[u64], fault: Fault) -> (Arc<Fickle>, Arc<Dataset>) {
        let classes = ["a", "b", "c"].map(String::from).to_vec();
        let info = DatasetInfo { name: "fickle".into(), split: Split::Train, shape: [0, 0, 3], classes };
        let source = Arc::new(Fickle { info, examples, bad: bad.to_vec(), fault, reads: AtomicU64::new(0) });
        (source.clone(), Arc::new(Dataset::streamed(source)))
    }
}

impl Source for Fickle {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.examples
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        into.clear();
        into.push(index as u8);
        if !self.bad.contains(&index) {
            return Ok(());
        }
        match self.fault {
            Fault::Damaged => Err(PipelineError::Malformed {
                path: PathBuf::from(format!("shard/{index}.jpg")),
                offset: 7 * index,
                expected: "an image".into(),
                found: "noise".into(),
                hint: String::new(),
            }),
            Fault::Panics => panic!("example {index} is cursed"),
            Fault::Stalls => {
                while !cancelled.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                Ok(())
            }
        }
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        into.shape = [9 + index as usize % 3, 11, 3];
        into.pixels.clear();
        into.pixels.resize(into.shape.iter().product(), bytes[0]);
        Ok((index % 3) as u32)
    }
}

fn stages(echo: Option<(f64, usize)>) -> Vec<StagePlan> {
    let mut stages = vec![
        StagePlan::Shuffle(ShuffleKind::Epoch),
        StagePlan::Resize(8),
        StagePlan::CenterCrop(8),
        StagePlan::Flip(FlipKind::Random),
        normalize(&[0.5; 3], &[0.5; 3]),
        StagePlan::Batch(16),
    ];
    if let Some((factor, buffer)) = echo {
        stages.insert(3, StagePlan::Echo(EchoPlan { factor: EchoFactor::Fixed(factor), buffer }));
    }
    stages
}

fn start(plan: &PipelinePlan, data: &Arc<Dataset>) -> Pipeline {
    Pipeline::new(plan, data.clone(), Seed(3), Arc::new(ManualClock::default())).unwrap()
}

#[test]
fn a_source_of_own_sizes_gives_the_same_stream_for_any_threads_and_is_read_once() {
    for echo in [None, Some((3.0, 0)), Some((2.5, 20))] {
        let mut expect = Vec::new();
        for threads in [0, 1, 2, 4, 7, 16] {
            let got = within(60, move || {
                let (source, data) = Fickle::dataset(50, &[], Fault::Damaged);
                let pipeline = start(&plan(stages(echo), threads), &data);
                let got: Vec<u64> = pipeline.epoch(1).map(|batch| hash(&batch.unwrap())).collect();
                assert_eq!(source.reads.load(Ordering::SeqCst), 50, "repeats are not read again");
                let names: Vec<&str> = pipeline.stats().iter().map(|s| s.0).collect();
                assert_eq!(names, ["read", "decode", "shuffle", "augment", "batch"]);
                assert_eq!(pipeline.stats()[0].1.items, 50);
                got
            });
            if threads == 0 {
                expect = got.clone();
            }
            assert_eq!(got, expect, "{threads} threads");
        }
    }
}

#[test]
fn a_fault_at_an_example_comes_after_the_batches_before_it() {
    for fault in [Fault::Damaged, Fault::Panics] {
        for threads in [0, 1, 2, 7] {
            for echo in [None, Some((3.0, 20))] {
                within(20, move || {
                    let (_, good) = Fickle::dataset(50, &[], fault);
                    let plan = plan(stages(echo), threads);
                    let batches: Vec<_> = start(&plan, &good).epoch(0).map(|b| b.unwrap()).collect();
                    for bad in [0, 17, 49] {
                        let at =
                            batches.iter().position(|b| b.origins.iter().any(|o| o.index == bad)).unwrap();
                        let (_, data) = Fickle::dataset(50, &[bad], fault);
                        let mut stream = start(&plan, &data).epoch(0);
                        for expect in &batches[..at] {
                            assert_eq!(&stream.next().unwrap().unwrap(), expect);
                        }
                        let error = stream.next().unwrap().unwrap_err();
                        match fault {
                            Fault::Damaged => {
                                assert!(error.to_string().contains(&format!("shard/{bad}.jpg")), "{error}");
                            }
                            _ => assert!(error.to_string().contains("is cursed"), "{error}"),
                        }
                        assert!(stream.next().is_none(), "nothing follows an error");
                    }
                });
            }
        }
    }
}

#[test]
fn bad_examples_are_left_out_with_all_their_repeats_and_listed() {
    let bad = [3, 4, 41];
    for echo in [None, Some((3.0, 0)), Some((3.0, 20))] {
        let uses = if echo.is_some() { 3 } else { 1 };
        let mut expect = Vec::new();
        for threads in [0, 2, 7] {
            let got = within(20, move || {
                let (_, data) = Fickle::dataset(50, &bad, Fault::Damaged);
                let plan = PipelinePlan { on_bad: OnBad::Skip, ..plan(stages(echo), threads) };
                let pipeline = start(&plan, &data);
                let batches: Vec<_> = pipeline.epoch(0).map(|b| b.unwrap()).collect();
                let n: usize = batches.iter().map(|b| b.len()).sum();
                let fresh: usize = batches.iter().map(|b| b.fresh).sum();
                assert_eq!((n, fresh), (50 * uses, 50), "batches keep their sizes");
                assert!(batches[..batches.len() - 1].iter().all(|b| b.len() == 16));
                let origins: Vec<_> = batches.iter().flat_map(|b| b.origins.clone()).collect();
                assert!(origins.iter().all(|o| !bad.contains(&o.index)));
                // Those that stand in are repeats of their own, with choices of their own.
                let different: std::collections::HashSet<_> = origins.iter().collect();
                assert_eq!(different.len(), origins.len());
                let listed: Vec<(u64, String)> =
                    pipeline.bad().into_iter().map(|b| (b.index, b.place)).collect();
                let place = |i: u64| (i, format!("shard/{i}.jpg, byte {}", 7 * i));
                assert_eq!(listed, bad.map(place));
                assert!(pipeline.bad().iter().all(|b| b.reason.contains("found noise")));
                batches.iter().map(hash).collect::<Vec<u64>>()
            });
            if threads == 0 {
                expect = got.clone();
            }
            assert_eq!(got, expect, "{threads} threads");
        }
    }
    let all: Vec<u64> = (0..20).collect();
    let (_, data) = Fickle::dataset(20, &all, Fault::Damaged);
    let plan = PipelinePlan { on_bad: OnBad::Skip, ..plan(stages(None), 1) };
    let error = start(&plan, &data).epoch(0).next().unwrap().unwrap_err();
    assert!(matches!(error, PipelineError::NothingGood { .. }), "{error}");
}

#[test]
fn a_stalled_source_times_out_with_its_name() {
    within(20, || {
        for threads in [1, 3] {
            let (_, data) = Fickle::dataset(50, &[0], Fault::Stalls);
            let plan = PipelinePlan { timeout: Some(0.2), ..plan(stages(None), threads) };
            let pipeline = start(&plan, &data);
            let mut stream = pipeline.epoch(0);
            let error = stream.find_map(|batch| batch.err()).expect("an error");
            let PipelineError::Stalled { name, seconds, .. } = &error else { panic!("{error}") };
            assert_eq!((&name[..], *seconds), ("fickle", 0.2));
            assert!(stream.next().is_none());
            let since = Instant::now();
            drop(stream);
            assert!(since.elapsed().as_secs_f64() < 1.0, "the threads were joined");
        }
    });
}

#[test]
fn dropping_early_frees_a_waiting_source() {
    within(20, || {
        let (source, data) = Fickle::dataset(50, &(0..50).collect::<Vec<_>>(), Fault::Stalls);
        let pipeline = start(&plan(stages(Some((3.0, 20))), 4), &data);
        let stream = pipeline.epoch(0);
        while source.reads.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let since = Instant::now();
        drop(stream);
        assert!(since.elapsed().as_secs_f64() < 1.0);
        drop(pipeline);
        drop(data);
        assert_eq!(Arc::strong_count(&source), 1, "no thread holds on to it");
    });
}

#[test]
fn an_example_larger_than_the_budget_is_named() {
    let (_, data) = Fickle::dataset(50, &[], Fault::Damaged);
    // Two batches of one example fit, a decoded image of 9 to 11 rows does not.
    let stages: Vec<StagePlan> = [StagePlan::Resize(2), StagePlan::CenterCrop(2), StagePlan::Batch(1)].into();
    let plan = PipelinePlan { budget: "160B".into(), ..plan(stages, 1) };
    let error = start(&plan, &data).epoch(0).next().unwrap().unwrap_err();
    let PipelineError::Sample { index, name, bytes, budget } = &error else { panic!("{error}") };
    assert_eq!((*index, &name[..], *bytes, *budget), (0, "fickle", Bytes(9 * 11 * 3 + 1), Bytes(160)));
}

#[test]
fn stages_that_need_one_size_say_so() {
    let (_, data) = Fickle::dataset(50, &[], Fault::Damaged);
    let refused = |stages: Vec<StagePlan>| {
        Pipeline::new(&plan(stages, 0), data.clone(), Seed(3), Arc::new(ManualClock::default()))
            .unwrap_err()
            .complaint()
    };
    let batch = refused(vec![StagePlan::Batch(4)]);
    assert!(
        batch.found.contains("sizes of their own") && batch.hint.contains("random-resized-crop"),
        "{batch}"
    );
    let crop = refused(vec![StagePlan::Resize(7), StagePlan::CenterCrop(8), StagePlan::Batch(4)]);
    assert_eq!(crop.expected, "sides of at least 8");
}
