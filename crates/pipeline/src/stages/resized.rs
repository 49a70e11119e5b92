//! Cuts that are scaled: of the whole image, or at random.

use crate::resample::Area;
use sooner_base::{Key, Origin};
use sooner_plan::RandomResizedCropPlan;

/// A cut of random area and shape, scaled to one size.
#[derive(Debug, Clone)]
pub(crate) struct RandomResizedCrop {
    plan: RandomResizedCropPlan,
    key: Key,
}

impl RandomResizedCrop {
    /// Draws tried before the middle is taken, for images whose shape leaves hardly a cut of the kind asked for.
    const TRIES: usize = 10;

    pub(crate) fn new(plan: RandomResizedCropPlan, key: Key) -> RandomResizedCrop {
        RandomResizedCrop { plan, key }
    }

    pub(crate) fn size(&self) -> usize {
        self.plan.size
    }

    /// The shorter side that an image must keep so that hardly any cut of it would have to be enlarged.
    pub(crate) fn least_side(&self) -> usize {
        let spread = (self.plan.ratio[1] / self.plan.ratio[0]).sqrt().max(1.0) / self.plan.scale[0];
        (self.plan.size as f64 * spread.sqrt()).ceil() as usize
    }

    /// The cut of an image of [h, w]: area uniform, width over height log-uniform, place uniform.
    pub(crate) fn draw(&self, origin: Origin, [h, w]: [usize; 2]) -> Area {
        let mut rng = self.key.at(origin.epoch, origin.index, origin.echo);
        let ([least, most], [narrow, wide]) = (self.plan.scale, self.plan.ratio);
        for _ in 0..Self::TRIES {
            let area = (h * w) as f64 * (least + (most - least) * rng.f64());
            let ratio = (narrow.ln() + (wide.ln() - narrow.ln()) * rng.f64()).exp();
            let (width, height) =
                ((area * ratio).sqrt().round() as usize, (area / ratio).sqrt().round() as usize);
            if (1..=w).contains(&width) && (1..=h).contains(&height) {
                let top = rng.below((h - height + 1) as u32) as usize;
                let left = rng.below((w - width + 1) as u32) as usize;
                return Area { top, left, height, width };
            }
        }
        middle([h, w], [h.min(w); 2])
    }

    /// What evaluation sees: the middle square of seven eighths of the shorter side, as 224 of 256.
    pub(crate) fn still(&self, [h, w]: [usize; 2]) -> Area {
        middle([h, w], [(h.min(w) * 7).div_ceil(8); 2])
    }
}

/// The middle of an image.
fn middle([h, w]: [usize; 2], [height, width]: [usize; 2]) -> Area {
    Area { top: (h - height) / 2, left: (w - width) / 2, height, width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn crop(scale: [f64; 2], ratio: [f64; 2]) -> RandomResizedCrop {
        let plan = RandomResizedCropPlan { size: 8, scale, ratio };
        RandomResizedCrop::new(plan, Seed(5).key(Purpose::Augment, 0))
    }

    #[test]
    fn cuts_have_the_areas_and_shapes_asked_for() {
        let crop = crop([0.25, 1.0], [0.75, 4.0 / 3.0]);
        let mut areas = 0.0;
        for index in 0..2000 {
            let area = crop.draw(Origin { epoch: 1, index, echo: 0 }, [100, 120]);
            assert!(area.top + area.height <= 100 && area.left + area.width <= 120);
            let ratio = area.width as f64 / area.height as f64;
            assert!((0.7..1.4).contains(&ratio), "{area:?}");
            areas += (area.width * area.height) as f64 / 12_000.0;
        }
        // Uniform from 0.25 to 1, less the largest that do not fit 100 rows at some ratios.
        assert!((0.52..0.66).contains(&(areas / 2000.0)), "{}", areas / 2000.0);
        let [a, b] = [0, 1].map(|echo| crop.draw(Origin { epoch: 1, index: 3, echo }, [100, 120]));
        assert_ne!(a, b, "repeats are cut afresh");
    }

    #[test]
    fn hopeless_shapes_fall_back_to_the_middle() {
        let crop = crop([0.9, 1.0], [1.0, 1.0]);
        let area = crop.draw(Origin { epoch: 0, index: 0, echo: 0 }, [10, 100]);
        assert_eq!(area, Area { top: 0, left: 45, height: 10, width: 10 });
        assert_eq!(crop.still([256, 300]), Area { top: 16, left: 38, height: 224, width: 224 });
    }
}
