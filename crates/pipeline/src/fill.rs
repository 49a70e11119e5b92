//! Making one batch: its examples' choices drawn slice by slice, each example written once, batches repeated and mixed.

use crate::PipelineError;
use crate::chain::Mode;
use crate::control::Lane;
use crate::items::{Item, Scratch, Session, make, make_into};
use crate::pipeline::Shared;
use crate::recipe::{Position, Recipe};
use crate::stages::{EpochOrder, Pick};
use sooner_base::{Batch, Bytes, Mix, Origin, Seconds, Shape, StageStats};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Examples drawn and written between two looks at the clock and at whether to go on: a fraction of a millisecond.
pub(crate) const SLICE: u64 = 64;

/// Makes the batch of one place; leaves early when cancelled, and what it leaves behind then is thrown away.
pub(crate) fn fill(
    shared: &Shared,
    session: &Session,
    cancelled: &AtomicBool,
    at: Position,
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<(), PipelineError> {
    let recipe = &shared.recipe;
    let (mut number, mut echo) = (at.batch, 0);
    if let (Some(order), Some(store)) = (&recipe.batch_order, &session.batches) {
        let pick = order.epoch(at.epoch).pick(at.batch);
        (number, echo) = (u64::from(pick.item), pick.origin.echo);
        let uses = session.uses(recipe, at.epoch)[pick.item as usize];
        if uses > 1 {
            let whole = Shape::from([0, 0, 0, 0]);
            let made = store.get((at.epoch, pick.item), uses, cancelled, || {
                let mut fresh = Batch::empty(whole);
                fill_fresh(shared, session, cancelled, (at.epoch, number), &mut fresh, scratch)?;
                let bytes = Recipe::bytes_of(&fresh);
                Ok::<_, PipelineError>((fresh, bytes))
            });
            let Some(made) = made else { return Ok(()) };
            copy(&*made?, batch);
        } else {
            fill_fresh(shared, session, cancelled, (at.epoch, number), batch, scratch)?;
        }
        batch.origins.iter_mut().for_each(|origin| origin.echo += echo);
        if echo > 0 {
            batch.fresh = 0;
        }
    } else {
        fill_fresh(shared, session, cancelled, (at.epoch, number), batch, scratch)?;
    }
    if cancelled.load(Ordering::Acquire) {
        return Ok(());
    }
    if let Some((mix, true)) = &recipe.mix {
        mix.apply([u64::from(at.epoch), number, u64::from(echo)], batch);
    }
    if recipe.mix.is_some() {
        keep_share(recipe, number, batch);
    }
    if recipe.order.repeats() || recipe.auto.is_some() {
        shared.duplicates.examples.fetch_add(batch.len() as u64, Ordering::Relaxed);
        shared.duplicates.duplicates.fetch_add(batch.duplicates() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Makes a batch as it is before an echo of batches.
fn fill_fresh(
    shared: &Shared,
    session: &Session,
    cancelled: &AtomicBool,
    (epoch, number): (u32, u64),
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<(), PipelineError> {
    let recipe = &shared.recipe;
    let order = recipe.order.epoch(epoch);
    let places = recipe.written(number);
    recipe.lay_out(places.end - places.start, batch);
    write_places(shared, session, cancelled, (&order, places), batch, scratch)?;
    if let Some((mix, false)) = &recipe.mix
        && !cancelled.load(Ordering::Acquire)
    {
        mix.apply([u64::from(epoch), number, 0], batch);
    }
    Ok(())
}

/// Writes the examples of a range of places, slice by slice.
fn write_places(
    shared: &Shared,
    session: &Session,
    cancelled: &AtomicBool,
    (order, places): (&EpochOrder, Range<u64>),
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<(), PipelineError> {
    let control = &shared.control;
    let mut start = places.start;
    while start < places.end && control.go_on(cancelled) {
        let end = places.end.min(start + SLICE);
        let began = control.now();
        scratch.picks.clear();
        scratch.picks.extend((start..end).map(|place| order.pick(place)));
        batch.origins.extend(scratch.picks.iter().map(|pick| pick.origin));
        batch.fresh += scratch.picks.iter().filter(|pick| pick.origin.echo == 0).count();
        let chosen = control.now();
        scratch.tally.add(Lane::Shuffle, share(end - start, chosen - began));
        let recipe = &shared.recipe;
        let written = if !recipe.is_direct() && session.items.is_none() {
            let written = stream(shared, cancelled, order, batch, scratch);
            control.book_all(&mut scratch.tally);
            written?
        } else if recipe.is_direct() || gather(shared, session, cancelled, order, batch, scratch)? {
            let gathered = if recipe.is_direct() { chosen } else { control.now() };
            write_slice(recipe, recipe.chain.mode(), batch, scratch);
            let bytes = Bytes((end - start) * recipe.example_bytes() as u64);
            let augment = share(end - start, control.now() - gathered);
            scratch.tally.add(Lane::Augment, StageStats { bytes, ..augment });
            true
        } else {
            false
        };
        control.book_all(&mut scratch.tally);
        if !written {
            return Ok(());
        }
        start = end;
    }
    Ok(())
}

fn share(items: u64, busy: Seconds) -> StageStats {
    StageStats { items, busy, ..StageStats::default() }
}

/// Makes and writes the slice's examples one after another where nothing is held for repeats: each is written while its
/// pixels are still in the processor's cache, and all use the same memory. False once cancelled.
fn stream(
    shared: &Shared,
    cancelled: &AtomicBool,
    order: &EpochOrder,
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<bool, PipelineError> {
    let (recipe, control) = (&shared.recipe, &shared.control);
    let (chain, mode, size) = (&recipe.chain, recipe.chain.mode(), recipe.example_bytes() / size_of::<f32>());
    let (first, n) = (batch.labels.len(), scratch.picks.len());
    scratch.bases.clear();
    scratch.bases.resize(n, 0);
    chain.draw(mode, &batch.origins[first..], &scratch.bases, &mut scratch.chain);
    let mut image = std::mem::take(&mut scratch.image);
    for k in 0..n {
        if !control.go_on(cancelled) {
            return Ok(false);
        }
        let pick = scratch.picks[k];
        let Some(made) = make_into(shared, (order, pick), &mut image, scratch, cancelled)? else {
            return Ok(false);
        };
        let since = control.now();
        let origin = &mut batch.origins[first + k];
        (origin.index, origin.echo) = (made.index, origin.echo.saturating_add(made.base));
        let of = (*origin, made.base);
        chain.run(chain.shared()..chain.byte_stages(), Some(of), &mut image, &mut scratch.spare);
        let [h, w, _] = image.shape;
        let out = &mut batch.features[(first + k) * size..][..size];
        // What was drawn is the planned example's; one that stands in for it makes choices of its own.
        let (drawn, choices) = match made.base {
            0 => ((mode, k, n), &mut scratch.chain),
            _ => ((Mode::Single, 0, 1), &mut scratch.spare),
        };
        chain.write(drawn, of, (&image.pixels, [h, w]), out, choices);
        batch.labels.push(made.label);
        let bytes = Bytes(recipe.example_bytes() as u64);
        scratch.tally.add(Lane::Augment, StageStats { bytes, ..share(1, control.now() - since) });
    }
    scratch.image = image;
    Ok(true)
}

/// Gets the items of the slice's picks, made here, held, or waited for. False once cancelled.
fn gather(
    shared: &Shared,
    session: &Session,
    cancelled: &AtomicBool,
    order: &EpochOrder,
    batch: &mut Batch,
    scratch: &mut Scratch,
) -> Result<bool, PipelineError> {
    scratch.items.clear();
    scratch.bases.clear();
    let first = batch.origins.len() - scratch.picks.len();
    for k in 0..scratch.picks.len() {
        if !shared.control.go_on(cancelled) {
            return Ok(false);
        }
        let pick = scratch.picks[k];
        let item = match &session.items {
            None => make(shared, order, pick, scratch, cancelled)?.map(Arc::new),
            Some(store) => {
                let uses = session.uses(&shared.recipe, pick.origin.epoch)[pick.item as usize];
                held(shared, store, (order, pick, uses), scratch, cancelled)?
            }
        };
        let Some(item) = item else { return Ok(false) };
        let origin = &mut batch.origins[first + k];
        (origin.index, origin.echo) = (item.index, origin.echo.saturating_add(item.base));
        scratch.bases.push(item.base);
        scratch.items.push(item);
    }
    Ok(true)
}

/// One item out of a store. The time spent waiting for another worker to make it is the augmenting stage's.
fn held(
    shared: &Shared,
    store: &crate::store::Store<Item>,
    (order, pick, uses): (&EpochOrder, Pick, u32),
    scratch: &mut Scratch,
    cancelled: &AtomicBool,
) -> Result<Option<Arc<Item>>, PipelineError> {
    let since = shared.control.now();
    let mut made_here = false;
    let item = store.get((pick.origin.epoch, pick.item), uses, cancelled, || {
        made_here = true;
        match make(shared, order, pick, scratch, cancelled) {
            Ok(Some(item)) => {
                let bytes = Bytes(item.image.pixels.len() as u64);
                Ok((item, bytes))
            }
            Ok(None) => Err(None),
            Err(error) => Err(Some(error)),
        }
    });
    if !made_here {
        let blocked_in = shared.control.now() - since;
        shared.control.book(Lane::Augment, StageStats { blocked_in, ..StageStats::default() });
    }
    match item {
        None | Some(Err(None)) => Ok(None),
        Some(Ok(item)) => Ok(Some(item)),
        Some(Err(Some(error))) => Err(error),
    }
}

/// Writes labels and features of all examples that have an origin but no label yet.
pub(crate) fn write_slice(recipe: &Recipe, mode: Mode, batch: &mut Batch, scratch: &mut Scratch) {
    let done = batch.labels.len();
    let chain = &recipe.chain;
    let size: usize = recipe.shape().iter().product();
    let Batch { features, labels, origins, .. } = batch;
    let origins = &origins[done..];
    let n = origins.len();
    let outs = features[done * size..].chunks_exact_mut(size);
    if recipe.is_direct() {
        let data = recipe.data();
        let [h, w, _] = data.shape();
        scratch.bases.clear();
        scratch.bases.resize(n, 0);
        chain.draw(mode, origins, &scratch.bases, &mut scratch.chain);
        for (k, (origin, out)) in origins.iter().zip(outs).enumerate() {
            let image = (data.image(origin.index as usize), [h, w]);
            chain.write((mode, k, n), (*origin, 0), image, out, &mut scratch.chain);
        }
        labels.extend(origins.iter().map(|origin| data.labels()[origin.index as usize]));
        return;
    }
    let Scratch { chain: chain_scratch, spare, items, bases, image, .. } = scratch;
    chain.draw(mode, origins, bases, chain_scratch);
    // Drawn choices lie in the chain's scratch, which the byte stages use too: they go first, one example at a time.
    let behind = chain.shared()..chain.byte_stages();
    for (k, (origin, out)) in origins.iter().zip(outs).enumerate() {
        let (item, base) = (&items[k], bases[k]);
        let pixels = if behind.is_empty() {
            &item.image
        } else {
            image.clone_from(&item.image);
            let of = (mode != Mode::Still).then_some((*origin, base));
            chain.run(behind.clone(), of, image, spare);
            &*image
        };
        let [h, w, _] = pixels.shape;
        chain.write((mode, k, n), (*origin, base), (&pixels.pixels, [h, w]), out, chain_scratch);
    }
    labels.extend(items.iter().map(|item| item.label));
}

/// Makes `to` equal to `from`, keeping its memory.
fn copy(from: &Batch, to: &mut Batch) {
    to.features.clone_from(&from.features);
    to.labels.clone_from(&from.labels);
    to.mixes.clone_from(&from.mixes);
    to.origins.clone_from(&from.origins);
    to.fresh = from.fresh;
    if to.shape != from.shape {
        to.shape = from.shape.clone();
    }
}

/// Cuts a whole batch down to this rank's share of it.
fn keep_share(recipe: &Recipe, number: u64, batch: &mut Batch) {
    let places = recipe.places(number);
    let share = recipe.share.of(places.clone());
    if share == places {
        return;
    }
    let (from, to) = ((share.start - places.start) as usize, (share.end - places.start) as usize);
    let size: usize = recipe.shape().iter().product();
    let cut = |range: Range<usize>, features: &mut Vec<f32>| {
        features.truncate(range.end);
        features.drain(..range.start);
    };
    cut(from * size..to * size, &mut batch.features);
    fn part<T>(list: &mut Vec<T>, range: Range<usize>) {
        if !list.is_empty() {
            list.truncate(range.end);
            list.drain(..range.start);
        }
    }
    part::<u32>(&mut batch.labels, from..to);
    part::<Mix>(&mut batch.mixes, from..to);
    part::<Origin>(&mut batch.origins, from..to);
    batch.fresh = if batch.fresh == 0 { 0 } else { batch.origins.iter().filter(|o| o.echo == 0).count() };
    let [_, h, w, c] = batch.shape.dims() else { unreachable!("batches of images have four extents") };
    batch.shape = Shape::from([to - from, *h, *w, *c]);
}

/// How many examples of batches show what an earlier one of the same batch shows.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    pub(crate) examples: AtomicU64,
    pub(crate) duplicates: AtomicU64,
}
