//! Filters that whiten patches of images, worked out from the data before training: the principal
//! directions of all patches of some images, each over the root of its second moment plus a little.

use crate::TrainError;
use sooner_engine::native::Pool;
use sooner_pipeline::Evaluation;
use sooner_plan::Whitening;
use std::sync::{Mutex, PoisonError};

/// The variable that holds them.
pub(crate) const WHITEN: &str = "whiten.weight";

/// Images of one task: sums are taken task by task and then in order, so that threads decide no bits.
const IMAGES: usize = 16;

/// The most rounds of Jacobi's method; it takes about ten.
const ROUNDS: usize = 100;

/// The filters for a network that begins with them, of the first of these images as evaluations see them.
pub fn whitening_filters(
    mut images: Evaluation,
    whitening: Whitening,
    pool: &Pool,
) -> Result<Vec<f32>, TrainError> {
    let [h, w, channels] = images.shape();
    let mut patches = Patches::new(whitening.plan.patch, channels);
    let mut left = whitening.plan.images;
    while left > 0
        && let Some(batch) = images.next_batch()?
    {
        let taken = batch.len().min(left);
        patches.add(pool, &batch.features[..taken * h * w * channels], [h, w]);
        left -= taken;
    }
    Ok(patches.filters(whitening.plan.eps, whitening.negatives))
}

/// Second moments of the patches of images seen so far, about zero as the published recipes have it: images come
/// normalised.
#[derive(Debug)]
pub struct Patches {
    side: usize,
    channels: usize,
    /// The sums of products, `[D, D]` with D = side side channels, the upper half.
    sums: Vec<f64>,
    count: u64,
}

impl Patches {
    /// No patches yet; they will be `[side, side, channels]`.
    pub fn new(side: usize, channels: usize) -> Patches {
        let length = side * side * channels;
        Patches { side, channels, sums: vec![0.0; length * length], count: 0 }
    }

    /// Values of one patch.
    fn length(&self) -> usize {
        self.side * self.side * self.channels
    }

    /// Adds all patches of images `[N, H, W, C]` that lie inside.
    pub fn add(&mut self, pool: &Pool, images: &[f32], [h, w]: [usize; 2]) {
        let size = h * w * self.channels;
        let tasks: Vec<&[f32]> = images.chunks(IMAGES * size).collect();
        let parts: Vec<Mutex<Vec<f64>>> = tasks.iter().map(|_| Mutex::default()).collect();
        let this = &*self;
        pool.run(tasks.len(), &|task| {
            let mut sums = vec![0.0; this.sums.len()];
            tasks[task.index].chunks(size).for_each(|image| this.image(image, [h, w], &mut sums));
            *parts[task.index].lock().unwrap_or_else(PoisonError::into_inner) = sums;
        });
        for part in parts {
            let part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            self.sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
        }
        let places = (h + 1).saturating_sub(self.side) * (w + 1).saturating_sub(self.side);
        self.count += (images.len() / size * places) as u64;
    }

    fn image(&self, image: &[f32], [h, w]: [usize; 2], sums: &mut [f64]) {
        let (length, row) = (self.length(), self.side * self.channels);
        let mut patch = vec![0.0; length];
        for y in 0..(h + 1).saturating_sub(self.side) {
            for x in 0..(w + 1).saturating_sub(self.side) {
                for (dy, values) in patch.chunks_mut(row).enumerate() {
                    let start = ((y + dy) * w + x) * self.channels;
                    values.iter_mut().zip(&image[start..]).for_each(|(to, from)| *to = f64::from(*from));
                }
                for (i, value) in patch.iter().enumerate() {
                    let products = &mut sums[i * length + i..(i + 1) * length];
                    products.iter_mut().zip(&patch[i..]).for_each(|(sum, other)| *sum += value * other);
                }
            }
        }
    }

    /// The second moments of patches `[side, side, channels]`, laid out in rows: `[D, D]`.
    pub fn moments(&self) -> Vec<f64> {
        let length = self.length();
        let mean = |i: usize, j: usize| self.sums[i.min(j) * length + i.max(j)] / self.count.max(1) as f64;
        (0..length * length).map(|n| mean(n / length, n % length)).collect()
    }

    /// The filters, `[side, side, channels, K]`: one for each principal direction, from the largest second moment to the
    /// smallest, each with its largest value above zero; with `negatives` all of them again with their signs turned.
    pub fn filters(&self, eps: f64, negatives: bool) -> Vec<f32> {
        let length = self.length();
        let (moments, directions) = principal(self.moments(), length);
        let count = length * if negatives { 2 } else { 1 };
        let mut filters = vec![0.0; length * count];
        for k in 0..length {
            let direction: Vec<f64> = (0..length).map(|i| directions[i * length + k]).collect();
            let largest = direction.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
            let sign = largest.map_or(1.0, f64::signum);
            let scale = sign / (moments[k].max(0.0) + eps).sqrt();
            for (i, value) in direction.iter().enumerate() {
                filters[i * count + k] = (scale * value) as f32;
                if negatives {
                    filters[i * count + length + k] = -(scale * value) as f32;
                }
            }
        }
        filters
    }
}

/// The eigenvalues of a symmetric matrix `[n, n]`, falling, and its eigenvectors as columns `[n, n]`, by Jacobi's
/// method: rotations take the entries beside the diagonal to zero one after the other.
fn principal(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut v: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i % (n + 1) == 0))).collect();
    let size: f64 = a.iter().map(|x| x * x).sum();
    for _ in 0..ROUNDS {
        let beside: f64 = (0..n * n).filter(|i| i % (n + 1) != 0).map(|i| a[i] * a[i]).sum();
        if beside <= 1e-30 * size {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut v, n, [p, q]);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j * n + j].total_cmp(&a[i * n + i]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let vectors = (0..n * n).map(|at| v[at / n * n + order[at % n]]).collect();
    (values, vectors)
}

/// Turns axes p and q so that a[p, q] becomes zero.
fn rotate(a: &mut [f64], v: &mut [f64], n: usize, [p, q]: [usize; 2]) {
    let entry = a[p * n + q];
    if entry == 0.0 {
        return;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * entry);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    let turn = |x: &mut [f64], i: usize, j: usize| {
        let (xi, xj) = (x[i], x[j]);
        (x[i], x[j]) = (c * xi - s * xj, s * xi + c * xj);
    };
    for k in 0..n {
        turn(a, k * n + p, k * n + q);
    }
    for k in 0..n {
        turn(a, p * n + k, q * n + k);
    }
    for k in 0..n {
        turn(v, k * n + p, k * n + q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn pool(threads: usize) -> Pool {
        Pool::new(NonZeroUsize::new(threads).expect("not 0"))
    }

    /// Images `[N, H, W, C]` as in bench/peers/whitening.py.
    fn images(shape: [usize; 4]) -> Vec<f32> {
        let wave = |i: usize| {
            let x = i as f64;
            (0.9 * (0.37 * x).sin() + 0.5 * (0.11 * x + 0.002 * x * x).cos()) as f32
        };
        (0..shape.iter().product()).map(wave).collect()
    }

    fn filters([side, channels]: [usize; 2], shape: [usize; 4], eps: f64, threads: usize) -> Vec<f32> {
        let mut patches = Patches::new(side, channels);
        patches.add(&pool(threads), &images(shape), [shape[1], shape[2]]);
        patches.filters(eps, false)
    }

    #[test]
    fn filters_are_those_of_numpy() {
        let mut cases = 0;
        for line in include_str!("../tests/data/whitening.tsv").lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<f64> = line.split('\t').map(|f| f.parse().expect("a number")).collect();
            let sizes: Vec<usize> = fields[..5].iter().map(|f| *f as usize).collect();
            let shape = [sizes[1], sizes[2], sizes[3], sizes[4]];
            for threads in [1, 3] {
                let found = filters([sizes[0], sizes[4]], shape, fields[5], threads);
                assert_eq!(found.len(), fields.len() - 6);
                for (i, (found, expected)) in found.iter().zip(&fields[6..]).enumerate() {
                    let off = (f64::from(*found) - expected).abs();
                    assert!(off < 1e-4 * expected.abs().max(1.0), "{shape:?} {i}: {found}, {expected}");
                }
            }
            cases += 1;
        }
        assert_eq!(cases, 3);
    }

    #[test]
    fn threads_and_cuts_decide_no_bits() {
        let shape = [40, 7, 6, 3];
        let whole = filters([2, 3], shape, 1e-3, 1);
        assert_eq!(filters([2, 3], shape, 1e-3, 4), whole);
    }

    #[test]
    fn negatives_follow() {
        let mut patches = Patches::new(2, 1);
        patches.add(&pool(1), &images([3, 5, 5, 1]), [5, 5]);
        let (plain, both) = (patches.filters(1e-3, false), patches.filters(1e-3, true));
        for i in 0..4 {
            let row = &both[i * 8..(i + 1) * 8];
            assert_eq!(row[..4], plain[i * 4..(i + 1) * 4]);
            assert!((0..4).all(|k| row[k] == -row[4 + k]));
        }
    }

    #[test]
    fn principal_directions_are_orthogonal_and_in_order() {
        let n = 12;
        let raw: Vec<f64> = (0..n * n).map(|i| ((i * i) as f64 * 0.7).sin()).collect();
        let matrix: Vec<f64> = (0..n * n).map(|i| raw[i] + raw[i % n * n + i / n]).collect();
        let (values, vectors) = principal(matrix.clone(), n);
        assert!(values.windows(2).all(|pair| pair[0] >= pair[1]));
        let column = |k: usize, i: usize| vectors[i * n + k];
        for k in 0..n {
            for i in 0..n {
                let image: f64 = (0..n).map(|j| matrix[i * n + j] * column(k, j)).sum();
                assert!((image - values[k] * column(k, i)).abs() < 1e-12);
            }
            for l in 0..n {
                let dot: f64 = (0..n).map(|i| column(k, i) * column(l, i)).sum();
                assert!((dot - f64::from(u8::from(k == l))).abs() < 1e-13);
            }
        }
    }
}
