//! The gradients of a normalisation with a GELU behind it. The GELU's slope is computed twice, from x, since that costs less
//! than to write it once and read it twice.

use super::masked::{GradLine, Line};
use crate::native::{LANES, load, math, multiversion};

multiversion! {
    /// dy, x: `[R, C]`: adds the sums of dy through the GELU, and of that times x - mean, to `[2, C]`.
    pub(super) fn add_gelu(line: Line, operands: [&[f32]; 2], sums: &mut [f32]) {
        let [dy, x] = operands;
        let channels = line.mean.len();
        let (plain, product) = sums.split_at_mut(channels);
        // Blocks of rows, so that sums are kept in registers.
        const ROWS: usize = 16;
        for (dy, x) in dy.chunks(ROWS * channels).zip(x.chunks(ROWS * channels)) {
            for c in (0..channels).step_by(LANES) {
                let line = line.lanes(c);
                let (mut total, mut weighted) = ([0f32; LANES], [0f32; LANES]);
                for (dy, x) in dy.chunks_exact(channels).zip(x.chunks_exact(channels)) {
                    let (dy, x) = (load(&dy[c..]), load(&x[c..]));
                    for i in 0..LANES {
                        let apart = x[i] - line.mean[i];
                        let d = dy[i] * math::gelu_slope::<FUSED>(apart * line.scale[i] + line.beta[i]);
                        total[i] += d;
                        weighted[i] += d * apart;
                    }
                }
                for (i, (plain, product)) in plain[c..].iter_mut().zip(&mut product[c..]).take(LANES).enumerate() {
                    *plain += total[i];
                    *product += weighted[i];
                }
            }
        }
    }

    /// x: `[R, C]`, dx holding dy -> dx.
    pub(super) fn through_gelu(line: GradLine, x: &[f32], dx: &mut [f32]) {
        let f = line.forward;
        let channels = f.mean.len();
        let [scale, beta, b, e] = [f.scale, f.beta, line.b, line.e].map(|v| &v[..channels]);
        for (dx, x) in dx.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
            for c in 0..channels {
                let apart = x[c] - f.mean[c];
                let d = dx[c] * math::gelu_slope::<FUSED>(apart * scale[c] + beta[c]);
                dx[c] = scale[c] * d - b[c] - e[c] * apart;
            }
        }
    }
}
