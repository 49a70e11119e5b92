//! Reading a run's folder, also one whose run was killed at any moment.

use crate::{FORMAT, Fresh, Header, LOG_FILE, Line, PLAN_FILE, RecordError, Summary};
use serde_json::Value;
use sooner_base::Updates;
use sooner_plan::Plan;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A run's folder, read.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReader {
    /// The folder.
    pub folder: PathBuf,
    /// The resolved plan.
    pub plan: Plan,
    /// The run log.
    pub log: Log,
}

impl RunReader {
    /// Reads plan and run log.
    pub fn open(folder: &Path) -> Result<RunReader, RecordError> {
        let run = RunReader::open_started(folder)?;
        match folder.join(LOG_FILE).exists() {
            true => Ok(run),
            false => Err(RecordError::NoRecord { folder: folder.to_path_buf(), file: LOG_FILE }),
        }
    }

    /// Reads what a run that may have been killed at any moment has left; a log that it had not begun is empty.
    pub fn open_started(folder: &Path) -> Result<RunReader, RecordError> {
        let read = |file: &'static str| {
            let path = folder.join(file);
            fs::read(&path).map_err(|source| match source.kind() {
                ErrorKind::NotFound => RecordError::NoRecord { folder: folder.to_path_buf(), file },
                _ => RecordError::Read { path, source },
            })
        };
        let plan_path = folder.join(PLAN_FILE);
        let text = String::from_utf8(read(PLAN_FILE)?)
            .map_err(|e| RecordError::read(&plan_path)(std::io::Error::new(ErrorKind::InvalidData, e)))?;
        let plan = Plan::parse(&text)
            .map_err(|e| RecordError::Plan { source: e.in_file(&plan_path.display().to_string()) })?;
        let log = match read(LOG_FILE) {
            Err(RecordError::NoRecord { .. }) => Log::default(),
            bytes => Log::parse(&bytes?, &folder.join(LOG_FILE))?,
        };
        Ok(RunReader { folder: folder.to_path_buf(), plan, log })
    }
}

/// A run log as it stands: what was taken back by resuming is gone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// The first line; none if the run was killed while writing it.
    pub header: Option<Header>,
    /// All other lines of known kinds that hold, in order.
    pub lines: Vec<Line>,
    /// A last line that was cut off, and dropped.
    pub partial: Option<Partial>,
    /// Lines of kinds that this version does not know, and skipped.
    pub skipped: usize,
    /// Lines that no longer hold because the run was resumed from an earlier update.
    pub taken_back: usize,
}

/// The beginning of a line that was never finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// Its number, from 1.
    pub line: usize,
    /// Where it begins.
    pub byte: usize,
    /// How much of it is there.
    pub bytes: usize,
}

impl Log {
    /// Reads a run log that may end anywhere: what follows the last newline was being written when the run was
    /// killed. `path` is for messages.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Log, RecordError> {
        let mut log = Log::default();
        let mut byte = 0;
        for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
            let number = index + 1;
            match line.strip_suffix(b"\n") {
                None => log.partial = Some(Partial { line: number, byte, bytes: line.len() }),
                Some(line) => {
                    let malformed = |reason: String| RecordError::Line {
                        path: path.to_path_buf(),
                        line: number,
                        byte,
                        reason,
                    };
                    log.read_line(line, number, path).map_err(|e| e.into_error(malformed))?;
                }
            }
            byte += line.len();
        }
        Ok(log)
    }

    fn read_line(&mut self, line: &[u8], number: usize, path: &Path) -> Result<(), Wrong> {
        let value: Value = serde_json::from_slice(line).map_err(Wrong::malformed)?;
        let kind = value.get("line").and_then(Value::as_str);
        let kind = kind.ok_or(Wrong::Malformed("it has no key `line`".into()))?.to_string();
        if (number == 1) != (kind == "run") {
            let reason = if number == 1 { "the first line is not `run`" } else { "a second `run` line" };
            return Err(Wrong::Malformed(reason.into()));
        }
        if number == 1 {
            let format = value.get("format").and_then(Value::as_u64);
            let format = format.ok_or(Wrong::Malformed("it has no format number".into()))?;
            if format > u64::from(FORMAT) {
                return Err(Wrong::Whole(RecordError::Newer {
                    path: path.to_path_buf(),
                    found: format.to_string(),
                    known: FORMAT.to_string(),
                }));
            }
        }
        if !matches!(kind.as_str(), "run" | "progress" | "evaluation" | "fresh" | "resumed" | "end") {
            self.skipped += 1;
            return Ok(());
        }
        match serde_json::from_value(value).map_err(Wrong::malformed)? {
            Line::Run(header) => self.header = Some(header),
            Line::Resumed(resumed) => {
                let before = self.lines.len();
                // The end of a run that goes on is no end, even where it was reached at this very update.
                self.lines.retain(|line| {
                    !matches!(line, Line::End(_)) && line.updates().is_none_or(|u| u <= resumed.updates)
                });
                self.taken_back += before - self.lines.len();
                self.lines.push(Line::Resumed(resumed));
            }
            line => self.lines.push(line),
        }
        Ok(())
    }

    /// Fresh examples of each of the first so many batches, where `echo = "auto"` left them to time; none if the log does
    /// not say it of all of them.
    pub fn fresh(&self, batches: Updates) -> Option<Vec<u32>> {
        let mut schedule = Vec::new();
        let mut now = None;
        let said = self.lines.iter().filter_map(|line| match line {
            Line::Fresh(fresh) => Some(*fresh),
            _ => None,
        });
        for Fresh { updates, fresh } in said {
            let before = updates.0.saturating_sub(1).min(batches.0) as usize;
            match now {
                Some(number) => schedule.resize(before.max(schedule.len()), number),
                None if before > 0 => return None,
                None => {}
            }
            now = Some(fresh);
        }
        schedule.resize(batches.0 as usize, now?);
        Some(schedule)
    }

    /// The last update that the log tells of; none if it tells of none.
    pub fn last_update(&self) -> Option<Updates> {
        // What an update was about to use does not say that it was made.
        let made = self.lines.iter().filter(|line| !matches!(line, Line::Fresh(_)));
        made.filter_map(Line::updates).max().filter(|updates| updates.0 > 0)
    }

    /// What the run came to; none while it has not ended.
    pub fn summary(&self) -> Option<&Summary> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::End(summary) => Some(&**summary),
            _ => None,
        })
    }
}

enum Wrong {
    /// Something about one line.
    Malformed(String),
    /// Something about the whole file.
    Whole(RecordError),
}

impl Wrong {
    fn malformed(error: serde_json::Error) -> Wrong {
        Wrong::Malformed(error.to_string())
    }

    fn into_error(self, malformed: impl Fn(String) -> RecordError) -> RecordError {
        match self {
            Wrong::Malformed(reason) => malformed(reason),
            Wrong::Whole(error) => error,
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
