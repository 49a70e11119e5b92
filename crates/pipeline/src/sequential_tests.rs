//! Data that can only be read from front to back: shards in a keyed order and a buffer; what they are told of pauses; and
//! evaluations that read once.

use crate::testing::{hash, pipeline, plan, within};
use crate::*;
use sooner_base::{ManualClock, Seed};
use sooner_plan::{EchoFactor, EchoPlan, FlipKind, PipelinePlan, ShuffleKind, Split, StagePlan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SHARDS: [u64; 3] = [17, 9, 14];
const EXAMPLES: usize = 40;

/// Shards whose examples come in two classes, one after the other, and that remember what was asked of them.
#[derive(Debug)]
struct Sequential {
    info: DatasetInfo,
    held: AtomicBool,
    reads: AtomicU64,
}

impl Sequential {
    fn new() -> Arc<Sequential> {
        let classes = ["a", "b"].map(String::from).to_vec();
        let info = DatasetInfo { name: "made".into(), split: Split::Train, shape: [6, 6, 3], classes };
        Arc::new(Sequential { info, held: AtomicBool::new(false), reads: AtomicU64::new(0) })
    }
}

impl Source for Sequential {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        EXAMPLES
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, _: &AtomicBool) -> Result<(), PipelineError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
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
        into.shape = [6, 6, 3];
        into.pixels.clear();
        into.pixels.extend((0..108).map(|i| bytes[0].wrapping_mul(29).wrapping_add(i)));
        Ok(self.label(index).expect("a label"))
    }

    fn shards(&self) -> Option<&[u64]> {
        Some(&SHARDS)
    }

    fn label(&self, index: u64) -> Option<u32> {
        Some(u32::from(index >= 20))
    }

    fn hold_up(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }
}

fn stages(shuffle: ShuffleKind, echo: f64) -> Vec<StagePlan> {
    vec![
        StagePlan::Shuffle(shuffle),
        StagePlan::Echo(EchoPlan { factor: EchoFactor::Fixed(echo), buffer: 8 }),
        StagePlan::Flip(FlipKind::Random),
        StagePlan::Batch(7),
    ]
}

fn of(source: &Arc<Sequential>, plan: &PipelinePlan) -> Pipeline {
    let data = Arc::new(Dataset::streamed(source.clone()));
    Pipeline::new(plan, data, Seed(3), Arc::new(ManualClock::default())).unwrap()
}

/// Whatever the number of threads, and wherever the stream begins.
#[test]
fn buffered_streams_are_equal_for_all_threads_and_from_every_place() {
    for echo in [1.0, 2.5] {
        let hashes = |threads: usize, from: Position, take: usize| {
            let made = of(&Sequential::new(), &plan(stages(ShuffleKind::Buffer(10), echo), threads));
            within(60, move || {
                made.stream(from).take(take).map(|batch| hash(&batch.unwrap())).collect::<Vec<_>>()
            })
        };
        let all = hashes(0, Position::default(), 40);
        for threads in [1, 2, 4, 7] {
            assert_eq!(hashes(threads, Position::default(), 40), all, "{threads} threads");
        }
        let batches =
            of(&Sequential::new(), &plan(stages(ShuffleKind::Buffer(10), echo), 0)).batches_per_epoch();
        for k in 1..2 * batches {
            let from = Position { epoch: (k / batches) as u32, batch: k % batches };
            assert_eq!(hashes(2, from, 5), all[k as usize..][..5], "from {from:?}");
        }
    }
}

#[test]
fn each_example_once_an_epoch_and_another_order_every_epoch() {
    let made = of(&Sequential::new(), &plan(stages(ShuffleKind::Buffer(10), 1.0), 2));
    let order = |epoch| {
        let batches = made.epoch(epoch).map(|batch| batch.unwrap().origins);
        batches.flatten().map(|origin| origin.index).collect::<Vec<_>>()
    };
    let (first, second) = (order(0), order(1));
    assert_ne!(first, second);
    for mut order in [first, second] {
        order.sort_unstable();
        assert_eq!(order, (0..EXAMPLES as u64).collect::<Vec<_>>());
    }
}

/// A shuffle of the whole epoch would have to hold all of it.
#[test]
fn whole_epochs_are_shuffled_through_a_buffer_and_that_is_said() {
    let texts = |shuffle| {
        let made = of(&Sequential::new(), &plan(stages(shuffle, 1.0), 1));
        (made.mixing(), made.notes().iter().map(|note| note.text.clone()).collect::<Vec<_>>().join("; "))
    };
    let (mixing, notes) = texts(ShuffleKind::Epoch);
    assert_eq!(mixing.map(|mixing| mixing.buffer), Some(ShuffleKind::BUFFER));
    assert!(notes.contains("read from front to back"), "{notes}");
    assert!(!notes.contains("labels come in runs"), "{notes}");
    let (mixing, notes) = texts(ShuffleKind::Buffer(2));
    assert!(mixing.is_some_and(|mixing| mixing.is_poor()), "{mixing:?}");
    assert!(notes.contains("labels come in runs"), "{notes}");
    assert!(!notes.contains("read from front to back"), "{notes}");
    // In memory any order is as cheap, and a buffer can be asked for all the same.
    let data = crate::testing::dataset(30, [6, 6, 3]);
    let plain = pipeline(&plan(stages(ShuffleKind::Epoch, 1.0), 0), &data).unwrap();
    assert_eq!(plain.mixing(), None);
    let asked = pipeline(&plan(stages(ShuffleKind::Buffer(5), 1.0), 0), &data).unwrap();
    assert_eq!(asked.mixing().map(|mixing| mixing.buffer), Some(5));
}

#[test]
fn a_source_is_told_when_training_stands_still() {
    let source = Sequential::new();
    let made = of(&source, &plan(stages(ShuffleKind::Epoch, 1.0), 1));
    let mut stream = made.stream(Position::default());
    stream.next().unwrap().unwrap();
    made.pause();
    assert!(source.held.load(Ordering::SeqCst));
    made.resume();
    assert!(!source.held.load(Ordering::SeqCst));
    made.pause();
    // Whoever asks for a batch goes on; so does whoever leaves.
    within(60, move || (0..20).for_each(|_| drop(stream.next().unwrap().unwrap())));
    assert!(!source.held.load(Ordering::SeqCst));
}

/// The first pass of an evaluation reads; the others need not, as far as the budget goes.
#[test]
fn evaluations_read_once() {
    let passes = |budget: &str| {
        let source = Sequential::new();
        let plan = PipelinePlan { budget: budget.into(), ..plan(stages(ShuffleKind::Epoch, 1.0), 0) };
        let data = Arc::new(Dataset::streamed(source.clone()));
        let mut evaluation = Evaluation::new(&plan, data, 16).unwrap();
        let mut pass = || {
            evaluation.rewind();
            let mut hashes = Vec::new();
            while let Some(batch) = evaluation.next_batch().unwrap() {
                hashes.push(hash(batch));
            }
            (hashes, source.reads.swap(0, Ordering::SeqCst))
        };
        let (first, second, third) = (pass(), pass(), pass());
        assert_eq!((first.0.len(), &first.0), (3, &second.0));
        assert_eq!(first.0, third.0);
        [first.1, second.1, third.1]
    };
    assert_eq!(passes("1MiB"), [40, 0, 0]);
    // Room for ten of them.
    assert_eq!(passes("1080"), [40, 30, 30]);
}
