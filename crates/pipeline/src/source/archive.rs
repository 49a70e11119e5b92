//! Sets that their authors publish as one tar archive, plain or gzipped, read from the first byte to the last without
//! unpacking to disk.

use super::{Meter, files};
use crate::PipelineError;
use flate2::bufread::MultiGzDecoder;
use sooner_base::{Clock, Seconds};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// No set of small images unpacks to more, so an archive that does is not what it claims to be.
const MOST: u64 = 1 << 30;

/// A member that was asked for.
pub(super) struct Member<'a> {
    /// Which of the wanted names it has.
    pub(super) index: usize,
    /// The archive's path followed by the member's, for messages.
    pub(super) place: PathBuf,
    /// The length that its header claims.
    pub(super) size: u64,
    entry: &'a mut dyn Read,
    reading: &'a Cell<Seconds>,
    hint: &'static str,
}

impl Member<'_> {
    /// The first bytes of the member, at most `most` of them; an error if the archive ends before it does.
    pub(super) fn content(self, most: u64, meter: &mut Meter) -> Result<Vec<u8>, PipelineError> {
        let Member { entry, .. } = self;
        let mut bytes = Vec::new();
        let before = self.reading.get();
        let result = meter.decode(|| entry.take(most).read_to_end(&mut bytes));
        // Unpacking pulls the file's bytes through: what that took is reading.
        let reading = self.reading.get() - before;
        meter.read.busy += reading;
        meter.decode.busy = meter.decode.busy - reading;
        let found = match result {
            Err(error) => format!("damage: {error}"),
            Ok(_) if (bytes.len() as u64) < self.size.min(most) => "the end of the archive".into(),
            Ok(_) => return Ok(bytes),
        };
        Err(PipelineError::Malformed {
            path: self.place,
            offset: bytes.len() as u64,
            expected: format!("{} bytes, as the member's header says", self.size),
            found,
            hint: self.hint.into(),
        })
    }
}

/// What to do with a member; `false` to look no further.
pub(super) type Visit<'a> = dyn FnMut(Member, &mut Meter) -> Result<bool, PipelineError> + 'a;

/// Visits the members that have one of the wanted file names, in whatever folder, in the archive's order. Names that never
/// come, and names that come twice, are errors, with `what` the set is in the message.
pub(super) fn walk(
    path: &Path,
    (wanted, what, hint): (&[&str], &str, &'static str),
    meter: &mut Meter,
    visit: &mut Visit,
) -> Result<(), PipelineError> {
    let unpacked = Cell::new(0);
    let reading = Cell::new(Seconds(0.0));
    let malformed = |offset: u64, found: String| PipelineError::Malformed {
        path: path.into(),
        offset,
        expected: "a tar archive, plain or gzipped".into(),
        found,
        hint: hint.into(),
    };
    let damaged = |error: &io::Error| match unpacked.get() {
        offset if offset >= MOST => malformed(offset, format!("more than {MOST} bytes unpacked")),
        offset => malformed(offset, format!("damage: {error}")),
    };
    if files::length(path)? == 0 {
        return Err(malformed(0, "an empty file".into()));
    }
    let unreadable = |source| PipelineError::Read { path: path.into(), source };
    let file = File::open(path).map_err(unreadable)?;
    let timed = Timed { inner: file, clock: meter.clock, busy: &reading };
    let mut file = BufReader::with_capacity(1 << 16, timed);
    let gzipped = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    let content: Box<dyn Read + '_> =
        if gzipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut archive = tar::Archive::new(Counted { inner: content.take(MOST), bytes: &unpacked });

    let mut seen = vec![false; wanted.len()];
    let mut others = Vec::new();
    for entry in archive.entries().map_err(|e| damaged(&e))? {
        let mut entry = entry.map_err(|e| damaged(&e))?;
        let inside = entry.path().map_err(|e| damaged(&e))?.into_owned();
        let name = inside.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(index) = wanted.iter().position(|w| *w == name) else {
            others.push(name);
            continue;
        };
        let place = path.join(&inside);
        if !entry.header().entry_type().is_file() {
            return Err(PipelineError::Missing {
                path: place,
                expected: "a file".into(),
                found: "a folder, link or device in its place".into(),
                hint: hint.into(),
            });
        }
        if std::mem::replace(&mut seen[index], true) {
            return Err(malformed(entry.raw_header_position(), format!("a second member {name}")));
        }
        let size = entry.size();
        let member = Member { index, place, size, entry: &mut entry, reading: &reading, hint };
        if !visit(member, meter)? {
            return Ok(());
        }
    }
    match seen.iter().position(|seen| !seen) {
        None => Ok(()),
        Some(missing) => {
            others.truncate(4);
            let found = match (seen.contains(&true), others.is_empty()) {
                (true, _) => "an archive without it".to_string(),
                (false, true) => "an archive without a member".to_string(),
                (false, false) => format!("an archive of {}, ...", others.join(", ")),
            };
            Err(PipelineError::Missing {
                path: path.join(wanted[missing]),
                expected: format!("{what}: {} in the archive", wanted[missing]),
                found,
                hint: hint.into(),
            })
        }
    }
}

/// Measures what reading takes.
struct Timed<'a, R> {
    inner: R,
    clock: &'a dyn Clock,
    busy: &'a Cell<Seconds>,
}

impl<R: Read> Read for Timed<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let since = self.clock.now();
        let result = self.inner.read(into);
        let mut busy = self.busy.get();
        busy += self.clock.now() - since;
        self.busy.set(busy);
        result
    }
}

/// Counts what has come through.
struct Counted<'a, R> {
    inner: R,
    bytes: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}
