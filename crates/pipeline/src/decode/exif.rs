//! The one thing of EXIF that changes pixels: the orientation, and turning an image by it.

use crate::Image;

/// The orientation (1 to 8) in a TIFF structure, as EXIF has it after its own header; 1 where there is none or it
/// cannot be read: a broken note is no reason to lose a picture.
pub(super) fn orientation(tiff: &[u8]) -> u8 {
    read(tiff).unwrap_or(1)
}

fn read(tiff: &[u8]) -> Option<u8> {
    let little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let u16_at = |at: usize| {
        let bytes: [u8; 2] = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let u32_at = |at: usize| {
        let bytes: [u8; 4] = tiff.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let start = u32_at(4)? as usize;
    let entries = u16_at(start)?;
    for entry in 0..usize::from(entries) {
        let at = start.checked_add(2 + 12 * entry)?;
        // Tag 0x0112, one number of 16 bits.
        if u16_at(at)? == 0x0112 && u16_at(at + 2)? == 3 {
            return u8::try_from(u16_at(at + 8)?).ok().filter(|value| (1..=8).contains(value));
        }
    }
    None
}

/// Whether turning makes rows of columns.
pub(super) fn swaps_sides(orientation: u8) -> bool {
    (5..=8).contains(&orientation)
}

/// Turns and mirrors an image, so that it stands as its orientation (2 to 8) says.
pub(super) fn turn(image: &mut Image, orientation: u8) {
    let [h, w, c] = image.shape;
    let [out_h, out_w] = if swaps_sides(orientation) { [w, h] } else { [h, w] };
    let mut out = vec![0; image.pixels.len()];
    for (place, pixel) in out.chunks_exact_mut(c).enumerate() {
        let (y, x) = (place / out_w, place % out_w);
        let (row, col) = match orientation {
            2 => (y, w - 1 - x),
            3 => (h - 1 - y, w - 1 - x),
            4 => (h - 1 - y, x),
            5 => (x, y),
            6 => (h - 1 - x, y),
            7 => (h - 1 - x, w - 1 - y),
            8 => (x, w - 1 - y),
            _ => (y, x),
        };
        pixel.copy_from_slice(&image.pixels[(row * w + col) * c..][..c]);
    }
    image.shape = [out_h, out_w, c];
    image.pixels = out;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(little: bool, value: u16, entries: &[u16]) -> Vec<u8> {
        let two = |n: u16| if little { n.to_le_bytes() } else { n.to_be_bytes() };
        let four = |n: u32| if little { n.to_le_bytes() } else { n.to_be_bytes() };
        let mut tiff = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        tiff.extend(four(8));
        tiff.extend(two(entries.len() as u16));
        for &tag in entries {
            tiff.extend([two(tag), two(3)].concat());
            tiff.extend(four(1));
            tiff.extend([two(value), two(0)].concat());
        }
        tiff
    }

    #[test]
    fn orientations_are_read() {
        for little in [false, true] {
            for value in 1..=8 {
                assert_eq!(orientation(&note(little, value, &[0x010f, 0x0112])), value as u8);
            }
            assert_eq!(orientation(&note(little, 9, &[0x0112])), 1);
            assert_eq!(orientation(&note(little, 0, &[0x0112])), 1);
            assert_eq!(orientation(&note(little, 3, &[0x010f])), 1);
            let whole = note(little, 3, &[0x010f, 0x0112]);
            assert!((0..whole.len() - 4).all(|len| orientation(&whole[..len]) == 1));
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), 1);
    }

    fn check(value: u8, shape: [usize; 3], pixels: &[u8]) {
        let mut image = Image { shape: [2, 3, 1], pixels: vec![1, 2, 3, 4, 5, 6] };
        turn(&mut image, value);
        assert_eq!((image.shape, &image.pixels[..]), (shape, pixels), "orientation {value}");
    }

    /// The corners as the EXIF standard defines them: which stored row and column are top and left.
    #[test]
    fn images_are_turned() {
        check(1, [2, 3, 1], &[1, 2, 3, 4, 5, 6]);
        check(2, [2, 3, 1], &[3, 2, 1, 6, 5, 4]);
        check(3, [2, 3, 1], &[6, 5, 4, 3, 2, 1]);
        check(4, [2, 3, 1], &[4, 5, 6, 1, 2, 3]);
        check(5, [3, 2, 1], &[1, 4, 2, 5, 3, 6]);
        check(6, [3, 2, 1], &[4, 1, 5, 2, 6, 3]);
        check(7, [3, 2, 1], &[6, 3, 5, 2, 4, 1]);
        check(8, [3, 2, 1], &[3, 6, 2, 5, 1, 4]);
    }
}
