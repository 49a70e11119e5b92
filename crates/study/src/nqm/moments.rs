//! The model's exact moments. In each dimension the state s = (theta, v) follows s' = A s + b n in every update, with
//! the noise n held for the `echo` updates of one fresh batch. So from one fresh batch to the next
//!     mean' = P mean,    covariance' = P covariance P^T + N,    P = A^echo,    N = (h / batch) c c^T,
//!     c = (1 + A + ... + A^(echo - 1)) b,
//! and 2^k fresh batches are such a step too, whose matrices follow from those of 2^(k-1) by squaring.

use super::{NqmOptimizer, NqmSpec};

/// One update's matrix A, row by row, and the vector b in a dimension of curvature `h`.
pub(super) fn update(optimizer: NqmOptimizer, h: f64, rate: f64, momentum: f64) -> ([f64; 4], [f64; 2]) {
    let g = momentum;
    // The velocity is v' = g v + h theta + n under either rule.
    match optimizer {
        // theta' = theta - rate v'
        NqmOptimizer::Sgd | NqmOptimizer::Momentum => ([1.0 - rate * h, -rate * g, h, g], [-rate, 1.0]),
        // theta' = theta - rate (g v' + h theta + n)
        NqmOptimizer::Nesterov => {
            ([1.0 - rate * h * (1.0 + g), -rate * g * g, h, g], [-rate * (1.0 + g), 1.0])
        }
    }
}

/// The product of two matrices given row by row.
pub(super) fn product(p: [f64; 4], q: [f64; 4]) -> [f64; 4] {
    [
        p[0] * q[0] + p[1] * q[2],
        p[0] * q[1] + p[1] * q[3],
        p[2] * q[0] + p[3] * q[2],
        p[2] * q[1] + p[3] * q[3],
    ]
}

/// A matrix times a vector.
pub(super) fn apply(p: [f64; 4], s: [f64; 2]) -> [f64; 2] {
    [p[0] * s[0] + p[1] * s[1], p[2] * s[0] + p[3] * s[1]]
}

/// A^echo and c of the module's formulas, by squaring.
pub(super) fn fresh_batch(a: [f64; 4], b: [f64; 2], echo: u32) -> ([f64; 4], [f64; 2]) {
    // Updates in a row, as (matrix, vector); powers of A commute, so their order does not matter.
    let then = |first: ([f64; 4], [f64; 2]), second: ([f64; 4], [f64; 2])| {
        let moved = apply(second.0, first.1);
        (product(second.0, first.0), [moved[0] + second.1[0], moved[1] + second.1[1]])
    };
    let (mut total, mut run, mut left) = (([1.0, 0.0, 0.0, 1.0], [0.0, 0.0]), (a, b), echo);
    while left > 0 {
        if left & 1 == 1 {
            total = then(total, run);
        }
        run = then(run, run);
        left >>= 1;
    }
    total
}

/// Whether theta's mean squared only ever falls, or only ever rises, along the updates that start at (1, 0).
///
/// With the eigenvalues l1 >= l2 of A, mean theta is (1 - w) l2^t + w l1^t. For 0 <= l2 and the first update's theta
/// in [l2, 1] it falls towards zero without changing sign: if w <= 1 both terms are positive and fall, else the
/// differences of neighbours keep the sign of the first, and theta that of its larger term. Without momentum it is a
/// power, whose square is monotone. Anything else is called not monotone, which costs time but no exactness.
fn is_monotone(a: [f64; 4], momentum: f64) -> bool {
    if momentum == 0.0 {
        return true;
    }
    let (half_trace, determinant) = (0.5 * (a[0] + a[3]), a[0] * a[3] - a[1] * a[2]);
    let discriminant = half_trace * half_trace - determinant;
    // The margin keeps eigenvalues that rounding might have made real out of the claim.
    if discriminant <= 1e-12 {
        return false;
    }
    let (low, high) = (half_trace - discriminant.sqrt(), half_trace + discriminant.sqrt());
    low >= 0.0 && high <= 1.0 && a[0] >= low && a[0] <= 1.0
}

/// The step over 2^k fresh batches, in every dimension: `p` = P row by row, `n` = N as (theta theta, theta v, v v).
struct Leap {
    p: [Vec<f64>; 4],
    n: [Vec<f64>; 3],
}

/// P S P^T for a symmetric S.
#[inline(always)]
pub(super) fn congruence(p: [f64; 4], s: [f64; 3]) -> [f64; 3] {
    let (a, b) = (p[0] * s[0] + p[1] * s[1], p[0] * s[1] + p[1] * s[2]);
    let (c, d) = (p[2] * s[0] + p[3] * s[1], p[2] * s[1] + p[3] * s[2]);
    [p[0] * a + p[1] * b, p[2] * a + p[3] * b, p[2] * c + p[3] * d]
}

/// Every dimension's moments after some fresh batches at one learning rate and momentum.
pub(super) struct Moments {
    /// Leaps over 1, 2, 4, ... fresh batches, made when first needed.
    leaps: Vec<Leap>,
    /// Half the curvature: the weight of theta squared in the loss.
    weight: Vec<f64>,
    /// `weight` where mean theta squared is monotone, else 0.
    monotone_weight: Vec<f64>,
    mean: [Vec<f64>; 2],
    covariance: [Vec<f64>; 3],
    /// The part of the loss that noise makes, at `fresh`.
    noise_loss: f64,
    /// Fresh batches so far.
    pub(super) fresh: u64,
}

impl Moments {
    pub(super) fn new(spec: &NqmSpec, rate: f64, momentum: f64) -> Moments {
        let dims = spec.dims;
        let zeros = || vec![0.0; dims];
        let mut leap = Leap { p: [zeros(), zeros(), zeros(), zeros()], n: [zeros(), zeros(), zeros()] };
        let (mut weight, mut monotone_weight) = (zeros(), zeros());
        for i in 0..dims {
            let h = spec.curvature(i);
            let (a, b) = update(spec.optimizer, h, rate, momentum);
            let (p, c) = fresh_batch(a, b, spec.echo);
            for (column, value) in leap.p.iter_mut().zip(p) {
                column[i] = value;
            }
            let variance = h / spec.batch as f64;
            for (column, value) in leap.n.iter_mut().zip([c[0] * c[0], c[0] * c[1], c[1] * c[1]]) {
                column[i] = variance * value;
            }
            weight[i] = 0.5 * h;
            monotone_weight[i] = if is_monotone(a, momentum) { 0.5 * h } else { 0.0 };
        }
        Moments {
            leaps: vec![leap],
            weight,
            monotone_weight,
            mean: [vec![1.0; dims], zeros()],
            covariance: [zeros(), zeros(), zeros()],
            noise_loss: 0.0,
            fresh: 0,
        }
    }

    /// Goes on by 2^k fresh batches.
    pub(super) fn advance(&mut self, k: usize) {
        self.make(k);
        let Leap { p, n } = &self.leaps[k];
        let ([x, v], [xx, xv, vv]) = (&mut self.mean, &mut self.covariance);
        let mut noise_loss = 0.0;
        for i in 0..self.weight.len() {
            let pi = [p[0][i], p[1][i], p[2][i], p[3][i]];
            [x[i], v[i]] = apply(pi, [x[i], v[i]]);
            let s = congruence(pi, [xx[i], xv[i], vv[i]]);
            (xx[i], xv[i], vv[i]) = (s[0] + n[0][i], s[1] + n[1][i], s[2] + n[2][i]);
            noise_loss += self.weight[i] * xx[i];
        }
        self.noise_loss = noise_loss;
        self.fresh += 1 << k;
    }

    /// The part of the loss that noise makes: it never falls, each fresh batch only adds to it.
    pub(super) fn noise_loss(&self) -> f64 {
        self.noise_loss
    }

    /// Expected loss.
    pub(super) fn loss(&self) -> f64 {
        let bias: f64 = self.weight.iter().zip(&self.mean[0]).map(|(w, x)| w * x * x).sum();
        bias + self.noise_loss
    }

    /// A lower bound of the loss after each of the next 1, 2, ..., 2^k fresh batches: the noise part so far, and in the
    /// monotone dimensions the smaller of mean theta squared at the two ends.
    pub(super) fn bound_over(&mut self, k: usize) -> f64 {
        self.make(k);
        let p = &self.leaps[k].p;
        let [x, v] = &self.mean;
        let mut bias = 0.0;
        for i in 0..self.weight.len() {
            let later = p[0][i] * x[i] + p[1][i] * v[i];
            bias += self.monotone_weight[i] * (x[i] * x[i]).min(later * later);
        }
        bias + self.noise_loss
    }

    fn make(&mut self, k: usize) {
        while self.leaps.len() <= k {
            let Leap { p, n } = &self.leaps[self.leaps.len() - 1];
            let dims = self.weight.len();
            let zeros = || vec![0.0; dims];
            let mut next = Leap { p: [zeros(), zeros(), zeros(), zeros()], n: [zeros(), zeros(), zeros()] };
            let ([p0, p1, p2, p3], [n0, n1, n2]) = (&mut next.p, &mut next.n);
            for i in 0..dims {
                let pi = [p[0][i], p[1][i], p[2][i], p[3][i]];
                [p0[i], p1[i], p2[i], p3[i]] = product(pi, pi);
                let s = congruence(pi, [n[0][i], n[1][i], n[2][i]]);
                (n0[i], n1[i], n2[i]) = (n[0][i] + s[0], n[1][i] + s[1], n[2][i] + s[2]);
            }
            self.leaps.push(next);
        }
    }
}
