//! When to write a checkpoint: as often as a small share of the run's time allows, by what writing has cost so far.
//! Timing decides when, never what: a checkpoint changes no bit of the run.

use sooner_base::{Bytes, Seconds, Updates};

/// The share of the run's time that checkpoints and the final weights may take: under the promised 1 %, since one write
/// may take longer than the one before it.
const SHARE: f64 = 0.009;

/// When to write checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpoints {
    /// As often as they cost under 1 % of the run's time.
    Auto,
    /// After every so many updates, whatever that costs.
    Every(Updates),
    /// Never, not even when interrupted.
    Never,
}

/// Decides for one run.
#[derive(Debug)]
pub(crate) struct Pacer {
    rule: Checkpoints,
    /// What the next write is expected to take.
    cost: Seconds,
}

impl Pacer {
    /// Before the first write its cost is guessed, rather too high: what a slow disk needs.
    pub(crate) fn new(rule: Checkpoints, size: Bytes) -> Pacer {
        Pacer { rule, cost: Seconds(0.02 + size.0 as f64 / 150e6) }
    }

    /// Learns what a write has taken.
    pub(crate) fn took(&mut self, seconds: Seconds) {
        // One slow write makes the next few rarer, not all of them.
        self.cost = Seconds(seconds.0.max(0.5 * self.cost.0));
    }

    /// Whether to write one now, given the updates made, the time spent on checkpoints, and all time spent.
    pub(crate) fn is_due(&self, updates: Updates, spent: Seconds, wall: Seconds) -> bool {
        match self.rule {
            // The final weights are written on the same account, and cost about as much.
            Checkpoints::Auto => spent.0 + 2.0 * self.cost.0 <= SHARE * wall.0,
            Checkpoints::Every(every) => updates.0.is_multiple_of(every.0.max(1)),
            Checkpoints::Never => false,
        }
    }

    /// Whether an interrupted run leaves one.
    pub(crate) fn keeps(&self) -> bool {
        self.rule != Checkpoints::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a run of updates of 10 ms, with writes that take what `cost` says; returns the share of its time that
    /// writing took and the longest time without a checkpoint.
    fn play(seconds: f64, size: u64, cost: impl Fn(u64) -> f64) -> (f64, f64) {
        let mut pacer = Pacer::new(Checkpoints::Auto, Bytes(size));
        let (mut wall, mut spent, mut last, mut longest, mut count) = (0.0, 0.0, 0.0, 0f64, 0);
        let mut updates = 0;
        while wall < seconds {
            (wall, updates) = (wall + 0.01, updates + 1);
            longest = longest.max(wall - last);
            if pacer.is_due(Updates(updates), Seconds(spent), Seconds(wall)) {
                let took = cost(count);
                (wall, spent, last, count) = (wall + took, spent + took, wall, count + 1);
                pacer.took(Seconds(took));
            }
        }
        let weights = cost(count);
        ((spent + weights) / (wall + weights), longest)
    }

    #[test]
    fn checkpoints_take_under_a_hundredth_of_the_time() {
        for (cost, size) in [(0.001, 1 << 16), (0.02, 1 << 20), (0.3, 52 << 20), (3.0, 500 << 20)] {
            for seconds in [1.0, 10.0, 100.0, 1000.0] {
                let (share, longest) = play(seconds, size, |_| cost);
                // A run too short for its own weights is beyond help.
                assert!(share < 0.01 || cost > 0.009 * seconds, "{share} of {seconds} s at {cost} s each");
                // Not rarer than need be: one write is paid for by 1 / SHARE times as long.
                let paid = (3.0 * cost).max(2.0 * Pacer::new(Checkpoints::Auto, Bytes(size)).cost.0) / SHARE;
                assert!(longest <= paid + 0.1 || longest <= seconds, "{longest}");
                if seconds > 2.0 * paid {
                    assert!(
                        longest <= paid + 0.1,
                        "{longest} s without a checkpoint, {paid} s would pay for one"
                    );
                }
            }
        }
    }

    #[test]
    fn a_slow_write_makes_the_next_rarer() {
        let (share, _) = play(1000.0, 1 << 20, |count| if count % 7 == 3 { 0.5 } else { 0.01 });
        assert!(share < 0.01, "{share}");
    }

    #[test]
    fn other_rules() {
        let due =
            |rule, updates| Pacer::new(rule, Bytes(0)).is_due(Updates(updates), Seconds(1.0), Seconds(1.0));
        assert!(due(Checkpoints::Every(Updates(3)), 6) && !due(Checkpoints::Every(Updates(3)), 7));
        assert!(!due(Checkpoints::Never, 6) && !due(Checkpoints::Auto, 6));
    }
}
