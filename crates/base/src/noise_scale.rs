//! The gradient noise scale: the batch size at which a gradient's noise equals its signal, from squared norms of gradients
//! at two batch sizes (McCandlish, Kaplan, Amodei and others, 2018, appendix A). It estimates the critical batch size
//! without a search.

use serde::{Deserialize, Serialize};

/// Unbiased estimates from one update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoisePair {
    /// Squared norm of the true gradient. A single estimate may be negative.
    pub signal: f64,
    /// Trace of the covariance of one example's gradient. A single estimate may be negative.
    pub noise: f64,
}

/// Mean squared norm of a gradient averaged over a number of examples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SquaredNorm {
    /// Examples averaged over.
    pub batch: f64,
    /// The squared norm; of several gradients of this size in the same update, the mean.
    pub value: f64,
}

/// The estimates from squared norms at two batch sizes. Panics if the sizes are not 0 < small < big.
pub fn noise_pair(small: SquaredNorm, big: SquaredNorm) -> NoisePair {
    assert!(0.0 < small.batch && small.batch < big.batch, "batches of {} and {}", small.batch, big.batch);
    // E value = signal + noise / batch at either size: two equations for two unknowns.
    NoisePair {
        signal: (big.batch * big.value - small.batch * small.value) / (big.batch - small.batch),
        noise: (small.value - big.value) / (1.0 / small.batch - 1.0 / big.batch),
    }
}

/// Running estimate: each part is averaged by itself, with exponentially falling weights, and only the averages are
/// divided, since the ratio of single estimates is badly biased.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseScale {
    decay: f64,
    weight: f64,
    sum: NoisePair,
}

impl NoiseScale {
    /// `decay` is the share of the old average that each pair leaves, in [0, 1); 0.99 averages over about 100 updates.
    /// Panics outside of that.
    pub fn new(decay: f64) -> NoiseScale {
        assert!((0.0..1.0).contains(&decay), "decay {decay} outside [0, 1)");
        NoiseScale { decay, weight: 0.0, sum: NoisePair { signal: 0.0, noise: 0.0 } }
    }

    /// Takes in one update's estimates. Those that are not finite are left out, as diverging runs have them.
    pub fn push(&mut self, pair: NoisePair) {
        if pair.signal.is_finite() && pair.noise.is_finite() {
            let average = |old: f64, new: f64| self.decay * old + (1.0 - self.decay) * new;
            self.sum = NoisePair {
                signal: average(self.sum.signal, pair.signal),
                noise: average(self.sum.noise, pair.noise),
            };
            self.weight = average(self.weight, 1.0);
        }
    }

    /// The averages so far; the first pairs are not pulled to 0. `None` before the first.
    pub fn pair(&self) -> Option<NoisePair> {
        let NoisePair { signal, noise } = self.sum;
        (self.weight > 0.0).then(|| NoisePair { signal: signal / self.weight, noise: noise / self.weight })
    }

    /// Noise over signal, in examples. `None` while there is no estimate, or the averages are not yet positive.
    pub fn value(&self) -> Option<f64> {
        let pair = self.pair()?;
        (pair.signal > 0.0 && pair.noise > 0.0).then(|| pair.noise / pair.signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Rng, Seed};

    #[test]
    fn expectations_give_the_parts_back() {
        let norm = |batch| SquaredNorm { batch, value: 3.0 + 40.0 / batch };
        let pair = noise_pair(norm(8.0), norm(64.0));
        assert!((pair.signal - 3.0).abs() < 1e-12 && (pair.noise - 40.0).abs() < 1e-12);
    }

    #[test]
    fn sampled_gradients_give_the_scale() {
        // Ten dimensions, gradient 0.2 in each, noise of sd 2 in each: signal 0.4, noise 40, scale 100.
        let gradient = |rng: &mut Rng, batch: f64| -> [f64; 10] {
            std::array::from_fn(|_| 0.2 + 2.0 / batch.sqrt() * rng.normal())
        };
        let squared = |g: [f64; 10]| g.iter().map(|x| x * x).sum::<f64>();
        let mut scale = NoiseScale::new(0.9995);
        assert_eq!((scale.value(), scale.pair()), (None, None));
        for update in 0..6000 {
            let mut rng = Seed(5).key(Purpose::Study, 77).at(0, update, 0);
            // Four replicas of 16 examples; their mean is the gradient of 64.
            let parts = [(); 4].map(|_| gradient(&mut rng, 16.0));
            let whole: [f64; 10] = std::array::from_fn(|i| parts.iter().map(|p| p[i]).sum::<f64>() / 4.0);
            let small = parts.map(squared).iter().sum::<f64>() / 4.0;
            let big = SquaredNorm { batch: 64.0, value: squared(whole) };
            scale.push(noise_pair(SquaredNorm { batch: 16.0, value: small }, big));
        }
        let value = scale.value().unwrap();
        assert!((value / 100.0 - 1.0).abs() < 0.15, "{value}");
    }

    #[test]
    fn the_first_pair_counts_in_full_and_nonsense_not_at_all() {
        let mut scale = NoiseScale::new(0.99);
        scale.push(NoisePair { signal: f64::NAN, noise: 1.0 });
        assert_eq!(scale.pair(), None);
        scale.push(NoisePair { signal: 2.0, noise: 30.0 });
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(scale.value().unwrap(), 15.0));
        scale.push(NoisePair { signal: -9.0, noise: 30.0 });
        assert_eq!(scale.value(), None, "a negative signal is no scale");
        scale.push(NoisePair { signal: f64::INFINITY, noise: 1.0 });
        assert!(close(scale.pair().unwrap().noise, 30.0));
    }
}
