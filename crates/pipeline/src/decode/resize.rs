//! Scaling with a triangle filter as wide as the reduction, so that nothing is left out: what image libraries call
//! antialiased bilinear. Rows first, then columns, each rounded to bytes.

use crate::Image;

/// One axis: for each output, the first input that counts and the weights from there on, which sum to 1.
struct Axis {
    first: Vec<usize>,
    weights: Vec<Vec<f32>>,
}

impl Axis {
    /// `from` inputs, of which the window [start, start + span) becomes `to` outputs.
    fn new(from: usize, start: f64, span: f64, to: usize) -> Axis {
        let scale = span / to as f64;
        let reach = scale.max(1.0);
        let mut axis = Axis { first: Vec::with_capacity(to), weights: Vec::with_capacity(to) };
        for out in 0..to {
            let centre = start + (out as f64 + 0.5) * scale;
            let low = (centre - reach + 0.5).max(0.0) as usize;
            let high = ((centre + reach + 0.5) as usize).min(from).max(low + 1);
            let weigh = |at: usize| (1.0 - ((at as f64 + 0.5 - centre) / reach).abs()).max(0.0);
            let total: f64 = (low..high).map(weigh).sum();
            axis.first.push(low);
            axis.weights.push((low..high).map(|at| (weigh(at) / total) as f32).collect());
        }
        axis
    }
}

/// Scales an image until it just covers a square of `side`, and keeps the middle of it; writes [side, side, C].
pub(crate) fn cover(image: &Image, side: usize, into: &mut Vec<u8>) {
    let [h, w, c] = image.shape;
    let short = h.min(w) as f64;
    let (top, left) = ((h as f64 - short) / 2.0, (w as f64 - short) / 2.0);
    let rows = Axis::new(h, top, short, side);
    let cols = Axis::new(w, left, short, side);
    let (Some(&first), Some(last)) = (rows.first.first(), rows.first.last().zip(rows.weights.last())) else {
        return;
    };
    let end = last.0 + last.1.len();
    let mut narrow = vec![0; (end - first) * side * c];
    for (row, out) in (first..end).zip(narrow.chunks_exact_mut(side * c)) {
        let line = &image.pixels[row * w * c..][..w * c];
        for (x, out) in out.chunks_exact_mut(c).enumerate() {
            mix(&line[cols.first[x] * c..], c, &cols.weights[x], out);
        }
    }
    into.clear();
    into.resize(side * side * c, 0);
    let line = side * c;
    let mut sums = vec![0.0; line];
    for (y, out) in into.chunks_exact_mut(line).enumerate() {
        sums.fill(0.5);
        for (k, &weight) in rows.weights[y].iter().enumerate() {
            let from = &narrow[(rows.first[y] - first + k) * line..][..line];
            sums.iter_mut().zip(from).for_each(|(sum, &byte)| *sum += weight * f32::from(byte));
        }
        out.iter_mut().zip(&sums).for_each(|(out, &sum)| *out = sum as u8);
    }
}

/// Writes the weighted sum of pixels of C bytes, rounded.
fn mix(pixels: &[u8], channels: usize, weights: &[f32], out: &mut [u8]) {
    for (c, out) in out.iter_mut().enumerate() {
        let sum: f32 =
            weights.iter().enumerate().map(|(k, &weight)| weight * f32::from(pixels[k * channels + c])).sum();
        *out = (sum + 0.5) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(shape: [usize; 3], pixels: &[u8], side: usize) -> Vec<u8> {
        let mut out = Vec::new();
        cover(&Image { shape, pixels: pixels.to_vec() }, side, &mut out);
        out
    }

    #[test]
    fn the_same_size_is_the_same_image() {
        let pixels: Vec<u8> = (0..5 * 5 * 3).map(|i| (i * 89 % 256) as u8).collect();
        assert_eq!(covered([5, 5, 3], &pixels, 5), pixels);
    }

    #[test]
    fn the_middle_is_kept() {
        assert_eq!(covered([2, 4, 1], &[1, 2, 3, 4, 5, 6, 7, 8], 2), [2, 3, 6, 7]);
        assert_eq!(covered([4, 2, 1], &[1, 2, 3, 4, 5, 6, 7, 8], 2), [3, 4, 5, 6]);
        assert_eq!(covered([1, 1, 3], &[9, 8, 7], 2), [9, 8, 7].repeat(4));
    }

    #[test]
    fn flat_images_stay_flat() {
        for (h, w, side) in [(7, 3, 2), (64, 48, 13), (3, 3, 50), (1, 9, 4)] {
            assert_eq!(covered([h, w, 1], &vec![200; h * w], side), vec![200; side * side], "{h}x{w} {side}");
        }
    }
}
