//! JPEG. Colour and grey images at full scale go to `zune-jpeg`, the fastest decoder without C; four-ink images and
//! reduced scales, and the few legal files that it refuses, go to `jpeg-decoder`. Which one is a function of the file
//! and the scale alone, so pixels are the same on every run.

use super::{DecodeError, Found, Want, exif, pixel_bytes, put_rgb, scale_by};
use crate::Image;
use jpeg_decoder::PixelFormat;
use sooner_plan::Truncated;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

const HINT: &str = "fetch the file again, remove it, or skip it with pipeline.on_bad = \"skip\"";
const CUT_HINT: &str = "fetch the file again, or keep what there is with data.images.truncated = \"keep\"";

/// What the markers of a file say.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) components: u8,
    pub(super) orientation: u8,
    /// Where the end-of-image marker begins; none if the file ends before it.
    pub(super) end: Option<usize>,
}

impl Header {
    /// Walks the markers of a whole file, without decoding.
    pub(super) fn read(bytes: &[u8]) -> Result<Header, DecodeError> {
        let mut size = None;
        let mut orientation = 1;
        let mut end = None;
        let mut at = 2;
        while let Some((marker, start)) = next_marker(bytes, at) {
            if marker == 0xd9 {
                end = Some(start - 2);
                break;
            }
            let Some(length) =
                bytes.get(start..start + 2).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]))
            else {
                break;
            };
            let body = bytes.get(start + 2..(start + length.max(2)).min(bytes.len())).unwrap_or_default();
            match (marker, body) {
                // Frames: the baseline and extended, progressive, lossless and arithmetic kinds. The first one counts.
                (0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf, &[_, h1, h0, w1, w0, n, ..]) => {
                    let two = |hi: u8, lo: u8| usize::from(hi) << 8 | usize::from(lo);
                    size.get_or_insert((two(h1, h0), two(w1, w0), n));
                }
                (0xe1, [b'E', b'x', b'i', b'f', 0, 0, tiff @ ..]) => orientation = exif::orientation(tiff),
                _ => {}
            }
            at = start + length.max(2);
        }
        let Some((height, width, components)) = size else {
            let found = "the end of the file before a frame header".into();
            let expected = "a JPEG frame".into();
            return Err(DecodeError { offset: bytes.len() as u64, expected, found, hint: HINT.into() });
        };
        Ok(Header { height, width, components, orientation, end })
    }
}

/// The first marker from `at` on, and where what follows it begins. Coded data (0xff 0x00), restart markers and fill
/// bytes are passed over.
fn next_marker(bytes: &[u8], mut at: usize) -> Option<(u8, usize)> {
    loop {
        at += memchr::memchr(0xff, bytes.get(at..)?)?;
        match *bytes.get(at + 1)? {
            0xff => at += 1,
            0x00 | 0x01 | 0xd0..=0xd7 => at += 2,
            marker => return Some((marker, at + 2)),
        }
    }
}

pub(super) fn decode(
    bytes: &[u8],
    header: &Header,
    want: Want,
    at_least: Option<[usize; 2]>,
    into: &mut Image,
) -> Result<Found, DecodeError> {
    let truncated = header.end.is_none();
    let whole;
    let bytes = match (truncated, want.truncated) {
        (false, _) => bytes,
        (true, Truncated::Keep) => {
            // With an end marker both decoders take the missing data for zeros.
            let mut closed = bytes.to_vec();
            while closed.last() == Some(&0xff) {
                closed.pop();
            }
            closed.extend([0xff, 0xd9]);
            whole = closed;
            &whole[..]
        }
        (true, Truncated::Fail) => {
            return Err(DecodeError {
                offset: bytes.len() as u64,
                expected: "the end-of-image marker".into(),
                found: "the end of the file".into(),
                hint: CUT_HINT.into(),
            });
        }
    };
    let eighths = at_least.map_or(8, |least| scale_for([header.height, header.width], least));
    let scaled = |len: usize| (len * eighths).div_ceil(8);
    let size = [scaled(header.height), scaled(header.width)];
    let needed = pixel_bytes(size, want.channels, want.most)?;
    into.shape = [size[0], size[1], want.channels];
    into.pixels.resize(needed, 0);
    let found = Found { orientation: header.orientation, truncated, reduced: eighths < 8 };
    if eighths == 8 && header.components != 4 && fast(bytes, want, &mut into.pixels).is_ok() {
        return Ok(found);
    }
    careful(bytes, (size, eighths < 8), want, &mut into.pixels).map(|()| found)
}

/// The smallest of 1, 2, 4 and 8 eighths at which neither side is smaller than it has to be.
fn scale_for(full: [usize; 2], least: [usize; 2]) -> usize {
    let enough = |eighths: &usize| {
        let fits = |(full, least): (usize, usize)| (full * eighths).div_ceil(8) >= least;
        full.into_iter().zip(least).all(fits)
    };
    // Below 16 pixels two scales can give the same size, and a decoder told a size could not tell them apart.
    let small = full.into_iter().any(|len| len < 16);
    if small { 8 } else { [1, 2, 4].into_iter().find(enough).unwrap_or(8) }
}

fn fast(bytes: &[u8], want: Want, out: &mut [u8]) -> Result<(), zune_jpeg::errors::DecodeErrors> {
    let space = if want.channels == 1 { ColorSpace::Luma } else { ColorSpace::RGB };
    let side = usize::from(u16::MAX);
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(space)
        .set_max_width(side)
        .set_max_height(side)
        .set_strict_mode(false);
    zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode_into(out)
}

/// Decodes to the size given, that of the image or, `reduced`, of one of its smaller scales.
pub(super) fn careful(
    bytes: &[u8],
    (size, reduced): ([usize; 2], bool),
    want: Want,
    out: &mut [u8],
) -> Result<(), DecodeError> {
    let failed = |error: jpeg_decoder::Error| DecodeError {
        offset: 0,
        expected: "a JPEG image that can be decoded".into(),
        found: error.to_string(),
        hint: HINT.into(),
    };
    let mut decoder = jpeg_decoder::Decoder::new(bytes);
    // Its own buffer has up to four bytes a pixel, whatever is wanted.
    decoder.set_max_decoding_buffer_size((4 * want.most).min(usize::MAX as u64) as usize);
    let [h, w] = size;
    let mut given = (w as u16, h as u16);
    if reduced {
        given = decoder.scale(given.0, given.1).map_err(failed)?;
    }
    let pixels = decoder.decode().map_err(failed)?;
    let format = decoder.info().map(|info| info.pixel_format);
    let bytes_a_pixel = format.map_or(0, |format| format.pixel_bytes());
    if given != (w as u16, h as u16) || pixels.len() != h * w * bytes_a_pixel {
        return Err(DecodeError {
            offset: 0,
            expected: format!("one JPEG frame of {h} rows of {w}"),
            found: format!("{} bytes of pixels", pixels.len()),
            hint: HINT.into(),
        });
    }
    let pairs = out.chunks_exact_mut(want.channels).zip(pixels.chunks_exact(bytes_a_pixel));
    match format {
        Some(PixelFormat::L8) => pairs.for_each(|(out, grey)| out.fill(grey[0])),
        Some(PixelFormat::RGB24) => pairs.for_each(|(out, p)| put_rgb(out, [p[0], p[1], p[2]])),
        Some(PixelFormat::CMYK32) => pairs.for_each(|(out, ink)| {
            let light = 255 - ink[3];
            put_rgb(out, [0, 1, 2].map(|i| light - scale_by(ink[i], light)));
        }),
        _ => {
            return Err(DecodeError {
                offset: 0,
                expected: "a JPEG image of 8 bits".into(),
                found: "one of 16".into(),
                hint: HINT.into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        for (full, least, expect) in [
            ([480, 640], [224, 224], 4),
            ([480, 640], [60, 80], 1),
            ([480, 640], [61, 80], 2),
            ([480, 640], [60, 81], 2),
            ([480, 640], [240, 320], 4),
            ([480, 640], [241, 320], 8),
            ([480, 640], [1000, 1000], 8),
            ([15, 640], [1, 1], 8),
            ([16, 16], [1, 1], 1),
            ([17, 23], [3, 3], 1),
            ([17, 23], [4, 3], 2),
        ] {
            assert_eq!(scale_for(full, least), expect, "{full:?} to {least:?}");
        }
    }
}
