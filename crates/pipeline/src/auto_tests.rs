//! `echo = "auto"`: never waiting while there is something to train on, and the same stream from its schedule.

use crate::testing::{hash, normalize, plan, within};
use crate::*;
use sooner_base::{Batch, ManualClock, Seed};
use sooner_plan::{EchoFactor, EchoPlan, FlipKind, PipelinePlan, Split, StagePlan};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EXAMPLES: usize = 50;

/// Gives the first so many readings in stream order that it has been allowed to, then waits for more. It counts places in
/// the stream and not calls: of two workers, the one with the later example may well ask first.
#[derive(Debug)]
struct Gated {
    info: DatasetInfo,
    allowed: AtomicU64,
    asked: AtomicU64,
    /// How often each example was read: its passes so far.
    passes: [AtomicU64; EXAMPLES],
}

impl Source for Gated {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        EXAMPLES
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        let pass = self.passes[index as usize].fetch_add(1, Ordering::SeqCst);
        let place = pass * EXAMPLES as u64 + index;
        self.asked.fetch_add(1, Ordering::SeqCst);
        while place >= self.allowed.load(Ordering::SeqCst) && !cancelled.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        into.clear();
        into.push(index as u8);
        Ok(())
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        into.shape = [8, 8, 3];
        into.pixels.clear();
        into.pixels.extend((0..192).map(|i| bytes[0].wrapping_mul(31).wrapping_add(i)));
        Ok((index % 2) as u32)
    }
}

fn gated(allowed: u64, timeout: Option<f64>) -> (Arc<Gated>, Pipeline) {
    let classes = ["a", "b"].map(String::from).to_vec();
    let info = DatasetInfo { name: "gated".into(), split: Split::Train, shape: [8, 8, 3], classes };
    let passes = std::array::from_fn(|_| AtomicU64::new(0));
    let (allowed, asked) = (AtomicU64::new(allowed), AtomicU64::new(0));
    let source = Arc::new(Gated { info, allowed, asked, passes });
    // Unshuffled, so that an example's index and its pass tell its place in the stream.
    let stages = vec![
        StagePlan::Echo(EchoPlan { factor: EchoFactor::Auto { max: 4 }, buffer: 0 }),
        StagePlan::Flip(FlipKind::Random),
        normalize(&[0.5; 3], &[0.5; 3]),
        StagePlan::Batch(16),
    ];
    let plan = PipelinePlan { timeout, ..plan(stages, 2) };
    let data = Arc::new(Dataset::streamed(source.clone()));
    let pipeline = Pipeline::new(&plan, data, Seed(3), Arc::new(ManualClock::default())).unwrap();
    (source, pipeline)
}

fn take(stream: AutoStream, n: usize) -> Vec<Batch> {
    stream.take(n).map(|batch| batch.unwrap()).collect()
}

#[test]
fn a_starved_trainer_repeats_what_it_has_until_the_most_uses() {
    within(20, || {
        // 16 examples and no more: one fresh batch, three of repeats, then there is nothing left to train on.
        let (_, pipeline) = gated(16, Some(0.2));
        let mut stream = pipeline.auto(&[], None).unwrap().unwrap();
        let fresh: Vec<usize> = (0..4).map(|_| stream.next().unwrap().unwrap().fresh).collect();
        assert_eq!(fresh, [16, 0, 0, 0]);
        let error = stream.next().unwrap().unwrap_err();
        assert!(matches!(error, PipelineError::Stalled { .. }), "{error}");
        assert!(stream.next().is_none());
    });
}

#[test]
fn a_schedule_gives_the_same_stream_again_and_resumes_anywhere() {
    within(60, || {
        let (source, pipeline) = gated(16, None);
        let mut stream = pipeline.auto(&[], None).unwrap().unwrap();
        let mut batches = Vec::new();
        for k in 0..40u64 {
            batches.push(stream.next().unwrap().unwrap());
            // Some batches find several fresh examples ready, some few, some none.
            source.allowed.fetch_add(6 + k * 7 % 9, Ordering::SeqCst);
            // Workers read ahead by two batches, no further.
            let taken: usize = batches.iter().map(|batch| batch.fresh).sum();
            let reach = source.allowed.load(Ordering::SeqCst).min(taken as u64 + 32);
            while k % 3 == 0 && source.asked.load(Ordering::SeqCst) < reach {
                std::thread::yield_now();
            }
        }
        drop(stream);
        let schedule: Vec<u32> = batches.iter().map(|batch| batch.fresh as u32).collect();
        assert!(schedule.iter().skip(1).any(|&fresh| fresh < 16), "{schedule:?}");
        let expect: Vec<u64> = batches.iter().map(hash).collect();
        let mut uses: HashMap<(u32, u64), Vec<u32>> = HashMap::new();
        for batch in &batches {
            assert_eq!((batch.len(), batch.duplicates() <= 16), (16, true));
            batch.origins.iter().for_each(|o| uses.entry((o.epoch, o.index)).or_default().push(o.echo));
        }
        // Uses of each reading are numbered as they come, and no more than allowed.
        assert!(uses.values().all(|u| u.len() <= 4 && u.iter().enumerate().all(|(i, &e)| e == i as u32)));
        let fresh: u64 = schedule.iter().map(|&n| u64::from(n)).sum();
        assert_eq!(uses.len() as u64, fresh);

        let (_, open) = gated(u64::MAX, None);
        let again = take(open.auto(&[], Some(schedule.clone())).unwrap().unwrap(), 99);
        assert_eq!(again.iter().map(hash).collect::<Vec<_>>(), expect);
        for k in [0, 1, 7, 20, 39, 40] {
            let (done, rest) = schedule.split_at(k);
            let rest = take(open.auto(done, Some(rest.to_vec())).unwrap().unwrap(), 99);
            assert_eq!(rest.iter().map(hash).collect::<Vec<_>>(), expect[k..], "from {k}");
        }
        let wrong = open.auto(&[3], None).unwrap().unwrap_err().to_string();
        assert!(wrong.contains("batch 0") && wrong.contains("16 to 16"), "{wrong}");
    });
}

#[test]
fn a_plan_without_the_stage_has_no_such_stream() {
    let data = crate::testing::dataset(50, [8, 8, 3]);
    let pipeline = crate::testing::pipeline(&plan(crate::testing::usual(8, 16), 1), &data).unwrap();
    assert!(pipeline.auto(&[], None).is_none());
}
