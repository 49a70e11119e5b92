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
    /// One row of the image as numbers, or of the result before it is rounded.
    row: Vec<f32>,
    weights: Vec<f32>,
    spans: Vec<(usize, usize)>,
}

/// One axis of a scaling: what is looked at, and what becomes of it.
#[derive(Debug, Clone, Copy)]
struct Axis {
    /// The pixels that may count: from the first to before the second.
    within: [usize; 2],
    /// Where the part that is scaled begins, and how long it is.
    start: f64,
    length: f64,
    /// Pixels that it becomes.
    to: usize,
}

impl Resampler {
    /// Scales a box of `image` to [height, width] into `out`; what lies outside the box does not count. Panics if the box
    /// is empty or not inside.
    pub(crate) fn scale(&mut self, image: &Image, area: Area, [height, width]: [usize; 2], out: &mut Image) {
        let axis = |at: usize, length: usize, to: usize| Axis {
            within: [at, at + length],
            start: at as f64,
            length: length as f64,
            to,
        };
        self.run(image, [axis(area.top, area.height, height), axis(area.left, area.width, width)], out);
    }

    /// Scales an image until it just covers a square of `side`, and keeps the middle of it; writes [side, side, C].
    pub(crate) fn cover(&mut self, image: &Image, side: usize, out: &mut Image) {
        let [h, w, _] = image.shape;
        let short = h.min(w) as f64;
        let axis = |from: usize| Axis {
            within: [0, from],
            start: (from as f64 - short) / 2.0,
            length: short,
            to: side,
        };
        self.run(image, [axis(h), axis(w)], out);
    }

    fn run(&mut self, image: &Image, [down, across]: [Axis; 2], out: &mut Image) {
        let [_, w, c] = image.shape;
        let (height, width) = (down.to, across.to);
        self.weigh(down);
        let rows = self
            .spans
            .iter()
            .fold([usize::MAX, 0], |[low, high], &(first, len)| [low.min(first), high.max(first + len)]);
        // Across: sums in f32 of the rows that count, [rows, width, C].
        self.weigh(across);
        let wide = width * c;
        // A few numbers more, for pixels that are written four numbers at a time.
        self.rows.resize((rows[1] - rows[0]) * wide + LANES, 0.0);
        for y in 0..rows[1] - rows[0] {
            let pixels = &image.pixels[(rows[0] + y) * w * c..][..w * c];
            self.row.clear();
            self.row.extend(pixels.iter().map(|&byte| f32::from(byte)));
            self.row.resize(w * c + LANES, 0.0);
            let out = &mut self.rows[y * wide..][..wide + LANES];
            match c {
                3 => across_colours(&self.row, &self.spans, &self.weights, out),
                _ => across_any((&self.row, c), &self.spans, &self.weights, &mut out[..wide]),
            }
        }
        // Down: a row of the result is a weighted sum of whole rows.
        self.weigh(down);
        out.shape = [height, width, c];
        out.pixels.resize(height * wide, 0);
        let mut at = 0;
        for (&(first, len), bytes) in self.spans.iter().zip(out.pixels.chunks_exact_mut(wide)) {
            self.row.clear();
            self.row.resize(wide, 0.0);
            for (k, &weight) in self.weights[at..at + len].iter().enumerate() {
                let row = &self.rows[(first - rows[0] + k) * wide..][..wide];
                self.row.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * value);
            }
            at += len;
            bytes.iter_mut().zip(&self.row).for_each(|(byte, &sum)| *byte = rounded(sum));
        }
    }

    /// The weights of input places for each output place, which sum to 1 for each.
    fn weigh(&mut self, Axis { within: [low, high], start, length, to }: Axis) {
        let scale = length / to as f64;
        let reach = scale.max(1.0);
        self.weights.clear();
        self.spans.clear();
        for i in 0..to {
            let centre = start + (i as f64 + 0.5) * scale - 0.5;
            let inside = |at: f64| (at.max(low as f64) as usize).min(high - 1);
            let (first, last) = (inside((centre - reach).ceil()), inside((centre + reach).floor()));
            let from = self.weights.len();
            self.weights
                .extend((first..=last).map(|at| (1.0 - (at as f64 - centre).abs() / reach).max(0.0) as f32));
            let sum: f32 = self.weights[from..].iter().sum();
            if sum > 0.0 {
                self.weights[from..].iter_mut().for_each(|weight| *weight /= sum);
            } else {
                // The filter's ends alone touch the image: the nearest pixel.
                self.weights[from] = 1.0;
            }
            self.spans.push((first, last + 1 - first));
        }
    }
}

/// Numbers that are computed together where a pixel has three.
const LANES: usize = 4;

/// Each output pixel of a row as the weighted sum of the input pixels that it spans. row: [w, 3] and `LANES` more;
/// out: [width, 3] and `LANES` more. The fourth number of each is its neighbour's, and is overwritten by the next.
fn across_colours(row: &[f32], spans: &[(usize, usize)], weights: &[f32], out: &mut [f32]) {
    let mut weights = weights;
    for (i, &(first, len)) in spans.iter().enumerate() {
        let (own, rest) = weights.split_at(len);
        weights = rest;
        let pixels = &row[3 * first..][..3 * len + 1];
        let mut sums = [0f32; LANES];
        for (pixel, &weight) in pixels.windows(LANES).step_by(3).zip(own) {
            for lane in 0..LANES {
                sums[lane] += weight * pixel[lane];
            }
        }
        out[3 * i..3 * i + LANES].copy_from_slice(&sums);
    }
}

/// The same with any number of channels. row: [w, channels]; out: [width, channels].
fn across_any((row, c): (&[f32], usize), spans: &[(usize, usize)], weights: &[f32], out: &mut [f32]) {
    let mut weights = weights;
    for (sums, &(first, len)) in out.chunks_exact_mut(c).zip(spans) {
        let (own, rest) = weights.split_at(len);
        weights = rest;
        sums.fill(0.0);
        for (pixel, &weight) in row[first * c..].chunks_exact(c).zip(own) {
            sums.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += weight * value);
        }
    }
}

/// The nearest byte, halves upwards. In numbers alone, because a conversion that looks for what is no number cannot be
/// done to several at once.
fn rounded(sum: f32) -> u8 {
    // From here on numbers have no fraction, and their low bits are their value.
    const WHOLE: f32 = 8_388_608.0;
    let value = (sum + 0.5).clamp(0.0, 255.0);
    let near = value + WHOLE;
    let above = u32::from(near - WHOLE > value);
    near.to_bits().wrapping_sub(above) as u8
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
    fn sums_are_rounded_as_a_conversion_would() {
        for k in -4000..70_000 {
            let sum = k as f32 / 256.0 + if k % 3 == 0 { 1e-5 } else { 0.0 };
            assert_eq!(rounded(sum), (sum + 0.5).clamp(0.0, 255.0) as u8, "{sum}");
        }
    }

    /// Each channel of a colour image is scaled as a grey image of its own.
    #[test]
    fn colours_are_scaled_one_by_one() {
        let pixels: Vec<u8> = (0..9 * 11 * 3).map(|i| (i * i * 37 % 256) as u8).collect();
        for to in [[9, 11], [4, 5], [17, 30], [1, 1]] {
            let all = scaled([9, 11, 3], pixels.clone(), to);
            for c in 0..3 {
                let of = |bytes: &[u8]| -> Vec<u8> { bytes.iter().skip(c).step_by(3).copied().collect() };
                assert_eq!(of(&all), scaled([9, 11, 1], of(&pixels), to), "channel {c} to {to:?}");
            }
        }
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

    fn covered(shape: [usize; 3], pixels: &[u8], side: usize) -> Vec<u8> {
        let mut out = Image::default();
        Resampler::default().cover(&Image { shape, pixels: pixels.to_vec() }, side, &mut out);
        assert_eq!(out.shape, [side, side, shape[2]]);
        out.pixels
    }

    #[test]
    fn covering_a_square_keeps_the_middle() {
        let pixels: Vec<u8> = (0..5 * 5 * 3).map(|i| (i * 89 % 256) as u8).collect();
        assert_eq!(covered([5, 5, 3], &pixels, 5), pixels);
        assert_eq!(covered([2, 4, 1], &[1, 2, 3, 4, 5, 6, 7, 8], 2), [2, 3, 6, 7]);
        assert_eq!(covered([4, 2, 1], &[1, 2, 3, 4, 5, 6, 7, 8], 2), [3, 4, 5, 6]);
        assert_eq!(covered([1, 1, 3], &[9, 8, 7], 2), [9, 8, 7].repeat(4));
        for (h, w, side) in [(7, 3, 2), (64, 48, 13), (3, 3, 50), (1, 9, 4)] {
            assert_eq!(covered([h, w, 1], &vec![200; h * w], side), vec![200; side * side], "{h}x{w} {side}");
        }
    }

    /// A box is scaled as the same pixels by themselves, whatever lies around them.
    #[test]
    fn a_box_is_an_image_of_its_own() {
        let pixels: Vec<u8> = (0..9 * 8).map(|i| (i * 57 % 256) as u8).collect();
        let area = Area { top: 2, left: 3, height: 5, width: 4 };
        let cut: Vec<u8> = (2..7).flat_map(|y| pixels[y * 8 + 3..][..4].to_vec()).collect();
        let mut out = Image::default();
        Resampler::default().scale(&Image { shape: [9, 8, 1], pixels }, area, [3, 7], &mut out);
        assert_eq!(out.pixels, scaled([5, 4, 1], cut, [3, 7]));
    }

    #[test]
    fn the_shorter_side_is_scaled() {
        assert_eq!(shorter_to([100, 50], 25), [50, 25]);
        assert_eq!(shorter_to([50, 101], 25), [25, 51]);
        assert_eq!(shorter_to([1, 9], 1), [1, 9]);
    }
}
