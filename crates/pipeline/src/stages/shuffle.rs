//! Shuffle: the order of examples, by index arithmetic, so that example k of an epoch is known without drawing k.

use sooner_base::{Key, Origin, Permutation, Purpose, Seed};

/// The order of fresh examples within each epoch.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    key: Option<Key>,
    len: u64,
}

impl Order {
    /// The data's own order, every epoch the same.
    pub(crate) fn sequential(len: usize) -> Order {
        Order { key: None, len: len as u64 }
    }

    /// A keyed permutation of the whole epoch, another every epoch.
    pub(crate) fn shuffled(seed: Seed, len: usize) -> Order {
        Order { key: Some(seed.key(Purpose::Shuffle, 0)), len: len as u64 }
    }

    /// One epoch's order; making it costs a few hashes.
    pub(crate) fn epoch(&self, epoch: u32) -> EpochOrder {
        EpochOrder { epoch, permutation: self.key.map(|key| Permutation::new(key, epoch, self.len)) }
    }
}

/// The order of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct EpochOrder {
    epoch: u32,
    permutation: Option<Permutation>,
}

impl EpochOrder {
    /// Where the example at one place of the epoch comes from.
    pub(crate) fn origin(&self, place: u64) -> Origin {
        let index = self.permutation.as_ref().map_or(place, |permutation| permutation.get(place));
        Origin { epoch: self.epoch, index, echo: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(order: &Order, epoch: u32) -> Vec<u64> {
        let order = order.epoch(epoch);
        (0..5).map(|place| order.origin(place).index).collect()
    }

    #[test]
    fn orders() {
        assert_eq!(indices(&Order::sequential(5), 3), [0, 1, 2, 3, 4]);
        let shuffled = Order::shuffled(Seed(1), 5);
        assert_ne!(indices(&shuffled, 0), indices(&shuffled, 1));
        let mut sorted = indices(&shuffled, 1);
        sorted.sort();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
}
