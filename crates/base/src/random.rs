//! Counter-based random numbers: every draw is a pure function of (seed, purpose, salt, epoch, example index, echo
//! index), so no generator is shared, and neither thread counts nor the order of work can change a value.
//!
//! The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).

use serde::{Deserialize, Serialize};

/// The seed of a run; everything random in it derives from this one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

/// What a stream of random numbers is for. Streams of different purposes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Initial values of parameters; the salt tells parameters apart.
    Init,
    /// Order of examples within an epoch.
    Shuffle,
    /// Augmentation choices; the salt is the stage's position in the plan.
    Augment,
    /// Fractional echo factors and the order of echoed examples.
    Echo,
    /// Dropout masks; the salt tells layers apart.
    Dropout,
    /// Data drawn by code.
    Synthesis,
    /// Search spaces and resampling in studies.
    Study,
    /// Which examples of a batch an update is made of.
    Select,
}

/// A key derived from a seed, a purpose and a salt; gives a generator for any coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

/// SplitMix64's finaliser: a bijection of u64 in which every input bit affects every output bit.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// The key of one purpose. Keys of different (seed, purpose, salt) triples are unrelated.
    pub fn key(self, purpose: Purpose, salt: u64) -> Key {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let purpose = purpose as u64 + 1;
        Key(mix(mix(mix(self.0.wrapping_add(STEP)) ^ purpose.wrapping_mul(STEP)) ^ salt.wrapping_mul(STEP)))
    }
}

impl Key {
    /// A key for one item of this key's kind, for example one stage of several of the same purpose.
    pub fn derive(self, salt: u64) -> Key {
        Key(mix(self.0 ^ mix(salt.wrapping_add(0x9e37_79b9_7f4a_7c15))))
    }

    /// The generator at one coordinate. Indices beyond 2^32 are folded into the key.
    pub fn at(self, epoch: u32, index: u64, echo: u32) -> Rng {
        let high = index >> 32;
        let key = if high == 0 { self } else { self.derive(high) };
        Rng { key: key.0, counter: [0, echo, epoch, index as u32], block: [0; 4], used: 4 }
    }

    /// The 64 bits of this key, for mixing into other keyed functions.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

/// A stream of random numbers at one coordinate: 2^34 draws, then it repeats.
#[derive(Debug, Clone)]
pub struct Rng {
    key: u64,
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Rng {
    /// 32 uniform bits.
    #[inline]
    pub fn u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox(self.counter, [self.key as u32, (self.key >> 32) as u32]);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// 64 uniform bits.
    #[inline]
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Uniform in [0, 1), a multiple of 2^-24.
    #[inline]
    pub fn f32(&mut self) -> f32 {
        (self.u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    #[inline]
    pub fn f64(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in [low, high).
    pub fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.f32()
    }

    /// Uniform in 0..n without bias (Lemire's multiply-and-reject). Panics if n is 0.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "below(0) has no value to return");
        let mut product = u64::from(self.u32()) * u64::from(n);
        if (product as u32) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u32) < threshold {
                product = u64::from(self.u32()) * u64::from(n);
            }
        }
        (product >> 32) as u32
    }

    /// True with probability one half.
    #[inline]
    pub fn coin(&mut self) -> bool {
        self.u32() >> 31 == 1
    }

    /// A standard normal value (Box and Muller's transform, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.f64()).cos()
    }
}

#[inline]
fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
        }
        let a = u64::from(c[0]) * 0xd251_1f53;
        let b = u64::from(c[2]) * 0xcd9e_8d57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_known_answers() {
        // Known-answer vectors published with the paper's Random123 library.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn coordinates_are_independent() {
        // `seed + epoch` in other loaders makes (s, e + 1) equal (s + 1, e); here no two coordinates may agree.
        let mut seen = std::collections::HashSet::new();
        for seed in 0..8 {
            for purpose in [Purpose::Shuffle, Purpose::Augment, Purpose::Echo] {
                for salt in 0..3 {
                    let key = Seed(seed).key(purpose, salt);
                    for epoch in 0..6 {
                        for index in [0, 1, 2, u64::from(u32::MAX) + 1] {
                            for echo in 0..2 {
                                assert!(seen.insert(key.at(epoch, index, echo).u64()));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = Seed(3).key(Purpose::Study, 0).at(0, 0, 0);
        for n in [1u32, 2, 3, 7, 9, 100] {
            let mut counts = vec![0f64; n as usize];
            let draws = 1000 * n;
            for _ in 0..draws {
                counts[rng.below(n) as usize] += 1.0;
            }
            // Chi-squared with n - 1 degrees of freedom: mean n - 1, sd sqrt(2 (n - 1)); six sd is far out.
            let chi: f64 = counts.iter().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
            let freedom = f64::from(n) - 1.0;
            assert!(chi <= freedom + 6.0 * (2.0 * freedom).sqrt() + 1e-9, "n {n} chi {chi}");
        }
    }

    #[test]
    fn normal_has_unit_moments() {
        let mut rng = Seed(9).key(Purpose::Init, 4).at(0, 0, 0);
        let n = 40_000;
        let values: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let var = values.iter().map(|v| v * v).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
    }
}
