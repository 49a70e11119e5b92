//! Images with their padding around them, so that kernels need not ask where an image ends.

/// How one image `[height, width, depth]` lies in its padded copy `[rows, columns, depth]`: element (r, c) of the copy
/// is element (r + origin, c + origin) of the image, or 0 where the image has none. An origin may be positive, which
/// cuts rows or columns off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Padding {
    pub(crate) image: [usize; 2],
    pub(crate) depth: usize,
    pub(crate) padded: [usize; 2],
    pub(crate) origin: [isize; 2],
}

impl Padding {
    /// The padded extent that windows of `kernel` with `stride` read for an `output` of this extent.
    pub(crate) fn extent(output: [usize; 2], kernel: [usize; 2], stride: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|d| if output[d] == 0 { 0 } else { (output[d] - 1) * stride[d] + kernel[d] })
    }

    /// Whether the copy would only be a part of the image, in which case the image can be read in place.
    pub(crate) fn is_inside(&self) -> bool {
        (0..2).all(|d| self.origin[d] == 0 && self.padded[d] <= self.image[d])
    }

    /// Values of the padded copy.
    pub(crate) fn len(&self) -> usize {
        self.padded[0] * self.padded[1] * self.depth
    }

    /// Writes the padded copy of one image, all of it.
    pub(crate) fn copy(&self, image: &[f32], padded: &mut [f32]) {
        let row = self.padded[1] * self.depth;
        if row == 0 {
            return;
        }
        let (first, last) = self.inside(1);
        let [left, right] = [first, last].map(|column| column * self.depth);
        for (r, out) in padded[..self.len()].chunks_exact_mut(row).enumerate() {
            let h = r as isize + self.origin[0];
            if h < 0 || h >= self.image[0] as isize || first >= last {
                out.fill(0.0);
                continue;
            }
            let w = (first as isize + self.origin[1]) as usize;
            let from = (h as usize * self.image[1] + w) * self.depth;
            out[..left].fill(0.0);
            out[left..right].copy_from_slice(&image[from..from + right - left]);
            out[right..].fill(0.0);
        }
    }

    /// The rows or columns of the copy that come from the image.
    pub(crate) fn inside(&self, d: usize) -> (usize, usize) {
        let clamp = |v: isize| v.clamp(0, self.padded[d] as isize) as usize;
        (clamp(-self.origin[d]), clamp(self.image[d] as isize - self.origin[d]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_the_images_or_zero() {
        for image in [[1, 1], [2, 3], [4, 4]] {
            for padded in [[1, 1], [3, 2], [6, 7], [0, 0]] {
                for origin in [[0, 0], [-1, -1], [-2, 1], [1, -3], [5, 0], [0, -9]] {
                    let p = Padding { image, depth: 2, padded, origin };
                    let source: Vec<f32> = (1..=image[0] * image[1] * 2).map(|v| v as f32).collect();
                    let mut copy = vec![f32::NAN; p.len()];
                    p.copy(&source, &mut copy);
                    for (i, &found) in copy.iter().enumerate() {
                        let (r, c, d) = (i / 2 / padded[1], i / 2 % padded[1], i % 2);
                        let (h, w) = (r as isize + origin[0], c as isize + origin[1]);
                        let inside = h >= 0 && w >= 0 && h < image[0] as isize && w < image[1] as isize;
                        let at = (h * image[1] as isize + w) * 2 + d as isize;
                        assert_eq!(found, if inside { source[at as usize] } else { 0.0 }, "{p:?} at {i}");
                    }
                    let direct = p.is_inside();
                    assert!(!direct || copy.iter().all(|v| *v != 0.0));
                }
            }
        }
    }
}
