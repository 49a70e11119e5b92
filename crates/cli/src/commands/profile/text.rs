//! The answer for people, in at most 100 columns.

use super::report::Report;
use std::fmt::Write;

/// Columns of the widest line.
const WIDTH: usize = 100;

/// A gain that is one.
const HELPS: f64 = 1.02;

/// Seconds as short as they can be said.
pub(crate) fn short(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "?".into(),
        s if s < 1e-6 => format!("{} ns", digits(s * 1e9)),
        s if s < 1e-3 => format!("{} µs", digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

/// Three significant digits.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        s if !s.is_finite() => "?".into(),
        s if s >= 99.95 => format!("{value:.0}"),
        s if s >= 9.995 => format!("{value:.1}"),
        s if s >= 0.0095 || s == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Everything, as lines.
pub(crate) fn text(r: &Report) -> String {
    let mut out = String::new();
    let o = &mut out;
    line(
        o,
        &format!(
            "{}: batch {}, {} training examples; {} engine and {} pipeline threads on {} cores",
            r.workload, r.batch, r.examples, r.threads, r.pipeline_threads, r.cores
        ),
    );
    let t = &r.together;
    line(
        o,
        &format!(
            "as it is: {} an example ({} examples/s; the time law says {}), the update waits {} of the time",
            short(t.seconds),
            digits(1.0 / t.seconds),
            short(t.predicted),
            percent(t.idle)
        ),
    );
    stages(o, r);
    cuts(o, r);
    advice(o, r);
    if !r.instead.is_empty() {
        let (helps, others): (Vec<_>, Vec<_>) = r.instead.iter().partition(|way| way.speedup >= HELPS);
        line(o, "");
        line(
            o,
            if helps.is_empty() {
                "instead of echo: nothing that was tried would help"
            } else {
                "instead of echo:"
            },
        );
        others.iter().for_each(|way| line(o, &format!("  no gain: {}", way.what)));
        for way in helps {
            line(o, &format!("  {}x  {}: {} an example", digits(way.speedup), way.what, short(way.seconds)));
            let set = way.set.as_ref().map_or(String::new(), |set| format!("--set {set}; "));
            line(o, &format!("         {set}{}", way.note));
        }
    }
    out
}

fn stages(o: &mut String, r: &Report) {
    line(o, "");
    line(
        o,
        &format!(
            "{:<10} {:>12} {:>10} {:>10} {:>10} {:>12} {:>12}",
            "stage", "items/s", "MB/s", "busy", "waits in", "waits out", "queue MiB"
        ),
    );
    for s in &r.stages {
        let share = |seconds: f64| if s.seconds > 0.0 { percent(seconds / s.seconds) } else { "-".into() };
        let rate = if s.seconds > 0.0 { s.bytes as f64 / s.seconds / 1e6 } else { 0.0 };
        let name =
            if s.name == "batch" || s.name == "update" { format!("{} *", s.name) } else { s.name.clone() };
        line(
            o,
            &format!(
                "{:<10} {:>12} {:>10} {:>10} {:>10} {:>12} {:>12}",
                name,
                digits(s.items_per_second),
                if s.bytes > 0 { digits(rate) } else { "-".into() },
                share(s.busy),
                share(s.blocked_in),
                share(s.blocked_out),
                if s.queue_bytes > 0 {
                    digits(s.queue_bytes as f64 / f64::from(1 << 20))
                } else {
                    "-".into()
                },
            ),
        );
    }
    line(o, "shares are of one thread's time, summed over threads; * items are batches");
}

fn cuts(o: &mut String, r: &Report) {
    line(o, "");
    line(
        o,
        &format!(
            "{:<27} {:>11} {:>12} {:>8} {:>6} {:>10} {:>10}",
            "an echo stage here", "t_upstream", "t_downstream", "R", "idle", "CPU up", "CPU down"
        ),
    );
    for c in &r.cuts {
        line(
            o,
            &format!(
                "{:<27} {:>11} {:>12} {:>8} {:>6} {:>10} {:>10}",
                c.position,
                short(c.t_upstream),
                short(c.t_downstream),
                digits(c.ratio),
                percent(c.idle),
                short(c.cpu_upstream),
                short(c.cpu_downstream),
            ),
        );
    }
    line(o, "an example each; upstream into a sink, downstream on items in memory; CPU of all threads");
}

fn advice(o: &mut String, r: &Report) {
    line(o, "");
    if let Some(reason) = &r.reason {
        line(o, &format!("advice: no echo. {}", sentence(reason)));
        return;
    }
    line(o, "advice:");
    for a in &r.advice {
        line(
            o,
            &format!(
                "  {:.2}x  echo {} {}, {:.2} to {:.2} by what repeats are worth; {} a fresh example",
                a.speedup,
                a.echo,
                a.position,
                a.speedup_low,
                a.speedup_high,
                short(a.seconds)
            ),
        );
        let cut = &r.cuts[a.cut];
        let worth = r.repeats_worth.named(cut.repeats);
        line(
            o,
            &format!(
                "         {}: F(e) = 1 / (1 + u (e - 1)), u {} ({} to {}), {}",
                cut.repeats,
                digits(worth.value.likely),
                digits(worth.value.low),
                digits(worth.value.high),
                worth.source
            ),
        );
    }
    if let Some(best) = r.advice.first() {
        line(o, &format!("  the first as a stage of the plan, {}: {}", best.position, best.stage));
    }
    if let Some(v) = &r.verified {
        line(
            o,
            &format!(
                "verified: echo {} {}: {} a fresh example with its repeats (predicted {}),",
                v.echo,
                v.position,
                short(v.measured),
                short(v.predicted)
            ),
        );
        line(
            o,
            &format!(
                "          {:.2}x the uses of examples a second; the update waits {} of the time",
                v.uses_speedup,
                percent(v.idle)
            ),
        );
        line(o, "          whether they are worth it, only training to the target can tell");
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// One line, or as many as it needs at its own indent. Words longer than a line stay whole: they are to be copied.
fn line(o: &mut String, text: &str) {
    let indent = text.len() - text.trim_start().len();
    if text.chars().count() <= WIDTH {
        writeln!(o, "{text}").expect("a string takes everything");
        return;
    }
    let mut row = " ".repeat(indent);
    for word in text.trim_start().split(' ') {
        if row.chars().count() + 1 + word.chars().count() > WIDTH && row.trim() != "" {
            writeln!(o, "{}", row.trim_end()).expect("a string takes everything");
            row = " ".repeat(indent + 2);
        }
        if row.trim() != "" {
            row.push(' ');
        }
        row.push_str(word);
    }
    writeln!(o, "{}", row.trim_end()).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_read_well() {
        let told = [2.5e-9, 4.56e-6, 0.00123, 0.5, 12.345, 250.0].map(short);
        assert_eq!(told, ["2.50 ns", "4.56 µs", "1.23 ms", "500 ms", "12.3 s", "250 s"]);
        assert_eq!([0.0, 0.001, 99.96, 1234.5, f64::NAN].map(digits), ["0.00", "1.0e-3", "100", "1234", "?"]);
    }

    #[test]
    fn long_lines_are_broken_at_words() {
        let mut out = String::new();
        line(&mut out, &format!("  {}", "word ".repeat(60)));
        assert!(
            out.lines().count() == 4
                && out.lines().all(|l| l.chars().count() <= WIDTH && l.starts_with("  "))
        );
    }
}
