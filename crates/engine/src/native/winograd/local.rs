//! The forward pass of a convolution of 5x5 windows: tiles of 2 x 2 results, which a pooling behind it may take from the core's
//! cache.

#![allow(unsafe_code)]

use super::convolution::whole_row;
use super::filters::Filters;
use super::products::Products;
use super::tiles::{GatherPairs, Grid, Spread, Wave, gather_pairs, spread_input};
use super::transform::POINTS;
use super::{PAIR, even, local_tiles, staggered};
use crate::native::context::Context;
use crate::native::correlate::{Epilogue, Geometry};
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Reading, packed_columns};
use crate::ops::pool::chosen::Chosen;

/// Tasks that keep several threads evenly busy.
const TASKS: usize = 16;

/// How the convolution is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Local {
    geometry: Geometry,
    filters: Filters,
    grid: Grid,
    /// Images of a task, and tiles that it takes at a time.
    images: usize,
    each: usize,
    /// Values from one tile to the next, and from one point to the next: input, results.
    rows: [usize; 2],
    strides: [usize; 2],
    /// What becomes of a task's results.
    pooling: Option<Chosen>,
}

impl Local {
    /// Plans a correlation of this geometry.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> Local {
        let filters = Filters::new(5, [geometry.depth, geometry.width], isa, Reading::Rows);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let grid = Grid::even(geometry.output, PAIR);
        let most = local_tiles(rows[0] + rows[1]);
        // Tasks as even as the number of images allows.
        let images = (most / grid.per_plane()).clamp(1, geometry.images.div_ceil(TASKS).max(1));
        let each = even(images * grid.per_plane(), most);
        let strides = rows.map(|row| staggered(each * row));
        Local { geometry, filters, grid, images, each, rows, strides, pooling: None }
    }

    /// Makes p and codes of a pooling of ReLU of y the results, and not y.
    pub(crate) fn pool(&mut self, chosen: Chosen) {
        self.pooling = Some(chosen);
    }

    /// Values of workspace that [`Local::run`] takes: filters, transformed; zeros, and what is added to results.
    pub(crate) fn workspace(&self) -> usize {
        self.filters.points() + self.geometry.depth + self.geometry.width
    }

    /// Values of scratch that each thread needs: points of tiles of input and results, and results that are pooled.
    pub(crate) fn scratch(&self) -> usize {
        POINTS * (self.strides[0] + self.strides[1]) + self.unpooled()
    }

    fn unpooled(&self) -> usize {
        self.pooling.map_or(0, |chosen| self.images * chosen.plain())
    }

    /// x: `[N, H, W, C]`, w: `[5, 5, C, K]` -> y: `[N, I, J, K]`, or p and codes.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        [x, w]: [&[f32]; 2],
        epilogue: Epilogue,
        out: &mut [f32],
        workspace: &mut [f32],
    ) {
        let g = &self.geometry;
        let filters = &self.filters;
        let plane = g.output[0] * g.output[1] * g.width;
        assert!(x.len() == g.images * g.source[0] * g.source[1] * g.depth);
        assert!(self.pooling.is_some() || out.len() == g.images * plane);
        let (u, rest) = workspace[..self.workspace()].split_at_mut(filters.points());
        let (zeros, bias) = rest.split_at_mut(g.depth);
        zeros.fill(0.0);
        match epilogue.bias {
            Some(values) => bias.copy_from_slice(values),
            None => bias.fill(0.0),
        }
        filters.spread(cx, w, u);
        let (isa, u, zeros, bias, out) = (cx.isa, &*u, &*zeros, &*bias, Disjoint::new(out));
        let whole = [whole_row(g.depth, self.rows[0])];
        let products = Products { isa, panels: &filters.panels, depth: filters.rows, rows: self.rows };
        let per_plane = self.grid.per_plane();
        let each = self.each;
        cx.run(g.images.div_ceil(self.images), &|task, scratch| {
            let image = task.index * self.images;
            let images = self.images.min(g.images - image);
            let (v, rest) = scratch[..self.scratch()].split_at_mut(POINTS * self.strides[0]);
            let (m, unpooled) = rest.split_at_mut(POINTS * self.strides[1]);
            let planes = match self.pooling {
                Some(_) => &mut *unpooled,
                // SAFETY: tasks have images of their own.
                None => unsafe { out.range(image * plane, images * plane) },
            };
            let planes = Disjoint::new(planes);
            let end = (image + images) * per_plane;
            for first in (image * per_plane..end).step_by(each) {
                let count = each.min(end - first);
                let wave = Wave { grid: self.grid, first, count };
                let from = Spread {
                    wave,
                    planes: x,
                    extent: g.source,
                    depth: g.depth,
                    origin: g.origin,
                    zeros,
                    panels: &whole,
                    rows: each,
                    stride: self.strides[0],
                    points: Disjoint::new(v),
                };
                // SAFETY: scratch has room for `each` tiles and is this task's alone.
                unsafe { spread_input(isa, &from, 0..count) };
                for point in 0..POINTS {
                    let u = &u[point * filters.stride..][..filters.rows * self.rows[1]];
                    let v = &v[point * self.strides[0]..][..count * self.rows[0]];
                    let m = &mut m[point * self.strides[1]..][..count * self.rows[1]];
                    products.multiply([u, v], m, &|visit| visit(0, count));
                }
                let to = GatherPairs {
                    wave,
                    points: m,
                    stride: self.strides[1],
                    row: self.rows[1],
                    planes,
                    first: image,
                    depth: g.width,
                    bias,
                    relu: epilogue.relu,
                };
                // SAFETY: the products above have written these tiles; the planes are this task's.
                unsafe { gather_pairs(isa, &to, 0..count) };
            }
            if let Some(chosen) = self.pooling {
                // SAFETY: tasks have images of their own.
                let parts = unsafe { chosen.images(out, g.images, [image, images]) };
                chosen.pool(isa, &unpooled[..images * plane], parts);
            }
        });
    }
}
