//! Dropout as its formula says.

use super::{generator, threshold};
use crate::naive::Tensor;
use crate::real::Real;
use sooner_base::{Key, Origin};

/// x: `[N, ...]`, origins: `[N]`.
pub(crate) fn dropout<T: Real>(x: Tensor<T>, rate: f64, key: Key, origins: &[Origin]) -> Vec<T> {
    let each = x.data.len().checked_div(origins.len()).unwrap_or(0);
    let mut y = Vec::with_capacity(x.data.len());
    for (n, origin) in origins.iter().enumerate() {
        let mut rng = generator(key, origin);
        for &v in &x.data[n * each..(n + 1) * each] {
            y.push(if rng.u32() < threshold(rate) { T::ZERO } else { v / T::from_f64(1.0 - rate) });
        }
    }
    y
}
