//! Measuring a plan's pipeline: what each stage does, and what upstream and downstream take at every place where an echo
//! stage may stand.
//!
//! Upstream is measured into a sink: worker threads make items as the echo stage would get them, and nobody waits for
//! anything else. Downstream is measured on items that are in memory already: the rest of the stages, and the consumer's
//! own work. Both together are measured too, as a check. Everything is timed by the injected clock, CPU time by another
//! one that counts the process's CPU seconds.

mod cuts;
mod gauge;
mod tune;
mod upstream;

pub use cuts::{Cut, Repeats, cuts, without_echo};
pub use gauge::{CutTimes, Gauge, Profile, Side, StageProfile};
pub use tune::{StageShare, Tried, Tuned};

#[cfg(test)]
mod tests;
