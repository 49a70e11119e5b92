//! Small images of every kind, drawn by `tests/images/make.py`, against what Pillow (libjpeg-turbo, libpng) makes of
//! them; and everything that is no image.

use super::*;
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// (name, [height, width], pixels)
fn golden() -> Vec<(String, [usize; 2], Vec<u8>)> {
    let raw = read("expected.rgb");
    let index = fs::read_to_string(folder().join("expected.txt")).unwrap();
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap().to_string();
        let [h, w, at] = [(); 3].map(|()| words.next().unwrap().parse::<usize>().unwrap());
        (name, [h, w], raw[at..at + 3 * h * w].to_vec())
    };
    index.lines().map(line).collect()
}

fn decoder(change: impl FnOnce(&mut ImagesPlan)) -> Decoder {
    let mut plan = ImagesPlan::default();
    change(&mut plan);
    Decoder::new(&plan, Bytes(1 << 30))
}

fn decode(decoder: &Decoder, bytes: &[u8]) -> Result<(Image, Oddities), DecodeError> {
    let mut image = Image::default();
    decoder.decode(bytes, None, &mut image).map(|oddities| (image, oddities))
}

/// (largest, mean) difference.
fn difference(a: &[u8], b: &[u8]) -> (u8, f64) {
    assert_eq!(a.len(), b.len());
    let apart = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    (apart().max().unwrap_or(0), apart().map(f64::from).sum::<f64>() / a.len() as f64)
}

/// PNG is exact. JPEG decoders may round the inverse transform and the colours differently, each by a little.
#[test]
fn every_kind_is_what_others_see() {
    let decoder = decoder(|_| ());
    let mut checked = 0;
    for (name, size, expect) in golden() {
        if name.starts_with("cut-") || name.contains('/') {
            continue;
        }
        let (image, oddities) = decode(&decoder, &read(&name)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert_eq!(image.shape, [size[0], size[1], 3], "{name}");
        let (largest, mean) = difference(&image.pixels, &expect);
        match name.ends_with("png") {
            true => assert_eq!(largest, 0, "{name}"),
            false => assert!(largest <= 8 && mean < 1.2, "{name}: largest {largest}, mean {mean}"),
        }
        let turned = u64::from(name.starts_with("turned") && name != "turned-1.jpg");
        assert_eq!(oddities, Oddities { turned, ..Oddities::default() }, "{name}");
        let header = decoder.header(&read(&name)).unwrap();
        assert_eq!(header.size, size, "{name}");
        assert!(name.ends_with(if header.format == "jpeg" { ".jpg" } else { ".png" }), "{name}");
        checked += 1;
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn the_two_jpeg_decoders_agree() {
    let want = Want { channels: 3, alpha: Alpha::Drop, truncated: Truncated::Fail, most: 1 << 20 };
    for (name, size, expect) in golden() {
        if !name.ends_with(".jpg") || name.starts_with("cut-") {
            continue;
        }
        let mut image = vec![0; expect.len()];
        jpeg::careful(&read(&name), (size, false), want, &mut image).unwrap();
        let (largest, mean) = difference(&image, &expect);
        assert!(largest <= 8 && mean < 1.2, "{name}: largest {largest}, mean {mean}");
    }
}

#[test]
fn reduced_scales() {
    let decoder = decoder(|_| ());
    let mut checked = 0;
    for (name, size, expect) in golden() {
        let Some((file, _)) = name.split_once(".jpg/") else { continue };
        let mut image = Image::default();
        let oddities = decoder.decode(&read(&format!("{file}.jpg")), Some(size), &mut image).unwrap();
        assert_eq!((image.shape, oddities.reduced), ([size[0], size[1], 3], 1), "{name}");
        // Light agrees closely. Where colour is stored at half the scale, libjpeg shrinks it less; here it is shrunk
        // as light is and spread again, which shows in so small an image as this.
        let light = |pixels: &[u8]| pixels.as_chunks().0.iter().map(|&rgb| grey_of(rgb)).collect::<Vec<u8>>();
        let (_, mean) = difference(&light(&image.pixels), &light(&expect));
        assert!(mean < 4.0, "{name}: light, mean {mean}");
        let (_, mean) = difference(&image.pixels, &expect);
        let coarse = file != "baseline-444" && file != "grey";
        assert!(mean < if coarse { 20.0 } else { 3.0 }, "{name}: mean {mean}");
        checked += 1;
    }
    assert_eq!(checked, 12);
}

#[test]
fn grey_is_luma() {
    let decoder = decoder(|plan| plan.channels = 1);
    for (name, size, expect) in golden() {
        if name.starts_with("cut-") || name.contains('/') {
            continue;
        }
        let (image, _) = decode(&decoder, &read(&name)).unwrap();
        assert_eq!(image.shape, [size[0], size[1], 1]);
        let grey: Vec<u8> = expect.as_chunks().0.iter().map(|&rgb| grey_of(rgb)).collect();
        let (largest, mean) = difference(&image.pixels, &grey);
        // JPEG stores luma, so it comes without the detour over colours, which clips.
        let limits = if name.ends_with("png") { (0, 0.1) } else { (30, 1.5) };
        assert!(largest <= limits.0 && mean < limits.1, "{name}: largest {largest}, mean {mean}");
    }
}

#[test]
fn turned_images_stand_upright_when_asked() {
    let (upright, _) = decode(&decoder(|_| ()), &read("turned-1.jpg")).unwrap();
    let decoder = decoder(|plan| plan.orientation = Orientation::Apply);
    let mut turned = 0;
    for value in 1..=8 {
        let bytes = read(&format!("turned-{value}.jpg"));
        let (image, oddities) = decode(&decoder, &bytes).unwrap();
        let mut expect = upright.clone();
        exif::turn(&mut expect, value);
        assert_eq!(image, expect);
        assert_eq!(decoder.header(&bytes).unwrap().size, [image.shape[0], image.shape[1]]);
        turned += oddities.turned;
    }
    assert_eq!(turned, 7);
    let (image, _) = decode(&decoder, &read("turned.png")).unwrap();
    assert_eq!(image.shape, [14, 9, 3]);
}

/// A reduced scale is chosen for the sides as they are after turning.
#[test]
fn turned_images_are_reduced_by_their_own_sides() {
    let decoder = decoder(|plan| plan.orientation = Orientation::Apply);
    let mut bytes = read("baseline-444.jpg");
    let note = read("turned-6.jpg");
    let start = note.windows(4).position(|w| w == b"Exif").unwrap() - 4;
    let length = 2 + (usize::from(note[start + 2]) << 8 | usize::from(note[start + 3]));
    bytes.splice(2..2, note[start..start + length].to_vec());
    let mut image = Image::default();
    // 37 rows of 53 become 53 rows of 37: at half the scale 27 of 19.
    for (least, shape) in [([27, 19], [27, 19, 3]), ([19, 27], [53, 37, 3]), ([14, 10], [14, 10, 3])] {
        decoder.decode(&bytes, Some(least), &mut image).unwrap();
        assert_eq!(image.shape, shape, "{least:?}");
    }
}

#[test]
fn cut_files_fail_or_keep_what_there_is() {
    let (strict, lenient) = (decoder(|_| ()), decoder(|plan| plan.truncated = Truncated::Keep));
    for (name, size, expect) in golden().into_iter().filter(|(name, ..)| name.starts_with("cut-")) {
        let bytes = read(&name);
        let error = decode(&strict, &bytes).unwrap_err();
        assert_eq!((error.offset, &error.found[..]), (bytes.len() as u64, "the end of the file"), "{name}");
        let (image, oddities) = decode(&lenient, &bytes).unwrap();
        assert_eq!(image.shape, [size[0], size[1], 3]);
        assert_eq!(oddities, Oddities { truncated: 1, ..Oddities::default() }, "{name}");
        // The left half of the first third of the rows is there whatever is missing; what stands for the rest is each
        // decoder's own. A progressive file has it in a coarser form.
        let left = |pixels: &[u8]| {
            let rows = pixels.chunks(3 * size[1]).take(size[0] / 3);
            rows.flat_map(|row| row[..3 * (size[1] / 2)].to_vec()).collect::<Vec<u8>>()
        };
        let (_, mean) = difference(&left(&image.pixels), &left(&expect));
        assert!(mean < if name.contains("progressive") { 8.0 } else { 1.2 }, "{name}: mean {mean}");
    }
}

/// However a file is cut or damaged, there is an image or an error, never a panic.
#[test]
fn damage_is_an_error_or_an_image() {
    let lenient = decoder(|plan| plan.truncated = Truncated::Keep);
    for name in [
        "baseline-420.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "grey16.png",
        "palette-alpha.png",
        "interlaced.png",
    ] {
        let whole = read(name);
        for len in (0..whole.len()).step_by(7) {
            let _ = decode(&lenient, &whole[..len]);
            let mut damaged = whole.clone();
            damaged[len] ^= 0x55;
            let _ = decode(&lenient, &damaged);
        }
    }
}

fn check_refused(bytes: &[u8], expect: &str) {
    let error = decode(&decoder(|_| ()), bytes).unwrap_err();
    assert_eq!(format!("expected {}, found {}", error.expected, error.found), expect);
}

#[test]
fn what_is_no_image_is_named() {
    let expected = "expected a JPEG or PNG image, found";
    check_refused(b"", &format!("{expected} an empty file"));
    check_refused(b"GIF89a", &format!("{expected} a GIF image"));
    check_refused(b"RIFF\0\0\0\0WEBPVP8 ", &format!("{expected} a WebP image"));
    check_refused(b"<html>", &format!("{expected} text with tags"));
    check_refused(&[0, 1, 2], &format!("{expected} bytes 00 01 02"));
    check_refused(
        &[0xff, 0xd8, 0xff],
        "expected a JPEG frame, found the end of the file before a frame header",
    );
    check_refused(&read("rgb8.png")[..40], "expected the rest of the image, found the end of the file");
}

/// A header of 41 bytes may claim terabytes.
#[test]
fn the_budget_holds_before_anything_is_allocated() {
    let plan = ImagesPlan::default();
    let small = Decoder::new(&plan, Bytes(1000));
    for name in ["rgb8.png", "baseline-420.jpg", "cmyk.jpg"] {
        let mut image = Image::default();
        let error = small.decode(&read(name), None, &mut image).unwrap_err();
        assert_eq!(error.expected, "an image of at most 1000 bytes of pixels, the budget");
        assert_eq!(error.found, "37 rows of 53 pixels of 3 bytes");
        assert_eq!(image.pixels.capacity(), 0);
    }
    // At an eighth of the scale the second one fits.
    let mut image = Image::default();
    small.decode(&read("baseline-420.jpg"), Some([5, 7]), &mut image).unwrap();
    assert_eq!(image.shape, [5, 7, 3]);
    let mut huge = read("baseline-420.jpg");
    let frame = huge.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    huge[frame + 5..frame + 9].fill(0xff);
    let error = decode(&decoder(|_| ()), &huge).unwrap_err();
    assert!(error.found.contains("65535 rows of 65535"), "{}", error.found);
}

#[test]
fn covering_a_square_is_what_others_do() {
    let (image, _) = decode(&decoder(|_| ()), &read("rgb8.png")).unwrap();
    let mut checked = 0;
    for (name, [side, _], expect) in golden() {
        if !name.contains("/cover") {
            continue;
        }
        let mut out = Image::default();
        crate::resample::Resampler::default().cover(&image, side, &mut out);
        let (largest, _) = difference(&out.pixels, &expect);
        assert!(largest <= 1, "{name}: {largest}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}
