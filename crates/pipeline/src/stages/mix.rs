//! Mixup and cutmix: examples of a batch mixed in pairs, the first with the last and so on inwards, labels too. The
//! pairs are as random as the batch's order; an odd one in the middle stays as it is.

use sooner_base::{Batch, Key, Mix as Mixed, Rng};

/// A stage that mixes the examples of each batch.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    kind: MixKind,
    alpha: f64,
    key: Key,
}

/// How two examples are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MixKind {
    /// Blended.
    Mixup,
    /// A box of one pasted over the other.
    Cutmix,
}

impl Mix {
    pub(crate) fn new(kind: MixKind, alpha: f64, key: Key) -> Mix {
        Mix { kind, alpha, key }
    }

    /// Mixes one batch; its choices are those of (epoch, number of the batch, echo).
    pub(crate) fn apply(&self, [epoch, number, echo]: [u64; 3], batch: &mut Batch) {
        let mut rng = self.key.at(epoch as u32, number, echo as u32);
        let n = batch.len();
        let [_, h, w, c] = batch.shape.dims() else { unreachable!("batches of images have four extents") };
        let (h, w, c) = (*h, *w, *c);
        let share = beta(&mut rng, self.alpha);
        let size = h * w * c;
        let area = self.boxed(&mut rng, share, [h, w]);
        let weight = match self.kind {
            MixKind::Mixup => 1.0 - share as f32,
            MixKind::Cutmix => (area[1] - area[0]) as f32 * (area[3] - area[2]) as f32 / (h * w) as f32,
        };
        let middle = n - n / 2;
        let (front, back) = batch.features.split_at_mut(middle * size);
        let pairs = front.chunks_exact_mut(size).zip(back.chunks_exact_mut(size).rev());
        match self.kind {
            MixKind::Mixup => pairs.flat_map(|(a, b)| a.iter_mut().zip(b)).for_each(|(a, b)| {
                let (first, second) = (*a, *b);
                *a = first + weight * (second - first);
                *b = second + weight * (first - second);
            }),
            MixKind::Cutmix => pairs.for_each(|(a, b)| {
                for y in area[0]..area[1] {
                    let row = (y * w + area[2]) * c..(y * w + area[3]) * c;
                    a[row.clone()].swap_with_slice(&mut b[row]);
                }
            }),
        }
        batch.mixes.clear();
        batch.mixes.extend((0..n).map(|i| {
            let other = n - 1 - i;
            Mixed { label: batch.labels[other], weight: if other == i { 0.0 } else { weight } }
        }));
    }

    /// A box of the share that is not kept, about a uniform centre, cut at the edges: top, bottom, left, right.
    fn boxed(&self, rng: &mut Rng, share: f64, [h, w]: [usize; 2]) -> [usize; 4] {
        let side = (1.0 - share).sqrt();
        let mut span = |extent: usize| {
            let half = (side * extent as f64 / 2.0).round() as usize;
            let centre = rng.below(extent as u32) as usize;
            [centre.saturating_sub(half), (centre + half).min(extent)]
        };
        let ([top, bottom], [left, right]) = (span(h), span(w));
        [top, bottom, left, right]
    }
}

/// A draw from Beta(a, a), by two Gamma draws.
fn beta(rng: &mut Rng, alpha: f64) -> f64 {
    let (x, y) = (gamma(rng, alpha), gamma(rng, alpha));
    // Of tiny parameters both may underflow; then either end is as likely.
    if x + y > 0.0 { x / (x + y) } else { f64::from(u8::from(rng.coin())) }
}

/// A draw from Gamma(shape, 1) by the method of Marsaglia and Tsang (2000).
fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - rng.f64()).powf(1.0 / shape);
        return gamma(rng, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = rng.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sooner_base::{Purpose, Seed, Shape};

    #[test]
    fn beta_has_its_moments() {
        for alpha in [0.2, 1.0, 2.5] {
            let mut rng = Seed(4).key(Purpose::Augment, 0).at(0, 0, 0);
            let draws: Vec<f64> = (0..20_000).map(|_| beta(&mut rng, alpha)).collect();
            let mean = draws.iter().sum::<f64>() / 20_000.0;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
            assert!((mean - 0.5).abs() < 0.015, "{alpha} {mean}");
            assert!((variance - 0.25 / (2.0 * alpha + 1.0)).abs() < 0.01, "{alpha} {variance}");
        }
    }

    /// Examples of one value each: 0, 1, 2, ...
    fn batch(n: usize) -> Batch {
        let features = (0..n).flat_map(|i| vec![i as f32; 6 * 6 * 2]).collect();
        Batch { features, labels: (0..n as u32).collect(), ..Batch::empty(Shape::from([n, 6, 6, 2])) }
    }

    #[test]
    fn labels_have_the_shares_of_pixels() {
        for kind in [MixKind::Mixup, MixKind::Cutmix] {
            let mix = Mix::new(kind, 1.0, Seed(9).key(Purpose::Augment, 3));
            let mut weights = std::collections::BTreeSet::new();
            for number in 0..20 {
                for n in [1, 2, 5] {
                    let mut batch = batch(n);
                    mix.apply([0, number, 0], &mut batch);
                    for (i, example) in batch.features.chunks_exact(72).enumerate() {
                        let Mixed { label, weight } = batch.mixes[i];
                        let expect = i as f32 + weight * (label as f32 - i as f32);
                        let mean = example.iter().sum::<f32>() / 72.0;
                        assert!((mean - expect).abs() < 1e-4, "{kind:?} {n} {i}: {mean} {expect}");
                        assert!((0.0..=1.0).contains(&weight));
                        weights.insert(weight.to_bits());
                    }
                }
            }
            assert!(weights.len() > 5, "{kind:?} {}", weights.len());
        }
    }
}
