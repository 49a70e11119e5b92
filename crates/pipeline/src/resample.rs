//! Scaling images: a triangle filter as wide as the scale asks for, so that shrinking averages instead of skipping
//! pixels; rows first, then columns.

use crate::Image;

/// A box of an image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) top: usize,
    pub(crate) left: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

/// What scaling needs again and again.
#[derive(Debug, Default)]
pub(crate) struct Resampler {
    rows: Vec<f32>,
    weights: Vec<f32>,
    spans: Vec<(usize, usize)>,
}

impl Resampler {
    /// Scales a box of `image` to [height, width] into `out`. Panics if the box is empty or not inside.
    pub(crate) fn scale(&mut self, image: &Image, area: Area, [height, width]: [usize; 2], out: &mut Image) {
        let [_, w, c] = image.shape;
        // Across: [area.height, width, C] sums in f32.
        self.axis(area.width, width);
        self.rows.clear();
        self.rows.resize(area.height * width * c, 0.0);
        for (y, row) in self.rows.chunks_exact_mut(width * c).enumerate() {
            let pixels = &image.pixels[((area.top + y) * w + area.left) * c..][..area.width * c];
            let mut at = 0;
            for (out, &(first, len)) in row.chunks_exact_mut(c).zip(&self.spans) {
                for (&weight, pixel) in
                    self.weights[at..at + len].iter().zip(pixels[first * c..].chunks_exact(c))
                {
                    out.iter_mut().zip(pixel).for_each(|(sum, &byte)| *sum += weight * f32::from(byte));
                }
                at += len;
            }
        }
        // Down: a row of the result is a weighted sum of whole rows.
        self.axis(area.height, height);
        out.shape = [height, width, c];
        out.pixels.clear();
        out.pixels.reserve(height * width * c);
        let mut sums = vec![0f32; width * c];
        let mut at = 0;
        for &(first, len) in &self.spans {
            sums.fill(0.0);
            for (k, &weight) in self.weights[at..at + len].iter().enumerate() {
                let row = &self.rows[(first + k) * width * c..][..width * c];
                sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * value);
            }
            at += len;
            out.pixels.extend(sums.iter().map(|sum| (sum + 0.5).clamp(0.0, 255.0) as u8));
        }
    }

    /// The weights of `from` input places for each of `to` output places, which sum to 1 for each.
    fn axis(&mut self, from: usize, to: usize) {
        let scale = from as f64 / to as f64;
        let reach = scale.max(1.0);
        self.weights.clear();
        self.spans.clear();
        for i in 0..to {
            let centre = (i as f64 + 0.5) * scale - 0.5;
            let first = ((centre - reach).ceil().max(0.0) as usize).min(from - 1);
            let last = ((centre + reach).floor().max(0.0) as usize).min(from - 1);
            let start = self.weights.len();
            self.weights
                .extend((first..=last).map(|at| (1.0 - (at as f64 - centre).abs() / reach).max(0.0) as f32));
            let sum: f32 = self.weights[start..].iter().sum();
            if sum > 0.0 {
                self.weights[start..].iter_mut().for_each(|weight| *weight /= sum);
            } else {
                // The filter's ends alone touch the image: the nearest pixel.
                self.weights[start] = 1.0;
            }
            self.spans.push((first, last + 1 - first));
        }
    }
}

/// Height and width once the shorter side is `size`.
pub(crate) fn shorter_to([height, width]: [usize; 2], size: usize) -> [usize; 2] {
    let shorter = height.min(width).max(1);
    [height, width].map(|side| ((side as f64 * size as f64 / shorter as f64).round() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(shape: [usize; 3], pixels: Vec<u8>, to: [usize; 2]) -> Vec<u8> {
        let area = Area { top: 0, left: 0, height: shape[0], width: shape[1] };
        let mut out = Image::default();
        Resampler::default().scale(&Image { shape, pixels }, area, to, &mut out);
        assert_eq!(out.shape, [to[0], to[1], shape[2]]);
        out.pixels
    }

    #[test]
    fn the_same_size_is_the_same_image() {
        let pixels: Vec<u8> = (0..5 * 7 * 3).map(|i| (i * 37 % 256) as u8).collect();
        assert_eq!(scaled([5, 7, 3], pixels.clone(), [5, 7]), pixels);
    }

    #[test]
    fn flat_images_stay_flat() {
        for (from, to) in [([1, 1], [4, 9]), ([3, 5], [7, 2]), ([64, 48], [9, 9])] {
            let out = scaled([from[0], from[1], 1], vec![201; from[0] * from[1]], to);
            assert!(out.iter().all(|&byte| byte == 201), "{from:?} {to:?}");
        }
    }

    #[test]
    fn shrinking_averages() {
        // Halving with the triangle filter weighs 1, 3, 3, 1 of 8 inside; a stripe of period 2 becomes grey.
        let out = scaled([1, 8, 1], vec![0, 255, 0, 255, 0, 255, 0, 255], [1, 4]);
        assert!(out[1..3].iter().all(|&byte| (127..=128).contains(&byte)), "{out:?}");
        let ramp = scaled([1, 4, 1], vec![0, 100, 200, 255], [1, 7]);
        assert!(ramp.is_sorted(), "{ramp:?}");
    }

    #[test]
    fn the_shorter_side_is_scaled() {
        assert_eq!(shorter_to([100, 50], 25), [50, 25]);
        assert_eq!(shorter_to([50, 101], 25), [25, 51]);
        assert_eq!(shorter_to([1, 9], 1), [1, 9]);
    }
}
