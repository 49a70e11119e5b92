//! Shuffle: the order of examples, by index arithmetic, so that example k of an epoch is known without drawing k; and
//! what an echo stage before `batch` makes of it.

use super::Echo;
use super::echo::Use;
use sooner_base::{Key, Origin, Permutation, Purpose, Seed};
use std::sync::{Arc, Mutex, PoisonError};

/// The order of examples within each epoch, repeats included.
#[derive(Debug)]
pub(crate) struct Order {
    key: Option<Key>,
    len: u64,
    echo: Option<Echo>,
    /// Tables of the latest epochs, where the order of repeats needs one.
    tables: Mutex<Vec<(u32, Arc<Vec<Use>>)>>,
}

impl Order {
    /// Epochs whose tables are kept: the one in use, the next one's first batches, and one that a slow worker holds.
    const TABLES: usize = 3;

    /// The data's own order, every epoch the same.
    pub(crate) fn sequential(len: usize) -> Order {
        Order { key: None, len: len as u64, echo: None, tables: Mutex::default() }
    }

    /// A keyed permutation of the whole epoch, another every epoch.
    pub(crate) fn shuffled(seed: Seed, len: usize) -> Order {
        Order { key: Some(seed.key(Purpose::Shuffle, 0)), ..Order::sequential(len) }
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
        if tabled { Order::TABLES as u64 * self.places() * size_of::<Use>() as u64 } else { 0 }
    }

    /// One epoch's order; making it costs a few hashes, and where there is a shuffle buffer or a fraction a table,
    /// once.
    pub(crate) fn epoch(&self, epoch: u32) -> EpochOrder {
        let permutation = self.key.map(|key| Permutation::new(key, epoch, self.len));
        let repeats = match &self.echo {
            None => Repeats::Regular(1),
            Some(echo) => match echo.regular() {
                Some(factor) => Repeats::Regular(factor),
                None => Repeats::Table(self.table(epoch, echo)),
            },
        };
        EpochOrder { epoch, permutation, repeats, len: self.len }
    }

    fn table(&self, epoch: u32, echo: &Echo) -> Arc<Vec<Use>> {
        // Under the lock, so that workers who need the same table make it once.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = tables.iter().find(|(of, _)| *of == epoch) {
            return table.clone();
        }
        let table = Arc::new(echo.table(epoch));
        if tables.len() == Order::TABLES {
            tables.remove(0);
        }
        tables.push((epoch, table.clone()));
        table
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
    permutation: Option<Permutation>,
    repeats: Repeats,
    len: u64,
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
        self.permutation.as_ref().map_or(item, |permutation| permutation.get(item))
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
