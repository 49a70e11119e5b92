//! Functions of single numbers that the compiler can turn into vectors: no table, no branch, no library call.

/// Where the exponential is cut off: results beyond would not be normal numbers.
const RANGE: [f32; 2] = [-87.0, 88.0];

/// e^x, to about two units in the last place; the nearest value of the range outside it. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln(2) / 2. Adding 1.5 2^23 rounds n to a whole number, which then stands in the low
    // bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with so few bits that n times it is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x < RANGE[0] { RANGE[0] } else { x };
    let x = if x > RANGE[1] { RANGE[1] } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    (1.0 + r * series(r)) * power
}

/// (e^r - 1) / r for |r| below 0.35, by its Taylor series: 8 terms leave less than 1e-8.
#[inline(always)]
fn series(r: f32) -> f32 {
    const C: [f32; 7] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];
    let mut sum = 1.0 / 40_320.0;
    for c in C {
        sum = sum * r + c;
    }
    sum
}

/// e^x - 1 without cancellation near 0.
#[inline(always)]
pub(crate) fn exp_m1(x: f32) -> f32 {
    let near = x * series(x);
    let far = exp(x) - 1.0;
    if x.abs() < 0.3 { near } else { far }
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    // Taylor's series near 0, where the quotient would cancel; its next term is below 1e-8 of the first.
    let square = x * x;
    let near = x
        * (1.0
            + square
                * (-1.0 / 3.0 + square * (2.0 / 15.0 + square * (-17.0 / 315.0 + square * (62.0 / 2835.0)))));
    let far = 1.0 - 2.0 / (exp(2.0 * x) + 1.0);
    if x.abs() < 0.25 { near } else { far }
}

/// The normal distribution: the share below x, and the density at x. The share is off by less than 4e-7
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, formula 7.1.26).
#[inline(always)]
pub(crate) fn normal(x: f32) -> [f32; 2] {
    const A: [f32; 4] = [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let mut sum = 1.061_405_4;
    for a in A {
        sum = sum * t + a;
    }
    let bell = exp(-0.5 * x * x);
    let above = 0.5 * sum * t * bell;
    let below = if x > 0.0 { 1.0 - above } else { above };
    [below, bell * 0.398_942_3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over a fine grid, the largest difference as a share of `size`.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64, size: fn(f64) -> f64, range: f32) -> f64 {
        let steps = 200_000;
        let at = |i: i32| range * i as f32 / steps as f32;
        let off = |x: f32| (f64::from(f(x)) - exact(f64::from(x))).abs() / size(exact(f64::from(x)));
        (-steps..=steps).map(|i| off(at(i))).fold(0.0, |a: f64, b| if b.is_nan() || b > a { b } else { a })
    }

    #[test]
    fn functions_are_near_the_exact_ones() {
        let relative = |v: f64| v.abs().max(1e-30);
        let absolute = |_: f64| 1.0;
        let exact_sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let exact_normal = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
        let checks = [
            ("exp", worst(exp, f64::exp, relative, 80.0), 3e-7),
            ("exp_m1", worst(exp_m1, f64::exp_m1, relative, 3.0), 4e-7),
            ("tanh", worst(tanh, f64::tanh, relative, 10.0), 6e-7),
            ("sigmoid", worst(sigmoid, exact_sigmoid, relative, 20.0), 4e-7),
            ("normal", worst(|x| normal(x)[0], exact_normal, absolute, 8.0), 4e-7),
        ];
        for (name, found, bound) in checks {
            assert!(found < bound, "{name} is off by {found}");
        }
    }

    #[test]
    fn far_out_and_nan() {
        for f in [exp, exp_m1, tanh, sigmoid, |x| normal(x)[0], |x| normal(x)[1]] {
            assert!(f(f32::NAN).is_nan());
            assert!([-1e30, 1e30, f32::INFINITY, f32::NEG_INFINITY].iter().all(|x| f(*x).is_finite()));
        }
        assert_eq!([tanh(-1e30), tanh(1e30), sigmoid(1e30), normal(1e30)[0]], [-1.0, 1.0, 1.0, 1.0]);
        assert!(sigmoid(-1e30) < 1e-37 && exp(-1e30) < 1e-37 && normal(-1e30)[0] < 1e-37);
    }
}
