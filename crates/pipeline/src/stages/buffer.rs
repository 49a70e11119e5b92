//! Shuffling what can only be read from front to back: shards in a keyed order, another every epoch, and a buffer of
//! examples from which a random one is drawn and replaced by the next. How well that mixes depends on how examples lie
//! in the shards, so it is measured.

use sooner_base::{Key, Permutation};

/// The order that buffered shuffling gives, by index arithmetic: nothing is read to know it.
#[derive(Debug, Clone)]
pub(crate) struct Buffered {
    pub(crate) key: Key,
    /// Examples of each shard.
    pub(crate) shards: Vec<u64>,
    /// Examples in the buffer, at least 1.
    pub(crate) size: usize,
}

impl Buffered {
    /// The index of each place of an epoch.
    pub(crate) fn table(&self, epoch: u32) -> Vec<u32> {
        let total: u64 = self.shards.iter().sum();
        let starts: Vec<u64> =
            self.shards.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
        let shards = Permutation::new(self.key.derive(0), epoch, self.shards.len() as u64);
        let incoming = (0..self.shards.len() as u64).flat_map(|place| {
            let shard = shards.get(place) as usize;
            starts[shard]..starts[shard] + self.shards[shard]
        });
        let mut rng = self.key.derive(1).at(epoch, 0, 0);
        let mut order = Vec::with_capacity(total as usize);
        let mut held: Vec<u32> = Vec::with_capacity(self.size.min(total as usize));
        for index in incoming {
            if held.len() < self.size {
                held.push(index as u32);
                continue;
            }
            let place = rng.below(held.len() as u32) as usize;
            order.push(std::mem::replace(&mut held[place], index as u32));
        }
        while !held.is_empty() {
            order.push(held.swap_remove(rng.below(held.len() as u32) as usize));
        }
        order
    }
}

/// How well an order mixes classes: the mean number of examples of one class that follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixing {
    /// Examples of the shuffle buffer.
    pub buffer: usize,
    /// In the order of the first epoch.
    pub mean_run: f64,
    /// What is expected in random order.
    pub mean_run_shuffled: f64,
}

impl Mixing {
    /// Of the labels in the order that they come in; none of a single class or of nothing.
    pub(crate) fn of(buffer: usize, labels: impl Iterator<Item = u32>) -> Option<Mixing> {
        let (mut runs, mut n, mut last) = (0u64, 0u64, None);
        let mut sizes = std::collections::BTreeMap::<u32, u64>::new();
        for label in labels {
            runs += u64::from(last != Some(label));
            (last, n) = (Some(label), n + 1);
            *sizes.entry(label).or_default() += 1;
        }
        if sizes.len() < 2 {
            return None;
        }
        // Two neighbours of a random order are of different classes with this chance, and each such pair begins a run.
        let (n, pairs) = (n as f64, (n * (n - 1)) as f64);
        let same: f64 = sizes.values().map(|&k| (k * (k - 1)) as f64).sum();
        let shuffled = 1.0 + (n - 1.0) * (1.0 - same / pairs);
        Some(Mixing { buffer, mean_run: n / runs as f64, mean_run_shuffled: n / shuffled })
    }

    /// Whether classes come in runs in spite of the buffer.
    pub fn is_poor(&self) -> bool {
        self.mean_run > 1.25 * self.mean_run_shuffled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn buffered(shards: &[u64], size: usize) -> Buffered {
        Buffered { key: Seed(5).key(Purpose::Shuffle, 0), shards: shards.to_vec(), size }
    }

    #[test]
    fn every_example_comes_once() {
        for (shards, size) in [(&[10u64, 0, 7, 1][..], 1), (&[10, 7], 4), (&[100], 1000), (&[3, 3, 3], 3)] {
            let buffered = buffered(shards, size);
            let total: u64 = shards.iter().sum();
            for epoch in 0..3 {
                let mut order = buffered.table(epoch);
                order.sort_unstable();
                assert_eq!(order, (0..total as u32).collect::<Vec<_>>());
            }
            assert!(total < 12 || buffered.table(0) != buffered.table(1) || size == 1);
            assert_eq!(buffered.table(4), buffered.table(4));
        }
    }

    /// What has to be held while a shard is read from front to back is no more than the buffer.
    #[test]
    fn examples_are_displaced_by_no_more_than_the_buffer() {
        let buffered = buffered(&[500], 20);
        let order = buffered.table(2);
        for (place, &index) in order.iter().enumerate() {
            assert!((index as usize) <= place + 20, "{index} at {place}");
        }
    }

    #[test]
    fn mixing_is_measured() {
        let sorted: Vec<u32> = (0..1000).map(|i| i / 250).collect();
        let mixed = |size: usize| {
            let order = buffered(&[1000], size).table(0);
            Mixing::of(size, order.iter().map(|&i| sorted[i as usize])).unwrap()
        };
        let [none, small, all] = [1, 100, 1000].map(mixed);
        assert_eq!(none.mean_run, 250.0);
        // Four classes of 250: 1 of 4 neighbours is of the same class.
        assert!((all.mean_run_shuffled - 1.0 / 0.75).abs() < 0.01, "{all:?}");
        assert!(none.mean_run > small.mean_run && small.mean_run > all.mean_run);
        assert_eq!([none.is_poor(), small.is_poor(), all.is_poor()], [true, true, false]);
        assert_eq!(Mixing::of(1, [3, 3].into_iter()), None);
    }
}
