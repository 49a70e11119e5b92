//! Convolutions cut into tasks: a thread takes the tiles of some images through all stages by itself, as many
//! at a time as its own cache holds.

#![allow(unsafe_code)]

use super::convolution::whole_row;
use super::filters::Filters;
use super::products::Products;
use super::tiles::{Grid, Spread, Wave};
use super::transform::POINTS;
use super::{even, local_tiles, staggered, step};
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Reading, packed_columns};
use std::ops::Range;

/// Tasks that keep several threads evenly busy.
const TASKS: usize = 16;

/// How a correlation is cut.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tasks {
    pub(super) geometry: Geometry,
    pub(super) filters: Filters,
    grid: Grid,
    /// Images of a task, and tiles that it takes at a time.
    images: usize,
    each: usize,
    /// Values from one tile to the next, and from one point to the next: what goes in, what comes out.
    rows: [usize; 2],
    strides: [usize; 2],
}

/// What goes to the points, and by which transform.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// Planes from number `first` on.
    pub(super) planes: &'a [f32],
    pub(super) first: usize,
    /// Where the first tile begins.
    pub(super) origin: [isize; 2],
    /// A zero for each channel.
    pub(super) zeros: &'a [f32],
    pub(super) spread: unsafe fn(Isa, &Spread, Range<usize>),
}

/// The points of a wave, multiplied: they and the rows of tiles are so far apart.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    pub(super) points: &'a [f32],
    pub(super) stride: usize,
    pub(super) row: usize,
}

impl Tasks {
    /// For a correlation of this geometry, with tiles of a plane of this extent.
    pub(super) fn new(geometry: Geometry, extent: [usize; 2], isa: Isa) -> Tasks {
        let taps = geometry.taps[0];
        let filters = Filters::new(taps, [geometry.depth, geometry.width], isa, Reading::Rows);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let grid = Grid::even(extent, step(taps));
        let most = local_tiles(rows[0] + rows[1]);
        // Tasks as even as the number of images allows.
        let images = (most / grid.per_plane()).clamp(1, geometry.images.div_ceil(TASKS).max(1));
        let each = even(images * grid.per_plane(), most);
        let strides = rows.map(|row| staggered(each * row));
        Tasks { geometry, filters, grid, images, each, rows, strides }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.geometry.images.div_ceil(self.images)
    }

    /// Most images of a task.
    pub(super) fn most(&self) -> usize {
        self.images
    }

    /// The first image of a task, and how many are its.
    pub(super) fn images(&self, task: usize) -> [usize; 2] {
        let first = task * self.images;
        [first, self.images.min(self.geometry.images - first)]
    }

    /// Values of scratch that a task needs: points of tiles of what goes in and of what comes out.
    pub(super) fn scratch(&self) -> usize {
        POINTS * (self.strides[0] + self.strides[1])
    }

    /// One task: its tiles go to the points, meet the transformed filters u there, and are handed on.
    pub(super) fn run(
        &self,
        isa: Isa,
        task: usize,
        (input, u): (Input, &[f32]),
        scratch: &mut [f32],
        gather: &dyn Fn(Wave, Output),
    ) {
        let g = &self.geometry;
        let filters = &self.filters;
        let (v, m) = scratch.split_at_mut(POINTS * self.strides[0]);
        let whole = [whole_row(g.depth, self.rows[0])];
        let products = Products { isa, panels: &filters.panels, depth: filters.rows, rows: self.rows };
        let [first, images] = self.images(task);
        let [start, end] = [first, first + images].map(|image| image * self.grid.per_plane());
        for first in (start..end).step_by(self.each) {
            let count = self.each.min(end - first);
            let wave = Wave { grid: self.grid, first, count };
            let from = Spread {
                wave: wave.since_plane(input.first),
                planes: input.planes,
                extent: g.source,
                depth: g.depth,
                origin: input.origin,
                zeros: input.zeros,
                panels: &whole,
                rows: self.each,
                stride: self.strides[0],
                points: Disjoint::new(v),
            };
            // SAFETY: scratch has room for `each` tiles and is this task's alone.
            unsafe { (input.spread)(isa, &from, 0..count) };
            for point in 0..POINTS {
                let u = &u[point * filters.stride..][..filters.rows * self.rows[1]];
                let v = &v[point * self.strides[0]..][..count * self.rows[0]];
                let m = &mut m[point * self.strides[1]..][..count * self.rows[1]];
                products.multiply([u, v], m, &|visit| visit(0, count));
            }
            gather(wave, Output { points: m, stride: self.strides[1], row: self.rows[1] });
        }
    }
}
