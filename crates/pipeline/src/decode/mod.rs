//! From the bytes of a file to pixels: JPEG and PNG. What the file's bytes say decides, not its name.
//!
//! Every surprise that is no error (a picture that its camera wants turned, a file cut short that the plan keeps) is
//! counted in [`Oddities`] and never passed over in silence.

mod exif;
mod jpeg;
mod png;

use crate::{Image, PipelineError};
use sooner_base::Bytes;
use sooner_plan::{Alpha, ImagesPlan, Orientation, Truncated};
use std::ops::{AddAssign, SubAssign};
use std::path::PathBuf;

/// What was odd about images that were decoded all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Images with a note that the picture has to be turned; whether it was is in the plan.
    pub turned: u64,
    /// Images whose file ended before they did; the rest is grey or black.
    pub truncated: u64,
    /// Images decoded at a reduced scale, because a later stage makes them smaller anyway.
    pub reduced: u64,
}

impl AddAssign for Oddities {
    fn add_assign(&mut self, other: Oddities) {
        self.turned += other.turned;
        self.truncated += other.truncated;
        self.reduced += other.reduced;
    }
}

impl SubAssign for Oddities {
    fn sub_assign(&mut self, other: Oddities) {
        self.turned -= other.turned;
        self.truncated -= other.truncated;
        self.reduced -= other.reduced;
    }
}

/// Why bytes are no image that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Where in the file, as near as is known.
    pub offset: u64,
    /// What the format asks for.
    pub expected: String,
    /// What the file has.
    pub found: String,
    /// What to do next.
    pub hint: String,
}

impl DecodeError {
    /// The same, said of a file.
    pub(crate) fn of(self, path: PathBuf) -> PipelineError {
        let DecodeError { offset, expected, found, hint } = self;
        PipelineError::Malformed { path, offset, expected, found, hint }
    }
}

/// What a file's header says of its image, as the decoder would give it without a reduced scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    /// Height and width, after turning if the plan asks for that.
    pub size: [usize; 2],
    /// `"jpeg"` or `"png"`.
    pub format: &'static str,
}

/// Decodes images as a plan asks for.
#[derive(Debug, Clone)]
pub struct Decoder {
    plan: ImagesPlan,
    most: Bytes,
}

/// The form a decoder gives pixels in, before orientation.
#[derive(Debug, Clone, Copy)]
struct Want {
    channels: usize,
    alpha: Alpha,
    truncated: Truncated,
    /// Most bytes of pixels.
    most: u64,
}

/// What a format's decoder found beside the pixels.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// The EXIF orientation, 1 (upright) to 8.
    orientation: u8,
    truncated: bool,
    reduced: bool,
}

enum Format {
    Jpeg,
    Png,
}

impl Decoder {
    /// A decoder whose images have the plan's channels and at most so many bytes of pixels: a header that claims more
    /// is an error before anything is allocated.
    pub fn new(plan: &ImagesPlan, most: Bytes) -> Decoder {
        Decoder { plan: plan.clone(), most }
    }

    /// Channels of every image.
    pub fn channels(&self) -> usize {
        self.plan.channels
    }

    /// Decodes one file into `into`, keeping its memory. With `at_least` (height, width), a JPEG may be decoded at
    /// 1/2, 1/4 or 1/8 of its scale as long as neither side becomes smaller than that.
    pub fn decode(
        &self,
        bytes: &[u8],
        at_least: Option<[usize; 2]>,
        into: &mut Image,
    ) -> Result<Oddities, DecodeError> {
        let ImagesPlan { channels, alpha, truncated, orientation, .. } = self.plan;
        let want = Want { channels, alpha, truncated, most: self.most.0 };
        let apply = orientation == Orientation::Apply;
        let found = match format_of(bytes)? {
            Format::Jpeg => {
                let header = jpeg::Header::read(bytes)?;
                let lying = apply && exif::swaps_sides(header.orientation);
                let at_least = at_least.map(|[h, w]| if lying { [w, h] } else { [h, w] });
                jpeg::decode(bytes, &header, want, at_least, into)?
            }
            Format::Png => png::decode(bytes, want, into)?,
        };
        let turned = found.orientation > 1;
        if turned && apply {
            exif::turn(into, found.orientation);
        }
        let count = |is: bool| u64::from(is);
        Ok(Oddities {
            turned: count(turned),
            truncated: count(found.truncated),
            reduced: count(found.reduced),
        })
    }

    /// Height, width and format of a file, from its header alone.
    pub fn header(&self, bytes: &[u8]) -> Result<ImageHeader, DecodeError> {
        let (size, orientation, format) = match format_of(bytes)? {
            Format::Jpeg => {
                let header = jpeg::Header::read(bytes)?;
                ([header.height, header.width], header.orientation, "jpeg")
            }
            Format::Png => {
                let (size, orientation) = png::header(bytes)?;
                (size, orientation, "png")
            }
        };
        let lying = self.plan.orientation == Orientation::Apply && exif::swaps_sides(orientation);
        let [h, w] = size;
        Ok(ImageHeader { size: if lying { [w, h] } else { [h, w] }, format })
    }
}

fn format_of(bytes: &[u8]) -> Result<Format, DecodeError> {
    let starts: [(&[u8], &str); 8] = [
        (b"GIF8", "a GIF image"),
        (b"BM", "a BMP image"),
        (b"II*\0", "a TIFF image"),
        (b"MM\0*", "a TIFF image"),
        (b"\0\0\x01\0", "an icon"),
        (b"<", "text with tags"),
        (b"%PDF", "a PDF document"),
        (b"\x1f\x8b", "gzipped data"),
    ];
    if bytes.starts_with(&[0xff, 0xd8]) {
        return Ok(Format::Jpeg);
    }
    if bytes.starts_with(png::SIGNATURE) {
        return Ok(Format::Png);
    }
    let known = starts.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| name.to_string());
    let found = match bytes {
        [] => "an empty file".to_string(),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "a WebP image".to_string(),
        _ => known.unwrap_or_else(|| {
            let first: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {}", first.join(" "))
        }),
    };
    Err(DecodeError {
        offset: 0,
        expected: "a JPEG or PNG image".into(),
        found,
        hint: "convert the file, remove it, or skip it with pipeline.on_bad = \"skip\"".into(),
    })
}

/// The bytes of pixels an image needs, if it is neither empty nor beyond what may be allocated.
fn pixel_bytes(size: [usize; 2], channels: usize, most: u64) -> Result<usize, DecodeError> {
    let [h, w] = size;
    let bytes = h.checked_mul(w).and_then(|hw| hw.checked_mul(channels));
    match bytes {
        Some(0) => Err(DecodeError {
            offset: 0,
            expected: "an image of at least one pixel".into(),
            found: format!("{h} rows of {w}"),
            hint: "remove the file, or skip it with pipeline.on_bad = \"skip\"".into(),
        }),
        Some(bytes) if bytes as u64 <= most => Ok(bytes),
        _ => Err(DecodeError {
            offset: 0,
            expected: format!("an image of at most {most} bytes of pixels, the budget"),
            found: format!("{h} rows of {w} pixels of {channels} bytes"),
            hint: "raise pipeline.budget, or make the image smaller".into(),
        }),
    }
}

/// ITU-R BT.601 luma of a colour, rounded: what grey means in JPEG too.
fn grey_of([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 19_595 + u32::from(g) * 38_470 + u32::from(b) * 7471 + 0x8000) >> 16) as u8
}

/// Writes pixels as grey or colour from red, green and blue.
fn put_rgb(out: &mut [u8], [r, g, b]: [u8; 3]) {
    match out {
        [grey] => *grey = grey_of([r, g, b]),
        _ => out.copy_from_slice(&[r, g, b]),
    }
}

/// (a * b / 255), rounded.
fn scale_by(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 127;
    (product / 255) as u8
}

#[cfg(test)]
mod tests;
