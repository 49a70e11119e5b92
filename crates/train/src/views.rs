//! Test-time augmentation: several views of each image, whose logits are averaged before they are judged.

use sooner_plan::Views;

/// One way to look at an image, and how much its logits count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    mirrored: bool,
    /// Rows and columns by which the image is moved up and left.
    moved: isize,
    pub(crate) weight: f32,
}

/// The views of a plan's word; the first is the image as it is, and the weights sum to 1.
pub(crate) fn views(of: Views) -> Vec<View> {
    let both =
        |moved, weight: f32| [false, true].map(|mirrored| View { mirrored, moved, weight: weight / 2.0 });
    match of {
        Views::One => vec![View { mirrored: false, moved: 0, weight: 1.0 }],
        Views::Flips => both(0, 1.0).to_vec(),
        Views::FlipsShifts => [both(0, 0.5), both(1, 0.25), both(-1, 0.25)].concat(),
    }
}

impl View {
    /// Whether it shows images as they are.
    pub(crate) fn is_plain(&self) -> bool {
        !self.mirrored && self.moved == 0
    }

    /// Writes this view of images [N, H, W, C] into a buffer of their size. What a move uncovers reflects the image about
    /// its border pixels; an extent of 1 has nothing to reflect and stays.
    pub(crate) fn write(&self, images: &[f32], [h, w, c]: [usize; 3], into: &mut [f32]) {
        let rows: Vec<usize> = (0..h).map(|y| reflected(y as isize + self.moved, h)).collect();
        let column = |x: usize| reflected(x as isize + self.moved, w);
        // Mirrored first, then moved: both views of a pair are moved the same way.
        let columns: Vec<usize> =
            (0..w).map(|x| if self.mirrored { w - 1 - column(x) } else { column(x) }).collect();
        let size = h * w * c;
        if size == 0 {
            return;
        }
        for (image, into) in images.chunks_exact(size).zip(into.chunks_exact_mut(size)) {
            for (&y, row) in rows.iter().zip(into.chunks_exact_mut(w * c)) {
                let from = &image[y * w * c..(y + 1) * w * c];
                for (&x, pixel) in columns.iter().zip(row.chunks_exact_mut(c)) {
                    pixel.copy_from_slice(&from[x * c..(x + 1) * c]);
                }
            }
        }
    }
}

/// The place inside an extent that a place up to one step beyond it shows.
fn reflected(place: isize, extent: usize) -> usize {
    let last = extent as isize - 1;
    let inside = if place < 0 {
        -place
    } else if place > last {
        2 * last - place
    } else {
        place
    };
    inside.clamp(0, last.max(0)) as usize
}

/// Cross-entropy and rightness of one example's logits, in f64: the first of the largest logits is the answer.
pub(crate) fn judge(logits: &[f32], label: u32) -> (f64, bool) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&l| f64::from(l - largest).exp()).sum();
    let loss = sum.ln() - f64::from(logits[label as usize] - largest);
    let answer = logits.iter().position(|&l| l == largest);
    (loss, answer == Some(label as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_the_first_view_is_plain() {
        for of in [Views::One, Views::Flips, Views::FlipsShifts] {
            let views = views(of);
            assert_eq!(views.len(), of.count());
            assert!(views[0].is_plain() && views[1..].iter().all(|view| !view.is_plain()));
            assert_eq!(views.iter().map(|view| view.weight).sum::<f32>(), 1.0);
        }
    }

    #[test]
    fn views_of_a_small_image() {
        let image: Vec<f32> = (0..12).map(|v| v as f32).collect();
        let seen = |view: &View| {
            let mut out = vec![-1.0; 12];
            view.write(&image, [3, 4, 1], &mut out);
            out.iter().map(|v| *v as i32).collect::<Vec<_>>()
        };
        let all: Vec<_> = views(Views::FlipsShifts).iter().map(seen).collect();
        assert_eq!(all[0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(all[1], [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]);
        // Up and left: the last row and column reflect.
        assert_eq!(all[2], [5, 6, 7, 6, 9, 10, 11, 10, 5, 6, 7, 6]);
        assert_eq!(all[3], [6, 5, 4, 5, 10, 9, 8, 9, 6, 5, 4, 5]);
        assert_eq!(all[4], [5, 4, 5, 6, 1, 0, 1, 2, 5, 4, 5, 6]);
    }

    #[test]
    fn awkward_sizes() {
        for shape in [[1, 1, 3], [1, 5, 1], [0, 4, 1], [2, 2, 2]] {
            let size: usize = shape.iter().product();
            let images: Vec<f32> = (0..3 * size).map(|v| v as f32).collect();
            for view in views(Views::FlipsShifts) {
                let mut out = vec![-1.0; 3 * size];
                view.write(&images, shape, &mut out);
                assert!(out.iter().all(|v| *v >= 0.0), "{shape:?}");
            }
        }
    }

    #[test]
    fn judging() {
        let (loss, right) = judge(&[0.0, 0.0], 0);
        assert!((loss - 2f64.ln()).abs() < 1e-12 && right, "ties go to the first");
        assert!(!judge(&[0.0, 0.0], 1).1);
        assert!((judge(&[1000.0, 0.0], 1).0 - 1000.0).abs() < 1e-9);
        let (loss, right) = judge(&[f32::NAN, 0.0], 0);
        assert!(loss.is_nan() && !right);
    }
}
