//! Text files as windows of bytes, for models that predict the next one.

use crate::{DatasetInfo, Image, PipelineError, Source};
use sooner_plan::Split;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Windows of the bytes of one or more files. Window i of a file is its bytes from i x stride on; no window reaches over
/// the end of a file, and what is left there is not read.
///
/// As a [`Source`] each window is an example of [1, window, 1] bytes whose label is the byte behind it, one of 256 classes:
/// what is to be predicted is the example from its second byte on, and the label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextWindows {
    /// Path, windows in it, and windows in all files before it.
    files: Vec<(PathBuf, u64, u64)>,
    window: usize,
    stride: usize,
    info: DatasetInfo,
}

impl TextWindows {
    /// Windows of `window` bytes, the input, and the one after, that each start `stride` bytes after the last. A
    /// window of one file in several is in the order of the files given. Panics if window or stride is 0.
    pub fn open(
        paths: &[impl AsRef<Path>],
        window: usize,
        stride: usize,
    ) -> Result<TextWindows, PipelineError> {
        assert!(window > 0 && stride > 0, "windows of {window} bytes, {stride} apart");
        let mut files = Vec::new();
        let mut before = 0;
        for path in paths {
            let path = path.as_ref();
            let bytes = super::files::length(path)?;
            let windows = bytes.checked_sub(window as u64 + 1).map_or(0, |room| room / stride as u64 + 1);
            files.push((path.to_path_buf(), windows, before));
            before += windows;
        }
        if before == 0 {
            return Err(PipelineError::Missing {
                path: paths.first().map(|path| path.as_ref().into()).unwrap_or_default(),
                expected: format!("text files of at least {} bytes", window + 1),
                found: "shorter ones, or none".into(),
                hint: "ask for shorter windows".into(),
            });
        }
        let name = paths[0].as_ref().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let classes = (0..=u8::MAX).map(|byte| format!("{byte:#04x}")).collect();
        let info = DatasetInfo { name, split: Split::Train, shape: [1, window, 1], classes };
        Ok(TextWindows { files, window, stride, info })
    }

    /// The same as another split; unless told they are for training.
    pub fn with_split(mut self, split: Split) -> TextWindows {
        self.info.split = split;
        self
    }

    /// The number of windows.
    pub fn len(&self) -> u64 {
        self.files.last().map_or(0, |(_, windows, before)| windows + before)
    }

    /// Whether there are no windows; there always are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a window with the one after it: the input is all but the last, what is to be predicted all but the
    /// first.
    pub fn bytes(&self) -> usize {
        self.window + 1
    }

    /// Reads one window and the byte after it. Panics if there is no such window.
    pub fn read(&self, index: u64, into: &mut Vec<u8>) -> Result<(), PipelineError> {
        let (path, start) = self.locate(index);
        into.clear();
        let read = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(start))?;
            file.take(self.bytes() as u64).read_to_end(into)
        });
        let n = read.map_err(|source| PipelineError::Read { path: path.into(), source })?;
        if n < self.bytes() {
            return Err(PipelineError::Malformed {
                path: path.into(),
                offset: start + n as u64,
                expected: format!("{} bytes, as when the file was opened", self.bytes()),
                found: "the end of the file".into(),
                hint: "leave the file alone while it is read".into(),
            });
        }
        Ok(())
    }

    fn locate(&self, index: u64) -> (&Path, u64) {
        assert!(index < self.len(), "window {index} of {}", self.len());
        let at = self.files.partition_point(|(_, _, before)| *before <= index) - 1;
        let (path, _, before) = &self.files[at];
        (path, (index - before) * self.stride as u64)
    }
}

impl Source for TextWindows {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        usize::try_from(TextWindows::len(self)).unwrap_or(usize::MAX)
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, _: &AtomicBool) -> Result<(), PipelineError> {
        TextWindows::read(self, index, into)
    }

    fn decode(
        &self,
        _: u64,
        bytes: &[u8],
        _: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        let (next, window) = bytes.split_last().expect("read gives a window and a byte");
        into.shape = self.info.shape;
        into.pixels.clear();
        into.pixels.extend_from_slice(window);
        Ok(u32::from(*next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Pipeline};
    use sooner_base::{MonotonicClock, Seed};
    use sooner_plan::{NormalizePlan, PipelinePlan, ShuffleKind, StagePlan};
    use std::sync::Arc;

    /// Every byte arrives as the number that it is, each window once an epoch, with the byte behind it as its label.
    #[test]
    fn windows_are_examples_of_a_pipeline() {
        let text: Vec<u8> = (0..2000u32).map(|i| (i * 7 % 256) as u8).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let windows = TextWindows::open(&[file.path()], 256, 100).unwrap();
        let n = Source::len(&windows);
        let bytes = NormalizePlan { mean: vec![0.0], std: vec![1.0 / 255.0] };
        let stages =
            vec![StagePlan::Shuffle(ShuffleKind::Epoch), StagePlan::Normalize(bytes), StagePlan::Batch(4)];
        let plan = PipelinePlan { threads: 2, ..PipelinePlan::new(stages) };
        let data = Arc::new(Dataset::streamed(Arc::new(windows)));
        let pipeline = Pipeline::new(&plan, data, Seed(3), Arc::new(MonotonicClock::start())).unwrap();
        let mut seen = vec![0; n];
        for batch in pipeline.epoch(0) {
            let batch = batch.unwrap();
            assert_eq!(batch.shape.dims()[1..], [1, 256, 1]);
            for (k, origin) in batch.origins.iter().enumerate() {
                let start = 100 * origin.index as usize;
                let window = batch.features[256 * k..][..256].iter().map(|&x| f64::from(x));
                assert!(window.eq(text[start..start + 256].iter().map(|&byte| f64::from(byte))));
                assert_eq!(batch.labels[k], u32::from(text[start + 256]));
                seen[origin.index as usize] += 1;
            }
        }
        assert_eq!(seen, vec![1; n]);
    }

    fn check(texts: &[&str], window: usize, stride: usize, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..texts.len()).map(|i| folder.path().join(i.to_string())).collect();
        paths.iter().zip(texts).for_each(|(path, text)| std::fs::write(path, text).unwrap());
        let windows = match TextWindows::open(&paths, window, stride) {
            Ok(windows) => windows,
            Err(error) => return assert_eq!([&error.complaint().expected[..]], expect),
        };
        let mut bytes = Vec::new();
        let all: Vec<String> = (0..windows.len())
            .map(|i| {
                windows.read(i, &mut bytes).unwrap();
                String::from_utf8(bytes.clone()).unwrap()
            })
            .collect();
        assert_eq!(all, expect);
    }

    #[test]
    fn windows_of_files() {
        check(&["abcdefg"], 3, 3, &["abcd", "defg"]);
        check(&["abcdef"], 3, 3, &["abcd"]);
        check(&["abcde"], 3, 1, &["abcd", "bcde"]);
        check(&["abc", "", "defghi", "jk", "lmnopqr"], 3, 3, &["defg", "lmno", "opqr"]);
        check(&["abcdefghi"], 2, 5, &["abc", "fgh"]);
        check(&["abc"], 3, 3, &["text files of at least 4 bytes"]);
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abcdefgh").unwrap();
        let windows = TextWindows::open(&[file.path()], 3, 3).unwrap();
        std::fs::write(file.path(), "abcde").unwrap();
        let error = windows.read(1, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, PipelineError::Malformed { offset: 5, .. }), "{error}");
    }
}
