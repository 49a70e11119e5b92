//! The progress bar of a training run: on stderr, quiet when that is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sooner_train::{Control, Observer, Progress};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shows a run and passes an interruption on to it.
pub(crate) struct Bar {
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
}

impl Bar {
    /// A bar over so many updates, of the terminal's width: what does not fit is cut off at its end; it ends the run once `interrupted` is set.
    pub(crate) fn new(updates: u64, interrupted: Arc<AtomicBool>) -> Bar {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(updates), target);
        let style =
            ProgressStyle::with_template("{bar:16.cyan/blue} {percent:>3} %  {prefix:<12} {wide_msg}")
                .expect("a valid template")
                .progress_chars("━╸ ");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(500));
        Bar { bar, interrupted }
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Bar {
    fn observe(&mut self, progress: &Progress<'_>) -> Control {
        if !self.bar.is_hidden() {
            let rate = progress.examples_per_second;
            let metric = match progress.metric {
                Some((name, value)) => format!("  {name} {value:.4}"),
                None => String::new(),
            };
            let (epoch, share) = (progress.epochs.0, 100.0 * progress.share);
            let loss = progress.loss;
            let message = format!(
                "epoch {epoch:.2}  loss {loss:.3}{metric}  {rate:.0} examples/s  {share:.0} % of peak"
            );
            self.bar.set_message(message);
            self.bar.set_prefix(format!("{} left", duration(progress.seconds_left.0)));
            self.bar.set_position(progress.updates.0);
        }
        if self.interrupted() { Control::Stop } else { Control::Continue }
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Counts finished work other than updates: cells, or bytes.
pub(crate) struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// Over so many items, called `unit`.
    pub(crate) fn of_items(total: u64, unit: &str) -> Counter {
        Counter::new(total, &format!("{{bar:24.cyan/blue}} {{pos}} of {{len}} {unit}  {{eta}} left"))
    }

    fn new(total: u64, template: &str) -> Counter {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        bar.set_style(
            ProgressStyle::with_template(template).expect("a valid template").progress_chars("━╸ "),
        );
        Counter { bar }
    }

    /// Over so many bytes.
    pub(crate) fn of_bytes(total: u64) -> Counter {
        Counter::new(total, "{bar:24.cyan/blue} {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left")
    }

    /// Takes work back that has to be done again.
    pub(crate) fn forget(&self, by: u64) {
        self.bar.set_position(self.bar.position().saturating_sub(by));
    }

    /// Adds finished work.
    pub(crate) fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// Prints a line on stderr, above the bar where there is one.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Shows the bar now, and moves its clock, though nothing is finished yet.
    pub(crate) fn show(&self) {
        self.bar.enable_steady_tick(Duration::from_millis(500));
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds as a person says them.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 => format!("{:.1} s", seconds.max(0.0)),
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_read_well() {
        let said: Vec<String> = [0.04, 9.94, 10.2, 59.7, 61.0, 3600.0, 7384.0].map(duration).to_vec();
        assert_eq!(said, ["0.0 s", "9.9 s", "10 s", "1 min 00 s", "1 min 01 s", "1 h 00 min", "2 h 03 min"]);
    }
}
