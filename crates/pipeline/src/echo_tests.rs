//! Echo in the pipeline as a whole: the same stream for any threads, ranks and places to resume at, exact counts, and
//! randomness where the plan puts it.

use crate::testing::{crop, dataset, hash, normalize, pipeline, plan, within};
use crate::*;
use sooner_base::{Batch, Examples, FreshExamples, ManualClock, Seed};
use sooner_plan::{
    EchoFactor, EchoPlan, FlipKind, JitterPlan, LastBatch, Padding, PipelinePlan, RandomResizedCropPlan,
    ShuffleKind, StagePlan,
};
use std::collections::HashMap;
use std::sync::Arc;

fn echo(factor: f64, buffer: usize) -> StagePlan {
    StagePlan::Echo(EchoPlan { factor: EchoFactor::Fixed(factor), buffer })
}

fn shuffle() -> StagePlan {
    StagePlan::Shuffle(ShuffleKind::Epoch)
}

fn normal() -> StagePlan {
    normalize(&[0.4, 0.5, 0.6], &[0.2, 0.3, 0.4])
}

/// Plans with an echo stage at every kind of place, with and without a buffer, whole and fractional.
fn plans() -> Vec<Vec<StagePlan>> {
    use StagePlan::{Batch, CenterCrop, Cutmix, Cutout, Flip, Jitter, Mixup, RandomResizedCrop, Resize};
    let flip = || Flip(FlipKind::Random);
    let scaled =
        || RandomResizedCrop(RandomResizedCropPlan { size: 7, scale: [0.3, 1.0], ratio: [0.75, 1.333] });
    let jitter = || Jitter(JitterPlan { brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.1 });
    vec![
        vec![shuffle(), echo(3.0, 0), crop(8, 2, Padding::Reflect), flip(), normal(), Batch(16)],
        vec![shuffle(), echo(2.5, 20), crop(8, 2, Padding::Zero), flip(), normal(), Cutout(3), Batch(16)],
        vec![echo(2.0, 0), shuffle(), flip(), Batch(16)],
        vec![shuffle(), crop(8, 2, Padding::Reflect), echo(4.0, 9), flip(), normal(), Batch(16)],
        vec![shuffle(), scaled(), jitter(), echo(3.0, 12), flip(), normal(), Batch(16)],
        vec![shuffle(), echo(3.0, 12), scaled(), jitter(), flip(), normal(), Batch(16), Mixup(0.4)],
        vec![shuffle(), Resize(9), CenterCrop(7), flip(), normal(), echo(2.2, 0), Cutout(2), Batch(16)],
        vec![shuffle(), crop(8, 2, Padding::Reflect), normal(), Batch(16), echo(3.0, 0)],
        vec![shuffle(), flip(), normal(), Batch(16), echo(2.5, 3), Cutmix(1.0)],
        vec![shuffle(), flip(), Batch(16), Cutmix(1.0), echo(2.0, 2)],
    ]
}

fn hashes(stream: Stream, n: usize) -> Vec<u64> {
    stream.take(n).map(|batch| hash(&batch.unwrap())).collect()
}

#[test]
fn echoed_batches_are_equal_for_any_number_of_threads() {
    let data = dataset(50, [8, 9, 3]);
    for stages in plans() {
        let inline = pipeline(&plan(stages.clone(), 0), &data).unwrap();
        let n = 2 * inline.batches_per_epoch() as usize + 3;
        let expect = hashes(inline.stream(Position::default()), n);
        for threads in [1, 2, 4, 7, 16] {
            let (data, stages, described) = (data.clone(), stages.clone(), format!("{stages:?}"));
            let got = within(60, move || {
                let pipeline = pipeline(&plan(stages, threads), &data).unwrap();
                let mut got = Vec::new();
                let mut stream = pipeline.stream(Position::default());
                while got.len() < n {
                    let batch = stream.next().unwrap().unwrap();
                    got.push(hash(&batch));
                    if got.len() % 3 != 0 {
                        pipeline.recycle(batch);
                    }
                }
                got
            });
            assert_eq!(got, expect, "{threads} threads, {described}");
        }
    }
}

#[test]
fn an_echoed_stream_goes_on_from_any_place_with_exact_counts() {
    let data = dataset(50, [8, 9, 3]);
    for stages in plans() {
        let batches: Vec<Batch> = {
            let pipeline = pipeline(&plan(stages.clone(), 0), &data).unwrap();
            let n = 2 * pipeline.batches_per_epoch() as usize + 2;
            pipeline.stream(Position::default()).take(n).map(|batch| batch.unwrap()).collect()
        };
        let all: Vec<u64> = batches.iter().map(hash).collect();
        let pipeline = pipeline(&plan(stages.clone(), 2), &data).unwrap();
        let mut at = pipeline.stream(Position::default());
        let (mut examples, mut fresh) = (0, 0);
        for k in 0..all.len() {
            let place = at.next_position();
            assert_eq!(hashes(pipeline.stream(place), all.len() - k), all[k..], "{k} of {stages:?}");
            assert_eq!(
                pipeline.counts(place),
                (Examples(examples), FreshExamples(fresh)),
                "{k} of {stages:?}"
            );
            examples += batches[k].len() as u64;
            fresh += batches[k].fresh as u64;
            pipeline.recycle(at.next().unwrap().unwrap());
        }
        let per_epoch = pipeline.batches_per_epoch();
        let (_, after_two) = pipeline.counts(Position { epoch: 2, batch: 0 });
        assert_eq!((after_two, per_epoch > 4), (FreshExamples(100), true), "an epoch reads everything once");
    }
}

/// What fills no batch is left out of its epoch, and everything else is as exact as before.
#[test]
fn a_last_batch_that_is_dropped() {
    let data = dataset(50, [8, 9, 3]);
    for stages in plans() {
        let plan = |last_batch| PipelinePlan { last_batch, ..plan(stages.clone(), 2) };
        let dropping = pipeline(&plan(LastBatch::Drop), &data).unwrap();
        let per_epoch = dropping.batches_per_epoch();
        let mut stream = dropping.stream(Position::default());
        let (mut examples, mut fresh, mut all) = (0, 0, Vec::new());
        for k in 0..2 * per_epoch + 2 {
            let place = stream.next_position();
            assert_eq!(place, Position { epoch: (k / per_epoch) as u32, batch: k % per_epoch });
            assert_eq!(
                dropping.counts(place),
                (Examples(examples), FreshExamples(fresh)),
                "{k} of {stages:?}"
            );
            let batch = stream.next().unwrap().unwrap();
            assert_eq!(batch.len(), 16, "{k} of {stages:?}");
            (examples, fresh) = (examples + 16, fresh + batch.fresh as u64);
            all.push(batch);
        }
        let hashed: Vec<u64> = all.iter().map(hash).collect();
        for k in 0..all.len() as u64 {
            let at = Position { epoch: (k / per_epoch) as u32, batch: k % per_epoch };
            assert_eq!(hashes(dropping.stream(at), all.len() - k as usize), hashed[k as usize..]);
        }
        assert!(dropping.notes().iter().any(|note| note.stage == "batch"), "{:?}", dropping.notes());
        let keeping = pipeline(&plan(LastBatch::Keep), &data).unwrap();
        let whole: Vec<Batch> = keeping.epoch(1).map(|batch| batch.unwrap()).collect();
        let kept: u64 = whole.iter().map(|batch| batch.len() as u64).sum();
        assert!(keeping.notes().iter().all(|note| note.stage != "batch"));
        // Where batches are not repeated, the full ones are the same.
        if plan(LastBatch::Keep).echo().is_some_and(|(_, batched)| !batched) {
            assert!(kept > 16 * per_epoch);
            assert_eq!(whole[..per_epoch as usize], all[per_epoch as usize..2 * per_epoch as usize]);
        }
    }
    let few = dataset(15, [8, 9, 3]);
    let stages = vec![crop(8, 2, Padding::Reflect), normal(), StagePlan::Batch(16)];
    let error = pipeline(&PipelinePlan { last_batch: LastBatch::Drop, ..plan(stages, 1) }, &few).unwrap_err();
    assert!(error.to_string().contains("a smaller batch is dropped"), "{error}");
}

#[test]
fn ranks_share_one_stream() {
    let data = dataset(50, [8, 9, 3]);
    for stages in plans() {
        let plan = plan(stages, 2);
        let whole: Vec<Batch> = {
            let pipeline = pipeline(&plan, &data).unwrap();
            let n = pipeline.batches_per_epoch() as usize + 1;
            pipeline.stream(Position::default()).take(n).map(|batch| batch.unwrap()).collect()
        };
        let per_epoch = (whole.len() - 1) as u64;
        for ranks in [1, 2, 3] {
            let clock = || Arc::new(ManualClock::default());
            let of =
                |rank| Pipeline::for_rank(&plan, data.clone(), Seed(11), clock(), [rank, ranks]).unwrap();
            let pipelines: Vec<Pipeline> = (0..ranks).map(of).collect();
            // From the start, and from every place on, however many ranks made what came before.
            for from in 0..per_epoch {
                let n = if from == 0 { whole.len() } else { 2 };
                let share = |pipeline: &Pipeline| -> Vec<Batch> {
                    let stream = pipeline.stream(Position { epoch: 0, batch: from });
                    stream.take(n).map(|batch| batch.unwrap()).collect()
                };
                let parts: Vec<Vec<Batch>> = pipelines.iter().map(share).collect();
                for (k, expect) in whole[from as usize..][..n].iter().enumerate() {
                    let mut got = parts[0][k].clone();
                    for part in &parts[1..] {
                        got.features.extend(&part[k].features);
                        got.labels.extend(&part[k].labels);
                        got.mixes.extend(&part[k].mixes);
                        got.origins.extend(&part[k].origins);
                        got.fresh += part[k].fresh;
                    }
                    got.shape = expect.shape.clone();
                    assert_eq!(&got, expect, "batch {k} from {from}, {ranks} ranks, {:?}", plan.stages);
                }
            }
        }
    }
}

#[test]
fn a_factor_of_one_is_the_identity_anywhere() {
    let data = dataset(50, [8, 9, 3]);
    let flip = || StagePlan::Flip(FlipKind::Random);
    let plain = vec![shuffle(), crop(8, 2, Padding::Reflect), flip(), normal(), StagePlan::Batch(16)];
    let expect = hashes(pipeline(&plan(plain.clone(), 0), &data).unwrap().stream(Position::default()), 9);
    for place in 0..=plain.len() {
        let mut stages = plain.clone();
        stages.insert(place, echo(1.0, 0));
        let pipeline = pipeline(&plan(stages, 1), &data).unwrap();
        assert_eq!(hashes(pipeline.stream(Position::default()), 9), expect, "echo at {place}");
        assert_eq!((pipeline.batches_per_epoch(), pipeline.notes().len()), (4, 0));
    }
}

#[test]
fn without_augmentation_echo_before_and_after_it_is_the_same_stream() {
    let data = dataset(50, [8, 8, 3]);
    for (factor, buffer) in [(3.0, 0), (2.5, 0), (3.0, 20)] {
        // Stages that could augment, but have no choice to make.
        let still = || vec![crop(8, 0, Padding::Zero), normal()];
        let stream = |stages: Vec<StagePlan>| {
            hashes(pipeline(&plan(stages, 2), &data).unwrap().stream(Position::default()), 15)
        };
        let batch = || vec![StagePlan::Batch(16)];
        let before = stream([vec![shuffle(), echo(factor, buffer)], still(), batch()].concat());
        let after = stream([vec![shuffle()], still(), vec![echo(factor, buffer)], batch()].concat());
        assert_eq!(before, after);
    }
}

/// The features of each use of each example of an epoch.
fn uses(stages: Vec<StagePlan>) -> HashMap<u64, Vec<Vec<f32>>> {
    let pipeline = pipeline(&plan(stages, 2), &dataset(50, [8, 8, 3])).unwrap();
    let mut uses: HashMap<u64, Vec<Vec<f32>>> = HashMap::new();
    for batch in pipeline.epoch(0) {
        let batch = batch.unwrap();
        let size = batch.features.len() / batch.len();
        for (origin, features) in batch.origins.iter().zip(batch.features.chunks_exact(size)) {
            uses.entry(origin.index).or_default().push(features.to_vec());
        }
    }
    uses
}

#[test]
fn augmentation_behind_echo_is_fresh_and_before_it_equal() {
    let augment = || vec![crop(8, 3, Padding::Reflect), StagePlan::Flip(FlipKind::Random)];
    let batch = || vec![StagePlan::Batch(16)];
    let fresh = uses([vec![shuffle(), echo(3.0, 30)], augment(), batch()].concat());
    let equal = uses([vec![shuffle()], augment(), vec![echo(3.0, 30)], batch()].concat());
    assert_eq!((fresh.len(), equal.len()), (50, 50));
    assert!(fresh.values().chain(equal.values()).all(|uses| uses.len() == 3));
    assert!(equal.values().all(|uses| uses[0] == uses[1] && uses[1] == uses[2]));
    let varied = fresh.values().filter(|uses| uses[0] != uses[1] || uses[1] != uses[2]).count();
    assert!(varied > 45, "{varied} of 50 examples look different when they are repeated");
}

#[test]
fn batches_are_repeated_whole() {
    let stages = vec![shuffle(), StagePlan::Flip(FlipKind::Random), StagePlan::Batch(16), echo(3.0, 0)];
    let pipeline = pipeline(&plan(stages, 2), &dataset(50, [8, 8, 3])).unwrap();
    assert_eq!(pipeline.batches_per_epoch(), 12);
    let batches: Vec<Batch> = pipeline.epoch(0).map(|batch| batch.unwrap()).collect();
    for (k, batch) in batches.iter().enumerate() {
        let first = &batches[k / 3 * 3];
        assert_eq!((&batch.features, &batch.labels), (&first.features, &first.labels));
        assert!(batch.origins.iter().all(|origin| origin.echo == (k % 3) as u32));
        assert_eq!(batch.fresh, if k % 3 == 0 { batch.len() } else { 0 });
    }
    assert_eq!(pipeline.duplicates(), (Examples(0), Examples(0)), "no batch holds an example twice");
}

#[test]
fn duplicates_inside_batches_are_counted() {
    let count = |buffer| {
        let stages = vec![shuffle(), echo(4.0, buffer), StagePlan::Batch(16)];
        let pipeline = pipeline(&plan(stages, 1), &dataset(400, [8, 8, 3])).unwrap();
        let by_hand: u64 = pipeline.epoch(0).map(|batch| batch.unwrap().duplicates() as u64).sum();
        let (duplicates, examples) = pipeline.duplicates();
        assert_eq!((duplicates.0, examples.0), (by_hand, 1600));
        duplicates.0
    };
    // Without a buffer a batch of 16 holds 4 different examples.
    assert_eq!(count(0), 1200);
    assert!(count(400) < 200);
}

#[test]
fn stages_that_make_echo_pointless_are_noted() {
    let notes = |stages: Vec<StagePlan>| -> Vec<String> {
        let pipeline = pipeline(&plan(stages, 0), &dataset(50, [8, 8, 3])).unwrap();
        pipeline
            .notes()
            .iter()
            .map(|note| format!("{} {}: {}", note.position, note.stage, note.text))
            .collect()
    };
    let flip = || StagePlan::Flip(FlipKind::Random);
    assert_eq!(notes(vec![shuffle(), flip(), StagePlan::Batch(16)]), Vec::<String>::new());
    let worst = notes(vec![shuffle(), flip(), echo(4.0, 0), StagePlan::Batch(16)]);
    assert_eq!(worst.len(), 3, "{worst:?}");
    assert!(worst.iter().all(|note| note.starts_with("2 echo: ")));
    assert!(worst[1].contains("about 4 different examples") && worst[2].contains("repeats are equal"));
    let spread = notes(vec![shuffle(), echo(4.0, 100), flip(), StagePlan::Batch(16)]);
    assert_eq!(spread.len(), 1, "{spread:?}");
    assert_eq!(notes(vec![shuffle(), flip(), StagePlan::Batch(16), echo(4.0, 0)]).len(), 1);
}

#[test]
fn what_echo_holds_stays_within_the_budget() {
    let scaled = StagePlan::RandomResizedCrop(RandomResizedCropPlan {
        size: 8,
        scale: [0.3, 1.0],
        ratio: [0.75, 1.333],
    });
    let stages = vec![shuffle(), scaled, echo(4.0, 100), StagePlan::Batch(16)];
    let data = dataset(200, [9, 9, 3]);
    let expect = hashes(pipeline(&plan(stages.clone(), 0), &data).unwrap().epoch(0), 99);
    let batch = 16 * (8 * 8 * 3 * 4 + 4 + 16);
    for (budget, remakes) in [(1 << 20, false), (2 * batch + 3 * 800 * 8 + 2000, true)] {
        let plan = PipelinePlan { budget: budget.to_string(), ..plan(stages.clone(), 2) };
        let pipeline = pipeline(&plan, &data).unwrap();
        assert_eq!(hashes(pipeline.epoch(0), 99), expect);
        let (most, remade) = pipeline.held();
        assert!(most.0 < budget && (remade > 0) == remakes, "{most:?} {remade} of {budget}");
    }
}

#[test]
fn slow_ways_of_doing_the_same_give_the_same_stream() {
    use sooner_plan::{Draws, Keep, WorkerLife};
    let data = dataset(50, [8, 9, 3]);
    for stages in plans() {
        let plain = plan(stages, 2);
        let take = |plan: &PipelinePlan| {
            let pipeline = pipeline(plan, &data).unwrap();
            hashes(
                pipeline.stream(Position { epoch: 0, batch: 2 }),
                2 * pipeline.batches_per_epoch() as usize,
            )
        };
        let expect = take(&plain);
        for other in [
            PipelinePlan { draws: Draws::Single, ..plain.clone() },
            PipelinePlan { workers: WorkerLife::Epoch, ..plain.clone() },
            PipelinePlan { keep: Keep::Memory, ..plain.clone() },
        ] {
            let of = format!("{other:?}");
            let (plan, data) = (other, data.clone());
            let got = within(30, move || {
                let pipeline = pipeline(&plan, &data).unwrap();
                let n = 2 * pipeline.batches_per_epoch() as usize;
                hashes(pipeline.stream(Position { epoch: 0, batch: 2 }), n)
            });
            assert_eq!(got, expect, "{of}");
        }
    }
}
