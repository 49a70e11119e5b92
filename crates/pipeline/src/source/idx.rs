//! IDX, the format of MNIST and Fashion-MNIST: a big-endian header (two zero bytes, type 8 for bytes, the number of
//! dimensions, one u32 for each dimension), then the bytes; plain or gzipped.

use super::{Examples, Meter, Notice, Raw, files, published};
use crate::PipelineError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A set of four IDX files.
pub(super) struct IdxSet {
    name: &'static str,
    /// What it is called in messages.
    title: &'static str,
    /// Folders it is often found in, below the one that is given.
    subfolders: &'static [&'static str],
    pub(super) classes: &'static [&'static str],
}

/// Handwritten digits.
pub(super) const MNIST: IdxSet = IdxSet {
    name: "mnist",
    title: "MNIST",
    subfolders: &["mnist", "MNIST/raw"],
    classes: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
};

/// Articles of clothing.
pub(super) const FASHION_MNIST: IdxSet = IdxSet {
    name: "fashion-mnist",
    title: "Fashion-MNIST",
    subfolders: &["fashion-mnist", "FashionMNIST/raw"],
    classes: &[
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ],
};

const SIDE: usize = 28;
/// Of either set.
const CLASSES: usize = 10;
/// Far above the authors' 60,000; what a header may claim at most.
const MOST: u32 = 1_000_000;
const HINT: &str = "fetch the file again from its authors";

/// Reads the four files of a folder, or of one of the set's usual folders in it.
pub(super) fn read(set: &IdxSet, folder: &Path, meter: &mut Meter) -> Result<Raw, PipelineError> {
    let folder = locate(set, folder)?;
    let mut notices = Vec::new();
    let mut read_pair = |part: &str| -> Result<Examples, PipelineError> {
        let images = files::require(&folder, &names(part, "images", 3))?;
        let labels = files::require(&folder, &names(part, "labels", 1))?;
        let Idx { count, data: pixels } = read_file(&images, IMAGE, meter)?;
        let Idx { count: label_count, data: label_bytes } = read_file(&labels, LABEL, meter)?;
        if count != label_count {
            return Err(PipelineError::Malformed {
                path: labels,
                offset: 4,
                expected: format!("{count} labels, one for each image of {}", images.display()),
                found: label_count.to_string(),
                hint: "use two files of one set".into(),
            });
        }
        check_labels(&labels, &label_bytes)?;
        meter.count(count as usize);
        notices.extend(meter.decode(|| strangers(set, &labels, &label_bytes)));
        Ok(Examples { pixels, labels: label_bytes.into_iter().map(u32::from).collect() })
    };
    let (train, test) = (read_pair("train")?, read_pair("t10k")?);
    Ok(Raw { name: set.name, shape: [SIDE, SIDE, 1], classes: set.classes, train, test, notices })
}

/// Files of one set may lie in a folder that is called after another: MNIST's and Fashion-MNIST's are alike but for what is
/// in them. The labels alone say which they are, and take no time to look at. The user's own files in this format have
/// other numbers of examples, and are nobody's.
fn strangers(set: &IdxSet, path: &Path, labels: &[u8]) -> Option<Notice> {
    let mut file = [[0, 0, 8, 1], (labels.len() as u32).to_be_bytes()].concat();
    file.extend_from_slice(labels);
    let found = published::with_content(&file);
    if found.is_some_and(|name| name == set.name) {
        return None;
    }
    let counts = [60_000, 10_000].contains(&labels.len());
    (found.is_some() || counts).then(|| Notice::OtherSet {
        path: path.display().to_string(),
        expected: set.name.to_string(),
        found: found.map(str::to_string),
    })
}

/// The names a file is found under: the authors', with a dot as some mirrors have it, each gzipped or not.
fn names(part: &str, what: &str, rank: usize) -> Vec<String> {
    let bases = [format!("{part}-{what}-idx{rank}-ubyte"), format!("{part}-{what}.idx{rank}-ubyte")];
    bases.iter().flat_map(|base| [base.clone(), format!("{base}.gz")]).collect()
}

/// The content of one file.
struct Idx {
    count: u32,
    data: Vec<u8>,
}

/// The extents of one image, and of one label.
const IMAGE: &[usize] = &[SIDE, SIDE];
const LABEL: &[usize] = &[];

/// Reads a file of items of the extents given ([28, 28] for images, [] for labels).
fn read_file(path: &Path, extents: &[usize], meter: &mut Meter) -> Result<Idx, PipelineError> {
    let item: usize = extents.iter().product();
    let header = header_len(extents);
    let most = header as u64 + u64::from(MOST) * item as u64;
    // One byte more than any legal file has shows that there is more.
    let mut data = content(path, most + 1, meter)?;
    let count = check_header(path, &data, extents)?;
    let whole = header + count as usize * item;
    if data.len() != whole {
        let expected = format!("the end of the file after {count} items, at byte {whole}");
        let found = match data.len() {
            len if len < whole => format!("the end of the file {} bytes before", whole - len),
            _ => "more bytes".into(),
        };
        return Err(malformed(path, data.len().min(whole), expected, found));
    }
    meter.decode(|| data.drain(..header));
    Ok(Idx { count, data })
}

/// The first bytes of a file, unpacked if it is gzipped, at most `most` of them.
pub(super) fn content(path: &Path, most: u64, meter: &mut Meter) -> Result<Vec<u8>, PipelineError> {
    let mut packed = Vec::new();
    files::length(path)?;
    meter.read(|| files::read_up_to(path, most, &mut packed))?;
    // Browsers and mirrors unpack files without renaming them and the other way round, so the content decides.
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    let unpacked = meter.decode(|| MultiGzDecoder::new(&packed[..]).take(most).read_to_end(&mut bytes));
    match unpacked {
        Ok(_) => Ok(bytes),
        Err(error) => Err(damaged(path, bytes.len(), &error)),
    }
}

fn damaged(path: &Path, unpacked: usize, error: &io::Error) -> PipelineError {
    malformed(path, unpacked, "whole gzipped data".into(), format!("damage: {error}"))
}

fn malformed(path: &Path, offset: usize, expected: String, found: String) -> PipelineError {
    PipelineError::Malformed { path: path.into(), offset: offset as u64, expected, found, hint: HINT.into() }
}

fn header_len(extents: &[usize]) -> usize {
    4 * (2 + extents.len())
}

/// How many items the header announces, if it is one of items of these extents.
fn check_header(path: &Path, bytes: &[u8], extents: &[usize]) -> Result<u32, PipelineError> {
    let header = header_len(extents);
    if bytes.len() < header {
        let found = if bytes.is_empty() { "an empty file".into() } else { format!("{} bytes", bytes.len()) };
        return Err(malformed(path, bytes.len(), format!("a header of {header} bytes"), found));
    }
    let field = |k: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[4 * k + i]));
    let magic = 0x0800 + 1 + extents.len() as u32;
    if field(0) != magic {
        let expected =
            format!("the magic number {magic:#010x} of unsigned bytes in {} dimensions", 1 + extents.len());
        return Err(malformed(path, 0, expected, format!("{:#010x}", field(0))));
    }
    let count = field(1);
    if count == 0 || count > MOST {
        return Err(malformed(path, 4, format!("1 to {MOST} items"), count.to_string()));
    }
    for (k, &extent) in extents.iter().enumerate() {
        if field(2 + k) as usize != extent {
            let found = format!("an extent of {}", field(2 + k));
            return Err(malformed(path, 8 + 4 * k, format!("images of {SIDE}x{SIDE}"), found));
        }
    }
    Ok(count)
}

/// The first label after the header that is no class is an error.
fn check_labels(path: &Path, labels: &[u8]) -> Result<(), PipelineError> {
    match labels.iter().position(|&label| usize::from(label) >= CLASSES) {
        None => Ok(()),
        Some(i) => {
            let offset = header_len(LABEL) + i;
            Err(malformed(path, offset, "a label from 0 to 9".into(), labels[i].to_string()))
        }
    }
}

/// Header and labels of a whole file's bytes.
pub(super) fn check_file(path: &Path, bytes: &[u8], labels: bool) -> Result<(), PipelineError> {
    check_header(path, bytes, if labels { LABEL } else { IMAGE })?;
    if labels { check_labels(path, &bytes[header_len(LABEL)..]) } else { Ok(()) }
}

/// Examples in the training and in the test files, by the headers of the images.
pub(super) fn peek(set: &IdxSet, folder: &Path, meter: &mut Meter) -> Result<(usize, usize), PipelineError> {
    let folder = locate(set, folder)?;
    let mut count = |part: &str| -> Result<usize, PipelineError> {
        let path = files::require(&folder, &names(part, "images", 3))?;
        files::length(&path)?;
        let mut bytes = Vec::new();
        meter.read(|| {
            let unreadable = |source| PipelineError::Read { path: path.clone(), source };
            let mut file = BufReader::new(File::open(&path).map_err(unreadable)?);
            let gzipped = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
            let head = header_len(IMAGE) as u64;
            if gzipped {
                let unpacked = MultiGzDecoder::new(file).take(head).read_to_end(&mut bytes);
                unpacked.map_err(|error| damaged(&path, bytes.len(), &error))
            } else {
                file.take(head).read_to_end(&mut bytes).map_err(unreadable)
            }
        })?;
        Ok(check_header(&path, &bytes, IMAGE)? as usize)
    };
    Ok((count("train")?, count("t10k")?))
}

/// The folder that holds the files.
fn locate(set: &IdxSet, folder: &Path) -> Result<PathBuf, PipelineError> {
    files::locate(folder, set.subfolders, &names("train", "images", 3), set.title)
}

/// The path of one of the four files.
pub(super) fn find(
    set: &IdxSet,
    folder: &Path,
    (part, labels): (&str, bool),
) -> Result<PathBuf, PipelineError> {
    let names = if labels { names(part, "labels", 1) } else { names(part, "images", 3) };
    files::require(&locate(set, folder)?, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That real files of either set are told apart is tested where real files are, by the command.
    #[test]
    fn labels_say_whose_they_are() {
        let told = |count: usize| {
            let notice = strangers(&MNIST, Path::new("labels"), &vec![3; count]);
            notice.map(|notice| notice.to_string())
        };
        let text =
            "labels has as many labels as mnist's, but not the same: `sooner data check mnist DIR` says more";
        assert_eq!((told(60_000).as_deref(), told(10_000).as_deref()), (Some(text), Some(text)));
        assert_eq!((told(9_999), told(1), told(0)), (None, None, None));
    }
}
