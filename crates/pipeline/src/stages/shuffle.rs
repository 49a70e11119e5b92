//! Shuffle: the order of examples, by index arithmetic, so that example k of an epoch is known without drawing k; and
//! what an echo stage before `batch` makes of it.

use super::Echo;
use super::buffer::{Buffered, Mixing};
use super::echo::Use;
use crate::Dataset;
use sooner_base::{Key, Origin, Permutation, Purpose, Seed};
use std::sync::{Arc, Mutex, PoisonError};

/// The order of examples within each epoch, repeats included.
#[derive(Debug)]
pub(crate) struct Order {
    key: Option<Key>,
    /// Instead of a permutation of the whole epoch.
    buffered: Option<Buffered>,
    len: u64,
    echo: Option<Echo>,
    /// Tables of the latest epochs, where the order of repeats needs one.
    tables: Tables<Use>,
    /// The same of the order of examples.
    orders: Tables<u32>,
}

/// One table for each of the latest epochs.
type Tables<T> = Mutex<Vec<(u32, Arc<Vec<T>>)>>;

/// The table of an epoch, made if it is not there. Made under the lock, so that workers who need the same make it once.
fn kept<T>(tables: &Tables<T>, epoch: u32, make: impl FnOnce() -> Vec<T>) -> Arc<Vec<T>> {
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, table)) = tables.iter().find(|(of, _)| *of == epoch) {
        return table.clone();
    }
    let table = Arc::new(make());
    if tables.len() == Order::TABLES {
        tables.remove(0);
    }
    tables.push((epoch, table.clone()));
    table
}

impl Order {
    /// Epochs whose tables are kept: the one in use, the next one's first batches, and one that a slow worker holds.
    const TABLES: usize = 3;

    /// The data's own order, every epoch the same.
    pub(crate) fn sequential(len: usize) -> Order {
        Order {
            key: None,
            buffered: None,
            len: len as u64,
            echo: None,
            tables: Mutex::default(),
            orders: Mutex::default(),
        }
    }

    /// A keyed permutation of the whole epoch, another every epoch.
    pub(crate) fn shuffled(seed: Seed, len: usize) -> Order {
        Order { key: Some(seed.key(Purpose::Shuffle, 0)), ..Order::sequential(len) }
    }

    /// Shards in a keyed order and a buffer, another order every epoch.
    pub(crate) fn buffered(seed: Seed, shards: Vec<u64>, size: usize) -> Order {
        let len = shards.iter().sum::<u64>() as usize;
        let buffered = Buffered { key: seed.key(Purpose::Shuffle, 0), shards, size };
        Order { buffered: Some(buffered), ..Order::sequential(len) }
    }

    /// How well the buffer mixes classes in the first epoch; none without one, or where the source does not know labels
    /// before it reads.
    pub(crate) fn mixing(&self, data: &Dataset) -> Option<Mixing> {
        let buffered = self.buffered.as_ref()?;
        let label = |index: u32| match data.source() {
            None => data.labels().get(index as usize).copied(),
            Some(source) => source.label(u64::from(index)),
        };
        label(0)?;
        let table = kept(&self.orders, 0, || buffered.table(0));
        Mixing::of(buffered.size, table.iter().filter_map(|&index| label(index)))
    }

    /// The same order with every example repeated.
    pub(crate) fn echoed(self, echo: Echo) -> Order {
        Order { echo: Some(echo), ..self }
    }

    /// Places of an epoch.
    pub(crate) fn places(&self) -> u64 {
        self.echo.as_ref().map_or(self.len, Echo::uses)
    }

    /// Whether examples are used more than once.
    pub(crate) fn repeats(&self) -> bool {
        self.places() > self.len
    }

    /// Bytes of the tables that the order of repeats needs.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tabled = self.echo.as_ref().is_some_and(|echo| echo.regular().is_none());
        let repeats = if tabled { self.places() * size_of::<Use>() as u64 } else { 0 };
        let order = if self.buffered.is_some() { self.len * size_of::<u32>() as u64 } else { 0 };
        Order::TABLES as u64 * (repeats + order)
    }

    /// One epoch's order; making it costs a few hashes, and where there is a shuffle buffer or a fraction a table,
    /// once.
    pub(crate) fn epoch(&self, epoch: u32) -> EpochOrder {
        let fresh = match (&self.buffered, self.key) {
            (Some(buffered), _) => Fresh::Table(kept(&self.orders, epoch, || buffered.table(epoch))),
            (None, Some(key)) => Fresh::Shuffled(Permutation::new(key, epoch, self.len)),
            (None, None) => Fresh::Own,
        };
        let repeats = match &self.echo {
            None => Repeats::Regular(1),
            Some(echo) => match echo.regular() {
                Some(factor) => Repeats::Regular(factor),
                None => Repeats::Table(kept(&self.tables, epoch, || echo.table(epoch))),
            },
        };
        EpochOrder { epoch, fresh, repeats, len: self.len }
    }
}

/// One use of one example, as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The example's place among the fresh ones of its epoch.
    pub(crate) item: u32,
    pub(crate) origin: Origin,
}

/// The order of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct EpochOrder {
    epoch: u32,
    fresh: Fresh,
    repeats: Repeats,
    len: u64,
}

/// The order of examples before any is repeated.
#[derive(Debug, Clone)]
enum Fresh {
    Own,
    Shuffled(Permutation),
    Table(Arc<Vec<u32>>),
}

#[derive(Debug, Clone)]
enum Repeats {
    /// Each item so often, one use after another.
    Regular(u64),
    Table(Arc<Vec<Use>>),
}

impl EpochOrder {
    /// The use that stands at one place of the epoch.
    pub(crate) fn pick(&self, place: u64) -> Pick {
        let (item, echo) = match &self.repeats {
            Repeats::Regular(1) => (place, 0),
            Repeats::Regular(factor) => (place / factor, (place % factor) as u32),
            Repeats::Table(table) => {
                let at = table[place as usize];
                (u64::from(at.item), at.echo)
            }
        };
        Pick { item: item as u32, origin: Origin { epoch: self.epoch, index: self.index(item), echo } }
    }

    /// The index of the example at a place among the fresh ones, which wraps at the epoch's end.
    pub(crate) fn index(&self, item: u64) -> u64 {
        let item = item % self.len;
        match &self.fresh {
            Fresh::Own => item,
            Fresh::Shuffled(permutation) => permutation.get(item),
            Fresh::Table(table) => u64::from(table[item as usize]),
        }
    }

    /// Items that are used for the first time among the first so many places.
    pub(crate) fn fresh_before(&self, places: u64) -> u64 {
        match &self.repeats {
            Repeats::Regular(factor) => places.div_ceil(*factor),
            Repeats::Table(table) => table[..places as usize].iter().filter(|at| at.echo == 0).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::Spread;

    #[test]
    fn repeats_are_of_the_shuffled_order() {
        let fresh = Order::shuffled(Seed(2), 10).epoch(4);
        let spread = Spread { buffer: 0, whole: false };
        let echo = Echo::new(3.0, spread, Seed(2).key(Purpose::Echo, 0), 10);
        let order = Order::shuffled(Seed(2), 10).echoed(echo);
        assert_eq!((order.places(), order.repeats(), order.table_bytes()), (30, true, 0));
        let echoed = order.epoch(4);
        for place in 0..30 {
            let pick = echoed.pick(place);
            let of = fresh.pick(place / 3);
            assert_eq!((pick.origin.index, pick.item), (of.origin.index, of.item));
            assert_eq!(u64::from(pick.origin.echo), place % 3);
        }
        assert_eq!((echoed.fresh_before(0), echoed.fresh_before(4), echoed.fresh_before(30)), (0, 2, 10));
    }

    #[test]
    fn tables_are_kept_for_a_few_epochs() {
        let spread = Spread { buffer: 4, whole: false };
        let echo = Echo::new(1.5, spread, Seed(2).key(Purpose::Echo, 0), 10);
        let order = Order::sequential(10).echoed(echo);
        let first: Vec<Pick> = (0..15).map(|place| order.epoch(0).pick(place)).collect();
        for epoch in 0..9 {
            assert_eq!(order.epoch(epoch).fresh_before(15), 10);
        }
        assert_eq!(order.tables.lock().unwrap().len(), Order::TABLES);
        assert_eq!(first, (0..15).map(|place| order.epoch(0).pick(place)).collect::<Vec<_>>());
    }
}
