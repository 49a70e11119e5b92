//! The transforms over many tiles: each kernel reads some tiles or filters and writes all 36 points of each, or reads
//! the points and writes tiles or filters. Addresses are made here, arithmetic is `transform`'s.

#![allow(unsafe_code)]

use super::transform::{self, POINTS, SIDE, STEP, plane};
use crate::native::pool::Disjoint;
#[cfg(target_arch = "x86_64")]
use crate::native::simd::{Avx2, Avx512};
use crate::native::simd::{Isa, Portable, Simd};
use crate::native::tile::Panel;
use std::ops::Range;

/// Planes cut into tiles of 4 x 4 results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// Rows and columns of results in a plane.
    pub(super) output: [usize; 2],
    /// Rows and columns of tiles in a plane.
    pub(super) tiles: [usize; 2],
}

impl Grid {
    pub(super) fn new(output: [usize; 2]) -> Grid {
        Grid { output, tiles: output.map(|extent| extent.div_ceil(STEP)) }
    }

    /// Tiles of one plane.
    pub(super) fn per_plane(&self) -> usize {
        self.tiles[0] * self.tiles[1]
    }

    /// The plane of a tile, and the row and column of its first result.
    #[inline(always)]
    fn find(&self, tile: usize) -> (usize, [usize; 2]) {
        let (plane, rest) = (tile / self.per_plane(), tile % self.per_plane());
        (plane, [rest / self.tiles[1] * STEP, rest % self.tiles[1] * STEP])
    }
}

/// From pixels to points: input tiles, or tiles of an output gradient.
pub(super) struct Spread<'a> {
    pub(super) grid: Grid,
    /// Planes `[H, W, C]` after each other.
    pub(super) planes: &'a [f32],
    pub(super) extent: [usize; 2],
    pub(super) depth: usize,
    /// Where a tile begins in the plane, beside its first result.
    pub(super) origin: [isize; 2],
    /// As many zeros as channels, read outside of the plane.
    pub(super) zeros: &'a [f32],
    /// The number of the tile that comes first in the points.
    pub(super) first: usize,
    /// Channels are laid out in these panels, of a row for each tile, `rows` rows from one panel to the next.
    pub(super) panels: &'a [Panel],
    pub(super) rows: usize,
    /// Points are this far apart.
    pub(super) stride: usize,
    pub(super) points: Disjoint<'a>,
}

impl Spread<'_> {
    /// Where the pixels of a tile are, in planes or in the zeros.
    #[inline(always)]
    fn pixels<const FROM: usize>(&self, tile: usize) -> [[*const f32; FROM]; FROM] {
        let (n, [i, j]) = self.grid.find(tile);
        let [height, width] = self.extent;
        let plane = &self.planes[n * height * width * self.depth..(n + 1) * height * width * self.depth];
        let mut pixels = [[self.zeros.as_ptr(); FROM]; FROM];
        for a in 0..FROM {
            let h = (i + a).wrapping_add_signed(self.origin[0]);
            if h >= height {
                continue;
            }
            for b in 0..FROM {
                let w = (j + b).wrapping_add_signed(self.origin[1]);
                if w < width {
                    pixels[a][b] = plane[(h * width + w) * self.depth..].as_ptr();
                }
            }
        }
        pixels
    }
}

/// From points to pixels: results.
pub(super) struct Gather<'a> {
    pub(super) grid: Grid,
    pub(super) points: &'a [f32],
    /// Points, and the rows of tiles, are this far apart.
    pub(super) stride: usize,
    pub(super) row: usize,
    pub(super) first: usize,
    /// `[I, J, K]` after each other.
    pub(super) planes: Disjoint<'a>,
    pub(super) depth: usize,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) relu: bool,
}

/// Filters `[3, 3, R, Q]` and their points, R rows in panels of Q columns; or the sums over tiles for all points, as rows,
/// and the gradients of filters.
pub(super) struct Filters<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) panels: &'a [Panel],
    pub(super) stride: usize,
}

/// A kernel's body for vectors of any width, compiled for every instruction set.
macro_rules! kernel {
    ($name:ident, $body:ident, $($arg:ident: $type:ty),*) => {
        /// # Safety
        /// As the body says; the processor has the instruction set.
        pub(super) unsafe fn $name(isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: handed on to the caller.
                unsafe { $body::<Avx2>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: handed on to the caller.
                unsafe { $body::<Avx512>($($arg),*) }
            }
            // SAFETY: handed on to the caller; an `Isa` exists only where the processor has it.
            unsafe {
                match isa {
                    Isa::Portable => $body::<Portable>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => avx512($($arg),*),
                }
            }
        }
    };
}

kernel!(spread_input, input_body, job: &Spread, tiles: Range<usize>);
kernel!(spread_gradient, gradient_body, job: &Spread, tiles: Range<usize>);
kernel!(gather, gather_body, job: &Gather, tiles: Range<usize>);
kernel!(spread_filters, filters_body, job: &Filters, w: &[f32], u: Disjoint, rows: Range<usize>);
kernel!(gather_filters, filter_gradient_body, job: &Filters, u: &[f32], dw: Disjoint, rows: Range<usize>);

/// Calls `whole` for each start of a vector, then `tail` for each start of four lanes that remain; counts are multiples
/// of four.
#[inline(always)]
fn each_vector<S: Simd>(count: usize, mut whole: impl FnMut(usize), mut tail: impl FnMut(usize)) {
    let mut c = 0;
    while c + S::LANES <= count {
        whole(c);
        c += S::LANES;
    }
    while c < count {
        tail(c);
        c += Portable::LANES;
    }
}

macro_rules! spread_body {
    ($body:ident, $from:ident, $line:ident) => {
        /// # Safety
        /// The points have room for these tiles, counted from the first; no other task writes the same.
        #[inline(always)]
        unsafe fn $body<S: Simd>(job: &Spread, tiles: Range<usize>) {
            for tile in tiles {
                let pixels = job.pixels::<{ $from }>(job.first + tile);
                for panel in job.panels {
                    let at = panel.packed * job.rows + tile * panel.width;
                    each_vector::<S>(
                        panel.columns,
                        // SAFETY: handed on to the caller; pixels are `depth` values long, zeros too.
                        |c| unsafe {
                            let out = job.points.pointer().add(at + c);
                            plane::<S, transform::$line, { $from }, SIDE>(
                                |i, j| S::load(pixels[i][j].add(panel.column + c)),
                                |i, j, v| S::store(out.add((i * SIDE + j) * job.stride), v),
                            );
                        },
                        // SAFETY: as above.
                        |c| unsafe {
                            let out = job.points.pointer().add(at + c);
                            plane::<Portable, transform::$line, { $from }, SIDE>(
                                |i, j| Portable::load(pixels[i][j].add(panel.column + c)),
                                |i, j, v| Portable::store(out.add((i * SIDE + j) * job.stride), v),
                            );
                        },
                    );
                }
            }
        }
    };
}
spread_body!(input_body, SIDE, Input);
spread_body!(gradient_body, STEP, OutputGradient);

/// # Safety
/// The points hold these tiles, counted from the first, and no other task writes the same results.
#[inline(always)]
unsafe fn gather_body<S: Simd>(job: &Gather, tiles: Range<usize>) {
    let [height, width] = job.grid.output;
    for tile in tiles {
        let (n, [i, j]) = job.grid.find(job.first + tile);
        let (rows, columns) = (STEP.min(height - i), STEP.min(width - j));
        let start = ((n * height + i) * width + j) * job.depth;
        let row = tile * job.row;
        each_vector::<S>(
            job.depth,
            // SAFETY: handed on to the caller.
            |k| unsafe { gather_vector::<S>(job, [row + k, start + k, k], [rows, columns]) },
            // SAFETY: as above.
            |k| unsafe { gather_vector::<Portable>(job, [row + k, start + k, k], [rows, columns]) },
        );
    }
}

/// # Safety
/// As for [`gather_body`].
#[inline(always)]
unsafe fn gather_vector<S: Simd>(job: &Gather, [from, to, k]: [usize; 3], [rows, columns]: [usize; 2]) {
    let pitch = job.grid.output[1] * job.depth;
    // SAFETY: handed on to the caller; a bias has a value for each of the K channels.
    unsafe {
        let points = job.points.as_ptr().add(from);
        let out = job.planes.pointer().add(to);
        let bias = job.bias.map(|bias| S::load(bias.as_ptr().add(k)));
        plane::<S, transform::Output, SIDE, STEP>(
            |i, j| S::load(points.add((i * SIDE + j) * job.stride)),
            |i, j, v| {
                let v = bias.map_or(v, |bias| S::add(v, bias));
                let v = if job.relu { S::relu(v) } else { v };
                if i < rows && j < columns {
                    S::store(out.add(i * pitch + j * job.depth), v);
                }
            },
        );
    }
}

/// # Safety
/// `u` has room for all points and no other task writes the same rows.
#[inline(always)]
unsafe fn filters_body<S: Simd>(job: &Filters, w: &[f32], u: Disjoint, rows: Range<usize>) {
    let tap = job.rows * job.columns;
    debug_assert!(w.len() >= 9 * tap && u.len() >= (POINTS - 1) * job.stride);
    for r in rows {
        for panel in job.panels {
            let from = r * job.columns + panel.column;
            let to = panel.packed * job.rows + r * panel.width;
            // SAFETY: handed on to the caller.
            let vector = |c: usize| unsafe { (w.as_ptr().add(from + c), u.pointer().add(to + c)) };
            each_vector::<S>(
                panel.columns,
                // SAFETY: handed on to the caller.
                |c| unsafe {
                    let (w, u) = vector(c);
                    plane::<S, transform::Filter, 3, SIDE>(
                        |i, j| S::load(w.add((i * 3 + j) * tap)),
                        |i, j, v| S::store(u.add((i * SIDE + j) * job.stride), v),
                    );
                },
                // SAFETY: as above.
                |c| unsafe {
                    let (w, u) = vector(c);
                    plane::<Portable, transform::Filter, 3, SIDE>(
                        |i, j| Portable::load(w.add((i * 3 + j) * tap)),
                        |i, j, v| Portable::store(u.add((i * SIDE + j) * job.stride), v),
                    );
                },
            );
        }
    }
}

/// # Safety
/// `u` holds all points, whose rows are as long as the packed columns; no other task writes the same rows of dw.
#[inline(always)]
unsafe fn filter_gradient_body<S: Simd>(job: &Filters, u: &[f32], dw: Disjoint, rows: Range<usize>) {
    let tap = job.rows * job.columns;
    let row = crate::native::tile::packed_columns(job.panels);
    debug_assert!(dw.len() >= 9 * tap && u.len() >= (POINTS - 1) * job.stride + job.rows * row);
    for r in rows {
        for panel in job.panels {
            let (from, to) = (r * row + panel.packed, r * job.columns + panel.column);
            // SAFETY: handed on to the caller.
            let vector = |c: usize| unsafe { (u.as_ptr().add(from + c), dw.pointer().add(to + c)) };
            each_vector::<S>(
                panel.columns,
                // SAFETY: handed on to the caller.
                |c| unsafe {
                    let (u, dw) = vector(c);
                    plane::<S, transform::FilterGradient, SIDE, 3>(
                        |i, j| S::load(u.add((i * SIDE + j) * job.stride)),
                        |i, j, v| S::store(dw.add((i * 3 + j) * tap), v),
                    );
                },
                // SAFETY: as above.
                |c| unsafe {
                    let (u, dw) = vector(c);
                    plane::<Portable, transform::FilterGradient, SIDE, 3>(
                        |i, j| Portable::load(u.add((i * SIDE + j) * job.stride)),
                        |i, j, v| Portable::store(dw.add((i * 3 + j) * tap), v),
                    );
                },
            );
        }
    }
}
