//! Convolutions of 3x3 windows at stride 1 by F(4x4, 3x3): 36 products for a tile of 16 results where the direct formula
//! takes 144 (Winograd, 1980; Lavin and Gray, 2016). Tiles of 3 results at the end of a row or column take 5 points of the 6
//! there, with the same transformed filters. 5x5 windows by F(2x2, 5x5): 36 products for 4 results instead of 100.
//!
//! Tiles go through in waves that the caches hold: a wave's input is transformed to 36 points, each point is a matrix
//! product with the transformed filters (or, for the gradient by weights, with the transformed output gradient, summed
//! over waves), and the products are transformed back. Between those, all threads meet (`convolution`, `weight`). Of 5x5
//! windows, and of 3x3 windows with few channels, a thread does all of that alone for tiles that its own cache holds (`local` and
//! `adjoint` by `tasks`, `local_weight`). Both cut tiles by shapes alone, so bits do not depend on threads.
//!
//! Rounding: the transforms' constants reach 8, so errors are some ten times those of the direct sums; tests state them.

mod adjoint;
mod convolution;
mod filters;
mod local;
mod local_weight;
mod products;
mod tasks;
mod tiles;
mod transform;
mod weight;

#[cfg(test)]
mod tests;

use super::context::Context;
use super::correlate::Epilogue;
use super::geometry::Geometry;
use super::memory::LINE;
use super::simd::Isa;
use super::weight_gradient::Gradient;
use crate::ops::pool::chosen::Chosen;
use adjoint::Adjoint;
use convolution::Waved;
use local::Local;
use local_weight::LocalGradWeight;
use tiles::{Grid, Wave};
use transform::{POINTS, SIDE};
use weight::WavedGradWeight;

/// Values of packed filters, or of gradients, that should stay in the first-level cache (32 KiB).
const NEAR: usize = 8192;
/// Values of points that a wave holds, as far as it has enough tiles: 1 MiB.
const WAVE: usize = 256 * 1024;
/// Tiles that make a wave worth its passes over the filters.
const TILES: usize = 192;
/// Tiles of a task of transforms.
const CHUNK: usize = 8;

/// What is computed of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    Forward,
    ByInput,
    ByWeights,
}

/// Whether this algorithm is taken: a rule on shapes alone. It needs windows of 3x3 or 5x5 at stride 1; whole
/// vectors of four channels; channels enough to make products outweigh transforms; and pixels enough to make them outweigh the
/// transform of the filters.
pub(crate) fn wins(g: &Geometry, pass: Pass) -> bool {
    let pixels = g.images * g.output[0] * g.output[1];
    let [channels, filters] = [g.channels[1], g.width];
    let near = channels * filters <= NEAR;
    let [least, least_pixels] = match (g.taps, pass) {
        ([3, 3], Pass::ByWeights) if alone(g, pass) => [LEAST_ALONE, LEAST_SUMMED_PIXELS],
        ([3, 3], _) if alone(g, pass) => [LEAST_ALONE, LEAST_PIXELS],
        ([3, 3], Pass::ByInput) if channels * filters >= LEAST_PRODUCTS => [LEAST_BY_INPUT, LEAST_PIXELS],
        ([3, 3], _) => [LEAST_CHANNELS, LEAST_PIXELS],
        ([5, 5], Pass::Forward | Pass::ByInput) if near => [LEAST_WIDE, LEAST_NEAR_PIXELS],
        ([5, 5], Pass::Forward | Pass::ByInput) => [LEAST_WIDE, LEAST_PIXELS],
        ([5, 5], Pass::ByWeights) => [LEAST_WIDE, LEAST_WIDE_PIXELS],
        _ => return false,
    };
    g.stride == [1, 1]
        && g.dilation == [1, 1]
        && g.channels == [0, g.depth]
        && channels.is_multiple_of(4)
        && filters.is_multiple_of(4)
        && channels.min(filters) >= least
        && pixels >= least_pixels
        && g.output.iter().all(|extent| *extent >= 3)
}

/// Whether each thread takes tiles through all stages by itself, and not all together waves of them: where the points of few
/// channels stay in its own cache beside the filters, and images suffice for several threads.
fn alone(g: &Geometry, pass: Pass) -> bool {
    let few = match pass {
        Pass::Forward | Pass::ByInput => g.depth * g.width <= MOST_ALONE,
        Pass::ByWeights => g.depth * g.width <= MOST_SUMMED && g.depth.min(g.width) < LEAST_CHANNELS,
    };
    g.taps == [5, 5] || g.taps == [3, 3] && few && g.images >= LEAST_IMAGES
}

/// See [`alone`]: channels times filters of windows of 3x3.
const MOST_ALONE: usize = 64 * 64;
/// See [`alone`]: the same for the gradient by the weights, whose sums are in the cache too, and lie there for each slice.
const MOST_SUMMED: usize = 24 * 128;
/// See [`alone`].
const LEAST_IMAGES: usize = 4;
/// See [`wins`]: channels of windows of 3x3 that threads take by themselves.
const LEAST_ALONE: usize = 16;
/// See [`wins`]: results of those that make slices enough of the gradient by the weights.
const LEAST_SUMMED_PIXELS: usize = 4_096;
/// See [`wins`]; measured, see docs/engine.md.
const LEAST_CHANNELS: usize = 48;
/// See [`wins`]: of gradients by the input, whose direct sums fill vectors badly with few channels, if there are many filters.
const LEAST_BY_INPUT: usize = 24;
/// See [`wins`]: channels times filters of those.
const LEAST_PRODUCTS: usize = 24 * 64;
/// See [`wins`]: of windows of 5x5.
const LEAST_WIDE: usize = 16;
/// See [`wins`].
const LEAST_PIXELS: usize = 1024;
/// See [`wins`]: of windows of 5x5 whose filters the first-level cache holds, of one point.
const LEAST_NEAR_PIXELS: usize = 64;
/// See [`wins`]: of gradients by weights of windows of 5x5.
const LEAST_WIDE_PIXELS: usize = 2_048;

/// A convolution, or a gradient by the input, in the way that fits its shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fast {
    Waved(Waved),
    Local(Local),
    Adjoint(Adjoint),
}

impl Fast {
    /// Plans a correlation of this geometry. If `turned` it is a gradient by the input: the filters are those of the
    /// convolution, `[T, T, K, C]` for results of K channels, and taken in reverse order.
    pub(crate) fn new(geometry: Geometry, turned: bool, isa: Isa) -> Fast {
        let pass = if turned { Pass::ByInput } else { Pass::Forward };
        if !alone(&geometry, pass) {
            return Fast::Waved(Waved::new(geometry, turned, isa));
        }
        if turned && geometry.taps == [5, 5] {
            return Fast::Adjoint(Adjoint::new(geometry, isa));
        }
        Fast::Local(Local::new(geometry, turned, isa))
    }

    /// Makes p and codes of a pooling of y the results, and not y, if it can; or if turned, takes the gradient that it goes back
    /// from as dp and codes.
    pub(crate) fn pool(&mut self, chosen: Chosen) -> bool {
        match self {
            Fast::Waved(plan) => plan.pool(chosen),
            Fast::Local(plan) => {
                plan.pool(chosen);
                true
            }
            Fast::Adjoint(_) => false,
        }
    }

    /// Values of workspace that [`Fast::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        match self {
            Fast::Waved(plan) => plan.workspace(),
            Fast::Local(plan) => plan.workspace(),
            Fast::Adjoint(plan) => plan.workspace(),
        }
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        match self {
            Fast::Waved(_) => 0,
            Fast::Local(plan) => plan.scratch(),
            Fast::Adjoint(plan) => plan.scratch(),
        }
    }

    /// Computes y `[N, I, J, K]` from x `[N, H, W, C]` and w `[T, T, C, K]`, or as [`Fast::new`] says. A gradient has no
    /// epilogue. x may be a gradient that is given as dp and codes, if [`Fast::pool`] said so.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, w): (Gradient, &[f32]),
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        match (self, x) {
            (Fast::Waved(plan), x) => plan.run(cx, (x, w), epilogue, y, workspace),
            (Fast::Local(plan), x) => plan.run(cx, (x, w), epilogue, y, workspace),
            (Fast::Adjoint(plan), Gradient::Plain(x)) => plan.run(cx, [x, w], y, workspace),
            _ => unreachable!("a plan knows how its gradient is given"),
        }
    }
}

/// A gradient by weights, likewise.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FastGradWeight {
    Waved(WavedGradWeight),
    Local(LocalGradWeight),
}

impl FastGradWeight {
    /// Plans the gradient by the weights of a correlation of this geometry.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> FastGradWeight {
        if !alone(&geometry, Pass::ByWeights) {
            FastGradWeight::Waved(WavedGradWeight::new(geometry, isa))
        } else {
            FastGradWeight::Local(LocalGradWeight::new(geometry, isa))
        }
    }

    /// Values of workspace that [`FastGradWeight::run`] takes.
    pub(crate) fn workspace(&self) -> usize {
        match self {
            FastGradWeight::Waved(plan) => plan.workspace(),
            FastGradWeight::Local(plan) => plan.workspace(),
        }
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        match self {
            FastGradWeight::Waved(_) => 0,
            FastGradWeight::Local(plan) => plan.scratch(),
        }
    }

    /// Takes dy as dp and codes of a pooling, if it can.
    pub(crate) fn unpool(&mut self, chosen: Chosen) -> bool {
        match self {
            FastGradWeight::Waved(plan) => plan.unpool(chosen),
            FastGradWeight::Local(plan) => {
                plan.unpool(chosen);
                true
            }
        }
    }

    /// x `[N, H, W, C]`, dy `[N, I, J, K]`, or dp and codes that it is made of -> dw `[T, T, C, K]`.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, dy): (&[f32], Gradient),
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        match self {
            FastGradWeight::Waved(plan) => plan.run(cx, (x, dy), dw, workspace),
            FastGradWeight::Local(plan) => plan.run(cx, (x, dy), dw, workspace),
        }
    }
}

/// Rows and columns of results in a whole tile of a convolution by so many taps.
fn step(taps: usize) -> usize {
    SIDE + 1 - taps
}

/// The largest of equal parts of at most `most`.
fn even(count: usize, most: usize) -> usize {
    count.div_ceil(count.div_ceil(most).max(1)).max(1)
}

/// Values of points that a thread holds: 768 KiB.
const LOCAL: usize = 192 * 1024;
/// Tiles that make a pass over the transformed filters worth it.
const LEAST_LOCAL: usize = 24;

/// Tiles whose points, with this many values at each, stay in a core's cache.
fn local_tiles(values: usize) -> usize {
    (LOCAL / (POINTS * values.max(1))).max(LEAST_LOCAL)
}

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
        // What a wave may not cut.
        let whole = if grid.has_short() { grid.per_plane() } else { 1 };
        Waves::of(g, values, (grid, whole))
    }

    /// The same of whole planes, if these are not too large.
    fn whole(self, g: &Geometry, values: usize) -> Option<Waves> {
        let each = self.grid.per_plane();
        (each <= TILES).then(|| Waves::of(g, values, (self.grid, each)))
    }

    fn of(g: &Geometry, values: usize, (grid, whole): (Grid, usize)) -> Waves {
        let tiles = g.images * grid.per_plane();
        let most = ((WAVE / (POINTS * values.max(1))).max(TILES) / whole).max(1);
        Waves { grid, tiles, each: even(tiles / whole, most) * whole }
    }

    /// Most planes of a wave of whole ones.
    fn planes(self) -> usize {
        self.each / self.grid.per_plane()
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
