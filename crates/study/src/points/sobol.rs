//! Sobol's sequence: every dimension counts in base 2, through a matrix made from a primitive polynomial. Polynomials
//! and initial numbers are those of Joe and Kuo, "Constructing Sobol sequences with better two-dimensional
//! projections", 2008, whose pairs of dimensions are even from few points on.

use super::scramble::Digits;
use sooner_base::Key;

/// Bits of the numbers: as many as `Digits` holds in base 2.
const BITS: usize = 53;

/// For each dimension from the second: the polynomial's inner coefficients as bits, and the initial numbers, whose count
/// is its degree.
const TABLE: [(u32, &[u64]); 31] = [
    (0, &[1]),
    (1, &[1, 3]),
    (1, &[1, 3, 1]),
    (2, &[1, 1, 1]),
    (1, &[1, 1, 3, 3]),
    (4, &[1, 3, 5, 13]),
    (2, &[1, 1, 5, 5, 17]),
    (4, &[1, 1, 5, 5, 5]),
    (7, &[1, 1, 7, 11, 19]),
    (11, &[1, 1, 5, 1, 1]),
    (13, &[1, 1, 1, 3, 11]),
    (14, &[1, 3, 5, 5, 31]),
    (1, &[1, 3, 3, 9, 7, 49]),
    (13, &[1, 1, 1, 15, 21, 21]),
    (16, &[1, 3, 1, 13, 27, 49]),
    (19, &[1, 1, 1, 15, 7, 5]),
    (22, &[1, 3, 1, 15, 13, 25]),
    (25, &[1, 1, 5, 5, 19, 61]),
    (1, &[1, 3, 7, 11, 23, 15, 103]),
    (4, &[1, 3, 7, 13, 13, 15, 69]),
    (7, &[1, 1, 3, 13, 7, 35, 63]),
    (8, &[1, 3, 5, 9, 1, 25, 53]),
    (14, &[1, 3, 1, 13, 9, 35, 107]),
    (19, &[1, 3, 1, 5, 27, 61, 31]),
    (21, &[1, 1, 5, 11, 19, 41, 61]),
    (28, &[1, 3, 5, 3, 3, 13, 69]),
    (31, &[1, 1, 7, 13, 1, 19, 1]),
    (32, &[1, 3, 7, 5, 13, 19, 59]),
    (37, &[1, 1, 3, 9, 25, 29, 41]),
    (41, &[1, 3, 5, 13, 23, 1, 55]),
    (42, &[1, 3, 7, 3, 13, 59, 17]),
];

/// The most dimensions.
pub(super) const MAX_DIMS: usize = TABLE.len() + 1;

/// Direction numbers of a number of dimensions.
pub(super) struct Sobol {
    /// For each dimension, what bit k of an index adds (exclusive or), as a fraction of 2^BITS.
    directions: Vec<[u64; BITS]>,
}

fn directions(dim: usize) -> [u64; BITS] {
    if dim == 0 {
        return std::array::from_fn(|k| 1 << (BITS - 1 - k));
    }
    let (inner, initial) = TABLE[dim - 1];
    let degree = initial.len();
    let mut m = [0u64; BITS];
    m[..degree].copy_from_slice(initial);
    for k in degree..BITS {
        m[k] = m[k - degree] ^ (m[k - degree] << degree);
        for j in 1..degree {
            let coefficient = u64::from(inner >> (degree - 1 - j) & 1);
            m[k] ^= coefficient * (m[k - j] << j);
        }
    }
    std::array::from_fn(|k| m[k] << (BITS - 1 - k))
}

impl Sobol {
    /// Panics for more than `MAX_DIMS`.
    pub(super) fn new(dims: usize) -> Sobol {
        Sobol { directions: (0..dims).map(directions).collect() }
    }

    /// Coordinate `dim` of point `index`, in [0, 1); `key` scrambles it.
    pub(super) fn coordinate(&self, dim: usize, index: u64, key: Option<Key>) -> f64 {
        let set = self.directions[dim].iter().enumerate().filter(|&(k, _)| index >> k & 1 == 1);
        let numerator = set.fold(0, |sum, (_, direction)| sum ^ direction);
        Digits::new(2).fraction(numerator, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether x generates all 2^degree - 1 residues modulo the polynomial over two elements.
    fn is_primitive(polynomial: u64, degree: usize) -> bool {
        let (mut power, mut order) = (1u64, 0u64);
        loop {
            power <<= 1;
            if power >> degree & 1 == 1 {
                power ^= polynomial;
            }
            order += 1;
            if power == 1 || order >> degree != 0 {
                return power == 1 && order == (1 << degree) - 1;
            }
        }
    }

    #[test]
    fn the_table_is_lawful() {
        let mut seen = std::collections::HashSet::new();
        for (inner, initial) in TABLE {
            let degree = initial.len();
            let polynomial = 1 << degree | u64::from(inner) << 1 | 1;
            assert!(is_primitive(polynomial, degree), "{polynomial:b}");
            assert!(seen.insert(polynomial), "{polynomial:b} twice");
            for (k, m) in initial.iter().enumerate() {
                assert!(m % 2 == 1 && m >> (k + 1) == 0, "{m} at {k}");
            }
        }
        assert!(!is_primitive(0b11111, 4) && !is_primitive(0b101, 2));
    }

    #[test]
    fn plain_points_are_the_textbook_ones() {
        let sobol = Sobol::new(4);
        let point = |i| [0, 1, 2, 3].map(|d| sobol.coordinate(d, i, None));
        assert_eq!(point(0), [0.0; 4]);
        assert_eq!(point(1), [0.5; 4]);
        assert_eq!(point(2), [0.25, 0.75, 0.75, 0.75]);
        assert_eq!(point(3), [0.75, 0.25, 0.25, 0.25]);
        assert_eq!(point(4), [0.125, 0.625, 0.375, 0.125]);
    }

    #[test]
    fn pairs_of_dimensions_are_nets() {
        // The first 256 points, of any pair of the first ten dimensions, leave no box of 4 x 4 far from its 16 points.
        let sobol = Sobol::new(10);
        for a in 0..10 {
            for b in 0..a {
                let mut counts = [0; 16];
                for i in 0..256 {
                    let [x, y] = [a, b].map(|d| (sobol.coordinate(d, i, None) * 4.0) as usize);
                    counts[4 * x + y] += 1;
                }
                assert!(counts.iter().all(|&n| n == 16), "dimensions {a} and {b}: {counts:?}");
            }
        }
    }
}
