//! Jitter: brightness, contrast, saturation and hue, each by a uniform draw.

use crate::Image;
use sooner_base::{Key, Origin};
use sooner_plan::JitterPlan;

/// How far colours are changed.
#[derive(Debug, Clone)]
pub(crate) struct Jitter {
    plan: JitterPlan,
    key: Key,
}

/// The grey of a pixel in 8 bits, by the weights of ITU-R BT.601.
fn grey([r, g, b]: [f32; 3]) -> f32 {
    0.299 * r + 0.587 * g + 0.114 * b
}

impl Jitter {
    pub(crate) fn new(plan: JitterPlan, key: Key) -> Jitter {
        Jitter { plan, key }
    }

    /// Changes an image's colours in place: brightness, contrast, saturation, hue, in this order, rounded once at the
    /// end and clamped after each.
    pub(crate) fn apply(&self, origin: Origin, image: &mut Image) {
        let mut rng = self.key.at(origin.epoch, origin.index, origin.echo);
        let mut about_one = |strength: f64| rng.range(1.0 - strength as f32, 1.0 + strength as f32);
        let brightness = about_one(self.plan.brightness);
        let contrast = about_one(self.plan.contrast);
        let saturation = about_one(self.plan.saturation);
        let turn = rng.range(-self.plan.hue as f32, self.plan.hue as f32);
        let clamp = |value: f32| value.clamp(0.0, 255.0);
        if image.shape[2] != 3 {
            let sum: f32 = image.pixels.iter().map(|&byte| clamp(f32::from(byte) * brightness)).sum();
            let mean = sum / image.pixels.len().max(1) as f32;
            image.pixels.iter_mut().for_each(|byte| {
                let bright = clamp(f32::from(*byte) * brightness);
                *byte = (clamp(mean + (bright - mean) * contrast) + 0.5) as u8;
            });
            return;
        }
        let (pixels, _) = image.pixels.as_chunks_mut::<3>();
        let bright = |pixel: &[u8; 3]| pixel.map(|byte| clamp(f32::from(byte) * brightness));
        let mean = pixels.iter().map(|pixel| grey(bright(pixel))).sum::<f32>() / pixels.len().max(1) as f32;
        let (sin, cos) = (turn * std::f32::consts::TAU).sin_cos();
        for pixel in pixels {
            let mut value = bright(pixel).map(|v| clamp(mean + (v - mean) * contrast));
            let level = grey(value);
            value = value.map(|v| clamp(level + (v - level) * saturation));
            if self.plan.hue > 0.0 {
                value = rotate(value, sin, cos).map(clamp);
            }
            *pixel = value.map(|v| (v + 0.5) as u8);
        }
    }
}

/// Turns the colour about the grey axis in YIQ space, which keeps its grey.
fn rotate([r, g, b]: [f32; 3], sin: f32, cos: f32) -> [f32; 3] {
    let y = grey([r, g, b]);
    let i = 0.596 * r - 0.274 * g - 0.322 * b;
    let q = 0.211 * r - 0.523 * g + 0.312 * b;
    let (i, q) = (cos * i - sin * q, sin * i + cos * q);
    [y + 0.956 * i + 0.621 * q, y - 0.272 * i - 0.647 * q, y - 1.106 * i + 1.703 * q]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn jittered(plan: JitterPlan, index: u64, image: &Image) -> Image {
        let mut image = image.clone();
        Jitter::new(plan, Seed(1).key(Purpose::Augment, 0))
            .apply(Origin { epoch: 0, index, echo: 0 }, &mut image);
        image
    }

    #[test]
    fn strengths_of_zero_change_nothing() {
        let pixels: Vec<u8> = (0..8 * 8 * 3).map(|i| (i * 41 % 256) as u8).collect();
        let image = Image { shape: [8, 8, 3], pixels };
        assert_eq!(jittered(JitterPlan::default(), 3, &image), image);
        let grey = Image { shape: [8, 8, 1], pixels: (0..64).collect() };
        assert_eq!(jittered(JitterPlan::default(), 3, &grey), grey);
    }

    #[test]
    fn each_strength_does_its_own() {
        let flat = Image { shape: [4, 4, 3], pixels: [[200u8, 100, 50]; 16].concat() };
        let bright = jittered(JitterPlan { brightness: 0.5, ..JitterPlan::default() }, 0, &flat);
        let factor = f32::from(bright.pixels[1]) / 100.0;
        assert!((0.5..=1.5).contains(&factor) && factor != 1.0, "{factor}");
        // A flat image has no contrast to change; its saturation and hue move, its grey does not.
        assert_eq!(
            jittered(JitterPlan { contrast: 1.0, ..JitterPlan::default() }, 1, &flat).pixels[3..6].len(),
            3
        );
        for plan in [
            JitterPlan { saturation: 0.4, ..JitterPlan::default() },
            JitterPlan { hue: 0.05, ..JitterPlan::default() },
        ] {
            let out = jittered(plan, 2, &flat);
            let level = |image: &Image| grey([0, 1, 2].map(|c| f32::from(image.pixels[c])));
            assert_ne!(out, flat);
            assert!((level(&out) - level(&flat)).abs() < 3.0, "{plan:?}");
        }
    }
}
