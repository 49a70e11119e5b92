//! The gradient by the input of a convolution of 5x5 windows, as the forward pass read backwards: tiles of the output gradient
//! go to the points, meet the transformed filters there, and come back as input tiles, which overlap and are added. The
//! convolution with the filters turned around would cut the padded gradient into more tiles, most of them partly zeros: 36
//! instead of 16 where 8 x 8 results come from 12 x 12 pixels.

#![allow(unsafe_code)]

use super::convolution::{turn, whole_row};
use super::filters::Filters;
use super::products::Products;
use super::tiles::{Grid, Scatter, Spread, Wave, scatter, spread_pairs};
use super::transform::POINTS;
use super::{PAIR, even, local_tiles, staggered};
use crate::native::context::Context;
use crate::native::correlate::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Reading, packed_columns};

/// Tasks that keep several threads evenly busy.
const TASKS: usize = 16;

/// How the gradient is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adjoint {
    /// Of the convolution with the filters turned around: from dy to dx.
    geometry: Geometry,
    filters: Filters,
    grid: Grid,
    /// Images of a task, and tiles that it takes at a time.
    images: usize,
    each: usize,
    /// Values from one tile to the next, and from one point to the next: output gradient, input gradient.
    rows: [usize; 2],
    strides: [usize; 2],
}

impl Adjoint {
    /// Plans the gradient by the input, given as a correlation with the filters turned around.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> Adjoint {
        let filters = Filters::new(5, [geometry.depth, geometry.width], isa, Reading::Rows);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let grid = Grid::even(geometry.source, PAIR);
        let most = local_tiles(rows[0] + rows[1]);
        // Tasks as even as the number of images allows.
        let images = (most / grid.per_plane()).clamp(1, geometry.images.div_ceil(TASKS).max(1));
        let each = even(images * grid.per_plane(), most);
        let strides = rows.map(|row| staggered(each * row));
        Adjoint { geometry, filters, grid, images, each, rows, strides }
    }

    /// Values of workspace that [`Adjoint::run`] takes: filters with channels exchanged, transformed; zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 3] {
        [self.filters.points(), self.filters.given(), self.geometry.depth]
    }

    /// Values of scratch that each thread needs: points of tiles of both gradients.
    pub(crate) fn scratch(&self) -> usize {
        POINTS * (self.strides[0] + self.strides[1])
    }

    /// dy: `[N, I, J, K]`, w: `[5, 5, C, K]` -> dx: `[N, H, W, C]`.
    pub(crate) fn run(&self, cx: &mut Context, [dy, w]: [&[f32]; 2], dx: &mut [f32], workspace: &mut [f32]) {
        let g = &self.geometry;
        let filters = &self.filters;
        let plane = g.output[0] * g.output[1] * g.width;
        assert!(dy.len() == g.images * g.source[0] * g.source[1] * g.depth);
        assert!(dx.len() == g.images * plane);
        let [u, exchanged, _] = self.parts();
        let (u, rest) = workspace[..self.workspace()].split_at_mut(u);
        let (exchanged, zeros) = rest.split_at_mut(exchanged);
        zeros.fill(0.0);
        turn(cx, w, [g.depth, g.width], false, exchanged);
        filters.spread(cx, exchanged, u);
        let (isa, u, zeros, dx) = (cx.isa, &*u, &*zeros, Disjoint::new(dx));
        let whole = [whole_row(g.depth, self.rows[0])];
        let products = Products { isa, panels: &filters.panels, depth: filters.rows, rows: self.rows };
        let per_plane = self.grid.per_plane();
        // Where the input tile of a result lies: the turned convolution begins as many taps before its results.
        let origin = g.origin.map(|origin| -origin - (g.taps[0] as isize - 1));
        let each = self.each;
        cx.run(g.images.div_ceil(self.images), &|task, scratch| {
            let image = task.index * self.images;
            let images = self.images.min(g.images - image);
            let (z, m) = scratch[..self.scratch()].split_at_mut(POINTS * self.strides[0]);
            // SAFETY: tasks have images of their own.
            let planes = unsafe { dx.range(image * plane, images * plane) };
            planes.fill(0.0);
            let planes = Disjoint::new(planes);
            let end = (image + images) * per_plane;
            for first in (image * per_plane..end).step_by(each) {
                let count = each.min(end - first);
                let wave = Wave { grid: self.grid, first, count };
                let from = Spread {
                    wave,
                    planes: dy,
                    extent: g.source,
                    depth: g.depth,
                    origin: [0, 0],
                    zeros,
                    panels: &whole,
                    rows: each,
                    stride: self.strides[0],
                    points: Disjoint::new(z),
                };
                // SAFETY: scratch has room for `each` tiles and is this task's alone.
                unsafe { spread_pairs(isa, &from, 0..count) };
                for point in 0..POINTS {
                    let u = &u[point * filters.stride..][..filters.rows * self.rows[1]];
                    let z = &z[point * self.strides[0]..][..count * self.rows[0]];
                    let m = &mut m[point * self.strides[1]..][..count * self.rows[1]];
                    products.multiply([u, z], m, &|visit| visit(0, count));
                }
                let to = Scatter {
                    wave,
                    points: m,
                    stride: self.strides[1],
                    row: self.rows[1],
                    planes,
                    first: image,
                    extent: g.output,
                    depth: g.width,
                    origin,
                };
                // SAFETY: the products above have written these tiles; the planes are this task's.
                unsafe { scatter(isa, &to, 0..count) };
            }
        });
    }
}
