//! How sure a result is: resampling of trials, and exact intervals of shares. No clock and no generator of its own: the
//! seed is given.

use serde::{Deserialize, Serialize};
use sooner_base::{Purpose, Rng, Seed, mean};

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end; infinite if a resample never met the target.
    pub high: f64,
}

/// Resampling with replacement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// Decides every draw.
    pub seed: Seed,
    /// How many resamples; a thousand settle the ends of a 95 % interval to a few percent of its width.
    pub resamples: u32,
    /// The share of resamples inside the interval, for example 0.95.
    pub confidence: f64,
}

/// Streams of this crate's resampling, apart from those of points (which count dimensions from 0).
const SALT: u64 = 0xb007;

impl Bootstrap {
    /// The generator of one resample of one of several samples that are drawn independently.
    fn rng(&self, resample: u32, sample: usize) -> Rng {
        self.seed.key(Purpose::Study, SALT).at(0, u64::from(resample), sample as u32)
    }

    /// The least value of each resample of `amounts`; infinite if it holds nothing finite. `sample` tells independent
    /// samples of one analysis apart. The least of a sample can only rise by leaving trials out, so these lie at or above
    /// it: they say how much worse an equally large search might have done, not how much better.
    pub fn minima(&self, amounts: &[f64], sample: usize) -> Vec<f64> {
        let least = |resample| {
            let mut rng = self.rng(resample, sample);
            let mut draw = || amounts[rng.below(amounts.len() as u32) as usize];
            (0..amounts.len()).map(|_| draw()).fold(f64::INFINITY, f64::min)
        };
        (0..self.resamples).map(least).collect()
    }

    /// The mean of `a` minus that of `b`, say final errors of two ways to train over several seeds, with its interval over
    /// resampled seeds. `None` if either is empty.
    pub fn mean_difference(&self, a: &[f64], b: &[f64]) -> Option<(f64, Interval)> {
        let difference = mean(a)? - mean(b)?;
        let resampled = |values: &[f64], resample, sample| {
            let mut rng = self.rng(resample, sample);
            let mut draw = || values[rng.below(values.len() as u32) as usize];
            (0..values.len()).map(|_| draw()).sum::<f64>() / values.len() as f64
        };
        let differences: Vec<f64> =
            (0..self.resamples).map(|r| resampled(a, r, 0) - resampled(b, r, 1)).collect();
        Some((difference, self.interval(&differences)?))
    }

    /// The interval that holds the middle `confidence` of some resampled values; infinite ones count, NaN may not occur.
    /// `None` of nothing.
    pub fn interval(&self, values: &[f64]) -> Option<Interval> {
        let last = values.len().checked_sub(1)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Order statistics, rounded outward: infinite values cannot be interpolated.
        let tail = 0.5 * (1.0 - self.confidence) * last as f64;
        let low = tail.floor() as usize;
        Some(Interval { low: sorted[low], high: sorted[last - low] })
    }
}

/// How many of several equal runs, with different seeds, reached the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Runs that reached it.
    pub reached: u32,
    /// All runs.
    pub of: u32,
}

impl Reach {
    /// The share that reached it; `None` of no runs.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.reached) / f64::from(self.of))
    }

    /// The exact interval of the probability to reach it (Clopper and Pearson, 1934): all p that do not make as few or as
    /// many successes improbable, at (1 - confidence) / 2 on either side.
    pub fn interval(self, confidence: f64) -> Interval {
        let tail = 0.5 * (1.0 - confidence);
        let (k, n) = (self.reached, self.of);
        let low = if k == 0 { 0.0 } else { bisect(|p| at_least(k, n, p) > tail) };
        let high = if k >= n { 1.0 } else { bisect(|p| 1.0 - at_least(k + 1, n, p) < tail) };
        Interval { low, high }
    }
}

/// The point of [0, 1] from which on a monotone condition holds.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if holds(middle) { high = middle } else { low = middle }
    }
    0.5 * (low + high)
}

/// The probability of at least `k` successes in `n` tries, each with probability `p` in (0, 1).
fn at_least(k: u32, n: u32, p: f64) -> f64 {
    let (mut log_choose, mut sum) = (0.0, 0.0);
    for i in 0..=n {
        if i > 0 {
            log_choose += f64::from(n - i + 1).ln() - f64::from(i).ln();
        }
        if i >= k {
            sum += (log_choose + f64::from(i) * p.ln() + f64::from(n - i) * (-p).ln_1p()).exp();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTSTRAP: Bootstrap = Bootstrap { seed: Seed(1), resamples: 2000, confidence: 0.95 };

    #[test]
    fn the_least_stays_with_its_probability() {
        // Of n trials the best is in a resample with probability 1 - (1 - 1/n)^n; the second best leads the rest.
        let amounts: Vec<f64> = (0..10).map(f64::from).collect();
        let minima = BOOTSTRAP.minima(&amounts, 0);
        for rank in 0..3 {
            let expected = (1.0 - f64::from(rank) / 10.0).powi(10) - (0.9 - f64::from(rank) / 10.0).powi(10);
            let share = minima.iter().filter(|m| **m == f64::from(rank)).count() as f64 / 2000.0;
            // Four standard deviations of a share of 2000.
            assert!(
                (share - expected).abs() < 4.0 * (expected * (1.0 - expected) / 2000.0).sqrt(),
                "{rank} {share}"
            );
        }
        assert_eq!(BOOTSTRAP.minima(&amounts, 0), minima);
        assert_ne!(BOOTSTRAP.minima(&amounts, 1), minima);
        assert_ne!(Bootstrap { seed: Seed(2), ..BOOTSTRAP }.minima(&amounts, 0), minima);
    }

    #[test]
    fn censored_trials_make_upper_ends_infinite() {
        let interval = |amounts: &[f64]| BOOTSTRAP.interval(&BOOTSTRAP.minima(amounts, 0)).unwrap();
        let inf = f64::INFINITY;
        assert_eq!(interval(&[5.0, inf, inf, inf]), Interval { low: 5.0, high: inf });
        assert_eq!(interval(&[5.0; 4]), Interval { low: 5.0, high: 5.0 });
        assert_eq!(interval(&[inf]), Interval { low: inf, high: inf });
        assert_eq!(BOOTSTRAP.minima(&[], 0), vec![inf; 2000]);
        assert_eq!(BOOTSTRAP.interval(&[]), None);
        let percent: Vec<f64> = (0..=1000).map(f64::from).collect();
        assert_eq!(BOOTSTRAP.interval(&percent), Some(Interval { low: 25.0, high: 975.0 }));
    }

    #[test]
    fn differences_of_means_have_the_width_of_their_standard_error() {
        let sample = |shift: f64, salt| -> Vec<f64> {
            let draw = |i| shift + Seed(6).key(Purpose::Study, salt).at(0, i, 0).normal();
            (0..50).map(draw).collect()
        };
        let (a, b) = (sample(1.0, 1), sample(0.0, 2));
        let (difference, interval) = BOOTSTRAP.mean_difference(&a, &b).unwrap();
        assert!((difference - 1.0).abs() < 0.6 && interval.low < difference && difference < interval.high);
        // Twice 1.96 standard errors of sqrt(2 / 50), which the samples' own spread moves by up to 20 %.
        let width = interval.high - interval.low;
        assert!((width / 0.784 - 1.0).abs() < 0.25, "{width}");
        let (none, interval) = BOOTSTRAP.mean_difference(&a, &a).unwrap();
        assert!(none == 0.0 && interval.low < 0.0 && 0.0 < interval.high);
        assert_eq!(BOOTSTRAP.mean_difference(&a, &[]), None);
    }

    #[test]
    fn shares_have_their_exact_intervals() {
        // From tables of the Clopper-Pearson interval at 95 %.
        for (k, n, low, high) in [
            (0, 10, 0.0, 0.3085),
            (1, 10, 0.0025, 0.4450),
            (5, 10, 0.1871, 0.8129),
            (10, 10, 0.6915, 1.0),
            (35, 50, 0.5539, 0.8214),
        ] {
            let got = Reach { reached: k, of: n }.interval(0.95);
            assert!((got.low - low).abs() < 1e-4 && (got.high - high).abs() < 1e-4, "{k} of {n}: {got:?}");
        }
        assert_eq!(Reach { reached: 0, of: 0 }.interval(0.95), Interval { low: 0.0, high: 1.0 });
        assert_eq!(
            (Reach { reached: 3, of: 4 }.share(), Reach { reached: 0, of: 0 }.share()),
            (Some(0.75), None)
        );
    }
}
