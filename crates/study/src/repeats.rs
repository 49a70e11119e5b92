//! Where and how often to echo: what repeats are worth, by the user's own records or by a stated range, against what they
//! cost in time.

use crate::echo::{EchoChoice, TimeLaw, best_echo};
use crate::interval::Interval;
use serde::Serialize;

/// What a repeat is worth beside a fresh example: u in F(e) = 1 / (1 + u (e - 1)). With u = 1 it is as good as a fresh one
/// (F = 1 / e), with u = 0 useless (F = 1). One number, because that is what a few records can tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RepeatValue {
    /// The least that is to be expected.
    pub low: f64,
    /// The most likely.
    pub likely: f64,
    /// The most.
    pub high: f64,
}

impl RepeatValue {
    /// Repeats that are augmented afresh, where nothing is measured. The paper's ResNet-50 on ImageNet needed 1 / 3.25 of
    /// the fresh examples with e = 5 (Choi et al., 2019), which is u = 0.56.
    pub const AUGMENTED: RepeatValue = RepeatValue { low: 0.25, likely: 0.55, high: 1.0 };
    /// Repeats that are equal, spread over batches: the paper finds them worth less than those augmented afresh, and gives
    /// no number that carries over; the range is an assumption.
    pub const COPIES: RepeatValue = RepeatValue { low: 0.1, likely: 0.4, high: 0.9 };
    /// Whole batches again: worth nothing on the paper's ResNet-50 with e = 2, something on its four other workloads; above
    /// the critical batch size up to everything in the noisy quadratic model.
    pub const BATCHES: RepeatValue = RepeatValue { low: 0.0, likely: 0.2, high: 0.8 };

    /// F(e) of a repeat's worth.
    pub fn fresh_ratio(worth: f64, echo: f64) -> f64 {
        1.0 / (1.0 + worth * (echo - 1.0))
    }

    /// The worth that measured F(e) tell, given as (e, F(e)): their median, least and most. `None` of none with e over 1.
    /// Worse than useless counts as useless.
    pub fn measured(ratios: &[(f64, f64)]) -> Option<RepeatValue> {
        let told = ratios.iter().filter(|(e, f)| *e > 1.0 && *f > 0.0);
        let worths: Vec<f64> = told.map(|(e, f)| ((1.0 / f - 1.0) / (e - 1.0)).max(0.0)).collect();
        let likely = sooner_base::median(&worths)?;
        let (low, high) = worths.iter().fold((likely, likely), |(a, b), w| (a.min(*w), b.max(*w)));
        Some(RepeatValue { low, likely, high })
    }
}

/// A place where an echo stage may stand.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoPlace {
    /// In words.
    pub position: String,
    /// What repeats are worth there.
    pub value: RepeatValue,
    /// What they cost.
    pub law: TimeLaw,
}

/// How often to echo at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceAdvice {
    /// Index of the place.
    pub place: usize,
    /// The place in words.
    pub position: String,
    /// The echo factor.
    pub echo: f64,
    /// Time without echo over time with it, to the same quality: by the most likely worth of repeats, and its range.
    pub speedup: f64,
    /// The range.
    pub range: Interval,
    /// Seconds of an upstream item, that is of a fresh example, without echo and with it, by the time law.
    pub seconds: [f64; 2],
}

/// A gain that is worth an echo stage; less is within what such predictions are off by.
const LEAST_GAIN: f64 = 1.05;

/// The places where echo pays, the best first, each with its best factor of at most `most`. Of places with equal costs
/// and values the first one counts. Empty if it pays nowhere.
pub fn advise(places: &[EchoPlace], most: u32) -> Vec<PlaceAdvice> {
    let factors = [1.5, 2.5].into_iter().chain((2..=most.max(1)).map(f64::from));
    let factors: Vec<f64> = factors.filter(|e| *e <= f64::from(most)).collect();
    let mut advice: Vec<PlaceAdvice> = Vec::new();
    for (place, at) in places.iter().enumerate() {
        if places[..place].iter().any(|other| other.law == at.law && other.value == at.value) {
            continue;
        }
        let choice = |echo: &f64| EchoChoice {
            position: at.position.clone(),
            echo: *echo,
            fresh_ratio: RepeatValue::fresh_ratio(at.value.likely, *echo),
            range: Interval {
                low: RepeatValue::fresh_ratio(at.value.high, *echo),
                high: RepeatValue::fresh_ratio(at.value.low, *echo),
            },
            law: at.law,
        };
        let choices: Vec<EchoChoice> = factors.iter().map(choice).collect();
        let Some(best) = best_echo(&choices, at.law.seconds(1.0)) else { continue };
        if best.speedup >= LEAST_GAIN {
            advice.push(PlaceAdvice {
                place,
                position: best.position,
                echo: best.echo,
                speedup: best.speedup,
                range: best.range,
                seconds: [at.law.seconds(1.0), at.law.seconds(best.echo)],
            });
        }
    }
    advice.sort_by(|a, b| b.speedup.total_cmp(&a.speedup));
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::SharedCores;

    fn place(position: &str, value: RepeatValue, law: TimeLaw) -> EchoPlace {
        EchoPlace { position: position.into(), value, law }
    }

    const LAW: TimeLaw = TimeLaw { up: 6.0, down: 1.0, shared: None, workers: None };

    #[test]
    fn worth_and_ratio_are_two_ways_to_say_it() {
        assert_eq!(RepeatValue::fresh_ratio(1.0, 4.0), 0.25);
        assert_eq!(RepeatValue::fresh_ratio(0.0, 4.0), 1.0);
        let told = RepeatValue::measured(&[(1.0, 1.0), (2.0, 0.5), (5.0, 0.2), (4.0, 1.0)]).unwrap();
        assert_eq!(told, RepeatValue { low: 0.0, likely: 1.0, high: 1.0 });
        assert_eq!(RepeatValue::measured(&[(2.0, 1.5)]).unwrap().likely, 0.0);
        assert_eq!(RepeatValue::measured(&[(1.0, 1.0)]), None);
        // The published one: 3.25 times fewer with e = 5.
        let told = RepeatValue::measured(&[(5.0, 1.0 / 3.25)]).unwrap();
        assert!((told.likely - 0.5625).abs() < 1e-12);
    }

    #[test]
    fn the_best_factor_is_the_ratio_where_nothing_is_shared() {
        let places = [
            place("after shuffle", RepeatValue::AUGMENTED, LAW),
            place("after jitter", RepeatValue::AUGMENTED, LAW),
            place("after batch", RepeatValue::BATCHES, TimeLaw { up: 6.5, down: 0.5, ..LAW }),
        ];
        let advice = advise(&places, 8);
        assert_eq!(advice.len(), 2, "{advice:?}");
        let best = &advice[0];
        assert_eq!((best.place, best.position.as_str(), best.echo), (0, "after shuffle", 6.0));
        assert!((best.speedup - 3.75).abs() < 1e-9 && (best.range.low - 2.25).abs() < 1e-9);
        assert!((best.range.high - 6.0).abs() < 1e-9);
        assert_eq!(best.seconds, [6.0, 6.0]);
        assert_eq!((advice[1].position.as_str(), advice[1].echo), ("after batch", 8.0));
    }

    #[test]
    fn shared_cores_make_repeats_dear() {
        // Decoding takes the one core that updates need: whatever is repeated is paid for.
        let shared = Some(SharedCores { cores: 1.0, up_work: 6.0, down_work: 1.0 });
        let advice = advise(&[place("after decode", RepeatValue::AUGMENTED, TimeLaw { shared, ..LAW })], 8);
        let best = &advice[0];
        assert!(best.speedup > 1.5 && best.speedup < 7.0 / 14.0 * (1.0 + 0.55 * 7.0) + 1e-9, "{best:?}");
        let useless = RepeatValue { low: 0.0, likely: 0.0, high: 0.0 };
        assert_eq!(advise(&[place("after decode", useless, LAW)], 8), []);
    }

    #[test]
    fn a_fast_pipeline_needs_no_echo() {
        let fast = TimeLaw { up: 0.9, down: 1.0, ..LAW };
        assert_eq!(advise(&[place("after batch", RepeatValue::AUGMENTED, fast)], 8), []);
        assert_eq!(advise(&[], 8), []);
        assert_eq!(advise(&[place("after decode", RepeatValue::AUGMENTED, LAW)], 1), []);
    }
}
