//! Writing any data set as tar shards, which are read back at the speed of the disk: one file instead of thousands.

use super::shards::{CLASSES, Indexed, LIST, ShardIndex};
use super::tar;
use crate::{Dataset, PipelineError};
use flate2::{Compression, write::GzEncoder};
use sooner_base::{Bytes, Permutation, Purpose, Seed};
use sooner_plan::Split;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How shards are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackOptions {
    /// A shard is closed once it has so many bytes, before packing.
    pub shard: Bytes,
    /// Whether shards are gzipped. Images are packed already, so that this gains little and costs random access.
    pub gzip: bool,
    /// Writes examples in the order of this seed's shuffle, so that front to back is a good order to train in; in the
    /// source's own order if none.
    pub shuffle: Option<Seed>,
}

/// A shard that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedShard {
    /// Its file's name.
    pub name: String,
    /// Examples in it.
    pub examples: u64,
    /// Bytes as stored.
    pub bytes: Bytes,
}

/// Writes splits into a folder that is empty or not there yet: shards named by split and number, the index of each, the
/// list of shards and the names of the classes. Files are written under other names and renamed, the lists last. Images
/// of a source keep their bytes; arrays in memory become PNG files.
pub fn pack(
    splits: &[Arc<Dataset>],
    folder: &Path,
    options: PackOptions,
) -> Result<Vec<PackedShard>, PipelineError> {
    let failed = |source| PipelineError::Write { path: folder.into(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(PipelineError::Missing {
            path: folder.into(),
            expected: "an empty folder, or none".into(),
            found: "one that has files".into(),
            hint: "name another folder; nothing is ever overwritten".into(),
        });
    }
    let mut written = Vec::new();
    for data in splits.iter().filter(|data| !data.is_empty()) {
        pack_split(data, folder, options, &mut written)?;
    }
    let classes: String = splits
        .first()
        .iter()
        .flat_map(|data| &data.info().classes)
        .map(|class| format!("{class}\n"))
        .collect();
    write_whole(&folder.join(CLASSES), classes.as_bytes())?;
    let line = |PackedShard { name, examples, bytes }: &PackedShard| format!("{name}\t{examples}\t{bytes}\n");
    write_whole(&folder.join(LIST), written.iter().map(line).collect::<String>().as_bytes())?;
    Ok(written)
}

fn pack_split(
    data: &Dataset,
    folder: &Path,
    options: PackOptions,
    written: &mut Vec<PackedShard>,
) -> Result<(), PipelineError> {
    let split = data.info().split;
    let n = data.len() as u64;
    let order = options.shuffle.map(|seed| Permutation::new(seed.key(Purpose::Shuffle, 0), 0, n));
    let (mut bytes, mut image) = (Vec::new(), crate::Image::default());
    let mut shard: Option<Open> = None;
    let mut number = 0;
    for place in 0..n {
        let index = order.as_ref().map_or(place, |order| order.get(place));
        let label = match data.source() {
            Some(source) => {
                source.read(index, &mut bytes, &AtomicBool::new(false))?;
                // Decoding shows the label, and that nothing damaged is packed.
                source.decode(index, &bytes, Some([1, 1]), &mut image)?
            }
            None => {
                bytes = png_of(data.image(index as usize), data.shape());
                data.labels()[index as usize]
            }
        };
        let open = match shard.take() {
            Some(open) => open,
            None => {
                number += 1;
                Open::new(folder, split, number - 1, options.gzip)?
            }
        };
        let open = open.add(format!("{place:08}"), label, &bytes)?;
        match open.at >= options.shard.0 {
            true => written.push(open.close(folder)?),
            false => shard = Some(open),
        }
    }
    written.extend(shard.map(|open| open.close(folder)).transpose()?);
    Ok(())
}

/// A shard being written.
struct Open {
    name: String,
    path: PathBuf,
    out: Out,
    at: u64,
    index: ShardIndex,
}

enum Out {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Plain(out) => out.write(bytes),
            Out::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Plain(out) => out.flush(),
            Out::Gzip(out) => out.flush(),
        }
    }
}

impl Open {
    fn new(folder: &Path, split: Split, number: usize, gzip: bool) -> Result<Open, PipelineError> {
        let name = format!("{split}-{number:06}.tar{}", if gzip { ".gz" } else { "" });
        let path = folder.join(format!("{name}.part"));
        let file =
            File::create_new(&path).map_err(|source| PipelineError::Write { path: path.clone(), source })?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let out = match gzip {
            true => Out::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Out::Plain(file),
        };
        Ok(Open { name, path, out, at: 0, index: ShardIndex::default() })
    }

    fn add(mut self, key: String, label: u32, image: &[u8]) -> Result<Open, PipelineError> {
        let ending = if image.starts_with(&[0xff, 0xd8]) { "jpg" } else { "png" };
        let mut both = Vec::with_capacity(image.len() + 2048);
        let size = image.len() as u64;
        let done = tar::write_member(&mut both, &format!("{key}.{ending}"), image)
            .and_then(|()| tar::write_member(&mut both, &format!("{key}.cls"), label.to_string().as_bytes()))
            .and_then(|()| self.out.write_all(&both));
        done.map_err(|source| PipelineError::Write { path: self.path.clone(), source })?;
        // Keys are short, so that the image follows one header.
        self.index.examples.push(Indexed { key, label, at: self.at + 512, size });
        self.at += both.len() as u64;
        Ok(self)
    }

    fn close(mut self, folder: &Path) -> Result<PackedShard, PipelineError> {
        let path = self.path;
        let failed = |source| PipelineError::Write { path: path.clone(), source };
        tar::write_end(&mut self.out).map_err(failed)?;
        let file = match self.out {
            Out::Plain(out) => out.into_inner().map_err(|error| failed(error.into_error()))?,
            Out::Gzip(out) => {
                out.finish().map_err(failed)?.into_inner().map_err(|error| failed(error.into_error()))?
            }
        };
        file.sync_all().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        write_whole(&folder.join(format!("{}.index", self.name)), self.index.to_text(bytes).as_bytes())?;
        fs::rename(&path, folder.join(&self.name)).map_err(failed)?;
        Ok(PackedShard { name: self.name, examples: self.index.examples.len() as u64, bytes: Bytes(bytes) })
    }
}

fn write_whole(path: &Path, content: &[u8]) -> Result<(), PipelineError> {
    let part = PathBuf::from(format!("{}.part", path.display()));
    let written = fs::write(&part, content).and_then(|()| fs::rename(&part, path));
    written.map_err(|source| PipelineError::Write { path: path.into(), source })
}

/// Pixels [H, W, C], C 1 or 3, as a PNG file.
fn png_of(pixels: &[u8], [h, w, c]: [usize; 3]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, w as u32, h as u32);
    encoder.set_color(if c == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb });
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
    // Memory does not refuse, and the sets in memory have sizes that PNG allows.
    written.expect("a PNG file in memory");
    file
}
