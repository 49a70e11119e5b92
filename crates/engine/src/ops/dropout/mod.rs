//! Dropout (Srivastava et al., 2014): `y = x / (1 - rate)` where an element is kept, else 0.
//!
//! Element e of an example falls out if draw number e of the generator at (key, origin of the example) is below the
//! rate. Nothing is stored: the gradient is the same operation on dy. Since nothing but key and origin decides,
//! examples lose the same elements whichever batch, replica or run after a resume they are in; a repeat of an example
//! (its echo) loses others.

pub(crate) mod naive;
pub(crate) mod native;

use sooner_base::{Key, Origin, Rng};

/// The generator that decides for one example.
fn generator(key: Key, origin: &Origin) -> Rng {
    key.at(origin.epoch, origin.index, origin.echo)
}

/// Draws below this fall out.
fn threshold(rate: f64) -> u32 {
    (rate * 2f64.powi(32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive::Tensor;
    use sooner_base::{Purpose, Seed, Shape};

    fn mask(rate: f64, salt: u64, origins: &[Origin], each: usize) -> Vec<Vec<bool>> {
        let ones = vec![1.0f64; origins.len() * each];
        let x = Tensor { shape: &Shape::from([origins.len(), each]), data: &ones };
        let y = naive::dropout(x, rate, Seed(3).key(Purpose::Dropout, salt), origins);
        assert!(y.iter().all(|v| *v == 0.0 || (v - 1.0 / (1.0 - rate)).abs() < 1e-12));
        y.chunks(each).map(|row| row.iter().map(|v| *v > 0.0).collect()).collect()
    }

    fn origin(epoch: u32, index: u64, echo: u32) -> Origin {
        Origin { epoch, index, echo }
    }

    #[test]
    fn only_the_origin_and_the_key_decide() {
        let origins: Vec<Origin> = (0..6).map(|index| origin(1, index, 0)).collect();
        let whole = mask(0.5, 1, &origins, 100);
        // In other batches, in another order, alone.
        assert_eq!(mask(0.5, 1, &origins[4..], 100), whole[4..]);
        let turned: Vec<Origin> = origins.iter().rev().copied().collect();
        assert!(mask(0.5, 1, &turned, 100).iter().rev().eq(&whole));
        // Another example, epoch, repeat or layer loses other elements.
        let others =
            [origin(1, 7, 0), origin(2, 0, 0), origin(1, 0, 1)].map(|o| mask(0.5, 1, &[o], 100).remove(0));
        let layer = mask(0.5, 2, &origins[..1], 100).remove(0);
        assert!(others.iter().chain([&layer]).all(|other| *other != whole[0]));
    }

    #[test]
    fn the_rate_is_the_share_that_falls_out() {
        for rate in [0.0, 0.1, 0.5, 0.9] {
            let n = 100_000.0;
            let kept = mask(rate, 1, &[origin(0, 0, 0)], n as usize).remove(0);
            let lost = kept.iter().filter(|kept| !**kept).count() as f64;
            // Five standard deviations of a binomial.
            assert!((lost - rate * n).abs() <= 5.0 * (n * rate * (1.0 - rate)).sqrt(), "{rate}: {lost}");
        }
    }
}
