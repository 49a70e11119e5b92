//! The transforms of F(4x4, 3x3) at the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, 2016): along one dimension
//! of six values to six (input, B^T), six to four (output, A^T), four to six (output gradient, A), three to six
//! (filter, G) and six to three (filter gradient, G^T); along two by doing both dimensions one after the other. Lanes
//! are channels.
//!
//! F(2x2, 5x5) has the same points and so the same B^T: its filters have powers of the points up to the fourth, its results
//! up to the first.

#![allow(unsafe_code)]

use crate::native::simd::Simd;

/// Points along one dimension, and in a plane.
pub(super) const SIDE: usize = 6;
pub(super) const POINTS: usize = SIDE * SIDE;
/// Results of a tile along one dimension.
pub(super) const STEP: usize = 4;
/// Points of a short tile, which has one result less: all but -2.
pub(super) const SHORT: usize = SIDE - 1;
/// Which of the points a short tile has no values at.
pub(super) const LEFT_OUT: usize = 4;

/// A transform along one dimension. A trait and no closure, because a closure that is handed on would stay a function of
/// its own, compiled without the instruction set.
pub(super) trait Line<const FROM: usize, const TO: usize> {
    fn line<S: Simd>(x: [S::V; FROM]) -> [S::V; TO];
}

/// Transforms a plane by the same in both dimensions. `load` and `store` get row and column.
///
/// # Safety
/// The caller is compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn square<S: Simd, L: Line<FROM, TO>, const FROM: usize, const TO: usize>(
    load: impl Fn(usize, usize) -> S::V,
    store: impl FnMut(usize, usize, S::V),
) {
    // SAFETY: handed on to the caller.
    unsafe { plane::<S, L, L, FROM, TO, FROM, TO>(load, store) }
}

/// Transforms a plane: columns by D, then rows by A. `load` and `store` get row and column.
///
/// # Safety
/// The caller is compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn plane<
    S: Simd,
    D: Line<ROWS, TO_ROWS>,
    A: Line<COLUMNS, TO_COLUMNS>,
    const ROWS: usize,
    const TO_ROWS: usize,
    const COLUMNS: usize,
    const TO_COLUMNS: usize,
>(
    load: impl Fn(usize, usize) -> S::V,
    mut store: impl FnMut(usize, usize, S::V),
) {
    // SAFETY: callers are compiled for this instruction set.
    let zero = unsafe { S::splat(0.0) };
    let mut half = [[zero; COLUMNS]; TO_ROWS];
    for j in 0..COLUMNS {
        let mut column = [zero; ROWS];
        for i in 0..ROWS {
            column[i] = load(i, j);
        }
        let column = D::line::<S>(column);
        for i in 0..TO_ROWS {
            half[i][j] = column[i];
        }
    }
    for i in 0..TO_ROWS {
        let row = A::line::<S>(half[i]);
        for j in 0..TO_COLUMNS {
            store(i, j, row[j]);
        }
    }
}

/// k a + b
#[inline(always)]
fn times<S: Simd>(k: f32, a: S::V, b: S::V) -> S::V {
    // SAFETY: callers are compiled for this instruction set.
    unsafe { S::mul_add(S::splat(k), a, b) }
}

#[inline(always)]
fn scaled<S: Simd>(k: f32, a: S::V) -> S::V {
    // SAFETY: callers are compiled for this instruction set.
    unsafe { S::mul_add(S::splat(k), a, S::splat(0.0)) }
}

#[inline(always)]
fn sum<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: callers are compiled for this instruction set.
    unsafe { S::add(a, b) }
}

#[inline(always)]
fn minus<S: Simd>(a: S::V, b: S::V) -> S::V {
    // SAFETY: callers are compiled for this instruction set.
    unsafe { S::sub(a, b) }
}

/// B^T
pub(super) struct Input;

impl Line<SIDE, SIDE> for Input {
    #[inline(always)]
    fn line<S: Simd>(x: [S::V; SIDE]) -> [S::V; SIDE] {
        let [a, b, c, d, e, f] = x;
        let (p, q) = (times::<S>(-4.0, c, e), times::<S>(-4.0, b, d));
        let (r, s) = (minus::<S>(e, c), minus::<S>(d, b));
        [
            times::<S>(4.0, a, times::<S>(-5.0, c, e)),
            sum::<S>(p, q),
            minus::<S>(p, q),
            times::<S>(2.0, s, r),
            times::<S>(-2.0, s, r),
            times::<S>(4.0, b, times::<S>(-5.0, d, f)),
        ]
    }
}

/// B^T of a short tile. Its filter's transform would have other factors than that of whole tiles, of which there is one for
/// both: they stand here, p + 2 for each finite point p.
pub(super) struct ShortInput;

impl Line<SHORT, SHORT> for ShortInput {
    #[inline(always)]
    fn line<S: Simd>(x: [S::V; SHORT]) -> [S::V; SHORT] {
        let [a, b, c, d, e] = x;
        let r = minus::<S>(d, b);
        [
            times::<S>(4.0, minus::<S>(a, c), scaled::<S>(2.0, r)),
            times::<S>(-6.0, b, scaled::<S>(3.0, minus::<S>(d, c))),
            times::<S>(2.0, b, times::<S>(-3.0, c, d)),
            scaled::<S>(4.0, r),
            times::<S>(-2.0, r, minus::<S>(e, c)),
        ]
    }
}

/// A^T of a short tile.
pub(super) struct ShortOutput;

impl Line<SHORT, 3> for ShortOutput {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SHORT]) -> [S::V; 3] {
        let [a, b, c, d, e] = m;
        let (p, q) = (sum::<S>(b, c), minus::<S>(b, c));
        [sum::<S>(sum::<S>(a, p), d), times::<S>(2.0, d, q), times::<S>(4.0, d, sum::<S>(p, e))]
    }
}

/// A of a short tile.
pub(super) struct ShortOutputGradient;

impl Line<3, SHORT> for ShortOutputGradient {
    #[inline(always)]
    fn line<S: Simd>(y: [S::V; 3]) -> [S::V; SHORT] {
        let [a, b, c] = y;
        let even = sum::<S>(a, c);
        [a, sum::<S>(even, b), minus::<S>(even, b), times::<S>(2.0, b, times::<S>(4.0, c, a)), c]
    }
}

/// A^T
pub(super) struct Output;

impl Line<SIDE, STEP> for Output {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SIDE]) -> [S::V; STEP] {
        let [a, b, c, d, e, f] = m;
        let (p, q) = (sum::<S>(b, c), minus::<S>(b, c));
        let (r, s) = (sum::<S>(d, e), minus::<S>(d, e));
        [
            sum::<S>(sum::<S>(a, p), r),
            times::<S>(2.0, s, q),
            times::<S>(4.0, r, p),
            times::<S>(8.0, s, sum::<S>(q, f)),
        ]
    }
}

/// A
pub(super) struct OutputGradient;

impl Line<STEP, SIDE> for OutputGradient {
    #[inline(always)]
    fn line<S: Simd>(y: [S::V; STEP]) -> [S::V; SIDE] {
        let [a, b, c, d] = y;
        let (even, odd) = (sum::<S>(a, c), sum::<S>(b, d));
        let (far, wide) = (times::<S>(4.0, c, a), scaled::<S>(2.0, times::<S>(4.0, d, b)));
        [a, sum::<S>(even, odd), minus::<S>(even, odd), sum::<S>(far, wide), minus::<S>(far, wide), d]
    }
}

/// G
pub(super) struct Filter;

impl Line<3, SIDE> for Filter {
    #[inline(always)]
    fn line<S: Simd>(g: [S::V; 3]) -> [S::V; SIDE] {
        let [a, b, c] = g;
        let near = scaled::<S>(-1.0 / 6.0, sum::<S>(a, c));
        let far = times::<S>(1.0 / 24.0, a, scaled::<S>(1.0 / 6.0, c));
        [
            scaled::<S>(0.25, a),
            times::<S>(-1.0 / 6.0, b, near),
            times::<S>(1.0 / 6.0, b, near),
            times::<S>(1.0 / 12.0, b, far),
            times::<S>(-1.0 / 12.0, b, far),
            c,
        ]
    }
}

/// G^T
pub(super) struct FilterGradient;

impl Line<SIDE, 3> for FilterGradient {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SIDE]) -> [S::V; 3] {
        let [a, b, c, d, e, f] = m;
        let near = scaled::<S>(-1.0 / 6.0, sum::<S>(b, c));
        let far = sum::<S>(d, e);
        [
            times::<S>(0.25, a, times::<S>(1.0 / 24.0, far, near)),
            times::<S>(1.0 / 6.0, minus::<S>(c, b), scaled::<S>(1.0 / 12.0, minus::<S>(d, e))),
            times::<S>(1.0 / 6.0, far, sum::<S>(near, f)),
        ]
    }
}

/// A^T of a pair of results, as filters of five taps leave.
pub(super) struct PairOutput;

impl Line<SIDE, 2> for PairOutput {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SIDE]) -> [S::V; 2] {
        let [a, b, c, d, e, f] = m;
        let (p, q) = (sum::<S>(b, c), minus::<S>(b, c));
        let (r, s) = (sum::<S>(d, e), minus::<S>(d, e));
        [sum::<S>(sum::<S>(a, p), r), times::<S>(2.0, s, sum::<S>(q, f))]
    }
}

/// A of a pair of results.
pub(super) struct PairOutputGradient;

impl Line<2, SIDE> for PairOutputGradient {
    #[inline(always)]
    fn line<S: Simd>(y: [S::V; 2]) -> [S::V; SIDE] {
        let [a, b] = y;
        [a, sum::<S>(a, b), minus::<S>(a, b), times::<S>(2.0, b, a), times::<S>(-2.0, b, a), b]
    }
}

/// G of five taps.
pub(super) struct WideFilter;

impl Line<5, SIDE> for WideFilter {
    #[inline(always)]
    fn line<S: Simd>(g: [S::V; 5]) -> [S::V; SIDE] {
        let [a, b, c, d, e] = g;
        let near = scaled::<S>(-1.0 / 6.0, sum::<S>(sum::<S>(a, c), e));
        let near_odd = scaled::<S>(-1.0 / 6.0, sum::<S>(b, d));
        let far = times::<S>(1.0 / 24.0, a, times::<S>(1.0 / 6.0, c, scaled::<S>(2.0 / 3.0, e)));
        let far_odd = times::<S>(1.0 / 12.0, b, scaled::<S>(1.0 / 3.0, d));
        [
            scaled::<S>(0.25, a),
            sum::<S>(near, near_odd),
            minus::<S>(near, near_odd),
            sum::<S>(far, far_odd),
            minus::<S>(far, far_odd),
            e,
        ]
    }
}

/// G^T of five taps.
pub(super) struct WideFilterGradient;

impl Line<SIDE, 5> for WideFilterGradient {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SIDE]) -> [S::V; 5] {
        let [a, b, c, d, e, f] = m;
        let near = scaled::<S>(-1.0 / 6.0, sum::<S>(b, c));
        let near_odd = scaled::<S>(-1.0 / 6.0, minus::<S>(b, c));
        let (far, far_odd) = (sum::<S>(d, e), minus::<S>(d, e));
        [
            times::<S>(0.25, a, times::<S>(1.0 / 24.0, far, near)),
            times::<S>(1.0 / 12.0, far_odd, near_odd),
            times::<S>(1.0 / 6.0, far, near),
            times::<S>(1.0 / 3.0, far_odd, near_odd),
            times::<S>(2.0 / 3.0, far, sum::<S>(near, f)),
        ]
    }
}

/// B: the gradient by the input.
pub(super) struct InputGradient;

impl Line<SIDE, SIDE> for InputGradient {
    #[inline(always)]
    fn line<S: Simd>(m: [S::V; SIDE]) -> [S::V; SIDE] {
        let [a, b, c, d, e, f] = m;
        let (p, q) = (sum::<S>(b, c), minus::<S>(b, c));
        let (r, s) = (sum::<S>(d, e), minus::<S>(d, e));
        let far = scaled::<S>(2.0, s);
        [
            scaled::<S>(4.0, a),
            times::<S>(4.0, minus::<S>(f, q), scaled::<S>(-1.0, far)),
            times::<S>(-5.0, a, times::<S>(-4.0, p, scaled::<S>(-1.0, r))),
            times::<S>(-5.0, f, sum::<S>(q, far)),
            sum::<S>(sum::<S>(a, p), r),
            f,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::simd::Portable;

    fn line(values: &[f32]) -> Vec<[f32; 4]> {
        values.iter().map(|v| [*v; 4]).collect()
    }

    /// A filter of three over six values gives four results; its transposes give the gradients.
    #[test]
    fn transforms_are_a_correlation_and_its_gradients() {
        let x = [0.3f32, -1.2, 0.7, 2.0, -0.4, 1.1];
        let g = [0.9f32, -0.5, 1.3];
        let dy = [1.5f32, -0.7, 0.2, 0.8];
        let v = Input::line::<Portable>(line(&x).try_into().expect("six"));
        let u = Filter::line::<Portable>(line(&g).try_into().expect("three"));
        let z = OutputGradient::line::<Portable>(line(&dy).try_into().expect("four"));
        let products = std::array::from_fn(|i| v[i].map(|a| a * u[i][0]));
        for (i, y) in Output::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..3).map(|k| x[i + k] * g[k]).sum();
            assert!((y[0] - expected).abs() < 1e-5, "{i}: {y:?}, {expected}");
        }
        let products = std::array::from_fn(|i| v[i].map(|a| a * z[i][0]));
        for (k, dg) in FilterGradient::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..4).map(|i| x[i + k] * dy[i]).sum();
            assert!((dg[0] - expected).abs() < 1e-5, "{k}: {dg:?}, {expected}");
        }
    }

    /// The same over five values, with the filter's transform of six.
    #[test]
    fn short_transforms_go_with_the_filters_of_long_ones() {
        let x = [0.3f32, -1.2, 0.7, 2.0, -0.4];
        let g = [0.9f32, -0.5, 1.3];
        let dy = [1.5f32, -0.7, 0.2];
        let long = |i: usize| if i < LEFT_OUT { i } else { i + 1 };
        let v = ShortInput::line::<Portable>(line(&x).try_into().expect("five"));
        let u = Filter::line::<Portable>(line(&g).try_into().expect("three"));
        let z = ShortOutputGradient::line::<Portable>(line(&dy).try_into().expect("three"));
        let products = std::array::from_fn(|i| v[i].map(|a| a * u[long(i)][0]));
        for (i, y) in ShortOutput::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..3).map(|k| x[i + k] * g[k]).sum();
            assert!((y[0] - expected).abs() < 1e-5, "{i}: {y:?}, {expected}");
        }
        let mut products = [[0.0; 4]; SIDE];
        for i in 0..SHORT {
            products[long(i)] = v[i].map(|a| a * z[i][0]);
        }
        for (k, dg) in FilterGradient::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..3).map(|i| x[i + k] * dy[i]).sum();
            assert!((dg[0] - expected).abs() < 1e-5, "{k}: {dg:?}, {expected}");
        }
    }

    /// A filter of five over six values gives two results; its transposes give the gradients.
    #[test]
    fn pairs_are_a_correlation_and_its_gradients() {
        let x = [0.3f32, -1.2, 0.7, 2.0, -0.4, 1.1];
        let g = [0.9f32, -0.5, 1.3, 0.2, -1.6];
        let dy = [1.5f32, -0.7];
        let v = Input::line::<Portable>(line(&x).try_into().expect("six"));
        let u = WideFilter::line::<Portable>(line(&g).try_into().expect("five"));
        let z = PairOutputGradient::line::<Portable>(line(&dy).try_into().expect("two"));
        let products = std::array::from_fn(|i| v[i].map(|a| a * u[i][0]));
        for (i, y) in PairOutput::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..5).map(|k| x[i + k] * g[k]).sum();
            assert!((y[0] - expected).abs() < 1e-5, "{i}: {y:?}, {expected}");
        }
        let products = std::array::from_fn(|i| v[i].map(|a| a * z[i][0]));
        for (k, dg) in WideFilterGradient::line::<Portable>(products).iter().enumerate() {
            let expected: f32 = (0..2).map(|i| x[i + k] * dy[i]).sum();
            assert!((dg[0] - expected).abs() < 1e-5, "{k}: {dg:?}, {expected}");
        }
        let products = std::array::from_fn(|i| u[i].map(|a| a * z[i][0]));
        for (h, dx) in InputGradient::line::<Portable>(products).iter().enumerate() {
            let reached = (0..2).filter(|i| h >= *i && h - i < 5);
            let expected: f32 = reached.map(|i| dy[i] * g[h - i]).sum();
            assert!((dx[0] - expected).abs() < 1e-5, "{h}: {dx:?}, {expected}");
        }
    }
}
