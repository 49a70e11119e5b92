//! The example `own_data` on a folder of images made here: what a stranger's first run does.

#[path = "../../../examples/own_data.rs"]
#[allow(dead_code, unreachable_pub)]
mod own_data;

use std::fs;
use std::path::Path;

/// A grainy image, 40 x 36, brighter in one channel: which one is its class.
fn write_image(path: &Path, class: usize, number: usize) {
    let mut noise = (class * 7919 + number * 104_729 + 1) as u32;
    let mut byte = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 25) as u8
    };
    let pixels: Vec<u8> =
        (0..40 * 36 * 3).map(|i| byte() + if i % 3 == 2 * class { 100 } else { 0 }).collect();
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), 40, 36);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

#[test]
fn a_folder_of_images_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    for (split, images) in [("train", 160), ("val", 30)] {
        for (class, name) in ["red", "blue"].into_iter().enumerate() {
            let to = folder.path().join(split).join(name);
            fs::create_dir_all(&to).unwrap();
            let first = if split == "val" { 1000 } else { 0 };
            (first..first + images).for_each(|i| write_image(&to.join(format!("{i}.png")), class, i));
        }
    }
    let accuracy = own_data::run(folder.path().to_str().unwrap(), 6.0).unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
}
