//! Making examples out of what a source reads: once for all their repeats.

use crate::chain::ChainScratch;
use crate::control::{Lane, Tally};
use crate::pipeline::Shared;
use crate::recipe::{Position, Recipe};
use crate::stages::{EpochOrder, Order, Pick};
use crate::store::Store;
use crate::{Image, PipelineError};
use sooner_base::{Batch, Bytes, Origin, StageStats};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An example as far as all its repeats share the work.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) image: Image,
    pub(crate) label: u32,
    /// The example that was read: the planned one, or the one that stands in for it.
    pub(crate) index: u64,
    /// The number of this reading's first use: 0, or, of one that stands in for another, beyond its own uses.
    pub(crate) base: u32,
}

/// An example that could not be read or decoded, and was left out with all its repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadExample {
    /// Its index in the source.
    pub index: u64,
    /// Where the fault is: a path, and an offset where one is known.
    pub place: String,
    /// What was expected and found.
    pub reason: String,
}

/// Bad examples so far, by index.
#[derive(Debug, Default)]
pub(crate) struct BadList(Mutex<BTreeMap<u64, BadExample>>);

impl BadList {
    fn note(&self, index: u64, error: &PipelineError) {
        let complaint = error.complaint();
        let reason =
            format!("{}: expected {}, found {}", complaint.what, complaint.expected, complaint.found);
        let bad = BadExample { index, place: complaint.place, reason };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(index, bad);
    }

    pub(crate) fn list(&self) -> Vec<BadExample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Images as the stages without chance at the front leave them, kept for later epochs while there is room.
#[derive(Debug)]
pub(crate) struct Kept {
    slots: Vec<OnceLock<(Image, u32)>>,
    bytes: AtomicU64,
    budget: Bytes,
}

impl Kept {
    pub(crate) fn new(examples: usize, budget: Bytes) -> Kept {
        let slots = std::iter::repeat_with(OnceLock::new).take(examples).collect();
        Kept { slots, bytes: AtomicU64::new(0), budget }
    }

    /// Bytes kept.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.bytes.load(Ordering::Relaxed))
    }

    fn get(&self, index: u64) -> Option<&(Image, u32)> {
        self.slots[index as usize].get()
    }

    fn offer(&self, index: u64, image: &Image, label: u32) {
        let size = image.pixels.len() as u64;
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        let fits = before + size <= self.budget.0;
        if !fits || self.slots[index as usize].set((image.clone(), label)).is_err() {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

/// How often each item of an epoch is used, of epochs in use.
type UseTables = Mutex<Vec<(u32, Arc<Vec<u32>>)>>;

/// What one stream holds.
#[derive(Debug)]
pub(crate) struct Session {
    from: Position,
    pub(crate) items: Option<Store<Item>>,
    pub(crate) batches: Option<Store<Batch>>,
    uses: UseTables,
}

impl Session {
    pub(crate) fn new(recipe: &Recipe, from: Position, budget: Bytes) -> Session {
        let items = recipe.holds_items().then(|| Store::new(budget));
        let batches = recipe.batch_order.is_some().then(|| Store::new(budget));
        Session { from, items, batches, uses: Mutex::default() }
    }

    /// Uses of each item of an epoch in this stream, which may begin in the middle of it and be one rank's share.
    pub(crate) fn uses(&self, recipe: &Recipe, epoch: u32) -> Arc<Vec<u32>> {
        let mut tables = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = tables.iter().find(|(of, _)| *of == epoch) {
            return table.clone();
        }
        let first = if epoch == self.from.epoch { self.from.batch } else { 0 };
        let mut table = Vec::new();
        let mut count = |item: u32| {
            let item = item as usize;
            if table.len() <= item {
                table.resize(item + 1, 0);
            }
            table[item] += 1;
        };
        let order: &Order = recipe.batch_order.as_ref().unwrap_or(&recipe.order);
        let order = order.epoch(epoch);
        for batch in first..recipe.batches() {
            if recipe.batch_order.is_some() {
                count(order.pick(batch).item);
            } else {
                recipe.written(batch).for_each(|place| count(order.pick(place).item));
            }
        }
        let table = Arc::new(table);
        if tables.len() == 3 {
            tables.remove(0);
        }
        tables.push((epoch, table.clone()));
        table
    }
}

/// What one worker needs again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) chain: ChainScratch,
    /// For stages that make bytes of bytes, while the other holds drawn choices.
    pub(crate) spare: ChainScratch,
    pub(crate) picks: Vec<Pick>,
    pub(crate) items: Vec<Arc<Item>>,
    pub(crate) bases: Vec<u32>,
    pub(crate) image: Image,
    /// What is not yet booked.
    pub(crate) tally: Tally,
    bytes: Vec<u8>,
}

/// An example as made: where it came from in the end, and what it shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) label: u32,
    /// As in `Item`.
    pub(crate) index: u64,
    /// As in `Item`.
    pub(crate) base: u32,
}

/// Makes the item of a pick. `None` once cancelled.
pub(crate) fn make(
    shared: &Shared,
    order: &EpochOrder,
    pick: Pick,
    scratch: &mut Scratch,
    cancelled: &AtomicBool,
) -> Result<Option<Item>, PipelineError> {
    let mut image = Image::default();
    let made = make_into(shared, (order, pick), &mut image, scratch, cancelled);
    shared.control.book_all(&mut scratch.tally);
    Ok(made?.map(|Made { label, index, base }| Item { image, label, index, base }))
}

/// Makes the item of a pick into `image`, keeping its memory: reads, decodes, and does the stages that all repeats share.
/// A bad example is, if the plan says so, replaced by the next planned one of its epoch. `None` once cancelled. What it
/// took is added to the scratch's tally, which the caller books.
pub(crate) fn make_into(
    shared: &Shared,
    (order, pick): (&EpochOrder, Pick),
    image: &mut Image,
    scratch: &mut Scratch,
    cancelled: &AtomicBool,
) -> Result<Option<Made>, PipelineError> {
    let recipe = &shared.recipe;
    let mut last = None;
    for ahead in 0..recipe.data.len() as u64 {
        if cancelled.load(Ordering::Acquire) {
            return Ok(None);
        }
        let index = if ahead == 0 { pick.origin.index } else { order.index(u64::from(pick.item) + ahead) };
        let base = (ahead as u32).saturating_mul(recipe.most_uses);
        let origin = Origin { index, echo: base, ..pick.origin };
        match load(shared, (origin, base), image, scratch, cancelled) {
            Ok(Some(label)) => return Ok(Some(Made { label, index, base })),
            Ok(None) => return Ok(None),
            Err(error) if shared.skips() && error.is_about_an_example() => {
                shared.bad.note(index, &error);
                last = Some(Box::new(error));
            }
            Err(error) => return Err(error),
        }
    }
    let name = recipe.data.info().name.clone();
    Err(last.map_or_else(
        || unreachable!("a pipeline has at least one example"),
        |last| PipelineError::NothingGood { name, last },
    ))
}

/// Reads and decodes one example into `image` and does the stages that repeats share; its label.
fn load(
    shared: &Shared,
    (origin, base): (Origin, u32),
    image: &mut Image,
    scratch: &mut Scratch,
    cancelled: &AtomicBool,
) -> Result<Option<u32>, PipelineError> {
    let (recipe, control) = (&shared.recipe, &shared.control);
    let (chain, data) = (&recipe.chain, &recipe.data);
    let Scratch { spare, bytes, tally, .. } = scratch;
    let steady = chain.steady();
    let mut since = control.now();
    let mut book = |lane: Lane, bytes: usize| {
        let (now, bytes) = (control.now(), Bytes(bytes as u64));
        tally.add(lane, StageStats { items: 1, busy: now - since, bytes, ..StageStats::default() });
        since = now;
    };
    let label = match shared.kept.as_ref().and_then(|kept| kept.get(origin.index)) {
        Some((kept, label)) => {
            image.clone_from(kept);
            *label
        }
        None => {
            let label = match data.source() {
                None => {
                    image.shape = data.shape();
                    image.pixels.clear();
                    image.pixels.extend_from_slice(data.image(origin.index as usize));
                    data.labels()[origin.index as usize]
                }
                Some(source) => {
                    source.read(origin.index, bytes, cancelled)?;
                    if cancelled.load(Ordering::Acquire) {
                        return Ok(None);
                    }
                    book(Lane::Read, bytes.len());
                    source.decode(origin.index, bytes, chain.least(), image)?
                }
            };
            let bytes = Bytes((image.pixels.len() + bytes.len()) as u64);
            if bytes > shared.budget {
                let (index, name) = (origin.index, data.info().name.clone());
                return Err(PipelineError::Sample { index, name, bytes, budget: shared.budget });
            }
            chain.run(0..steady, Some((origin, base)), image, spare);
            if let Some(kept) = &shared.kept {
                kept.offer(origin.index, image, label);
            }
            label
        }
    };
    chain.run(steady..chain.shared(), Some((origin, base)), image, spare);
    book(Lane::Decode, image.pixels.len());
    Ok(Some(label))
}
