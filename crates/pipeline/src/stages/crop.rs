//! Crop: pad, then cut a square at a random place.

use crate::pixels::Placement;
use sooner_base::{Key, Origin};
use sooner_plan::{CropPlan, Padding};

/// A crop whose plan has been checked against the shape that reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Crop {
    plan: CropPlan,
    key: Key,
    /// Places to cut at, down and across.
    places: [u32; 2],
}

impl Crop {
    /// A crop of images of [h, w]; or what it expected and found instead, and what to do.
    pub(crate) fn new(plan: CropPlan, key: Key, [h, w]: [usize; 2]) -> Result<Crop, [String; 3]> {
        let CropPlan { size, pad, padding } = plan;
        if size == 0 {
            return Err(["a size of at least 1".into(), "size 0".into(), "give the crop a size".into()]);
        }
        if padding == Padding::Reflect && pad >= h.min(w) {
            // Each side mirrors all pixels but the edge's, so there is nothing to show further out.
            return Err([
                format!("a reflect padding below {}", h.min(w)),
                format!("pad {pad} of images of [{h}, {w}]"),
                "pad less, or use padding = \"zero\"".into(),
            ]);
        }
        let padded = [h, w].map(|extent| pad.checked_mul(2).and_then(|pads| extent.checked_add(pads)));
        let [Some(ph), Some(pw)] = padded.map(|extent| extent.filter(|&extent| extent <= MOST_EXTENT)) else {
            return Err([
                format!("padded images of at most {MOST_EXTENT} pixels a side"),
                format!("pad {pad}"),
                "pad less".into(),
            ]);
        };
        if size > ph.min(pw) {
            return Err([
                format!("at most [{ph}, {pw}], the image [{h}, {w}] with pad {pad}"),
                format!("a crop of [{size}, {size}]"),
                "crop less or pad more".into(),
            ]);
        }
        Ok(Crop { plan, key, places: [ph, pw].map(|extent| (extent - size + 1) as u32) })
    }

    /// The shape it gives, [H, W].
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.plan.size; 2]
    }

    /// Where each example of a slice is cut: top and left in the padded image.
    pub(crate) fn draw(&self, origins: &[Origin], out: &mut Vec<[u32; 2]>) {
        out.extend(origins.iter().map(|origin| {
            let mut rng = self.key.at(origin.epoch, origin.index, origin.echo);
            self.places.map(|places| rng.below(places))
        }));
    }

    /// The middle of the image, for evaluation.
    pub(crate) fn centre(&self) -> [u32; 2] {
        self.places.map(|places| (places - 1) / 2)
    }

    /// Cuts at the place drawn.
    pub(crate) fn place(&self, [top, left]: [u32; 2], placement: &mut Placement) {
        let CropPlan { size, pad, padding } = self.plan;
        placement.rows.cut(top as usize, size, pad, padding == Padding::Reflect);
        placement.cols.cut(left as usize, size, pad, padding == Padding::Reflect);
    }
}

/// Far above any image, and such that places fit the generator's 32 bits and positions an i32.
const MOST_EXTENT: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn crop(size: usize, pad: usize, padding: Padding, image: [usize; 2]) -> Result<Crop, [String; 3]> {
        Crop::new(CropPlan { size, pad, padding }, Seed(7).key(Purpose::Augment, 0), image)
    }

    #[test]
    fn offsets_are_uniform() {
        let crop = crop(32, 4, Padding::Reflect, [32, 32]).unwrap();
        let n = 81 * 500;
        let origins: Vec<Origin> =
            (0..n).map(|i| Origin { epoch: (i % 3) as u32, index: i, echo: (i % 2) as u32 }).collect();
        let mut drawn = Vec::new();
        crop.draw(&origins, &mut drawn);
        let mut counts = [[0.0f64; 9]; 9];
        drawn.iter().for_each(|&[top, left]| counts[top as usize][left as usize] += 1.0);
        let chi: f64 = counts.iter().flatten().map(|count| (count - 500.0).powi(2) / 500.0).sum();
        // 80 degrees of freedom: mean 80, sd 12.6; six sd is far out on either side.
        assert!((80.0 - 76.0..80.0 + 76.0).contains(&chi), "chi {chi}");
        assert_eq!(crop.centre(), [4, 4]);
    }

    fn check(size: usize, pad: usize, padding: Padding, image: [usize; 2], expect: &str) {
        let got = match crop(size, pad, padding, image) {
            Ok(crop) => format!("{:?}", crop.places),
            Err([expected, found, _]) => format!("expected {expected}, found {found}"),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn shapes_are_checked() {
        check(32, 4, Padding::Zero, [32, 32], "[9, 9]");
        check(28, 0, Padding::Zero, [28, 30], "[1, 3]");
        check(40, 4, Padding::Reflect, [32, 32], "[1, 1]");
        let big = "expected at most [40, 40], the image [32, 32] with pad 4, found a crop of [41, 41]";
        check(41, 4, Padding::Zero, [32, 32], big);
        let reflect = "expected a reflect padding below 3, found pad 3 of images of [4, 3]";
        check(3, 3, Padding::Reflect, [4, 3], reflect);
        check(3, 3, Padding::Zero, [4, 3], "[8, 7]");
        check(0, 3, Padding::Zero, [4, 3], "expected a size of at least 1, found size 0");
        let most =
            format!("expected padded images of at most 16777216 pixels a side, found pad {}", usize::MAX);
        check(3, usize::MAX, Padding::Zero, [4, 3], &most);
    }
}
