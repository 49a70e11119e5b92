//! How examples become updates: one batch an update, the smaller last batch of an epoch kept.

use crate::Plan;
use sooner_base::{Epochs, Examples, Updates};

/// The number of training examples and of examples a batch. Everything here is exact integer arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Examples of the training split, at least 1.
    pub train_examples: u64,
    /// Examples a batch, at least 1.
    pub batch: u64,
}

impl Pace {
    /// Updates of one epoch; the last may be a smaller one.
    pub fn updates_per_epoch(&self) -> u64 {
        self.train_examples.div_ceil(self.batch)
    }

    /// Updates of so many epochs; a fraction counts in whole examples, rounded to the nearest.
    pub fn updates(&self, epochs: f64) -> u64 {
        let whole = epochs.floor();
        let rest = ((epochs - whole) * self.train_examples as f64).round() as u64;
        whole as u64 * self.updates_per_epoch() + rest.div_ceil(self.batch)
    }

    /// Examples that the first so many updates have used.
    pub fn examples_after(&self, updates: u64) -> u64 {
        let per_epoch = self.updates_per_epoch();
        let rest = updates % per_epoch * self.batch;
        updates / per_epoch * self.train_examples + rest
    }

    /// Examples of the update of this number, counted from 0.
    pub fn examples_in(&self, update: u64) -> u64 {
        self.examples_after(update + 1) - self.examples_after(update)
    }

    /// Passes over the training split after the first so many updates.
    pub fn epochs_after(&self, updates: Updates) -> Epochs {
        Epochs(self.examples_after(updates.0) as f64 / self.train_examples as f64)
    }
}

impl Plan {
    /// Examples a batch. Panics if the plan has no batch stage: check plans first.
    pub fn batch_size(&self) -> usize {
        self.pipeline.batch_size().expect("a checked plan has a batch stage")
    }

    /// How this plan's examples become updates. Panics if the plan has no batch stage: check plans first.
    pub fn pace(&self, train_examples: usize) -> Pace {
        Pace { train_examples: train_examples as u64, batch: self.batch_size() as u64 }
    }

    /// Updates of one epoch, the smaller last one included.
    pub fn updates_per_epoch(&self, train_examples: usize) -> Updates {
        Updates(self.pace(train_examples).updates_per_epoch())
    }

    /// The most updates the run can take.
    pub fn total_updates(&self, train_examples: usize) -> Updates {
        Updates(self.pace(train_examples).updates(self.run.epochs))
    }

    /// The most examples that go into updates.
    pub fn total_examples(&self, train_examples: usize) -> Examples {
        Examples(self.pace(train_examples).examples_after(self.total_updates(train_examples).0))
    }

    /// The schedule's horizon in updates.
    pub fn horizon_updates(&self, train_examples: usize) -> Updates {
        let epochs = self.schedule.horizon().unwrap_or(self.run.epochs);
        Updates(self.pace(train_examples).updates(epochs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts() {
        let pace = Pace { train_examples: 55_000, batch: 64 };
        assert_eq!((pace.updates_per_epoch(), pace.updates(2.0)), (860, 1720));
        assert_eq!((pace.examples_in(858), pace.examples_in(859), pace.examples_in(860)), (64, 24, 64));
        assert_eq!(pace.examples_after(860), 55_000);
        assert_eq!(pace.epochs_after(Updates(1720)), Epochs(2.0));
        // 0.1 + 0.2 epochs of 10 examples are 3 updates of one, whatever the sum is in binary.
        assert_eq!(Pace { train_examples: 10, batch: 1 }.updates(0.1 + 0.2), 3);
        assert_eq!(Pace { train_examples: 10, batch: 4 }.updates(1.5), 3 + 2);
    }

    proptest! {
        #[test]
        fn epochs_use_every_example(n in 1u64..5000, batch in 1u64..600, epochs in 1u64..50) {
            prop_assume!(batch <= n);
            let pace = Pace { train_examples: n, batch };
            let updates = pace.updates(epochs as f64);
            prop_assert_eq!(pace.examples_after(updates), n * epochs);
            let sum: u64 = (0..pace.updates_per_epoch()).map(|u| pace.examples_in(u)).sum();
            prop_assert_eq!(sum, n);
            prop_assert!((0..2 * pace.updates_per_epoch()).all(|u| (1..=batch).contains(&pace.examples_in(u))));
        }
    }
}
