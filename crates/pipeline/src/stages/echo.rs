//! Echo: which reading each place of an epoch shows, and for the how manieth time.

use sooner_base::{Key, Permutation};
use sooner_plan::echoed;

/// An echo stage of a fixed factor over `items` items an epoch, be they examples or batches.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    factor: f64,
    /// Places of the shuffle buffer after it.
    buffer: usize,
    /// Whether what comes out is shuffled over the whole epoch.
    whole: bool,
    key: Key,
    items: u64,
}

/// One place of an echoed epoch: which item, and which use of it, in the order in which uses come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) item: u32,
    pub(crate) echo: u32,
}

/// How the uses of items follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    /// Places of a shuffle buffer; 0 for none.
    pub(crate) buffer: usize,
    /// Whether all uses of an epoch are shuffled.
    pub(crate) whole: bool,
}

impl Echo {
    pub(crate) fn new(factor: f64, spread: Spread, key: Key, items: u64) -> Echo {
        let Spread { buffer, whole } = spread;
        Echo { factor, buffer, whole, key, items }
    }

    /// Uses of all items of an epoch, the same in every epoch.
    pub(crate) fn uses(&self) -> u64 {
        echoed(self.items, self.factor)
    }

    /// The factor where every item has the same number of uses, one after another: then no table is needed.
    pub(crate) fn regular(&self) -> Option<u64> {
        let plain = self.factor.fract() == 0.0 && self.buffer == 0 && !self.whole;
        plain.then_some(self.factor as u64)
    }

    /// Uses of one item of an epoch. Which items have one more than the whole part of the factor is a keyed draw
    /// without replacement, so that every epoch has the same number of uses.
    fn uses_of(&self, extra: &Permutation, item: u64) -> u32 {
        let whole = self.factor.floor();
        let more = self.uses() - self.items * whole as u64;
        whole as u32 + u32::from(extra.get(item) < more)
    }

    /// Every place of an epoch, in order. The buffer is filled first; then each place takes a random one of it, which
    /// the next use replaces; it is empty at the epoch's end.
    pub(crate) fn table(&self, epoch: u32) -> Vec<Use> {
        let extra = Permutation::new(self.key.derive(0), epoch, self.items);
        let total = self.uses() as usize;
        let incoming = (0..self.items)
            .flat_map(|item| std::iter::repeat_n(item as u32, self.uses_of(&extra, item) as usize));
        let mut order: Vec<u32> = Vec::with_capacity(total);
        if self.whole {
            let flat: Vec<u32> = incoming.collect();
            let shuffle = Permutation::new(self.key.derive(2), epoch, total as u64);
            order.extend((0..total as u64).map(|place| flat[shuffle.get(place) as usize]));
        } else if self.buffer < 2 {
            order.extend(incoming);
        } else {
            let mut rng = self.key.derive(1).at(epoch, 0, 0);
            let mut held: Vec<u32> = Vec::with_capacity(self.buffer.min(total));
            for item in incoming {
                if held.len() < self.buffer {
                    held.push(item);
                    continue;
                }
                let place = rng.below(held.len() as u32) as usize;
                order.push(std::mem::replace(&mut held[place], item));
            }
            while !held.is_empty() {
                order.push(held.swap_remove(rng.below(held.len() as u32) as usize));
            }
        }
        let mut used = vec![0u32; self.items as usize];
        let count = |item: u32| {
            let echo = used[item as usize];
            used[item as usize] += 1;
            Use { item, echo }
        };
        order.into_iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn echo(factor: f64, buffer: usize, whole: bool, items: u64) -> Echo {
        Echo::new(factor, Spread { buffer, whole }, Seed(3).key(Purpose::Echo, 0), items)
    }

    #[test]
    fn every_item_is_used_as_often_as_planned() {
        for (factor, items) in [(1.0, 7), (2.0, 50), (2.5, 50), (1.1, 97), (3.75, 13)] {
            for (buffer, whole) in [(0, false), (1, false), (10, false), (1000, false), (0, true)] {
                let echo = echo(factor, buffer, whole, items);
                let mut extras = Vec::new();
                for epoch in 0..2 {
                    let table = echo.table(epoch);
                    assert_eq!(table.len() as u64, echo.uses());
                    let mut uses = vec![0; items as usize];
                    for at in &table {
                        assert_eq!(at.echo, uses[at.item as usize], "uses are numbered as they come");
                        uses[at.item as usize] += 1;
                    }
                    let floor = factor as u32;
                    assert!(uses.iter().all(|&n| n == floor || n == floor + 1 && factor.fract() > 0.0));
                    extras.push(uses);
                }
                // Another epoch gives the extra uses to other items.
                assert!(factor != 2.5 || extras[0] != extras[1]);
            }
        }
    }

    #[test]
    fn without_a_buffer_uses_follow_each_other() {
        let table = echo(3.0, 0, false, 4).table(5);
        let expect: Vec<Use> = (0..12).map(|k| Use { item: k / 3, echo: k % 3 }).collect();
        assert_eq!((table, echo(3.0, 0, false, 4).regular()), (expect, Some(3)));
        assert_eq!(echo(2.5, 0, false, 4).regular(), None);
    }

    #[test]
    fn a_buffer_spreads_uses_and_holds_no_more_than_its_size() {
        let (items, buffer) = (2000u64, 100usize);
        let table = echo(4.0, buffer, false, items).table(0);
        let mut first = vec![usize::MAX; items as usize];
        for (place, at) in table.iter().enumerate() {
            // An item cannot come out before its first use has gone in, nor wait without bound.
            assert!(at.item as usize * 4 <= place + buffer, "{place} {at:?}");
            first[at.item as usize] = first[at.item as usize].min(place);
        }
        let repeats_next = table.windows(2).filter(|w| w[0].item == w[1].item).count();
        // Without the buffer it would be 3 of 4 places; with 100 in it, about one in 100 of some few neighbours.
        assert!(repeats_next < table.len() / 20, "{repeats_next}");
    }
}
