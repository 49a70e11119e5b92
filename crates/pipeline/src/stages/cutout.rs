//! Cutout: cover a square at a random place, wholly inside the image.

use sooner_base::{Key, Origin};

/// A cover whose size has been checked against the shape that reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Cutout {
    size: usize,
    key: Key,
    /// Places to cover at, down and across.
    places: [u32; 2],
}

impl Cutout {
    /// A cover of images of [h, w]; or what it expected and found instead, and what to do.
    pub(crate) fn new(size: usize, key: Key, [h, w]: [usize; 2]) -> Result<Cutout, [String; 3]> {
        if size == 0 || size > h.min(w) {
            let expected = format!("a size from 1 to {}, the shorter side of [{h}, {w}]", h.min(w));
            return Err([expected, size.to_string(), "cover less, or leave the stage out".into()]);
        }
        Ok(Cutout { size, key, places: [h, w].map(|extent| (extent - size + 1) as u32) })
    }

    /// Where each example of a slice is covered: top and left.
    pub(crate) fn draw(&self, origins: &[Origin], out: &mut Vec<[u32; 2]>) {
        out.extend(origins.iter().map(|origin| {
            let mut rng = self.key.at(origin.epoch, origin.index, origin.echo);
            self.places.map(|places| rng.below(places))
        }));
    }

    /// Covers the square of an image [H, W, C] of this width with one value for each channel.
    pub(crate) fn cover<T: Copy>(&self, [top, left]: [u32; 2], width: usize, fill: &[T], image: &mut [T]) {
        let c = fill.len();
        for y in top as usize..top as usize + self.size {
            let row = &mut image[(y * width + left as usize) * c..][..self.size * c];
            row.chunks_exact_mut(c).for_each(|pixel| pixel.copy_from_slice(fill));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    #[test]
    fn exactly_one_square_is_covered() {
        let cutout = Cutout::new(3, Seed(2).key(Purpose::Augment, 1), [7, 5]).unwrap();
        let origins: Vec<Origin> = (0..600).map(|index| Origin { epoch: 0, index, echo: 1 }).collect();
        let mut drawn = Vec::new();
        cutout.draw(&origins, &mut drawn);
        let mut counts = [[0; 3]; 5];
        for &at in &drawn {
            counts[at[0] as usize][at[1] as usize] += 1;
            let mut image = vec![1.0f32; 7 * 5 * 2];
            cutout.cover(at, 5, &[0.0, 0.5], &mut image);
            let covered = image.chunks_exact(2).filter(|pixel| *pixel == [0.0, 0.5]).count();
            assert_eq!((covered, image.iter().filter(|&&v| v == 1.0).count()), (9, 70 - 18));
        }
        assert!(counts.iter().flatten().all(|&n| (15..70).contains(&n)), "{counts:?}");
        assert!(Cutout::new(6, Seed(2).key(Purpose::Augment, 1), [7, 5]).is_err());
    }
}
