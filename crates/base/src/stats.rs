//! Small statistics, and what each stage of a pipeline reports.

use crate::{Bytes, Seconds};
use serde::{Deserialize, Serialize};

/// What one stage of a pipeline did: one type for every stage, so that lanes can be compared and drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StageStats {
    /// Items the stage passed on.
    pub items: u64,
    /// Seconds spent working, summed over its threads.
    pub busy: Seconds,
    /// Seconds spent waiting for the stage before it.
    pub blocked_in: Seconds,
    /// Seconds spent waiting for the stage after it.
    pub blocked_out: Seconds,
    /// Most bytes its output queue held.
    pub queue_bytes: Bytes,
    /// Bytes of the items that it passed on.
    #[serde(default)]
    pub bytes: Bytes,
}

impl StageStats {
    /// Adds another thread's share of the same stage.
    pub fn merge(&mut self, other: &StageStats) {
        self.items += other.items;
        self.busy += other.busy;
        self.blocked_in += other.blocked_in;
        self.blocked_out += other.blocked_out;
        self.queue_bytes = self.queue_bytes.max(other.queue_bytes);
        self.bytes += other.bytes;
    }
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Median, the mean of the middle two for an even count; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| if n % 2 == 1 { sorted[n / 2] } else { 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]) })
}

/// Sample standard deviation (divides by n - 1); `None` for fewer than two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    let m = mean(values)?;
    let n = values.len();
    (n > 1).then(|| (values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples() {
        assert_eq!((mean(&[]), median(&[]), sample_sd(&[1.0])), (None, None, None));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(sample_sd(&[1.0, 3.0]), Some(2f64.sqrt()));
    }
}
