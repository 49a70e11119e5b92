//! PNG of any depth and colour type. 16-bit values are scaled by their range, not cut, so that an image and its 8-bit
//! twin have the same mean.

use super::{DecodeError, Found, Want, exif, pixel_bytes, put_rgb, scale_by};
use crate::Image;
use png::{BitDepth, ColorType, DecodingError, Limits, Transformations};
use sooner_plan::{Alpha, Truncated};
use std::io::{Cursor, ErrorKind};

pub(super) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const HINT: &str = "fetch the file again, remove it, or skip it with pipeline.on_bad = \"skip\"";
const CUT_HINT: &str = "fetch the file again, or keep what there is with data.images.truncated = \"keep\"";

/// Height and width, and the orientation where a note stands before the pixels.
pub(super) fn header(bytes: &[u8]) -> Result<([usize; 2], u8), DecodeError> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    let info = decoder.read_header_info().map_err(|error| failed(bytes, &error))?;
    let size = [info.height as usize, info.width as usize];
    let reader = decoder.read_info().map_err(|error| failed(bytes, &error))?;
    Ok((size, orientation(reader.info())))
}

pub(super) fn decode(bytes: &[u8], want: Want, into: &mut Image) -> Result<Found, DecodeError> {
    let fail = |error: DecodingError| failed(bytes, &error);
    let limit = usize::try_from(want.most).unwrap_or(usize::MAX).max(1 << 16);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: limit });
    decoder.set_transformations(Transformations::EXPAND);
    let info = decoder.read_header_info().map_err(fail)?;
    let [h, w] = [info.height as usize, info.width as usize];
    let needed = pixel_bytes([h, w], want.channels, want.most)?;
    let mut reader = decoder.read_info().map_err(fail)?;
    let (color, depth) = reader.output_color_type();
    let wide = depth == BitDepth::Sixteen;
    let stored = color.samples() * if wide { 2 } else { 1 };
    let mut raw = vec![0; h * w * stored];
    let mut found = Found { orientation: orientation(reader.info()), ..Found::default() };
    match reader.next_frame(&mut raw) {
        Ok(_) => {}
        // The rows before the end are in the buffer, the others are black.
        Err(error) if is_cut(&error) && want.truncated == Truncated::Keep => found.truncated = true,
        Err(error) => return Err(fail(error)),
    }
    into.shape = [h, w, want.channels];
    into.pixels.resize(needed, 0);
    let alpha = want.alpha;
    let pairs = into.pixels.chunks_exact_mut(want.channels).zip(raw.chunks_exact(stored));
    match color {
        ColorType::Grayscale => pairs.for_each(|(out, p)| out.fill(sample(p, 0, wide))),
        ColorType::GrayscaleAlpha => pairs.for_each(|(out, p)| {
            out.fill(over(sample(p, 0, wide), sample(p, 1, wide), alpha));
        }),
        ColorType::Rgb => {
            pairs.for_each(|(out, p)| put_rgb(out, [0, 1, 2].map(|i| sample(p, i, wide))));
        }
        ColorType::Rgba => pairs.for_each(|(out, p)| {
            let opacity = sample(p, 3, wide);
            put_rgb(out, [0, 1, 2].map(|i| over(sample(p, i, wide), opacity, alpha)));
        }),
        ColorType::Indexed => panic!("palettes are expanded"),
    }
    Ok(found)
}

/// Sample `i` of a pixel, in 8 bits.
fn sample(pixel: &[u8], i: usize, wide: bool) -> u8 {
    if !wide {
        return pixel[i];
    }
    let value = u32::from(pixel[2 * i]) << 8 | u32::from(pixel[2 * i + 1]);
    // value * 255 / 65535, rounded.
    ((value + 128) / 257) as u8
}

/// A sample laid on the background.
fn over(value: u8, opacity: u8, alpha: Alpha) -> u8 {
    match alpha {
        Alpha::Drop => value,
        Alpha::Black => scale_by(value, opacity),
        Alpha::White => 255 - scale_by(255 - value, opacity),
    }
}

fn orientation(info: &png::Info) -> u8 {
    info.exif_metadata.as_deref().map_or(1, exif::orientation)
}

fn is_cut(error: &DecodingError) -> bool {
    matches!(error, DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof)
}

fn failed(bytes: &[u8], error: &DecodingError) -> DecodeError {
    let cut = is_cut(error);
    DecodeError {
        offset: if cut { bytes.len() as u64 } else { 0 },
        expected: if cut { "the rest of the image" } else { "a PNG image that can be decoded" }.into(),
        found: if cut { "the end of the file".into() } else { error.to_string() },
        hint: if cut { CUT_HINT } else { HINT }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_are_scaled_by_their_range() {
        let wide = |value: u16| sample(&value.to_be_bytes(), 0, true);
        assert_eq!([0, 128, 129, 257, 32_768, 65_535].map(wide), [0, 0, 1, 1, 128, 255]);
        assert!((0..=255u16).all(|value| wide(value * 257) == value as u8));
    }

    #[test]
    fn transparency() {
        for (alpha, expect) in
            [(Alpha::Drop, [200, 200, 200]), (Alpha::Black, [0, 100, 200]), (Alpha::White, [255, 227, 200])]
        {
            assert_eq!([0, 128, 255].map(|opacity| over(200, opacity, alpha)), expect, "{alpha:?}");
        }
    }
}
