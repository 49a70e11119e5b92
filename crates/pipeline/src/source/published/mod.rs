//! What the authors of a set published: names, sizes, hashes and addresses of the files; and whether a file is that.

mod blocks;
mod tables;

use super::{Meter, cifar10, idx};
use crate::PipelineError;
use flate2::Crc;
use md5::Md5;
use sha2::{Digest, Sha256};
use sooner_base::{ManualClock, StageStats};
use sooner_plan::{DataKind, Split};
use std::path::{Path, PathBuf};

/// A set of files that its authors published.
#[derive(Debug)]
pub struct PublishedSet {
    /// The kind of a plan that reads it.
    pub kind: DataKind,
    /// The kind's name, as plans write it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// On which terms it may be used, as far as its authors say.
    pub terms: &'static str,
    /// The folder that its files usually lie in.
    pub folder: &'static str,
    /// The files, unpacked.
    pub files: &'static [PublishedFile],
    /// What is downloaded to get them.
    pub downloads: &'static [Download],
}

/// One file, unpacked.
#[derive(Debug)]
pub struct PublishedFile {
    /// Its name.
    pub name: &'static str,
    /// The authors' split that it belongs to.
    pub split: Split,
    /// Its length.
    pub bytes: u64,
    /// MD5 in hexadecimal digits, as published.
    pub md5: &'static str,
    /// SHA-256 of the content that has this MD5.
    pub sha256: &'static str,
    form: Form,
    /// CRC-32 of its blocks.
    blocks: &'static [u32],
}

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Labels and pixels of CIFAR-10.
    Records,
    /// IDX images.
    Images,
    /// IDX labels.
    Labels,
}

/// A packed file as it is published.
#[derive(Debug)]
pub struct Download {
    /// Its name.
    pub name: &'static str,
    /// The folders on the web that have it, the authors' own or those they name, each ending in a slash.
    pub addresses: &'static [&'static str],
    /// Its length.
    pub bytes: u64,
    /// MD5 in hexadecimal digits, as published.
    pub md5: &'static str,
    /// The names of the files that it holds.
    pub files: &'static [&'static str],
}

/// A file that is what was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Where it is; inside an archive, the archive's path followed by the file's.
    pub path: PathBuf,
    /// Its length, unpacked.
    pub bytes: u64,
    /// MD5 in hexadecimal digits.
    pub md5: String,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// A set that is what was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Its files, in the order they were found in.
    pub files: Vec<Verified>,
    /// What the classes are called.
    pub classes: Vec<String>,
    /// Training examples of each class.
    pub train: Vec<usize>,
    /// Test examples of each class.
    pub test: Vec<usize>,
}

/// All sets that are known.
pub fn sets() -> &'static [PublishedSet] {
    &tables::SETS
}

impl PublishedSet {
    /// Compares every file with what was published, and counts labels; the first difference is an error that names the
    /// file and the place. `path` is a folder or an archive, as a plan's `data.path`.
    pub fn check(&'static self, path: &Path) -> Result<Checked, PipelineError> {
        let classes = self.classes();
        let mut counts = [vec![0; classes.len()], vec![0; classes.len()]];
        let mut files = Vec::new();
        self.visit(path, |file, place, content| {
            files.push(file.verify(place, content)?);
            let of_split = &mut counts[usize::from(file.split == Split::Test)];
            file.labels(content).for_each(|label| of_split[usize::from(label)] += 1);
            Ok::<(), PipelineError>(())
        })?;
        let [train, test] = counts;
        let classes = classes.iter().map(|name| name.to_string()).collect();
        Ok(Checked { files, classes, train, test })
    }

    /// Hands over each file's place and unpacked content, which ends one byte after the published length if the file is
    /// longer.
    pub fn visit<E: From<PipelineError>>(
        &'static self,
        path: &Path,
        mut visit: impl FnMut(&'static PublishedFile, &Path, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let set = match self.kind {
            DataKind::Mnist => &idx::MNIST,
            DataKind::FashionMnist => &idx::FASHION_MNIST,
            _ => {
                return match cifar10::find(path)? {
                    cifar10::Place::Archive(path) => self.visit_archive(&path, visit),
                    cifar10::Place::Files(paths) => self.visit_files(paths, visit),
                };
            }
        };
        for file in self.files {
            let part = if file.split == Split::Test { "t10k" } else { "train" };
            let place = idx::find(set, path, (part, file.form == Form::Labels))?;
            visit(file, &place, &file.read(&place)?)?;
        }
        Ok(())
    }

    /// The same for what one download holds; `path` is where it lies.
    pub fn visit_download<E: From<PipelineError>>(
        &'static self,
        download: &Download,
        path: &Path,
        mut visit: impl FnMut(&'static PublishedFile, &Path, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match download.files {
            [name] => match self.files.iter().find(|file| file.name == *name) {
                Some(file) => visit(file, path, &file.read(path)?),
                None => Ok(()),
            },
            _ => self.visit_archive(path, visit),
        }
    }

    fn visit_files<E: From<PipelineError>>(
        &'static self,
        paths: Vec<PathBuf>,
        mut visit: impl FnMut(&'static PublishedFile, &Path, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (file, place) in self.files.iter().zip(paths) {
            visit(file, &place, &file.read(&place)?)?;
        }
        Ok(())
    }

    fn visit_archive<E: From<PipelineError>>(
        &'static self,
        path: &Path,
        mut visit: impl FnMut(&'static PublishedFile, &Path, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // The walk speaks of its own errors only; the visitor's is kept aside until the walk has ended.
        let mut failed = None;
        untimed(|meter| {
            cifar10::walk(path, meter, &mut |member, meter| {
                let (file, place) = (&self.files[member.index], member.place.clone());
                let content = member.content(file.bytes + 1, meter)?;
                failed = visit(file, &place, &content).err();
                Ok(failed.is_none())
            })
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn classes(&self) -> &'static [&'static str] {
        match self.kind {
            DataKind::Mnist => idx::MNIST.classes,
            DataKind::FashionMnist => idx::FASHION_MNIST.classes,
            _ => &cifar10::CLASSES,
        }
    }
}

impl PublishedFile {
    /// Length, form and hashes, in this order: the first that is not as published is an error that says where.
    pub fn verify(&self, place: &Path, content: &[u8]) -> Result<Verified, PipelineError> {
        let differs = |offset: usize, expected: String, found: String| PipelineError::Differs {
            path: place.into(),
            offset: offset as u64,
            expected,
            found,
            hint: "fetch the file again from its authors".into(),
        };
        let bytes = self.bytes as usize;
        if content.len() != bytes {
            let found = match content.len() {
                0 => "an empty file".to_string(),
                len if len < bytes => format!("the end of the file after {len}"),
                _ => "more".to_string(),
            };
            return Err(differs(content.len().min(bytes), format!("{bytes} bytes"), found));
        }
        match self.form {
            Form::Records => cifar10::check_labels(place, content)?,
            Form::Images | Form::Labels => idx::check_file(place, content, self.form == Form::Labels)?,
        }
        let blocks = content.chunks(blocks::BLOCK).zip(self.blocks);
        for (i, (block, &expected)) in blocks.enumerate() {
            let mut crc = Crc::new();
            crc.update(block);
            if crc.sum() != expected {
                let from = i * blocks::BLOCK;
                let expected =
                    format!("bytes {from} to {} with CRC-32 {expected:08x}", from + block.len() - 1);
                return Err(differs(from, expected, format!("{:08x}", crc.sum())));
            }
        }
        let verified = Verified {
            path: place.into(),
            bytes: self.bytes,
            md5: hex(&Md5::digest(content)),
            sha256: hex(&Sha256::digest(content)),
        };
        for (name, expected, found) in
            [("MD5", self.md5, &verified.md5), ("SHA-256", self.sha256, &verified.sha256)]
        {
            if expected != found {
                return Err(differs(0, format!("a file with {name} {expected}"), found.clone()));
            }
        }
        Ok(verified)
    }

    fn read(&self, place: &Path) -> Result<Vec<u8>, PipelineError> {
        untimed(|meter| idx::content(place, self.bytes + 1, meter))
    }

    /// The labels in a content that has been verified.
    fn labels<'a>(&self, content: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
        let (skip, step) = match self.form {
            Form::Records => (0, cifar10::RECORD),
            Form::Labels => (8, 1),
            Form::Images => (content.len(), 1),
        };
        content.iter().skip(skip).step_by(step).copied()
    }
}

/// The set that has a file with exactly this content, if one is known.
pub(super) fn with_content(content: &[u8]) -> Option<&'static str> {
    let alike = |file: &&PublishedFile| file.bytes == content.len() as u64;
    let mut candidates =
        sets().iter().flat_map(|set| set.files.iter().filter(alike).map(move |f| (set, f))).peekable();
    candidates.peek()?;
    let found = hex(&Md5::digest(content));
    candidates.find(|(_, file)| file.md5 == found).map(|(set, _)| set.name)
}

/// MD5 of a stream in hexadecimal digits, and its length.
pub fn md5_of(mut from: impl std::io::Read) -> std::io::Result<(String, u64)> {
    let (mut hash, mut length, mut buffer) = (Md5::new(), 0, vec![0; 1 << 16]);
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok((hex(&hash.finalize()), length)),
            n => {
                hash.update(&buffer[..n]);
                length += n as u64;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checking is not part of any run's clock.
fn untimed<T>(work: impl FnOnce(&mut Meter) -> T) -> T {
    let clock = ManualClock::default();
    work(&mut Meter { clock: &clock, read: StageStats::default(), decode: StageStats::default() })
}

#[cfg(test)]
mod tests;
