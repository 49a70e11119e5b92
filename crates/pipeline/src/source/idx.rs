//! IDX, the format of MNIST and Fashion-MNIST: a big-endian header (two zero bytes, type 8 for bytes, the number of
//! dimensions, one u32 for each dimension), then the bytes; plain or gzipped.

use super::{Examples, Meter, Raw, files};
use crate::PipelineError;
use flate2::bufread::MultiGzDecoder;
use std::io::Read;
use std::path::Path;

/// A set of four IDX files.
pub(super) struct IdxSet {
    name: &'static str,
    /// What it is called in messages.
    title: &'static str,
    /// Folders it is often found in, below the one that is given.
    subfolders: &'static [&'static str],
    classes: &'static [&'static str],
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
/// Far above the authors' 60,000; what a header may claim at most.
const MOST: u32 = 1_000_000;
const HINT: &str = "fetch the file again from its authors";

/// Reads the four files of a folder, or of one of the set's usual folders in it.
pub(super) fn read(set: &IdxSet, folder: &Path, meter: &mut Meter) -> Result<Raw, PipelineError> {
    let folder = files::locate(folder, set.subfolders, &names("train", "images", 3), set.title)?;
    let mut read_pair = |part: &str| -> Result<Examples, PipelineError> {
        let images = files::require(&folder, &names(part, "images", 3))?;
        let labels = files::require(&folder, &names(part, "labels", 1))?;
        let Idx { count, data: pixels } = read_file(&images, &[SIDE, SIDE], meter)?;
        let Idx { count: label_count, data: label_bytes } = read_file(&labels, &[], meter)?;
        if count != label_count {
            return Err(PipelineError::Malformed {
                path: labels,
                offset: 4,
                expected: format!("{count} labels, one for each image of {}", images.display()),
                found: label_count.to_string(),
                hint: "use two files of one set".into(),
            });
        }
        if let Some(i) = label_bytes.iter().position(|&label| usize::from(label) >= set.classes.len()) {
            return Err(PipelineError::Malformed {
                path: labels,
                offset: 8 + i as u64,
                expected: "a label from 0 to 9".into(),
                found: label_bytes[i].to_string(),
                hint: HINT.into(),
            });
        }
        meter.count(count as usize);
        Ok(Examples { pixels, labels: label_bytes.into_iter().map(u32::from).collect() })
    };
    let (train, test) = (read_pair("train")?, read_pair("t10k")?);
    Ok(Raw { name: set.name, shape: [SIDE, SIDE, 1], classes: set.classes, train, test })
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

/// Reads a file of items of the extents given ([28, 28] for images, [] for labels).
fn read_file(path: &Path, extents: &[usize], meter: &mut Meter) -> Result<Idx, PipelineError> {
    let malformed = |offset: usize, expected: String, found: String| PipelineError::Malformed {
        path: path.into(),
        offset: offset as u64,
        expected,
        found,
        hint: HINT.into(),
    };
    let header = 4 * (2 + extents.len());
    let item: usize = extents.iter().product();
    let most = header as u64 + u64::from(MOST) * item as u64;
    let mut packed = Vec::new();
    files::length(path)?;
    // One byte more than any legal file has shows that there is more.
    meter.read(|| files::read_up_to(path, most + 1, &mut packed))?;
    // Browsers and mirrors unpack files without renaming them and the other way round, so the content decides.
    let bytes = match packed.starts_with(&[0x1f, 0x8b]) {
        false => packed,
        true => {
            let mut bytes = Vec::new();
            let unpacked =
                meter.decode(|| MultiGzDecoder::new(&packed[..]).take(most + 1).read_to_end(&mut bytes));
            unpacked.map_err(|error| {
                malformed(bytes.len(), "whole gzipped data".into(), format!("damage: {error}"))
            })?;
            bytes
        }
    };
    if bytes.len() < header {
        let found = if bytes.is_empty() { "an empty file".into() } else { format!("{} bytes", bytes.len()) };
        return Err(malformed(bytes.len(), format!("a header of {header} bytes"), found));
    }
    let field = |k: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[4 * k + i]));
    let magic = 0x0800 + 1 + extents.len() as u32;
    if field(0) != magic {
        let expected =
            format!("the magic number {magic:#010x} of unsigned bytes in {} dimensions", 1 + extents.len());
        return Err(malformed(0, expected, format!("{:#010x}", field(0))));
    }
    let count = field(1);
    if count == 0 || count > MOST {
        return Err(malformed(4, format!("1 to {MOST} items"), count.to_string()));
    }
    for (k, &extent) in extents.iter().enumerate() {
        if field(2 + k) as usize != extent {
            return Err(malformed(
                8 + 4 * k,
                format!("images of {SIDE}x{SIDE}"),
                format!("an extent of {}", field(2 + k)),
            ));
        }
    }
    let whole = header + count as usize * item;
    if bytes.len() != whole {
        let expected = format!("the end of the file after {count} items, at byte {whole}");
        let found = match bytes.len() {
            len if len < whole => format!("the end of the file {} bytes before", whole - len),
            _ => "more bytes".into(),
        };
        return Err(malformed(bytes.len().min(whole), expected, found));
    }
    let mut data = bytes;
    meter.decode(|| data.drain(..header));
    Ok(Idx { count, data })
}
