//! Flip: mirror left and right.

use crate::pixels::Placement;
use sooner_base::{Key, Origin};
use sooner_plan::FlipKind;

/// When an image is mirrored.
#[derive(Debug, Clone)]
pub(crate) struct Flip {
    kind: FlipKind,
    key: Key,
}

impl Flip {
    /// A flip with its own key.
    pub(crate) fn new(kind: FlipKind, key: Key) -> Flip {
        Flip { kind, key }
    }

    /// Whether each example of a slice is mirrored: 1 or 0, in the first place.
    pub(crate) fn draw(&self, origins: &[Origin], out: &mut Vec<[u32; 2]>) {
        out.extend(origins.iter().map(|origin| {
            let mirrored = match self.kind {
                FlipKind::Random => self.key.at(origin.epoch, origin.index, origin.echo).coin(),
                // One coin for each example, in the first epoch; each further look at it, be it the next epoch's or a
                // repeat, is the other way round.
                FlipKind::Alternate => {
                    self.key.at(0, origin.index, 0).coin() ^ ((origin.epoch ^ origin.echo) & 1 == 1)
                }
            };
            [u32::from(mirrored), 0]
        }));
    }

    /// Mirrors if so drawn.
    pub(crate) fn place(&self, [mirrored, _]: [u32; 2], placement: &mut Placement) {
        if mirrored == 1 {
            placement.cols.mirror();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed};

    fn draws(kind: FlipKind, epoch: u32, echo: u32) -> Vec<bool> {
        let origins: Vec<Origin> = (0..4096).map(|index| Origin { epoch, index, echo }).collect();
        let mut out = Vec::new();
        Flip::new(kind, Seed(3).key(Purpose::Augment, 1)).draw(&origins, &mut out);
        out.iter().map(|&[mirrored, _]| mirrored == 1).collect()
    }

    #[test]
    fn half_are_mirrored() {
        for kind in [FlipKind::Random, FlipKind::Alternate] {
            for epoch in 0..3 {
                let share = draws(kind, epoch, 0).iter().filter(|&&m| m).count() as f64 / 4096.0;
                // The standard deviation is 0.0078.
                assert!((share - 0.5).abs() < 0.04, "{kind:?} {share}");
            }
        }
    }

    #[test]
    fn alternate_shows_the_other_side_next() {
        let other = |draws: Vec<bool>| -> Vec<bool> { draws.iter().map(|m| !m).collect() };
        let first = draws(FlipKind::Alternate, 0, 0);
        for epoch in 1..6 {
            let expect = if epoch % 2 == 0 { first.clone() } else { other(first.clone()) };
            assert_eq!(draws(FlipKind::Alternate, epoch, 0), expect);
            assert_eq!(draws(FlipKind::Alternate, epoch, 1), other(expect));
        }
    }

    #[test]
    fn random_depends_on_epoch_and_repeat() {
        let of = |epoch, echo| draws(FlipKind::Random, epoch, echo);
        assert_ne!(of(0, 0), of(1, 0));
        assert_ne!(of(0, 0), of(0, 1));
        assert_eq!(of(2, 1), of(2, 1));
    }
}
