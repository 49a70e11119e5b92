//! Cross entropy as its formula says, with the largest logit subtracted first so that nothing overflows.

use crate::naive::Tensor;
use crate::real::Real;

/// logits: `[N, K]`, labels: `[N]` -> `[N]`.
pub(crate) fn cross_entropy<T: Real>(logits: Tensor<T>, labels: &[u32], smoothing: T) -> Vec<T> {
    let value = |(row, &label): (&[T], &u32)| {
        let mut loss = T::ZERO;
        for (k, log_p) in log_softmax(row).into_iter().enumerate() {
            loss += -(share(k, label, row.len(), smoothing) * log_p);
        }
        loss
    };
    rows(logits).zip(labels).map(value).collect()
}

/// logits: `[N, K]`, labels: `[N]`, dloss: `[N]` -> `[N, K]`.
pub(crate) fn cross_entropy_grad<T: Real>(
    logits: Tensor<T>,
    labels: &[u32],
    smoothing: T,
    dloss: Tensor<T>,
) -> Vec<T> {
    let mut dz = Vec::with_capacity(logits.data.len());
    for (n, row) in rows(logits).enumerate() {
        for (k, log_p) in log_softmax(row).into_iter().enumerate() {
            dz.push(dloss.data[n] * (log_p.exp() - share(k, labels[n], row.len(), smoothing)));
        }
    }
    dz
}

/// logits, soft labels: `[N, K]` -> `[N]`.
pub(crate) fn soft_cross_entropy<T: Real>(logits: Tensor<T>, soft: Tensor<T>, smoothing: T) -> Vec<T> {
    let value = |(row, soft): (&[T], &[T])| {
        let mut loss = T::ZERO;
        for (&t, log_p) in soft.iter().zip(log_softmax(row)) {
            loss += -(smooth(t, row.len(), smoothing) * log_p);
        }
        loss
    };
    rows(logits).zip(rows(soft)).map(value).collect()
}

/// logits, soft labels: `[N, K]`, dloss: `[N]` -> `[N, K]`.
pub(crate) fn soft_cross_entropy_grad<T: Real>(
    logits: Tensor<T>,
    soft: Tensor<T>,
    smoothing: T,
    dloss: Tensor<T>,
) -> Vec<T> {
    let mut dz = Vec::with_capacity(logits.data.len());
    for (n, (row, soft)) in rows(logits).zip(rows(soft)).enumerate() {
        let q: Vec<T> = soft.iter().map(|&t| smooth(t, row.len(), smoothing)).collect();
        let mut sum = T::ZERO;
        q.iter().for_each(|&q| sum += q);
        for (&q, log_p) in q.iter().zip(log_softmax(row)) {
            dz.push(dloss.data[n] * (log_p.exp() * sum - q));
        }
    }
    dz
}

fn smooth<T: Real>(t: T, classes: usize, smoothing: T) -> T {
    (T::ONE - smoothing) * t + smoothing / T::from_f64(classes as f64)
}

/// logits: `[N, K]`, labels: `[N]` -> `[N]` of 0 and 1.
pub(crate) fn correct<T: Real>(logits: Tensor<T>, labels: &[u32]) -> Vec<T> {
    let value = |(row, &label): (&[T], &u32)| {
        let mine = row[label as usize];
        let before = row[..label as usize].iter().all(|&other| other < mine);
        let right = before && row.iter().all(|&other| other <= mine);
        if right { T::ONE } else { T::ZERO }
    };
    rows(logits).zip(labels).map(value).collect()
}

/// The rows of a matrix; none if it has no columns, since labels then could not exist either.
fn rows<T: Real>(matrix: Tensor<'_, T>) -> impl Iterator<Item = &[T]> {
    matrix.data.chunks_exact(matrix.shape[1].max(1))
}

/// The probability that the smoothed label gives to class k.
fn share<T: Real>(k: usize, label: u32, classes: usize, smoothing: T) -> T {
    let floor = smoothing / T::from_f64(classes as f64);
    if k == label as usize { T::ONE - smoothing + floor } else { floor }
}

fn log_softmax<T: Real>(row: &[T]) -> Vec<T> {
    let largest = row.iter().copied().fold(row[0], |a, b| if b > a { b } else { a });
    let mut sum = T::ZERO;
    for &z in row {
        sum += (z - largest).exp();
    }
    row.iter().map(|&z| z - largest - sum.ln()).collect()
}
