//! What to do about a batch size: grow it, echo, or neither.

use crate::interval::Interval;
use serde::Serialize;

/// What shortens a run at some batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Surely below the critical batch: larger batches save updates in proportion, repeated batches hardly anything.
    GrowBatch,
    /// Surely above it: larger batches hardly save updates; repeating batches should save fresh examples. A law of the
    /// noisy quadratic model, a hypothesis elsewhere.
    Echo,
    /// The interval of the critical batch holds this size: neither is sure to pay.
    Neither,
}

/// The advice, with how far the batch size is from the critical one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchAdvice {
    /// What to do.
    pub advice: Advice,
    /// The batch size over the critical one: below 1 there is room.
    pub share: f64,
    /// The same over the interval of the critical batch size.
    pub range: Interval,
}

/// Compares a batch size with the critical one, given with its interval, all in examples.
pub fn batch_advice(batch: f64, critical: f64, interval: Interval) -> BatchAdvice {
    let advice = if batch < interval.low {
        Advice::GrowBatch
    } else if batch > interval.high {
        Advice::Echo
    } else {
        Advice::Neither
    };
    let range = Interval { low: batch / interval.high, high: batch / interval.low };
    BatchAdvice { advice, share: batch / critical, range }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let at = |batch| batch_advice(batch, 400.0, Interval { low: 200.0, high: 1000.0 });
        assert_eq!(
            [100.0, 200.0, 1000.0, 1001.0].map(|b| at(b).advice),
            [Advice::GrowBatch, Advice::Neither, Advice::Neither, Advice::Echo]
        );
        assert_eq!(at(100.0).share, 0.25);
        assert_eq!(at(100.0).range, Interval { low: 0.1, high: 0.5 });
        // An end of perfect scaling that was never seen leaves only one direction.
        let unseen = batch_advice(64.0, f64::INFINITY, Interval { low: 500.0, high: f64::INFINITY });
        assert_eq!((unseen.advice, unseen.share, unseen.range.low), (Advice::GrowBatch, 0.0, 0.0));
    }
}
