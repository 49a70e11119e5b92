//! Convolutions of 3x3 windows at stride 1 by F(4x4, 3x3): 36 products for a tile of 16 results where the direct formula
//! takes 144 (Winograd, 1980; Lavin and Gray, 2016). Tiles of 3 results at the end of a row or column take 5 points of the 6
//! there, with the same transformed filters.
//!
//! Tiles go through in waves that the caches hold: a wave's input is transformed to 36 points, each point is a matrix
//! product with the transformed filters (or, for the gradient by weights, with the transformed output gradient, summed
//! over waves), and the products are transformed back. Between those, all threads meet. Waves depend on shapes alone, so
//! bits do not depend on threads.
//!
//! Rounding: the transforms' constants reach 8, so errors are some ten times those of the direct sums; tests state them.

mod convolution;
mod tiles;
mod transform;
mod weight;

#[cfg(test)]
mod tests;

pub(crate) use convolution::Fast;
pub(crate) use weight::FastGradWeight;

use super::correlate::Geometry;
use super::memory::LINE;
use tiles::{Grid, Wave};
use transform::POINTS;

/// Values of packed filters, or of gradients, that should stay in the first-level cache (32 KiB).
const NEAR: usize = 8192;
/// Values of points that a wave holds, as far as it has enough tiles: 1 MiB.
const WAVE: usize = 256 * 1024;
/// Tiles that make a wave worth its passes over the filters.
const TILES: usize = 192;
/// Tiles of a task of transforms.
const CHUNK: usize = 8;

/// Whether this algorithm is taken: a rule on shapes alone. It needs 3x3 windows at stride 1; whole vectors of four
/// channels; channels enough to make products outweigh transforms; and pixels enough to make them outweigh the
/// transform of the filters.
pub(crate) fn wins(g: &Geometry) -> bool {
    let pixels = g.images * g.output[0] * g.output[1];
    let [channels, filters] = [g.channels[1], g.width];
    g.taps == [3, 3]
        && g.stride == [1, 1]
        && g.dilation == [1, 1]
        && g.channels == [0, g.depth]
        && channels.is_multiple_of(4)
        && filters.is_multiple_of(4)
        && channels.min(filters) >= LEAST_CHANNELS
        && pixels >= LEAST_PIXELS
        && g.output.iter().all(|extent| *extent >= 3)
}

/// See [`wins`]; measured, see docs/engine.md.
const LEAST_CHANNELS: usize = 48;
/// See [`wins`].
const LEAST_PIXELS: usize = 1024;

/// The tiles of all images, and how many of them a wave takes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waves {
    grid: Grid,
    tiles: usize,
    each: usize,
}

impl Waves {
    /// Waves of tiles that have this many values at each point.
    fn new(g: &Geometry, values: usize) -> Waves {
        let grid = Grid::new(g.output);
        let tiles = g.images * grid.per_plane();
        // What a wave may not cut.
        let whole = if grid.has_short() { grid.per_plane() } else { 1 };
        let most = ((WAVE / (POINTS * values.max(1))).max(TILES) / whole).max(1);
        // Waves of about equal size.
        let count = (tiles / whole).div_ceil(most).max(1);
        Waves { grid, tiles, each: (tiles / whole).div_ceil(count).max(1) * whole }
    }

    fn each(self) -> impl Iterator<Item = Wave> {
        let wave = move |first| Wave { grid: self.grid, first, count: self.each.min(self.tiles - first) };
        (0..self.tiles).step_by(self.each).map(wave)
    }
}

/// The least length that is no multiple of a power of two beyond a cache line, so that rows of equal columns, or points
/// of equal tiles, fall into different sets of a cache.
fn staggered(values: usize) -> usize {
    (values.div_ceil(LINE) | 1) * LINE
}

/// Splits `count` into chunks of at most `most`; chunk number `at`.
fn chunk(count: usize, most: usize, at: usize) -> std::ops::Range<usize> {
    at * most..count.min((at + 1) * most)
}
