//! How examples become updates: one batch an update, the smaller last batch of an epoch kept or dropped, and what an echo
//! stage of a fixed factor adds.

use crate::{EchoFactor, LastBatch, Plan, echoed};
use sooner_base::{Epochs, Examples, FreshExamples, Updates};

/// How many examples there are, how many are a batch, and how often they are used. Everything here is exact integer
/// arithmetic but for factors with fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Examples of the training split, at least 1.
    pub train_examples: u64,
    /// Examples a batch, at least 1.
    pub batch: u64,
    /// How often each is used, 1 or more.
    pub echo: Echo,
    /// What becomes of what does not fill a batch.
    pub last: LastBatch,
}

/// What an echo stage of a fixed factor repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Echo {
    /// There is none, or one whose repeats depend on time (`auto`) and are not counted on.
    None,
    /// Each example so often.
    Examples(f64),
    /// Each batch so often.
    Batches(f64),
}

impl Pace {
    /// Examples that one epoch's updates use, where no batch is repeated.
    fn epoch_examples(&self) -> u64 {
        let examples = match self.echo {
            Echo::Examples(factor) => echoed(self.train_examples, factor),
            Echo::None | Echo::Batches(_) => self.train_examples,
        };
        self.last.held(examples, self.batch)
    }

    /// Updates of one epoch; one of them may be a smaller one, or several where it is repeated.
    pub fn updates_per_epoch(&self) -> u64 {
        let batches = self.epoch_examples().div_ceil(self.batch);
        match self.echo {
            Echo::Batches(factor) => echoed(batches, factor),
            Echo::None | Echo::Examples(_) => batches,
        }
    }

    /// Updates of so many epochs; a fraction counts in whole examples, rounded to the nearest.
    pub fn updates(&self, epochs: f64) -> u64 {
        let whole = epochs.floor();
        let rest = ((epochs - whole) * self.epoch_examples() as f64).round() as u64;
        let batches = rest.div_ceil(self.batch);
        let rest = match self.echo {
            Echo::Batches(factor) => ((batches as f64 * factor).ceil() as u64).min(self.updates_per_epoch()),
            Echo::None | Echo::Examples(_) => batches,
        };
        whole as u64 * self.updates_per_epoch() + rest
    }

    /// The sizes that batches have: the plan's, or all examples where they are fewer, and the smaller last one's.
    pub fn batch_sizes(&self) -> Vec<u64> {
        let examples = self.epoch_examples();
        let mut sizes = vec![self.batch.min(examples)];
        let rest = examples % self.batch;
        if rest > 0 && rest != sizes[0] {
            sizes.push(rest);
        }
        sizes
    }

    /// Examples that the first so many updates use, repeats included. Inside an epoch of repeated batches it is what
    /// they use on average: only the pipeline knows which of them is the smaller one.
    pub fn examples_after(&self, updates: u64) -> u64 {
        let per_epoch = self.updates_per_epoch();
        let (epochs, rest) = (updates / per_epoch, updates % per_epoch);
        match self.echo {
            Echo::Batches(factor) => {
                let examples = self.epoch_examples() as f64 * factor;
                let within = (examples * (rest as f64 / per_epoch as f64)).round();
                epochs * examples.round() as u64 + within as u64
            }
            Echo::None | Echo::Examples(_) => epochs * self.epoch_examples() + rest * self.batch,
        }
    }

    /// Examples of the update of this number, counted from 0.
    pub fn examples_in(&self, update: u64) -> u64 {
        self.examples_after(update + 1) - self.examples_after(update)
    }

    /// Passes over the training split after the first so many updates; dropped examples count as passed.
    pub fn epochs_after(&self, updates: Updates) -> Epochs {
        let factor = match self.echo {
            Echo::Batches(factor) => factor * self.epoch_examples() as f64,
            Echo::None | Echo::Examples(_) => self.epoch_examples() as f64,
        };
        Epochs(self.examples_after(updates.0) as f64 / factor)
    }
}

impl Plan {
    /// Examples a batch. Panics if the plan has no batch stage: check plans first.
    pub fn batch_size(&self) -> usize {
        self.pipeline.batch_size().expect("a checked plan has a batch stage")
    }

    /// How this plan's examples become updates. Panics if the plan has no batch stage: check plans first.
    pub fn pace(&self, train_examples: usize) -> Pace {
        let echo = match self.pipeline.echo() {
            None => Echo::None,
            Some((plan, batched)) => match plan.fixed() {
                None => Echo::None,
                Some(factor) if batched => Echo::Batches(factor),
                Some(factor) => Echo::Examples(factor),
            },
        };
        let (batch, last) = (self.batch_size() as u64, self.pipeline.last_batch);
        Pace { train_examples: train_examples as u64, batch, echo, last }
    }

    /// With `echo = "auto"`, the most uses of one example: how many updates a run takes then depends on time, and its
    /// lengths are counted in fresh examples. None otherwise.
    pub fn most_uses(&self) -> Option<u32> {
        match self.pipeline.echo()?.0.factor {
            EchoFactor::Auto { max } => Some(max),
            EchoFactor::Fixed(_) => None,
        }
    }

    /// Fresh examples of so many epochs, rounded to the nearest.
    pub fn fresh_of(&self, epochs: f64, train_examples: usize) -> FreshExamples {
        FreshExamples((epochs * train_examples as f64).round() as u64)
    }

    /// Fresh examples until the schedule's horizon.
    pub fn horizon_fresh(&self, train_examples: usize) -> FreshExamples {
        self.fresh_of(self.schedule.horizon().unwrap_or(self.run.epochs), train_examples)
    }

    /// Updates of one epoch, the smaller last one included.
    pub fn updates_per_epoch(&self, train_examples: usize) -> Updates {
        Updates(self.pace(train_examples).updates_per_epoch())
    }

    /// The most updates the run can take; with `echo = "auto"` those that it takes if nothing is repeated.
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

    const KEEP: LastBatch = LastBatch::Keep;

    #[test]
    fn counts() {
        let pace = Pace { train_examples: 55_000, batch: 64, echo: Echo::None, last: KEEP };
        assert_eq!((pace.updates_per_epoch(), pace.updates(2.0)), (860, 1720));
        assert_eq!((pace.examples_in(858), pace.examples_in(859), pace.examples_in(860)), (64, 24, 64));
        assert_eq!(pace.examples_after(860), 55_000);
        assert_eq!(pace.epochs_after(Updates(1720)), Epochs(2.0));
        // 0.1 + 0.2 epochs of 10 examples are 3 updates of one, whatever the sum is in binary.
        assert_eq!(Pace { train_examples: 10, batch: 1, echo: Echo::None, last: KEEP }.updates(0.1 + 0.2), 3);
        assert_eq!(Pace { train_examples: 10, batch: 4, echo: Echo::None, last: KEEP }.updates(1.5), 3 + 2);
    }

    #[test]
    fn what_fills_no_batch_is_dropped() {
        let pace = |echo| Pace { train_examples: 100, batch: 32, echo, last: LastBatch::Drop };
        let none = pace(Echo::None);
        assert_eq!((none.updates_per_epoch(), none.updates(2.0), none.updates(1.5)), (3, 6, 5));
        assert_eq!((none.examples_after(3), none.examples_in(2), none.examples_after(6)), (96, 32, 192));
        assert_eq!((none.epochs_after(Updates(6)), none.batch_sizes()), (Epochs(2.0), vec![32]));
        // 250 uses are 7 batches and 26 examples.
        let examples = pace(Echo::Examples(2.5));
        assert_eq!((examples.updates_per_epoch(), examples.examples_after(14)), (7, 448));
        let batches = pace(Echo::Batches(2.0));
        assert_eq!((batches.updates_per_epoch(), batches.examples_after(12)), (6, 384));
        assert_eq!((batches.epochs_after(Updates(12)), batches.batch_sizes()), (Epochs(2.0), vec![32]));
        let full = Pace { train_examples: 96, last: KEEP, ..none };
        assert_eq!(full.examples_after(50), none.examples_after(50));
    }

    #[test]
    fn echo_makes_more_updates_of_the_same_examples() {
        let pace = |echo| Pace { train_examples: 100, batch: 32, echo, last: KEEP };
        let examples = pace(Echo::Examples(2.5));
        assert_eq!((examples.updates_per_epoch(), examples.updates(3.0), examples.updates(0.5)), (8, 24, 4));
        assert_eq!((examples.examples_after(8), examples.epochs_after(Updates(16))), (250, Epochs(2.0)));
        assert_eq!(examples.batch_sizes(), [32, 26]);
        let batches = pace(Echo::Batches(2.5));
        assert_eq!((batches.updates_per_epoch(), batches.updates(3.0), batches.updates(0.5)), (10, 30, 5));
        assert_eq!((batches.examples_after(10), batches.epochs_after(Updates(10))), (250, Epochs(1.0)));
        assert_eq!(batches.batch_sizes(), [32, 4]);
        assert_eq!(pace(Echo::None), Pace { train_examples: 100, batch: 32, echo: Echo::None, last: KEEP });
        assert_eq!(pace(Echo::Examples(1.0)).updates(2.3), pace(Echo::None).updates(2.3));
    }

    proptest! {
        #[test]
        fn epochs_use_every_example(n in 1u64..5000, batch in 1u64..600, epochs in 1u64..50) {
            prop_assume!(batch <= n);
            let pace = Pace { train_examples: n, batch, echo: Echo::None, last: KEEP };
            let updates = pace.updates(epochs as f64);
            prop_assert_eq!(pace.examples_after(updates), n * epochs);
            let sum: u64 = (0..pace.updates_per_epoch()).map(|u| pace.examples_in(u)).sum();
            prop_assert_eq!(sum, n);
            prop_assert!((0..2 * pace.updates_per_epoch()).all(|u| (1..=batch).contains(&pace.examples_in(u))));
        }
    }
}
