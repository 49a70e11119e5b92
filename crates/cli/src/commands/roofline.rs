//! Where an update's time goes: each operation beside the least time that its work takes on this machine.

use serde::Serialize;
use sooner_base::{Batch, Clock, median};
use sooner_engine::{Feed, Native, OpTime, State};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Seconds of timed updates, and the fewest of them.
const SECONDS: f64 = 1.0;
const UPDATES: usize = 5;

/// What this machine does at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceilings {
    /// Operations a second.
    pub(crate) flops: f64,
    /// Bytes a second to and from memory.
    pub(crate) bytes: f64,
}

/// One operation of an update.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OpReport {
    /// Its name; where several are fused, the first's. Updates of variables are `update`.
    op: &'static str,
    /// The shape of its result; empty for updates.
    shape: Vec<usize>,
    /// The median.
    seconds: f64,
    /// Two for each multiply-add of convolutions and matrix products, counted directly.
    flops: u64,
    /// Operands and result, each once.
    bytes: u64,
    /// The larger of flops at the peak and bytes at the bandwidth.
    floor_seconds: f64,
    /// Floor over time; fast convolutions and values still in the caches can exceed 1.
    share: f64,
}

/// Times the operations of some updates. Scalars are such that no value can grow: a rate of zero, all else a half.
pub(crate) fn time_operations(
    native: &mut Native,
    state: &mut State,
    batch: &Batch,
    ceilings: Ceilings,
    clock: &dyn Clock,
) -> anyhow::Result<Vec<OpReport>> {
    let scalar = |name: &String| if name == "learning_rate" { 0.0 } else { 0.5 };
    let scalars: Vec<f32> = native.program().graph.scalars().iter().map(scalar).collect();
    let feed = Feed {
        features: &batch.features,
        labels: &batch.labels,
        scalars: &scalars,
        origins: &batch.origins,
        ..Feed::default()
    };
    let mut runs: Vec<Vec<OpTime>> = Vec::new();
    let start = clock.now();
    while runs.len() < UPDATES || (clock.now() - start).0 < SECONDS {
        runs.push(native.run_timed(state, &feed, clock)?);
    }
    let report = |at: usize| {
        let times: Vec<f64> = runs.iter().map(|run| run[at].seconds.0).collect();
        let time = &runs[0][at];
        let seconds = median(&times).expect("updates were timed");
        let floor_seconds = time.floor(ceilings.flops, ceilings.bytes).0;
        OpReport {
            op: time.op,
            shape: time.node.map_or(Vec::new(), |id| native.program().graph.shape(id).dims().to_vec()),
            seconds,
            flops: time.flops,
            bytes: time.bytes,
            floor_seconds,
            share: if seconds > 0.0 { floor_seconds / seconds } else { 0.0 },
        }
    };
    Ok((0..runs[0].len()).map(report).collect())
}

/// Operations by name, the slowest first; what takes less than a hundredth of the time is one line.
pub(crate) fn table(ops: &[OpReport], bandwidth: f64) -> String {
    #[derive(Default)]
    struct Sum {
        count: usize,
        seconds: f64,
        flops: u64,
        bytes: u64,
        floor: f64,
    }
    let total: f64 = ops.iter().map(|op| op.seconds).sum();
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for op in ops {
        let of_name: f64 = ops.iter().filter(|o| o.op == op.op).map(|o| o.seconds).sum();
        let sum = sums.entry(if of_name < 0.01 * total { "all else" } else { op.op }).or_default();
        sum.count += 1;
        sum.seconds += op.seconds;
        sum.flops += op.flops;
        sum.bytes += op.bytes;
        sum.floor += op.floor_seconds;
    }
    let mut lines: Vec<(&str, Sum)> = sums.into_iter().collect();
    lines.sort_by(|(a, x), (b, y)| {
        (*a == "all else").cmp(&(*b == "all else")).then(y.seconds.total_cmp(&x.seconds))
    });
    let mut out = format!(
        "{:<24} {:>5} {:>10} {:>6} {:>9} {:>7} {:>9}\n",
        "operation", "times", "ms", "time", "GFLOP/s", "GB/s", "of floor"
    );
    for (name, sum) in lines {
        let rate = |work: u64| if sum.seconds > 0.0 { work as f64 / sum.seconds * 1e-9 } else { 0.0 };
        let flops = if sum.flops > 0 { format!("{:.0}", rate(sum.flops)) } else { "-".to_string() };
        let share = if sum.seconds > 0.0 { sum.floor / sum.seconds } else { 0.0 };
        let _ = writeln!(
            out,
            "{name:<24} {:>5} {:>10.3} {:>5.1}% {flops:>9} {:>7.1} {:>8.0}%",
            sum.count,
            1e3 * sum.seconds,
            100.0 * sum.seconds / total.max(f64::MIN_POSITIVE),
            rate(sum.bytes),
            100.0 * share,
        );
    }
    let _ = writeln!(
        out,
        "of floor: the larger of FLOPs at the peak and bytes at {bandwidth:.1} GB/s, over the time; may exceed 100 %"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(op: &'static str, seconds: f64, flops: u64) -> OpReport {
        OpReport { op, shape: vec![], seconds, flops, bytes: 1000, floor_seconds: seconds / 2.0, share: 0.5 }
    }

    #[test]
    fn operations_are_summed_by_name_and_sorted() {
        let ops = [op("relu", 0.1, 0), op("conv2d", 0.3, 30), op("conv2d", 0.5, 50), op("sum", 0.001, 0)];
        let text = table(&ops, 20.0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("conv2d") && lines[1].contains(" 2 ") && lines[1].ends_with("50%"),
            "{text}"
        );
        assert!(lines[2].starts_with("relu") && lines[3].starts_with("all else"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 110), "{text}");
    }
}
