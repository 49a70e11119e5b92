//! What every other crate of `sooner` shares: seeds and counter-based random numbers, keyed permutations, units,
//! shapes, batches, clocks and statistics. **Invariant:** no I/O and no knowledge of models, data formats or plans.

mod batch;
mod clock;
mod noise_scale;
mod permutation;
mod random;
mod shape;
mod stats;
mod units;

pub use batch::{Batch, Mix, Origin};
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use noise_scale::{NoisePair, NoiseScale, SquaredNorm, noise_pair};
pub use permutation::Permutation;
pub use random::{Key, Purpose, Rng, Seed};
pub use shape::Shape;
pub use stats::{StageStats, mean, median, sample_sd};
pub use units::{Bytes, Epochs, Examples, FreshExamples, Seconds, Updates};
