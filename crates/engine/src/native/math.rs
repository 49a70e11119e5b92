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

/// x P(x) with the normal distribution function P, off by less than 6e-7 max(1, |x P(x)|).
///
/// It is max(x, 0) - z Q(z) with z = |x| and Q(z) = 1 - P(z) = 1/2 - z q(z^2): what is taken off never grows, and no digits
/// cancel near 0. Beyond the range z Q(z) is below 4e-7 and kept at its value there. `FUSED`: see `multiversion`.
#[inline(always)]
pub(crate) fn gelu<const FUSED: bool>(x: f32) -> f32 {
    // q over the range, fitted for the least greatest error of z^2 q.
    const Q: [f32; 15] = [
        1.951_100_6e-4,
        -6.178_292_7e-4,
        7.947_962e-4,
        -1.148_633e-3,
        2.747_225_3e-3,
        -5.331_749e-3,
        8.496_078e-3,
        -0.012_834_435,
        0.018_517_753,
        -0.025_027_584,
        0.032_033_976,
        -0.039_764_877,
        0.049_645_677,
        -0.067_126_77,
        0.134_659_35,
    ];
    const RANGE: f32 = 5.25;
    let z = within(x.abs(), RANGE);
    let tail = z * fma::<FUSED>(-z, even::<FUSED, 15>(&Q, z, RANGE), 0.5);
    let positive = if x <= 0.0 { 0.0 } else { x };
    positive - tail
}

/// The slope of [`gelu`], P(x) + x p(x) with the normal density p, off by less than 4e-7: 1/2 + x s(x^2).
#[inline(always)]
pub(crate) fn gelu_slope<const FUSED: bool>(x: f32) -> f32 {
    // s over the range, fitted for the least greatest error of x s.
    const S: [f32; 17] = [
        5.264_953e-3,
        -0.012_747_566,
        4.631_675e-3,
        2.958_737e-4,
        0.026_280_802,
        -0.049_489_05,
        0.047_414_15,
        -0.052_069_157,
        0.067_546_3,
        -0.072_642_21,
        0.067_183_45,
        -0.059_215_654,
        0.051_657_777,
        -0.047_314_893,
        0.049_369_31,
        -0.062_281_005,
        0.123_071_81,
    ];
    const RANGE: f32 = 5.75;
    let z = within(x.abs(), RANGE);
    let above = z * even::<FUSED, 17>(&S, z, RANGE);
    0.5 + above.copysign(x)
}

/// The smaller of z and the end of the range; NaN stays NaN.
#[inline(always)]
fn within(z: f32, range: f32) -> f32 {
    if z > range { range } else { z }
}

/// A polynomial in 2 (z / range)^2 - 1, highest power first: z^2 itself would have powers that cancel each other.
#[inline(always)]
fn even<const FUSED: bool, const N: usize>(coefficients: &[f32; N], z: f32, range: f32) -> f32 {
    let at = fma::<FUSED>(z * z, 2.0 / (range * range), -1.0);
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = fma::<FUSED>(sum, at, *c);
    }
    sum
}

/// a b + c, rounded once if `FUSED`.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over a fine grid, the largest difference as a share of `size`.
    fn worst(f: fn(f32) -> f32, exact: impl Fn(f64) -> f64, size: fn(f64) -> f64, range: f32) -> f64 {
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
        let normal = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
        let exact_gelu = move |x: f64| x * normal(x);
        let exact_slope =
            move |x: f64| normal(x) + x * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let from_one = |v: f64| v.abs().max(1.0);
        let checks = [
            ("exp", worst(exp, f64::exp, relative, 80.0), 3e-7),
            ("exp_m1", worst(exp_m1, f64::exp_m1, relative, 3.0), 4e-7),
            ("tanh", worst(tanh, f64::tanh, relative, 10.0), 6e-7),
            ("sigmoid", worst(sigmoid, exact_sigmoid, relative, 20.0), 4e-7),
            ("gelu", worst(gelu::<false>, exact_gelu, from_one, 8.0), 6e-7),
            ("gelu, fused", worst(gelu::<true>, exact_gelu, from_one, 8.0), 6e-7),
            ("slope of gelu", worst(gelu_slope::<false>, exact_slope, absolute, 8.0), 4e-7),
            ("slope of gelu, fused", worst(gelu_slope::<true>, exact_slope, absolute, 8.0), 4e-7),
        ];
        for (name, found, bound) in checks {
            assert!(found < bound, "{name} is off by {found}");
        }
    }

    #[test]
    fn far_out_and_nan() {
        let bounded = [exp, exp_m1, tanh, sigmoid, gelu_slope::<false>, gelu_slope::<true>];
        for f in bounded.into_iter().chain([gelu::<false>, gelu::<true>]) {
            assert!(f(f32::NAN).is_nan());
        }
        for f in bounded {
            assert!([-1e30, 1e30, f32::INFINITY, f32::NEG_INFINITY].iter().all(|x| f(*x).is_finite()));
        }
        assert_eq!([tanh(-1e30), tanh(1e30), sigmoid(1e30)], [-1.0, 1.0, 1.0]);
        assert!(sigmoid(-1e30) < 1e-37 && exp(-1e30) < 1e-37);
        for far in [10.0, 1e30, f32::INFINITY] {
            assert!(gelu::<true>(far) == far || far - gelu::<true>(far) < 1e-6);
            assert!(gelu::<true>(-far).abs() < 1e-6);
            assert!((gelu_slope::<true>(far) - 1.0).abs() < 4e-7 && gelu_slope::<true>(-far).abs() < 4e-7);
        }
    }
}
