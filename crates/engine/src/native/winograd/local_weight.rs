//! The gradient by weights of windows of 5x5, or of 3x3 with few channels: each thread takes its tiles through all stages and
//! keeps sums of its own at each point. Slices of the batch depend on shapes alone, and their sums are added in pairs.

#![allow(unsafe_code)]

use super::convolution::whole_row;
use super::filters::Filters;
use super::products::Products;
use super::tiles::{Grid, Spread, Wave, spread_gradient, spread_input, spread_pairs};
use super::transform::POINTS;
use super::{even, local_tiles, staggered, step};
use crate::native::context::Context;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Reading, packed_columns};
use crate::native::weight_gradient::{Gradient, add_slices};
use crate::ops::pool::chosen::Chosen;
use std::ops::Range;

/// Most slices of a batch, a power of two.
const SLICES: usize = 8;
/// Tiles that make a slice worth its sums.
const TILES: usize = 128;
/// Values of sums that a task adds up.
const PART: usize = 8192;

/// How a gradient by weights is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalGradWeight {
    geometry: Geometry,
    /// What the sums become.
    filters: Filters,
    grid: Grid,
    /// Tiles of all images, and those that are taken at a time.
    tiles: usize,
    each: usize,
    slices: usize,
    /// Values from one tile to the next, and from one point to the next: input, output gradient.
    rows: [usize; 2],
    strides: [usize; 2],
    /// Of what the output gradient is made, of so many images at a time.
    pooling: Option<(Chosen, usize)>,
}

impl LocalGradWeight {
    /// Plans the gradient by the weights of a correlation of this geometry.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> LocalGradWeight {
        let taps = geometry.taps[0];
        let filters = Filters::new(taps, [geometry.depth, geometry.width], isa, Reading::Columns);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let grid = Grid::even(geometry.output, step(taps));
        let tiles = geometry.images * grid.per_plane();
        let slices = 1 << (tiles / TILES).clamp(1, SLICES).ilog2();
        let each = even(tiles.div_ceil(slices), local_tiles(rows[0] + rows[1]));
        let strides = rows.map(|row| staggered(each * row));
        LocalGradWeight { geometry, filters, grid, tiles, each, slices, rows, strides, pooling: None }
    }

    /// Takes dy as dp and codes of a pooling: then slices are whole images.
    pub(crate) fn unpool(&mut self, chosen: Chosen) {
        let g = &self.geometry;
        assert!(g.output[0] * g.output[1] * g.width == chosen.plain(), "a pooling of these planes");
        let (most, per_plane) = (local_tiles(self.rows[0] + self.rows[1]), self.grid.per_plane());
        let images = (most / per_plane).clamp(1, g.images.div_ceil(self.slices).max(1));
        self.each = even(images * per_plane, most);
        self.strides = self.rows.map(|row| staggered(self.each * row));
        self.pooling = Some((chosen, images));
    }

    /// Values of workspace that [`LocalGradWeight::run`] takes: the slices' sums, the whole sum, zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 3] {
        let sums = self.filters.points();
        let g = &self.geometry;
        [self.slices * sums, if self.slices > 1 { sums } else { 0 }, g.depth.max(g.width)]
    }

    /// Values of scratch that each thread needs: points of tiles of the input and of the output gradient, and planes of it
    /// that are made of others.
    pub(crate) fn scratch(&self) -> usize {
        POINTS * (self.strides[0] + self.strides[1])
            + self.pooling.map_or(0, |(chosen, images)| images * chosen.plain())
    }

    /// x: `[N, H, W, C]`, dy: `[N, I, J, K]`, or dp and codes that it is made of -> dw: `[T, T, C, K]`.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, dy): (&[f32], Gradient),
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        let g = &self.geometry;
        assert!(x.len() == g.images * g.source[0] * g.source[1] * g.depth);
        if let Gradient::Plain(dy) = dy {
            assert!(dy.len() == g.images * g.output[0] * g.output[1] * g.width);
        }
        assert!(dw.len() == self.filters.given());
        let [sums, total, _] = self.parts();
        let (sums, rest) = workspace[..self.workspace()].split_at_mut(sums);
        let (total, zeros) = rest.split_at_mut(total);
        zeros.fill(0.0);
        let (isa, zeros, size) = (cx.isa, &*zeros, self.filters.points());
        let slices = Disjoint::new(&mut *sums);
        cx.run(self.slices, &|task, scratch| {
            // What a slice may not cut.
            let whole = self.pooling.map_or(1, |_| self.grid.per_plane());
            let bound = |s: usize| s * (self.tiles / whole) / self.slices * whole;
            // SAFETY: each slice has sums of its own.
            let sums = unsafe { slices.range(task.index * size, size) };
            self.slice(isa, bound(task.index)..bound(task.index + 1), (x, dy, zeros), (sums, scratch));
        });
        let sums: &[f32] = if self.slices > 1 {
            let sums = &*sums;
            cx.pool.parts(total, PART, &|task, out| add_slices(isa, sums, size, task.index * PART, out));
            total
        } else {
            sums
        };
        self.filters.gather(cx, sums, dw);
    }

    /// The sums over some tiles.
    fn slice(
        &self,
        isa: Isa,
        tiles: Range<usize>,
        (x, dy, zeros): (&[f32], Gradient, &[f32]),
        (sums, scratch): (&mut [f32], &mut [f32]),
    ) {
        let [v, z] = self.strides.map(|stride| POINTS * stride);
        let (v, rest) = scratch[..self.scratch()].split_at_mut(v);
        let (z, planes) = rest.split_at_mut(z);
        // What lies between points, and columns that only fill up the last panel: added to others, but never used.
        sums.fill(0.0);
        z.fill(0.0);
        match (dy, self.pooling) {
            (Gradient::Plain(dy), _) => self.add(isa, tiles, ([x, dy, zeros], 0), sums, [v, z]),
            (Gradient::Pooled(chosen, parts), Some((_, images))) => {
                let per_plane = self.grid.per_plane();
                for start in tiles.clone().step_by(images * per_plane) {
                    let end = tiles.end.min(start + images * per_plane);
                    let [first, images] = [start, end - start].map(|tiles| tiles / per_plane);
                    let dy = &mut planes[..images * chosen.plain()];
                    chosen.spread(isa, parts, first, dy);
                    self.add(isa, start..end, ([x, dy, zeros], first), sums, [&mut *v, &mut *z]);
                }
            }
            _ => unreachable!("a plan knows how its gradient is given"),
        }
    }

    /// Adds the sums over some tiles; dy is planes from number `plane` on.
    fn add(
        &self,
        isa: Isa,
        tiles: Range<usize>,
        ([x, dy, zeros], plane): ([&[f32]; 3], usize),
        sums: &mut [f32],
        [v, z]: [&mut [f32]; 2],
    ) {
        let g = &self.geometry;
        let filters = &self.filters;
        let whole = [whole_row(g.depth, self.rows[0])];
        let products = Products { isa, panels: &filters.panels, depth: filters.rows, rows: self.rows };
        for first in tiles.clone().step_by(self.each) {
            let count = self.each.min(tiles.end - first);
            let wave = Wave { grid: self.grid, first, count };
            let input = Spread {
                wave,
                planes: x,
                extent: g.source,
                depth: g.depth,
                origin: g.origin,
                zeros,
                panels: &whole,
                rows: self.each,
                stride: self.strides[0],
                points: Disjoint::new(v),
            };
            let output = Spread {
                wave: wave.since_plane(plane),
                planes: dy,
                extent: g.output,
                depth: g.width,
                origin: [0, 0],
                panels: &filters.panels,
                stride: self.strides[1],
                points: Disjoint::new(z),
                ..input
            };
            // SAFETY: scratch has room for `each` tiles and is this task's alone.
            unsafe {
                spread_input(isa, &input, 0..count);
                match g.taps {
                    [3, 3] => spread_gradient(isa, &output, 0..count),
                    _ => spread_pairs(isa, &output, 0..count),
                }
            }
            for point in 0..POINTS {
                let v = &v[point * self.strides[0]..][..count * self.rows[0]];
                let z = &z[point * self.strides[1]..][..self.each * self.rows[1]];
                let sums = &mut sums[point * filters.stride..][..filters.rows * self.rows[1]];
                products.add((0, count), [v, z], self.each, (sums, true));
            }
        }
    }
}
