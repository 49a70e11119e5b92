//! Values between the way forward and the way back, stored as bf16: a step makes halves of them before their last use
//! forward, another makes them whole again before their first use back. Everything computes in f32, and the way forward
//! has the bits that it has without.

use super::kernel::Kernel;
use super::lower::{Lowered, Source, Step, Value};
use super::{Context, multiversion};

/// Fewer values than this are not worth two more steps, at which threads meet.
const FEWEST: usize = if cfg!(test) { 8 } else { 1 << 14 };
/// Values of a part of an array that a thread takes at once; whole blocks.
const PART: usize = 1 << 14;
/// Two values that share a word lie so far apart: vectors are then taken apart without shuffles.
const LANES: usize = 16;

/// Words that hold so many values: whole blocks.
pub(crate) fn words(values: usize) -> usize {
    values.div_ceil(2 * LANES) * LANES
}

/// x to the nearest bf16, ties to even; what is no number stays none.
#[inline(always)]
fn half(x: f32) -> u32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if x.is_nan() { (bits >> 16) | 0x40 } else { nearest }
}

/// x: `[N]` -> words: [`words`]`(N)`. Blocks of 32 values become 16 words, two in each; the last block ends in zeros.
pub(crate) fn narrow(cx: &Context, x: &[f32], y: &mut [f32]) {
    cx.pool.parts(y, PART / 2, &|task, y| {
        let x = &x[task.index * PART..];
        let x = &x[..x.len().min(PART)];
        pack(cx.isa, x, y);
    });
}

/// The values of words, as f32.
pub(crate) fn widen(cx: &Context, x: &[f32], y: &mut [f32]) {
    cx.pool.parts(y, PART, &|task, y| unpack(cx.isa, &x[task.index * PART / 2..], y));
}

multiversion! {
    fn pack(x: &[f32], y: &mut [f32]) {
        let blocks = x.len() / (2 * LANES);
        let (whole, rest) = x.split_at(blocks * 2 * LANES);
        let (words, last) = y.split_at_mut(blocks * LANES);
        for (x, y) in whole.chunks_exact(2 * LANES).zip(words.chunks_exact_mut(LANES)) {
            let (low, high) = x.split_at(LANES);
            for ((y, low), high) in y.iter_mut().zip(low).zip(high) {
                *y = f32::from_bits(half(*low) | half(*high) << 16);
            }
        }
        for (i, y) in last.iter_mut().enumerate() {
            let [low, high] = [i, LANES + i].map(|i| rest.get(i).map_or(0, |x| half(*x)));
            *y = f32::from_bits(low | high << 16);
        }
    }

    fn unpack(x: &[f32], y: &mut [f32]) {
        let blocks = y.len() / (2 * LANES);
        let (whole, rest) = y.split_at_mut(blocks * 2 * LANES);
        let (words, last) = x.split_at(blocks * LANES);
        for (x, y) in words.chunks_exact(LANES).zip(whole.chunks_exact_mut(2 * LANES)) {
            let (low, high) = y.split_at_mut(LANES);
            for ((x, low), high) in x.iter().zip(low).zip(high) {
                let bits = x.to_bits();
                *low = f32::from_bits(bits << 16);
                *high = f32::from_bits(bits & 0xffff_0000);
            }
        }
        for (i, y) in rest.iter_mut().enumerate() {
            let bits = last[i % LANES].to_bits();
            *y = f32::from_bits(if i < LANES { bits << 16 } else { bits & 0xffff_0000 });
        }
    }
}

/// A result that is stored in halves for a while.
struct Stored {
    step: usize,
    len: usize,
    /// The step before which it is narrowed, and the one before which it is widened.
    narrowed: usize,
    widened: usize,
}

/// Stores what only the way back still needs as bf16. A program without a loss has no way back, and stays as it is.
pub(crate) fn store(low: &mut Lowered) {
    let back = |step: &Step| matches!(step.kernel, Kernel::CrossEntropyGrad | Kernel::SoftCrossEntropyGrad);
    let Some(turn) = low.steps.iter().position(back) else { return };
    let stored: Vec<Stored> = (0..turn).filter_map(|step| crossing(low, step, turn)).collect();
    // Where each step comes to stand, and where the widened twin of a stored one does.
    let mut at = vec![0; low.steps.len()];
    let mut twin = vec![None; low.steps.len()];
    let mut steps: Vec<Step> = Vec::with_capacity(low.steps.len() + 2 * stored.len());
    let mut halves = vec![0; low.steps.len()];
    for (old, mut step) in std::mem::take(&mut low.steps).into_iter().enumerate() {
        // A step that only stores the result of `from`, with so many values of which it makes so many.
        let mut store = |kernel, (from, result): (usize, usize), [taken, len]: [usize; 2]| {
            let Step { head, node, .. } = steps[result];
            let args = vec![Value { source: Source::Step(from), start: 0, len: taken }];
            steps.push(Step { kernel, args, len, workspace: 0, node, head });
            steps.len() - 1
        };
        for s in stored.iter().filter(|s| s.narrowed == old) {
            let result = at[s.step];
            halves[s.step] = store(Kernel::Narrow, (result, result), [s.len, words(s.len)]);
        }
        for s in stored.iter().filter(|s| s.widened == old) {
            twin[s.step] = Some(store(Kernel::Widen, (halves[s.step], at[s.step]), [words(s.len), s.len]));
        }
        for value in &mut step.args {
            if let Source::Step(from) = value.source {
                value.source = Source::Step(twin[from].unwrap_or(at[from]));
            }
        }
        at[old] = steps.len();
        steps.push(step);
    }
    low.steps = steps;
    let kept = low.outputs.iter_mut().chain(low.operands.iter_mut().flatten().map(|(_, value)| value));
    let deferred = low.deferred.iter_mut().flatten().flat_map(|deferred| &mut deferred.args);
    for value in kept.chain(deferred).chain(low.values.iter_mut().flatten()) {
        if let Source::Step(from) = value.source {
            value.source = Source::Step(at[from]);
        }
    }
}

/// Where the result of a step can be halves, if only whole uses of it are on both sides of the turn and none at the end.
fn crossing(low: &Lowered, step: usize, turn: usize) -> Option<Stored> {
    let len = low.steps[step].len;
    let of = |value: &&Value| value.source == Source::Step(step);
    let at_end = low.outputs.iter().chain(low.operands.iter().flatten().map(|(_, value)| value));
    let deferred = low.deferred.iter().flatten().flat_map(|deferred| &deferred.args);
    if len < FEWEST || at_end.chain(deferred).any(|value| of(&value)) {
        return None;
    }
    let mut forward = step + 1;
    let mut back = None;
    for (at, user) in low.steps.iter().enumerate().skip(step + 1) {
        for value in user.args.iter().filter(of) {
            if value.start != 0 || value.len != len {
                return None;
            }
            if at < turn {
                forward = at;
            } else {
                back = back.or(Some(at));
            }
        }
    }
    back.map(|widened| Stored { step, len, narrowed: forward, widened })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernels;
    use crate::native::{Isa, Pool};
    use std::num::NonZeroUsize;

    fn through(x: &[f32], isa: Isa, pool: &Pool) -> Vec<f32> {
        let mut scratch = [];
        let cx = Context::new(pool, isa, &mut scratch);
        let mut packed = vec![f32::NAN; words(x.len())];
        narrow(&cx, x, &mut packed);
        let mut y = vec![f32::NAN; x.len()];
        widen(&cx, &packed, &mut y);
        y
    }

    /// The nearest bf16 by search among the two neighbours.
    fn nearest(x: f32) -> f32 {
        let below = f32::from_bits(x.to_bits() & 0xffff_0000);
        let above = f32::from_bits((x.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
        let distance = |y: f32| (f64::from(y) - f64::from(x)).abs();
        let even = below.to_bits() & 0x1_0000 == 0;
        match distance(below).partial_cmp(&distance(above)).expect("finite") {
            std::cmp::Ordering::Less => below,
            std::cmp::Ordering::Equal if even => below,
            _ => above,
        }
    }

    #[test]
    fn every_value_becomes_the_nearest_bf16_and_comes_back() {
        for threads in [1, 3] {
            let pool = Pool::new(NonZeroUsize::new(threads).expect("not zero"));
            for kernels in Kernels::available() {
                let isa = kernels.resolve().expect("available");
                for len in [0, 1, 15, 16, 31, 32, 33, 97, PART - 1, PART, PART + 1, 2 * PART + 37] {
                    let number = |i: usize| ((i * 7919 % 10_007) as f32 - 5000.0) * 1.000_123e-3;
                    let x: Vec<f32> = (0..len).map(number).collect();
                    let wanted: Vec<f32> = x.iter().map(|x| nearest(*x)).collect();
                    assert_eq!(
                        through(&x, isa, &pool),
                        wanted,
                        "{kernels:?}, {len} values, {threads} threads"
                    );
                }
            }
        }
    }

    #[test]
    fn ends_of_the_range_stay_what_they_are() {
        let pool = Pool::new(NonZeroUsize::MIN);
        let tie = |bits: u32| f32::from_bits(bits);
        let x = [
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1.0,
            tie(0x3f80_8000),
            tie(0x3f81_8000),
            f32::MIN_POSITIVE,
        ];
        let wanted =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, tie(0x3f82_0000), f32::MIN_POSITIVE];
        for kernels in Kernels::available() {
            let isa = kernels.resolve().expect("available");
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            for repeats in [1, 8] {
                assert_eq!(bits(&through(&x.repeat(repeats), isa, &pool)), bits(&wanted.repeat(repeats)));
                let none = [f32::NAN, -f32::NAN, tie(0x7f80_0001), tie(0xffff_ffff)].repeat(8 * repeats);
                assert!(through(&none, isa, &pool).iter().all(|x| x.is_nan()));
            }
        }
    }
}
