//! What a person reads at the end of a run.

use crate::progress::duration;
use sooner_base::Seconds;
use sooner_record::{Status, Summary};

/// What a person reads at the end: what the run came to, and what would shorten it.
pub(crate) fn closing(s: &Summary, advice: &[String]) -> String {
    let mut lines = Vec::new();
    let target = s.target.as_deref().unwrap_or("no target");
    lines.push(match (s.status, &s.reached_at) {
        (Status::Reached, Some(at)) => format!(
            "reached {target} after {} updates ({:.2} epochs), {} of training",
            at.updates,
            at.epochs.0,
            duration(at.training_seconds.0)
        ),
        (Status::Done, _) => {
            format!("done: {} updates, {:.2} epochs", s.position.updates, s.position.epochs.0)
        }
        (Status::Budget, Some(at)) => format!(
            "budget ended; {target} was met after {} updates, but not by the final weights",
            at.updates
        ),
        (Status::Diverged, _) => diverged(s),
        (Status::Interrupted, _) => format!("interrupted after {} updates", s.position.updates),
        _ => format!("budget ended before {target}: {:.2} epochs", s.position.epochs.0),
    });
    if let Some(asked) = s.rounded_from {
        let ran = s.position.epochs.0;
        lines.push(format!(
            "  length    {ran:.4} epochs: the {} that were asked for, in whole updates",
            asked.0
        ));
    }
    let metrics = |name: &str, m: &Option<sooner_record::Metrics>| {
        m.map(|m| {
            format!(
                "  {name:<9} {} loss {:.4}, error {:.4}, accuracy {:.4}",
                m.split, m.loss, m.error, m.accuracy
            )
        })
    };
    lines.extend(metrics("final", &s.last));
    if let Some(seen) = &s.seen {
        let views = seen.views.count();
        lines.extend(
            metrics("one view", &Some(seen.one)).map(|line| format!("{line} (above: {views} views)")),
        );
    }
    if s.best != s.last {
        lines.extend(metrics("best", &s.best));
    }
    let t = &s.time;
    let part = |name: &str, seconds: Seconds| format!("{name} {:.2} s", seconds.0);
    let parts = [
        part("prepare", t.prepare),
        part("wait", t.wait),
        part("train", t.train),
        part("evaluate", t.evaluate),
        part("checkpoint", t.checkpoint),
        part("log", t.log),
    ];
    lines.push(format!("  time      {} = {:.2} s", parts.join(" + "), t.wall().0));
    if let Some(last) = s.final_evaluation {
        let training = s.position.training_seconds.0;
        lines.push(format!(
            "  clock     {training:.2} s by DAWNBench's rules, {:.2} s with the final evaluation in",
            training + last.0
        ));
    }
    lines.push(format!("  speed     {:.0} examples/s", s.examples_per_second));
    lines.push(format!(
        "  ceiling   {:.0} % of this machine's {:.0} GFLOP/s; at 100 % these updates take {}",
        100.0 * s.ceiling.share,
        s.ceiling.peak_gflops,
        duration(s.ceiling.seconds_at_peak.0)
    ));
    lines.extend(data(s));
    lines.extend(advice.iter().enumerate().map(|(k, text)| {
        let name = if k == 0 { "shorter" } else { "" };
        format!("  {name:<9} {}", wrapped(text))
    }));
    if let Some(gradient) = &s.gradient {
        let scale =
            gradient.scale.map_or("not known yet".to_string(), |scale| format!("{scale:.0} examples"));
        lines.push(format!(
            "  gradient  noise scale {scale} (noise {:.3e} over signal {:.3e})",
            gradient.noise, gradient.signal
        ));
    }
    if let Some(record) = &s.record {
        lines.push(format!("  record    {record}"));
    }
    lines.join("\n")
}

/// Text in lines of at most 100 columns, the first of which begins behind a name.
fn wrapped(text: &str) -> String {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let row = rows.last_mut().expect("there is a first row");
        if row.chars().count() + word.chars().count() + 13 > 100 && !row.is_empty() {
            rows.push(word.to_string());
        } else {
            *row += if row.is_empty() { "" } else { " " };
            *row += word;
        }
    }
    rows.join("\n            ")
}

/// What to know of the data, where there is something.
fn data(s: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let report = &s.data;
    if let Some(hash) = &report.class_hash {
        let examples = report.example_hash.as_deref().unwrap_or("unknown");
        lines.push(format!("  data      class list {hash}, training examples {examples}"));
    }
    let used = s.position.examples.0;
    if let Some(duplicates) = report.duplicates.filter(|_| used > 0) {
        let fresh = s.position.fresh_examples.0;
        lines.push(format!(
            "  echo      {fresh} fresh examples used {:.2} times each; {:.1} % of a batch show what another of it shows",
            used as f64 / fresh.max(1) as f64,
            100.0 * duplicates.0 as f64 / used as f64
        ));
    }
    lines.extend(report.notes.iter().map(|note| format!("  note      {}", wrapped(note))));
    if let Some(first) = report.bad.first() {
        let n = report.bad.len();
        lines.push(format!("  left out  {n} bad examples, the first {} ({})", first.place, first.reason));
    }
    lines
}

fn diverged(s: &Summary) -> String {
    let Some(d) = s.diverged else { return format!("diverged after {} updates", s.position.updates) };
    let after = match d.last_finite {
        Some(last) => {
            format!("; the last finite loss before it was {:.4}, of update {}", last.loss, last.updates)
        }
        None => String::new(),
    };
    format!("diverged after {} updates: loss {}{after}", d.updates, d.loss)
}
