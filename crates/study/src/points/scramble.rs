//! Nested uniform scrambling of digits (Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences", 1995): each digit
//! is permuted by a permutation that depends on all digits before it. Every point becomes uniform on the unit
//! interval, every stratum keeps its share of points, and different dimensions lose what makes plain sequences
//! correlated. A permutation is computed when needed, so a point depends on nothing but its own index.

use sooner_base::{Key, Permutation};

/// Digits after the point in some base, as a fraction.
pub(super) struct Digits {
    base: u64,
    /// The most digits whose fractions are exact in a double.
    count: u32,
}

impl Digits {
    pub(super) fn new(base: u64) -> Digits {
        let mut count = 0;
        while base.pow(count + 1) <= 1 << 53 {
            count += 1;
        }
        Digits { base, count }
    }

    /// How many digits there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The fraction in [0, 1) whose digits are those of `numerator` / base^count, the most significant first, scrambled
    /// by `key` if there is one.
    pub(super) fn fraction(&self, numerator: u64, key: Option<Key>) -> f64 {
        let whole = self.base.pow(self.count);
        let Some(key) = key else { return numerator as f64 / whole as f64 };
        let mut place = whole;
        let mut scrambled = 0;
        for position in 0..self.count {
            // The digits before this one, as a number: they choose the permutation.
            let before = numerator / place;
            place /= self.base;
            let digit = numerator / place % self.base;
            let prefix = if position == 0 { 0 } else { before };
            let permutation = Permutation::new(key.derive(prefix), position, self.base);
            scrambled = scrambled * self.base + permutation.get(digit);
        }
        scrambled as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    #[test]
    fn each_base_has_its_own_number_of_digits() {
        // One count for all bases would leave large bases imprecise or overflow small ones.
        let counts = [2, 3, 5, 7, 71, 97].map(|base| Digits::new(base).count());
        assert_eq!(counts, [53, 33, 22, 18, 8, 8]);
        for base in [2u64, 3, 5, 71] {
            let digits = Digits::new(base);
            assert!(base.pow(digits.count()) <= 1 << 53 && base.pow(digits.count() + 1) > 1 << 53);
        }
    }

    #[test]
    fn scrambling_is_a_bijection_that_keeps_strata() {
        let key = Seed(5).key(Purpose::Study, 0);
        for base in [2u64, 3, 7] {
            let digits = Digits::new(base);
            let (strata, whole) = (base.pow(3), base.pow(digits.count()));
            let mut seen = vec![false; strata as usize];
            for stratum in 0..strata {
                let low = digits.fraction(stratum * (whole / strata), Some(key));
                let high = digits.fraction((stratum + 1) * (whole / strata) - 1, Some(key));
                let image = (low * strata as f64) as usize;
                assert_eq!(image, (high * strata as f64) as usize, "a stratum was torn apart");
                assert!(!std::mem::replace(&mut seen[image], true), "two strata fell together");
                assert!((0.0..1.0).contains(&low) && (0.0..1.0).contains(&high));
            }
        }
    }

    #[test]
    fn a_scrambled_point_is_uniform_over_seeds() {
        let digits = Digits::new(3);
        let n = 4000;
        let mut counts = [0.0f64; 10];
        for seed in 0..n {
            let x = digits.fraction(12_345, Some(Seed(seed).key(Purpose::Study, 1)));
            counts[(x * 10.0) as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|c| (c - 400.0).powi(2) / 400.0).sum();
        assert!(chi < 9.0 + 6.0 * 18f64.sqrt(), "chi squared {chi} of 9 degrees of freedom");
    }
}
