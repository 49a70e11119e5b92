//! Trials that are commands: metaparameters go in as arguments or environment, measurements come out as JSON lines on
//! stdout. Both streams are kept in the trial's folder.

use super::workers::{Ended, Held};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use sooner_record::{Outcome, TrialEvaluation, TrialState, Values};
use sooner_study::Target;
use sooner_study::definition::{AxisValue, PointPlan, StudyPlan, fill};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often a silent command is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How many faulty lines are remembered.
const MOST_FAULTS: usize = 3;

/// Runs one trial. Err if the command cannot be started at all.
pub(crate) fn run(study: &StudyPlan, point: &PointPlan, held: &Held, folder: &Path) -> anyhow::Result<Ended> {
    let target = study.target()?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut child = start(study, point, held, folder)?;
    let lines = listen(&mut child, folder)?;
    let exec = study.exec.as_ref().expect("a study without a workload has a command");
    let batch = point.value("batch").and_then(AxisValue::number).map_or(1, |b| b.max(1.0) as u64);
    let mut trial = Measured { target, batch, evaluations: Vec::new(), last_loss: None, faults: Vec::new() };
    let limits = [exec.time_limit, point.budget.seconds];
    let limit = limits.into_iter().flatten().fold(f64::INFINITY, f64::min);
    let settled = loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                let seconds = held.seconds();
                if let Some(end) = trial.take(&line, seconds, exec.to_the_end, point) {
                    break Some(end);
                }
            }
            // The command is over, though something it started may still hold its stdout.
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => break None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break None,
        }
        if held.dropped() {
            end(&mut child)?;
            return Ok(Ended::Dropped);
        }
        if held.seconds() > limit {
            break Some((TrialState::Censored, format!("time limit of {limit} s")));
        }
        if let Some(why) = trial.evaluations.last().and_then(|e| held.beyond(e.updates)) {
            break Some((TrialState::Censored, why));
        }
    };
    let status = match settled {
        Some(_) => end(&mut child)?,
        // The stream may end before the process does; the limits hold until it has.
        None => wait(&mut child, held, limit)?,
    };
    let (state, note) = match settled {
        Some((state, note)) => (state, note),
        None if held.dropped() => return Ok(Ended::Dropped),
        None if held.seconds() > limit => (TrialState::Censored, format!("time limit of {limit} s")),
        None if status.signal() == Some(Signal::KILL.as_raw()) => return Ok(Ended::Killed),
        None => trial.judge(status),
    };
    let note = match trial.faults.first() {
        Some(fault) if note.is_empty() => fault.clone(),
        Some(fault) => format!("{note}; {fault}"),
        None => note,
    };
    Ok(Ended::Result(Outcome { state, note, last_loss: trial.last_loss }, trial.evaluations))
}

fn start(study: &StudyPlan, point: &PointPlan, held: &Held, folder: &Path) -> anyhow::Result<Child> {
    let exec = study.exec.as_ref().expect("a study without a workload has a command");
    let lease = &held.lease;
    let value = |name: &str| -> Option<String> {
        Some(match name {
            "seed" => study.trial_seed(lease.point, lease.number).0.to_string(),
            "trial" => lease.number.to_string(),
            "point" => lease.point.to_string(),
            "attempt" => lease.attempt.to_string(),
            _ => match point.value(name) {
                Some(value) => value.to_string(),
                None => lease.parameters.get(name)?.to_string(),
            },
        })
    };
    let filled = |text: &String| {
        fill(text, &value).map_err(|name| anyhow::anyhow!("no value for {{{name}}} in `{text}`"))
    };
    let words: Vec<String> = exec.command.iter().map(filled).collect::<Result<_, _>>()?;
    let log = folder.join("stderr.log");
    let stderr = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    for (name, text) in &exec.env {
        command.env(name, filled(text)?);
    }
    // A group of its own, so that what the command starts ends with it.
    command.process_group(0);
    command.spawn().with_context(|| format!("cannot start `{}`", words[0]))
}

/// The command's lines, as they come; all of its stdout also goes to its log.
fn listen(child: &mut Child, folder: &Path) -> anyhow::Result<Receiver<String>> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let path = folder.join("stdout.log");
    let mut log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            // A full disk ends the log and not the trial.
            let _ = log.write_all(&line);
            // Nobody listens once the trial is settled; the command may still want to write.
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
    });
    Ok(lines)
}

/// Ends the command and all that it started.
fn end(child: &mut Child) -> anyhow::Result<ExitStatus> {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // It may be over already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().context("cannot wait for the command")
}

fn wait(child: &mut Child, held: &Held, limit: f64) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        if held.dropped() || held.seconds() > limit {
            return end(child);
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// What a command has measured so far.
struct Measured {
    target: Target,
    batch: u64,
    evaluations: Vec<TrialEvaluation>,
    last_loss: Option<f64>,
    /// What was wrong with lines that looked like measurements.
    faults: Vec<String>,
}

impl Measured {
    /// Takes in a line, and says how the trial ends if it is settled.
    fn take(
        &mut self,
        line: &str,
        seconds: f64,
        to_the_end: bool,
        point: &PointPlan,
    ) -> Option<(TrialState, String)> {
        let object = read(line)?;
        if object.get("diverged").and_then(Value::as_bool) == Some(true) {
            return Some((TrialState::Diverged, String::new()));
        }
        let evaluation = match self.evaluation(&object, seconds) {
            Ok(Some(evaluation)) => evaluation,
            Ok(None) => return None,
            Err(fault) => {
                if self.faults.len() < MOST_FAULTS {
                    self.faults.push(format!("{fault} in {}", line.trim_end()));
                }
                return None;
            }
        };
        let losses = evaluation.metrics.iter().filter(|(name, _)| name.ends_with("loss"));
        let infinite = losses.clone().any(|(_, loss)| !loss.is_finite());
        if let Some((_, loss)) = losses.clone().find(|(_, loss)| loss.is_finite()) {
            self.last_loss = Some(*loss);
        }
        let met = evaluation.metrics.get(&self.target.metric).is_some_and(|v| self.target.met(*v));
        let TrialEvaluation { updates, examples, epochs, .. } = evaluation;
        self.evaluations.push(evaluation);
        let budget = &point.budget;
        let over = budget.updates.is_some_and(|most| updates >= most)
            || budget.examples.is_some_and(|most| examples >= most)
            || budget.epochs.is_some_and(|most| epochs.is_some_and(|e| e >= most));
        if infinite {
            Some((TrialState::Diverged, String::new()))
        } else if met && !to_the_end {
            Some((TrialState::Complete, String::new()))
        } else if over {
            let state = if self.reached() { TrialState::Complete } else { TrialState::Censored };
            Some((state, String::new()))
        } else {
            None
        }
    }

    /// The evaluation of a line; none if it measures nothing.
    fn evaluation(
        &self,
        object: &serde_json::Map<String, Value>,
        seconds: f64,
    ) -> Result<Option<TrialEvaluation>, String> {
        let whole = |name: &str| match object.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(x) if x >= 0.0 && x.fract() == 0.0 => Ok(Some(x as u64)),
                _ => Err(format!("`{name}` is no count")),
            },
        };
        let number = |name: &str| object.get(name).and_then(Value::as_f64);
        let reserved = ["updates", "examples", "fresh_examples", "epochs", "seconds"];
        let metrics: Values = object
            .iter()
            .filter(|(name, _)| !reserved.contains(&name.as_str()))
            .filter_map(|(name, value)| match value {
                Value::Null => Some((name.clone(), f64::NAN)),
                value => Some((name.clone(), value.as_f64()?)),
            })
            .collect();
        if metrics.is_empty() {
            return Ok(None);
        }
        let updates = whole("updates")?.ok_or("no `updates`")?;
        if self.evaluations.last().is_some_and(|last| last.updates > updates) {
            return Err("`updates` went back".into());
        }
        let examples = whole("examples")?.unwrap_or(updates.saturating_mul(self.batch));
        Ok(Some(TrialEvaluation {
            updates,
            examples,
            fresh: whole("fresh_examples")?.unwrap_or(examples),
            epochs: number("epochs"),
            seconds: Some(number("seconds").unwrap_or(seconds)),
            metrics,
        }))
    }

    fn reached(&self) -> bool {
        let value = |e: &TrialEvaluation| e.metrics.get(&self.target.metric).copied();
        self.evaluations.iter().filter_map(value).any(|v| self.target.met(v))
    }

    /// What came of a command that ended by itself.
    fn judge(&self, status: ExitStatus) -> (TrialState, String) {
        if !status.success() {
            return (TrialState::Failed, status.to_string());
        }
        let named = self.evaluations.iter().any(|e| e.metrics.contains_key(&self.target.metric));
        if !named {
            let note = format!("it ended without ever measuring {}", self.target.metric);
            return (TrialState::Failed, note);
        }
        (if self.reached() { TrialState::Complete } else { TrialState::Censored }, String::new())
    }
}

/// A line as a JSON object. Python writes NaN and infinities, which JSON does not have; they are read as null.
fn read(line: &str) -> Option<serde_json::Map<String, Value>> {
    let line = line.trim();
    if !line.starts_with('{') {
        return None;
    }
    let plain = serde_json::from_str(line).ok();
    plain.or_else(|| {
        let mut text = line.to_string();
        for word in ["-Infinity", "Infinity", "NaN"] {
            text = text.replace(&format!(": {word}"), ": null").replace(&format!(":{word}"), ":null");
        }
        serde_json::from_str(&text).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_study::definition::TrialBudget;

    fn measured() -> Measured {
        let target = "val.error<0.2".parse().unwrap();
        Measured { target, batch: 8, evaluations: Vec::new(), last_loss: None, faults: Vec::new() }
    }

    fn point(updates: Option<u64>) -> PointPlan {
        PointPlan {
            axes: Vec::new(),
            tune: Vec::new(),
            budget: TrialBudget { updates, ..Default::default() },
            confirms: None,
        }
    }

    #[test]
    fn lines_become_evaluations() {
        let mut m = measured();
        let p = point(None);
        let mut take = |line: &str| m.take(line, 1.5, false, &p).map(|(state, _)| state);
        assert_eq!(take("epoch 1: fine\n"), None);
        assert_eq!(take("{\"status\": \"warming up\"}\n"), None);
        assert_eq!(take("{\"updates\": 10, \"val.error\": 0.5, \"train.loss\": 2.0}\n"), None);
        assert_eq!(take("{\"updates\": 5, \"val.error\": 0.4}"), None);
        assert_eq!(take("{\"val.error\": 0.4}"), None);
        assert_eq!(
            take("{\"updates\": 20, \"val.error\": 0.1, \"examples\": 99}"),
            Some(TrialState::Complete)
        );
        assert_eq!(m.evaluations.len(), 2);
        assert_eq!((m.evaluations[0].examples, m.evaluations[1].examples), (80, 99));
        assert_eq!((m.evaluations[0].seconds, m.last_loss), (Some(1.5), Some(2.0)));
        assert!(m.faults[0].contains("went back") && m.faults[1].contains("no `updates`"), "{:?}", m.faults);
    }

    #[test]
    fn what_is_no_number_has_diverged() {
        for line in [
            "{\"updates\": 1, \"train.loss\": NaN}",
            "{\"updates\":1,\"loss\":-Infinity}",
            "{\"diverged\": true}",
        ] {
            let end = measured().take(line, 0.0, false, &point(None));
            assert_eq!(end.map(|(state, _)| state), Some(TrialState::Diverged), "{line}");
        }
    }

    #[test]
    fn a_budget_ends_it() {
        let take = |line: &str| measured().take(line, 0.0, true, &point(Some(10))).map(|(state, _)| state);
        assert_eq!(take("{\"updates\": 9, \"val.error\": 0.1}"), None);
        assert_eq!(take("{\"updates\": 10, \"val.error\": 0.3}"), Some(TrialState::Censored));
        assert_eq!(take("{\"updates\": 10, \"val.error\": 0.1}"), Some(TrialState::Complete));
    }

    #[test]
    fn how_it_ended_counts() {
        let ok = ExitStatus::from_raw(0);
        assert_eq!(measured().judge(ExitStatus::from_raw(3 << 8)).0, TrialState::Failed);
        assert_eq!(measured().judge(ok).0, TrialState::Failed, "it never measured the target's metric");
        let mut m = measured();
        assert!(m.take("{\"updates\": 1, \"val.error\": 0.9}", 0.0, false, &point(None)).is_none());
        assert_eq!(m.judge(ok).0, TrialState::Censored);
    }
}
