//! Data echoing in numbers: what a repeat is worth, F(e) = fresh(e) / fresh(1); what an update's worth of data costs in
//! time; and where and how often to echo.

use crate::error::{Fault, StudyError};
use crate::interval::{Bootstrap, Interval};
use serde::Serialize;

/// F(e) of one echo factor: fresh examples to the target over those without echo. Repeats as good as fresh examples
/// would make it 1 / e, useless ones 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FreshRatio {
    /// Of the two searches as they were.
    pub value: f64,
    /// The middle of the resampled searches.
    pub interval: Interval,
    /// The least and the greatest of them, as the paper on data echoing draws them.
    pub extremes: Interval,
}

/// F(e) from what each complete trial of two searches needed in fresh examples (infinite if censored): `echoed` with echo
/// factor e, `fresh` without. Both searches are resampled. Err if either never reached the target.
pub fn fresh_ratio(echoed: &[f64], fresh: &[f64], bootstrap: &Bootstrap) -> Result<FreshRatio, StudyError> {
    let least = |amounts: &[f64]| amounts.iter().copied().fold(f64::INFINITY, f64::min);
    for (place, amounts) in [("search with echo", echoed), ("search without echo", fresh)] {
        if !least(amounts).is_finite() {
            let fault = Fault::new(place, "a trial that reached the target", "none");
            return Err(StudyError::Estimate(fault));
        }
    }
    let pairs = bootstrap.minima(echoed, 0).into_iter().zip(bootstrap.minima(fresh, 1));
    // Where neither resample reached the target there is no ratio; where one did not, it is infinite or 0.
    let ratios: Vec<f64> = pairs.map(|(e, f)| e / f).filter(|ratio| !ratio.is_nan()).collect();
    let extremes = ratios.iter().fold((f64::INFINITY, 0.0f64), |(a, b), r| (a.min(*r), b.max(*r)));
    let interval = bootstrap.interval(&ratios).ok_or_else(|| {
        StudyError::Estimate(Fault::new("bootstrap", "a resample that reached the target", "none"))
    })?;
    let value = least(echoed) / least(fresh);
    Ok(FreshRatio { value, interval, extremes: Interval { low: extremes.0, high: extremes.1 } })
}

/// Cores, or threads, that upstream and downstream share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SharedCores {
    /// How many.
    pub cores: f64,
    /// CPU (or busy) seconds of one upstream item.
    pub up_work: f64,
    /// CPU seconds of one downstream pass over it.
    pub down_work: f64,
}

/// What one upstream item costs in time, echo stage at a given place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeLaw {
    /// Seconds upstream takes for an item.
    pub up: f64,
    /// Seconds downstream takes for one pass over it.
    pub down: f64,
    /// `None` if the two have processors of their own.
    pub shared: Option<SharedCores>,
    /// Pipeline threads that do what is before the echo stage and what is right behind it, with their busy seconds for
    /// each; `None` if no thread does both.
    pub workers: Option<SharedCores>,
}

impl TimeLaw {
    /// Seconds for an item with `echo` downstream passes: the slower side sets the pace, and shared cores, or threads,
    /// cannot do more work than there are of them.
    pub fn seconds(&self, echo: f64) -> f64 {
        let apart = self.up.max(echo * self.down);
        let shared = [self.shared, self.workers].into_iter().flatten();
        shared.fold(apart, |most, of| most.max((of.up_work + echo * of.down_work) / of.cores))
    }

    /// R, how many downstream passes fit into the time of one upstream item.
    pub fn ratio(&self) -> f64 {
        self.up / self.down
    }

    /// The share of time that downstream waits for data.
    pub fn idle(&self, echo: f64) -> f64 {
        1.0 - echo * self.down / self.seconds(echo)
    }
}

/// Time to the target with echo over that without, for separate processors: F(e) max(R, e) / max(R, 1). Below 1 echo pays.
pub fn relative_time(fresh_ratio: f64, echo: f64, ratio: f64) -> f64 {
    fresh_ratio * ratio.max(echo) / ratio.max(1.0)
}

/// The map of relative time over echo factors, given as (e, F(e)), and values of R: a row for each echo factor.
pub fn time_map(factors: &[(f64, f64)], ratios: &[f64]) -> Vec<Vec<f64>> {
    factors.iter().map(|(e, f)| ratios.iter().map(|r| relative_time(*f, *e, *r)).collect()).collect()
}

/// A way to run: an echo factor at one place of the pipeline, and what is known of F(e) there.
#[derive(Debug, Clone, PartialEq)]
pub struct EchoChoice {
    /// Where the echo stage is, for example "before augment".
    pub position: String,
    /// The echo factor; 1 for none.
    pub echo: f64,
    /// The most likely F(e); 1 without echo.
    pub fresh_ratio: f64,
    /// The range of F(e).
    pub range: Interval,
    /// Times with the echo stage there.
    pub law: TimeLaw,
}

/// The best way to run, with what it brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EchoAdvice {
    /// Index of the choice.
    pub choice: usize,
    /// Where the echo stage is.
    pub position: String,
    /// The echo factor.
    pub echo: f64,
    /// Seconds without echo over seconds with it, by the most likely F(e).
    pub speedup: f64,
    /// The same over the range of F(e).
    pub range: Interval,
}

/// The choice with the least time to the target by the most likely F(e); of equal ones the first, so give those without
/// echo first. `plain` is the seconds of one upstream item without echo. `None` of no choices.
pub fn best_echo(choices: &[EchoChoice], plain: f64) -> Option<EchoAdvice> {
    let time = |c: &EchoChoice| c.fresh_ratio * c.law.seconds(c.echo);
    let (index, best) = choices.iter().enumerate().min_by(|a, b| time(a.1).total_cmp(&time(b.1)))?;
    let speedup = |fresh_ratio: f64| plain / (fresh_ratio * best.law.seconds(best.echo));
    Some(EchoAdvice {
        choice: index,
        position: best.position.clone(),
        echo: best.echo,
        speedup: speedup(best.fresh_ratio),
        range: Interval { low: speedup(best.range.high), high: speedup(best.range.low) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nqm::{NqmOptimizer, NqmSpec, solve};
    use sooner_base::Seed;

    const APART: TimeLaw = TimeLaw { up: 6.0, down: 1.0, shared: None, workers: None };

    #[test]
    fn time_is_flat_up_to_the_ratio_and_linear_beyond() {
        assert_eq!([1.0, 3.0, 6.0, 7.5, 12.0].map(|e| APART.seconds(e)), [6.0, 6.0, 6.0, 7.5, 12.0]);
        assert_eq!([1.0, 3.0, 6.0, 12.0].map(|e| APART.idle(e)), [1.0 - 1.0 / 6.0, 0.5, 0.0, 0.0]);
        assert_eq!(APART.ratio(), 6.0);
        // Two cores, all of both sides' work on them: 6 + e seconds of work in every item.
        let shared = SharedCores { cores: 2.0, up_work: 6.0, down_work: 1.0 };
        let law = TimeLaw { up: 3.0, down: 0.5, shared: Some(shared), workers: None };
        assert_eq!([1.0, 2.0, 6.0, 20.0].map(|e| law.seconds(e)), [3.5, 4.0, 6.0, 13.0]);
        // Upstream that mostly waits for a disk leaves the cores to downstream.
        let waiting = TimeLaw { shared: Some(SharedCores { up_work: 0.1, ..shared }), ..law };
        assert_eq!([1.0, 2.0, 6.0].map(|e| waiting.seconds(e)), [3.0, 3.0, 3.05]);
        // One thread that reads for 6 and augments each pass for 1 does nothing else meanwhile.
        let workers = Some(SharedCores { cores: 1.0, up_work: 6.0, down_work: 1.0 });
        let law = TimeLaw { workers, ..APART };
        assert_eq!([1.0, 2.0, 6.0].map(|e| law.seconds(e)), [7.0, 8.0, 12.0]);
    }

    #[test]
    fn the_map_shows_where_echo_pays() {
        // Useless repeats never pay; perfect ones gain min(e, R).
        let map = time_map(&[(1.0, 1.0), (4.0, 1.0), (4.0, 0.25)], &[0.5, 1.0, 2.0, 8.0]);
        assert_eq!(map, [[1.0, 1.0, 1.0, 1.0], [4.0, 4.0, 2.0, 1.0], [1.0, 1.0, 0.5, 0.25]]);
        // Beyond e = R echo still pays exactly where e F(e) < R.
        for (f, r) in [(0.45, 2.0), (0.55, 2.0)] {
            assert_eq!(relative_time(f, 4.0, r) < 1.0, 4.0 * f < r);
        }
    }

    #[test]
    fn both_signs_of_echo_beyond_the_ratio_occur_in_the_noisy_quadratic_model() {
        let fresh = |batch, echo| {
            let spec = NqmSpec { dims: 200, goal: 0.01, optimizer: NqmOptimizer::Sgd, batch, echo };
            solve(&spec, std::num::NonZeroUsize::MIN).unwrap().unwrap().fresh_batches as f64
        };
        let ratio = |batch, echo| fresh(batch, echo) / fresh(batch, 1);
        // R = 2, e = 4: only costs below the critical batch, pays above it.
        assert!(relative_time(ratio(16, 4), 4.0, 2.0) > 1.9);
        assert!(relative_time(ratio(1024, 4), 4.0, 2.0) < 0.6);
    }

    #[test]
    fn searches_are_resampled_for_the_ratio() {
        let bootstrap = Bootstrap { seed: Seed(3), resamples: 500, confidence: 0.95 };
        let inf = f64::INFINITY;
        let found = fresh_ratio(&[60.0, 50.0, 80.0, inf], &[100.0, 140.0, 120.0], &bootstrap).unwrap();
        assert_eq!(found.value, 0.5);
        // All resamples pair one of 50, 60, 80 (or nothing) with one of 100, 120, 140.
        assert_eq!(found.extremes.low, 50.0 / 140.0);
        assert!(found.extremes.low <= found.interval.low && found.interval.low <= 0.5);
        assert!(0.5 <= found.interval.high && found.interval.high <= found.extremes.high);
        let sure = fresh_ratio(&[50.0; 4], &[100.0; 4], &bootstrap).unwrap();
        assert_eq!(sure.interval, Interval { low: 0.5, high: 0.5 });
        assert!(fresh_ratio(&[inf], &[1.0], &bootstrap).unwrap_err().to_string().contains("with echo"));
        assert!(fresh_ratio(&[1.0], &[], &bootstrap).unwrap_err().to_string().contains("without echo"));
    }

    #[test]
    fn advice_is_the_least_time() {
        let choice = |position: &str, echo: f64, f: f64, law| EchoChoice {
            position: position.into(),
            echo,
            fresh_ratio: f,
            range: Interval { low: 0.8 * f, high: 1.25 * f },
            law,
        };
        let later = TimeLaw { up: 8.0, down: 0.5, shared: None, workers: None };
        let choices = [
            choice("none", 1.0, 1.0, APART),
            choice("before augment", 5.0, 0.3, APART),
            choice("before augment", 8.0, 0.25, APART),
            choice("after batch", 8.0, 0.5, later),
        ];
        let best = best_echo(&choices, APART.seconds(1.0)).unwrap();
        assert_eq!((best.choice, best.position.as_str(), best.echo), (1, "before augment", 5.0));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            close(best.speedup, 6.0 / 1.8)
                && close(best.range.low, 6.0 / 2.25)
                && close(best.range.high, 6.0 / 1.44)
        );
        assert_eq!(best_echo(&[], 1.0), None);
        // Without a gain the first wins.
        let useless = [choice("none", 1.0, 1.0, APART), choice("after batch", 4.0, 1.0, APART)];
        assert_eq!(best_echo(&useless, 6.0).unwrap().choice, 0);
    }
}
