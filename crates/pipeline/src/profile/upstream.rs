//! Items as an echo stage gets them, made by worker threads as fast as they can.

use crate::auto::make_fresh;
use crate::items::{Item, Scratch};
use crate::pipeline::{Pipeline, Shared};
use crate::workers::{Queue, Workers};
use crate::{Dataset, DatasetInfo, Image, PipelineError, Source};
use sooner_base::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Items made by one job: enough that queues cost nothing beside them, few enough that time is cut finely.
const CHUNK: u64 = 16;

/// Items of all epochs from the first on.
pub(crate) struct Upstream {
    shared: Arc<Shared>,
    workers: Option<Workers<Vec<Item>>>,
    scratch: Scratch,
    next: u64,
    chunk: u64,
}

impl Upstream {
    /// Starts the plan's worker threads; without any, items are made by the caller's.
    pub(crate) fn new(pipeline: &Pipeline) -> Result<Upstream, PipelineError> {
        let shared = pipeline.shared().clone();
        let chunk = CHUNK.min(shared.recipe.batch() as u64).max(1);
        let workers = match shared.threads {
            0 => None,
            threads => {
                let queue = Queue { depth: 2 * threads + 2, item: Bytes(0), timeout: shared.timeout() };
                let fillers = (0..threads).map(|_| {
                    let (shared, mut scratch) = (shared.clone(), Scratch::default());
                    move |number: u64, items: &mut Vec<Item>, cancelled: &AtomicBool| {
                        for k in number * chunk..(number + 1) * chunk {
                            items.extend(make_fresh(&shared, k, &mut scratch, cancelled)?);
                        }
                        Ok(())
                    }
                });
                Some(Workers::spawn(queue, shared.control.clone(), fillers)?)
            }
        };
        let (scratch, next) = (Scratch::default(), 0);
        Ok(Upstream { shared, workers, scratch, next, chunk })
    }

    /// The next few items.
    pub(crate) fn take(&mut self) -> Result<Vec<Item>, PipelineError> {
        let Some(workers) = &mut self.workers else {
            let numbers = self.next..self.next + self.chunk;
            self.next += self.chunk;
            let never = AtomicBool::new(false);
            let made = numbers.map(|k| make_fresh(&self.shared, k, &mut self.scratch, &never));
            return Ok(made.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        };
        while workers.has_room() {
            workers.issue(Vec::new());
        }
        workers.take()
    }
}

/// Made items as a data set: what an echo stage holds. It has so many examples, of as many different ones as were given.
pub(crate) fn held(items: Vec<Item>, info: &DatasetInfo, examples: usize) -> Result<Dataset, PipelineError> {
    let shape = items[0].image.shape;
    let equal = items.iter().all(|item| item.image.shape == shape);
    if equal && shape.iter().product::<usize>() * examples <= MOST_COPIED {
        let of = |k: usize| &items[k % items.len()];
        let pixels = (0..examples).flat_map(|k| of(k).image.pixels.iter().copied()).collect();
        let labels = (0..examples).map(|k| of(k).label).collect();
        return Dataset::new(DatasetInfo { shape, ..info.clone() }, pixels, labels);
    }
    // Stages may ask for examples of some least size; all of these have the smallest one's.
    let side = |axis: usize| items.iter().map(|item| item.image.shape[axis]).min().unwrap_or(0);
    let shape = [side(0), side(1), shape[2]];
    let info = DatasetInfo { shape, ..info.clone() };
    let items = items.into_iter().map(|item| (item.image, item.label)).collect();
    Ok(Dataset::streamed(Arc::new(Held { info, items, examples })))
}

/// Most bytes of pixels that lie one after the other.
const MOST_COPIED: usize = 128 << 20;

#[derive(Debug)]
struct Held {
    info: DatasetInfo,
    items: Vec<(Image, u32)>,
    examples: usize,
}

impl Source for Held {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.examples
    }

    fn read(&self, _: u64, _: &mut Vec<u8>, _: &AtomicBool) -> Result<(), PipelineError> {
        Ok(())
    }

    fn decode(
        &self,
        index: u64,
        _: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        let (image, label) = &self.items[index as usize % self.items.len()];
        into.clone_from(image);
        Ok(*label)
    }
}
