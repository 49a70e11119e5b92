//! The matrix products at one point.

#![allow(unsafe_code)]

use super::NEAR;
use crate::native::simd::Isa;
use crate::native::tile::{Panel, Reading, Soon, Start, Tile, kernels, split};

/// Visits the first and the number of each run of tiles that are wanted.
pub(super) type Runs<'a> = dyn Fn(&mut dyn FnMut(usize, usize)) + 'a;

/// Products of C channels of tiles with K columns in panels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Products<'a> {
    pub(super) isa: Isa,
    pub(super) panels: &'a [Panel],
    /// C
    pub(super) depth: usize,
    /// How far apart rows of the first operand are, and rows of the result.
    pub(super) rows: [usize; 2],
}

impl Products<'_> {
    /// u: `[C, K]` in panels, v: `[tiles, C]` -> m: `[tiles, K]`; `runs` visits the first and the number of each run of
    /// tiles that are wanted.
    pub(super) fn multiply(&self, [u, v]: [&[f32]; 2], m: &mut [f32], runs: &Runs) {
        let Products { isa, panels, depth, rows } = *self;
        for panel in panels {
            let kernels = kernels(isa, Reading::Rows, panel.vectors);
            split(depth, NEAR / panel.width, |row, length| {
                let b = &u[panel.packed * depth + row * panel.width..][..length * panel.width];
                let mut tiles = |tile: usize, count: usize| {
                    let t = Tile {
                        a: v[tile * rows[0] + row..].as_ptr(),
                        stride: rows[0],
                        segments: &[0],
                        length,
                        b: b.as_ptr(),
                        c: m[tile * rows[1] + panel.packed..].as_mut_ptr(),
                        c_stride: rows[1],
                        start: if row == 0 { Start::Zero } else { Start::Add },
                        relu: false,
                        soon: Soon::default(),
                    };
                    // SAFETY: rows of v hold C values and rows of m all packed columns, for all tiles.
                    unsafe { kernels[count - 1](&t) }
                };
                runs(&mut |first, count| {
                    split(count, kernels.len(), |tile, count| tiles(first + tile, count));
                });
            });
        }
    }

    /// v: `[tiles, C]`, z: `[tiles, K]` in panels of `each` tiles: adds, or if not `add` sets, the sums `[C, K]` over some
    /// of the tiles.
    pub(super) fn add(
        &self,
        (first, tiles): (usize, usize),
        [v, z]: [&[f32]; 2],
        each: usize,
        (sums, add): (&mut [f32], bool),
    ) {
        let Products { isa, panels, depth, rows } = *self;
        for panel in panels {
            let kernels = kernels(isa, Reading::Columns, panel.vectors);
            split(tiles, NEAR / panel.width, |from, length| {
                let tile = first + from;
                let b = &z[panel.packed * each + tile * panel.width..][..length * panel.width];
                split(depth, kernels.len(), |row, count| {
                    let t = Tile {
                        a: v[tile * rows[0] + row..].as_ptr(),
                        stride: rows[0],
                        segments: &[0],
                        length,
                        b: b.as_ptr(),
                        c: sums[row * rows[1] + panel.packed..].as_mut_ptr(),
                        c_stride: rows[1],
                        start: if from == 0 && !add { Start::Zero } else { Start::Add },
                        relu: false,
                        soon: Soon::default(),
                    };
                    // SAFETY: rows of v hold C values and rows of sums all packed columns.
                    unsafe { kernels[count - 1](&t) }
                });
            });
        }
    }
}
