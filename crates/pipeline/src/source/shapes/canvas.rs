//! A small canvas that paints by signed distance: half a pixel inside the edge is full, half a pixel outside is none.

use sooner_base::Rng;

/// Height and width in pixels.
pub(super) const SIDE: usize = 32;

/// Colours in [0, 1], row-major.
pub(super) struct Canvas {
    pixels: Vec<[f32; 3]>,
}

impl Canvas {
    pub(super) fn new() -> Canvas {
        Canvas { pixels: vec![[0.0; 3]; SIDE * SIDE] }
    }

    /// Fills the canvas, from one colour to another in the direction given.
    pub(super) fn gradient(&mut self, from: [f32; 3], to: [f32; 3], [cos, sin]: [f32; 2]) {
        let half = SIDE as f32 / 2.0;
        for (i, pixel) in self.pixels.iter_mut().enumerate() {
            let [x, y] = centre(i % SIDE, i / SIDE);
            let t = 0.5 + 0.5 * (cos * (x - half) + sin * (y - half)) / half;
            *pixel = [0, 1, 2].map(|c| from[c] + t * (to[c] - from[c]));
        }
    }

    /// Paints what lies within `reach` of a point. The painter gets the offset from the point and gives the signed
    /// distance to the edge in pixels, negative inside, and the colour there.
    pub(super) fn paint(
        &mut self,
        [x, y]: [f32; 2],
        reach: f32,
        painter: impl Fn(f32, f32) -> (f32, [f32; 3]),
    ) {
        let range = |at: f32| {
            let low = (at - reach - 1.0).max(0.0) as usize;
            let high = (at + reach + 1.0).clamp(0.0, SIDE as f32) as usize;
            low..high
        };
        for row in range(y) {
            for col in range(x) {
                let [px, py] = centre(col, row);
                let (distance, colour) = painter(px - x, py - y);
                let cover = (0.5 - distance).clamp(0.0, 1.0);
                let pixel = &mut self.pixels[row * SIDE + col];
                *pixel = [0, 1, 2].map(|c| pixel[c] + cover * (colour[c] - pixel[c]));
            }
        }
    }

    /// Adds nearly normal noise of this standard deviation to every channel of every pixel.
    pub(super) fn noise(&mut self, rng: &mut Rng, sd: f32) {
        // The sum of four uniform bytes has mean 510 and variance 4 (256^2 - 1) / 12.
        let scale = sd / 147.8;
        for channel in self.pixels.iter_mut().flatten() {
            let sum: u32 = rng.u32().to_le_bytes().iter().map(|&byte| u32::from(byte)).sum();
            *channel += (sum as f32 - 510.0) * scale;
        }
    }

    /// Rounds to bytes, row-major [32, 32, 3].
    pub(super) fn write(&self, out: &mut [u8; SIDE * SIDE * 3]) {
        for (out, &channel) in out.iter_mut().zip(self.pixels.iter().flatten()) {
            *out = (channel.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
        }
    }
}

fn centre(col: usize, row: usize) -> [f32; 2] {
    [col as f32 + 0.5, row as f32 + 0.5]
}

/// The unit vector (cos, sin) after `turn` of a full turn, in [0, 1). By a polynomial, since libraries' sines differ
/// between systems in the last bit.
pub(super) fn unit(turn: f32) -> [f32; 2] {
    let quarters = turn * 4.0;
    let quarter = quarters as usize % 4;
    let x = (quarters - (quarters as usize) as f32) * std::f32::consts::FRAC_PI_2;
    let [s, c] = [sine(x), sine(std::f32::consts::FRAC_PI_2 - x)];
    [[c, s], [-s, c], [-c, -s], [s, -c]][quarter]
}

/// Taylor's polynomial of degree 11, within 1e-6 on [0, pi/2].
fn sine(x: f32) -> f32 {
    let z = x * x;
    let terms = [1.0 / 39_916_800.0, 1.0 / 362_880.0, 1.0 / 5_040.0, 1.0 / 120.0, 1.0 / 6.0];
    let sum = terms.iter().fold(0.0, |sum, term| term - z * sum);
    x * (1.0 - z * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_vectors() {
        for k in 0..1000 {
            let turn = k as f32 / 1000.0;
            let [cos, sin] = unit(turn);
            let angle = std::f64::consts::TAU * f64::from(turn);
            assert!((f64::from(cos) - angle.cos()).abs() < 2e-6, "{turn}");
            assert!((f64::from(sin) - angle.sin()).abs() < 2e-6, "{turn}");
        }
    }

    #[test]
    fn cover_is_area() {
        // A disc's area, from the cover of its pixels, comes out within half a percent.
        let mut canvas = Canvas::new();
        canvas.gradient([0.0; 3], [0.0; 3], [1.0, 0.0]);
        let radius = 9.3f32;
        canvas.paint([15.2, 16.7], radius, |dx, dy| ((dx * dx + dy * dy).sqrt() - radius, [1.0; 3]));
        let area: f32 = canvas.pixels.iter().map(|p| p[0]).sum();
        let expect = std::f32::consts::PI * radius * radius;
        assert!((area / expect - 1.0).abs() < 0.005, "{area} {expect}");
    }

    #[test]
    fn painting_outside_is_harmless() {
        let mut canvas = Canvas::new();
        for at in [[-100.0, 5.0], [5.0, -100.0], [100.0, 100.0], [0.0, 32.0]] {
            canvas.paint(at, 3.0, |_, _| (0.0, [1.0; 3]));
        }
    }
}
