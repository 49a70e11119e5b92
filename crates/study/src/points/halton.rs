//! Halton's sequence: dimension d counts in the d-th prime, its digits mirrored at the point.

use super::scramble::Digits;
use sooner_base::Key;

/// The first `count` primes.
fn primes(count: usize) -> Vec<u64> {
    let mut primes: Vec<u64> = Vec::with_capacity(count);
    let mut candidate = 2;
    while primes.len() < count {
        if primes.iter().take_while(|&&p| p * p <= candidate).all(|&p| candidate % p != 0) {
            primes.push(candidate);
        }
        candidate += 1;
    }
    primes
}

/// The bases of a number of dimensions, smallest first.
pub(super) struct Halton {
    bases: Vec<u64>,
}

impl Halton {
    pub(super) fn new(dims: usize) -> Halton {
        Halton { bases: primes(dims) }
    }

    /// Coordinate `dim` of point `index`, in [0, 1); `key` scrambles it.
    pub(super) fn coordinate(&self, dim: usize, index: u64, key: Option<Key>) -> f64 {
        let base = self.bases[dim];
        let digits = Digits::new(base);
        let (mut rest, mut mirrored) = (index, 0);
        for _ in 0..digits.count() {
            mirrored = mirrored * base + rest % base;
            rest /= base;
        }
        digits.fraction(mirrored, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_the_smallest_primes() {
        assert_eq!(primes(20), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71]);
    }

    #[test]
    fn plain_points_are_the_textbook_ones() {
        let halton = Halton::new(3);
        let point = |i| [0, 1, 2].map(|d| halton.coordinate(d, i, None));
        assert_eq!(point(0), [0.0; 3]);
        for (i, expected) in [
            (1, [1.0 / 2.0, 1.0 / 3.0, 1.0 / 5.0]),
            (2, [1.0 / 4.0, 2.0 / 3.0, 2.0 / 5.0]),
            (3, [3.0 / 4.0, 1.0 / 9.0, 3.0 / 5.0]),
            (6, [3.0 / 8.0, 2.0 / 9.0, 6.0 / 25.0]),
        ] {
            for (x, e) in point(i).into_iter().zip(expected) {
                assert!((x - e).abs() < 1e-15, "point {i}: {x} {e}");
            }
        }
    }
}
