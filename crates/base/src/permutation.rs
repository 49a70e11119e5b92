//! A keyed permutation of 0..n by index arithmetic: shuffling an epoch needs no table, and example k of an epoch is
//! known without drawing the first k.

use crate::random::{Key, mix};

/// A pseudo-random bijection of 0..len chosen by (key, epoch): a balanced Feistel network over the next even number
/// of bits, walked until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
#[derive(Debug, Clone)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    round_keys: [u64; Permutation::ROUNDS],
}

impl Permutation {
    const ROUNDS: usize = 8;

    /// The permutation of 0..len for one epoch.
    pub fn new(key: Key, epoch: u32, len: u64) -> Permutation {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        let key = key.derive(u64::from(epoch));
        let round_keys = std::array::from_fn(|round| key.derive(round as u64).bits());
        Permutation { len, half_bits: bits.div_ceil(2).max(1), round_keys }
    }

    /// The number of items permuted.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to permute.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The image of `position`. Panics if it is not below `len`.
    pub fn get(&self, position: u64) -> u64 {
        assert!(position < self.len, "position {position} outside a permutation of {}", self.len);
        let mask = (1u64 << self.half_bits) - 1;
        let mut value = position;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for key in self.round_keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            value = left << self.half_bits | right;
            if value < self.len {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Seed};

    fn key(seed: u64) -> Key {
        Seed(seed).key(Purpose::Shuffle, 0)
    }

    #[test]
    fn every_item_exactly_once() {
        for len in [0, 1, 2, 3, 4, 5, 7, 16, 17, 255, 256, 257, 1009, 10_000] {
            for epoch in 0..3 {
                let p = Permutation::new(key(1), epoch, len);
                let mut seen = vec![false; len as usize];
                for i in 0..len {
                    assert!(!std::mem::replace(&mut seen[p.get(i) as usize], true));
                }
            }
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let order = |seed, epoch| -> Vec<u64> {
            let p = Permutation::new(key(seed), epoch, 100);
            (0..100).map(|i| p.get(i)).collect()
        };
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 1), order(2, 0));
        assert_eq!(order(1, 1), order(1, 1));
    }

    #[test]
    fn small_permutations_are_uniform() {
        // All 24 orders of four items come up about equally often over many epochs.
        let mut counts = std::collections::HashMap::new();
        let n = 24_000u32;
        for epoch in 0..n {
            let p = Permutation::new(key(5), epoch, 4);
            *counts.entry([p.get(0), p.get(1), p.get(2), p.get(3)]).or_insert(0.0f64) += 1.0;
        }
        assert_eq!(counts.len(), 24);
        let chi: f64 = counts.values().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 23.0 + 6.0 * 46f64.sqrt(), "chi {chi}");
    }

    #[test]
    fn golden_order() {
        // May change only with a stated change of the shuffle's definition: every record's stream depends on it.
        let p = Permutation::new(key(1), 0, 10);
        let order: Vec<u64> = (0..10).map(|i| p.get(i)).collect();
        assert_eq!(order, GOLDEN);
    }
    const GOLDEN: [u64; 10] = [1, 8, 3, 2, 4, 7, 6, 5, 0, 9];
}
