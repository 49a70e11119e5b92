//! A folder of images, one folder a class. The training folder's class folders, sorted byte by byte, are the class
//! list for every split; files are sorted the same way. Nothing is ever written here.

use super::notice::Notice;
use super::rate::Rate;
use crate::decode::Decoder;
use crate::{DatasetInfo, Image, Oddities, PipelineError, Source};
use sooner_plan::Split;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Deeper folders are a mistake, or a loop that no system call shows.
const MOST_DEPTH: usize = 64;
/// Bytes of one read, between two looks at whether it is still wanted.
const PIECE: u64 = 1 << 20;

/// Which files a split has, and the class of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Class names in the order of the labels.
    pub classes: Vec<String>,
    /// Path below the split's folder with `/` between its parts, and label, of each example in order.
    pub files: Vec<(String, u32)>,
    /// What was odd.
    pub notices: Vec<Notice>,
}

impl Manifest {
    /// Looks through a split's folder. Without a class list, its folders are the classes; with one, a folder that is
    /// not in it is an error, and a class without a folder is kept, empty.
    pub fn scan(folder: &Path, classes: Option<&[String]>) -> Result<Manifest, PipelineError> {
        let mut walk = Walk { root: folder, notices: Vec::new(), ignored: (0, String::new()) };
        let mut found = Vec::new();
        for entry in walk.entries(folder)? {
            if entry.is_folder {
                found.push(entry.name);
            } else {
                walk.ignore(&entry.path);
            }
        }
        let classes = match classes {
            None => found.clone(),
            Some(classes) => {
                if let Some(other) = found.iter().find(|name| !classes.contains(name)) {
                    return Err(PipelineError::Missing {
                        path: folder.join(other),
                        expected: format!("a class of the training folder: {}", some_of(classes)),
                        found: format!("the folder {other}"),
                        hint: "classes must be the same in every split; rename or remove the folder".into(),
                    });
                }
                classes.to_vec()
            }
        };
        if classes.is_empty() {
            return Err(PipelineError::Missing {
                path: folder.into(),
                expected: "a folder for each class, with JPEG or PNG files".into(),
                found: "no folders".into(),
                hint: "put the images of each class into a folder of its name".into(),
            });
        }
        let mut files = Vec::new();
        for (label, class) in classes.iter().enumerate() {
            let before = files.len();
            if found.contains(class) {
                let path = folder.join(class);
                let mut above = vec![canonical(folder)?, canonical(&path)?];
                walk.collect(&path, label as u32, &mut above, &mut files)?;
            }
            files[before..].sort();
            if files.len() == before {
                let place = folder.display().to_string();
                walk.notices.push(Notice::EmptyClass { class: class.clone(), place });
            }
        }
        let Walk { mut notices, ignored: (count, example), .. } = walk;
        if count > 0 {
            notices.push(Notice::Ignored { files: count, example });
        }
        Ok(Manifest { classes, files, notices })
    }

    /// A number that two class lists share only if they are the same, for records and comparisons (FNV-1a of 64 bits:
    /// against accidents, not against malice).
    pub fn class_hash(&self) -> u64 {
        hash(self.classes.iter().map(String::as_str))
    }

    /// The same of the list of files and their order.
    pub fn file_hash(&self) -> u64 {
        hash(self.files.iter().map(|(path, _)| path.as_str()))
    }
}

/// FNV-1a over lines.
pub(super) fn hash<'a>(lines: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = lines.flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The first few names of a list.
pub(super) fn some_of(names: &[String]) -> String {
    match names.len() {
        0..=5 => names.join(", "),
        n => format!("{}, ... ({n} in all)", names[..5].join(", ")),
    }
}

struct Entry {
    name: String,
    path: PathBuf,
    is_folder: bool,
    is_link: bool,
}

struct Walk<'a> {
    root: &'a Path,
    notices: Vec<Notice>,
    ignored: (u64, String),
}

impl Walk<'_> {
    /// What a folder has, sorted byte by byte; hidden names are left out and counted.
    fn entries(&mut self, folder: &Path) -> Result<Vec<Entry>, PipelineError> {
        let read = |source| PipelineError::Read { path: folder.into(), source };
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_link = entry.file_type().map_err(read)?.is_symlink();
            // A link to nothing is no file; a link in a ring is none either.
            let Ok(meta) = fs::metadata(&path) else {
                self.ignore(&path);
                continue;
            };
            if name.starts_with('.') || !(meta.is_dir() || meta.is_file()) {
                self.ignore(&path);
                continue;
            }
            entries.push(Entry { name, path, is_folder: meta.is_dir(), is_link });
        }
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    fn collect(
        &mut self,
        folder: &Path,
        label: u32,
        above: &mut Vec<PathBuf>,
        files: &mut Vec<(String, u32)>,
    ) -> Result<(), PipelineError> {
        for entry in self.entries(folder)? {
            if !entry.is_folder {
                match is_image(&entry.name) {
                    true => files.push((self.relative(&entry.path), label)),
                    false => self.ignore(&entry.path),
                }
                continue;
            }
            let real = canonical(&entry.path)?;
            if (entry.is_link && above.contains(&real)) || above.len() > MOST_DEPTH {
                self.notices.push(Notice::Loop { path: entry.path.display().to_string() });
                continue;
            }
            above.push(real);
            self.collect(&entry.path, label, above, files)?;
            above.pop();
        }
        Ok(())
    }

    fn ignore(&mut self, path: &Path) {
        self.ignored.0 += 1;
        if self.ignored.1.is_empty() {
            self.ignored.1 = path.display().to_string();
        }
    }

    fn relative(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.root).unwrap_or(path);
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }
}

fn canonical(path: &Path) -> Result<PathBuf, PipelineError> {
    fs::canonicalize(path).map_err(|source| PipelineError::Read { path: path.into(), source })
}

fn is_image(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("jpg" | "jpeg" | "png"))
}

/// One split of an image folder.
#[derive(Debug)]
pub struct ImageFolder {
    info: DatasetInfo,
    folder: PathBuf,
    files: Vec<(String, u32)>,
    decoder: Decoder,
    rate: Option<Arc<Rate>>,
    oddities: Mutex<Oddities>,
}

impl ImageFolder {
    /// The files of a manifest of this folder.
    pub fn new(
        folder: &Path,
        split: Split,
        manifest: Manifest,
        decoder: Decoder,
        rate: Option<Arc<Rate>>,
    ) -> ImageFolder {
        let shape = [0, 0, decoder.channels()];
        let info = DatasetInfo { name: "image-folder".into(), split, shape, classes: manifest.classes };
        let files = manifest.files;
        ImageFolder { info, folder: folder.into(), files, decoder, rate, oddities: Mutex::default() }
    }

    /// The same files without a rate, for what is not trained on.
    pub(super) fn unrated(&self) -> ImageFolder {
        ImageFolder {
            info: self.info.clone(),
            folder: self.folder.clone(),
            files: self.files.clone(),
            decoder: self.decoder.clone(),
            rate: None,
            oddities: Mutex::default(),
        }
    }

    /// What was odd about images decoded so far.
    pub fn oddities(&self) -> Oddities {
        *self.oddities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The label and path of each example.
    pub fn files(&self) -> &[(String, u32)] {
        &self.files
    }

    fn path(&self, index: u64) -> PathBuf {
        self.folder.join(&self.files[index as usize].0)
    }
}

impl Source for ImageFolder {
    fn info(&self) -> &DatasetInfo {
        &self.info
    }

    fn len(&self) -> usize {
        self.files.len()
    }

    fn read(&self, index: u64, into: &mut Vec<u8>, cancelled: &AtomicBool) -> Result<(), PipelineError> {
        let path = self.path(index);
        into.clear();
        let read = |source| PipelineError::Read { path: path.clone(), source };
        let mut file = fs::File::open(&path).map_err(read)?;
        loop {
            let n = (&mut file).take(PIECE).read_to_end(into).map_err(read)?;
            let arrived = self.rate.as_ref().is_none_or(|rate| rate.wait(n as u64, cancelled));
            if !arrived || cancelled.load(Ordering::Relaxed) {
                return Err(read(std::io::ErrorKind::Interrupted.into()));
            }
            if (n as u64) < PIECE {
                return Ok(());
            }
        }
    }

    fn decode(
        &self,
        index: u64,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<u32, PipelineError> {
        let oddities =
            self.decoder.decode(bytes, at_least, into).map_err(|error| error.of(self.path(index)))?;
        *self.oddities.lock().unwrap_or_else(PoisonError::into_inner) += oddities;
        Ok(self.files[index as usize].1)
    }

    fn label(&self, index: u64) -> Option<u32> {
        self.files.get(index as usize).map(|(_, label)| *label)
    }

    fn hold_up(&self, held: bool) {
        self.rate.iter().for_each(|rate| rate.hold_up(held));
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
