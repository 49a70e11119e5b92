//! The gradient by weights: sums over tiles of outer products, at each point.

#![allow(unsafe_code)]

use super::convolution::whole_row;
use super::filters::Filters;
use super::products::Products;
use super::tiles::{Spread, Wave, spread_gradient, spread_input};
use super::transform::POINTS;
use super::{CHUNK, Waves, chunk, staggered};
use crate::native::context::Context;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Reading, packed_columns};
use crate::native::weight_gradient::Gradient;
use crate::ops::pool::chosen::Chosen;

/// How a gradient by weights is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WavedGradWeight {
    geometry: Geometry,
    waves: Waves,
    /// What the sums become.
    filters: Filters,
    /// Values from one point to the next: input, output gradient.
    strides: [usize; 2],
    /// Values of a tile at a point of the input, and of a row of sums.
    rows: [usize; 2],
    /// Of what a wave's output gradient is made: then waves are whole planes.
    pooling: Option<Chosen>,
}

impl WavedGradWeight {
    /// Plans the gradient by the weights of a correlation of this geometry.
    pub(crate) fn new(geometry: Geometry, isa: Isa) -> WavedGradWeight {
        let filters = Filters::new(3, [geometry.depth, geometry.width], isa, Reading::Columns);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let waves = Waves::new(&geometry, rows[0] + rows[1]);
        let strides = rows.map(|row| staggered(waves.each * row));
        WavedGradWeight { geometry, waves, filters, strides, rows, pooling: None }
    }

    /// Takes dy as dp and codes of a pooling, if planes are small enough.
    pub(crate) fn unpool(&mut self, chosen: Chosen) -> bool {
        let Some(waves) = self.waves.whole(&self.geometry, self.rows[0] + self.rows[1]) else { return false };
        let g = &self.geometry;
        assert!(g.output[0] * g.output[1] * g.width == chosen.plain(), "a pooling of these planes");
        self.waves = waves;
        self.strides = self.rows.map(|row| staggered(waves.each * row));
        self.pooling = Some(chosen);
        true
    }

    /// Values of workspace that [`WavedGradWeight::run`] takes: the sums, a wave's input and output gradient, its
    /// planes of dy that are made of others, zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 5] {
        let [v, z] = self.strides.map(|stride| POINTS * stride);
        let planes = self.pooling.map_or(0, |chosen| self.waves.planes() * chosen.plain());
        [self.filters.points(), v, z, planes, self.geometry.depth.max(self.geometry.width)]
    }

    /// x: `[N, H, W, C]`, dy: `[N, I, J, K]`, or dp and codes that it is made of -> dw: `[3, 3, C, K]`.
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
        let [sums, v, z, planes, _] = self.parts();
        let (sums, rest) = workspace[..self.workspace()].split_at_mut(sums);
        let (v, rest) = rest.split_at_mut(v);
        let (z, rest) = rest.split_at_mut(z);
        let (planes, zeros) = rest.split_at_mut(planes);
        zeros.fill(0.0);
        if self.rows[1] > g.width {
            // Columns that only fill up the last panel.
            z.fill(0.0);
        }
        let isa = cx.isa;
        let whole = [whole_row(g.depth, self.rows[0])];
        for wave in self.waves.each() {
            let count = wave.count;
            let input = Spread {
                wave,
                planes: x,
                extent: g.source,
                depth: g.depth,
                origin: g.origin,
                zeros,
                panels: &whole,
                rows: self.waves.each,
                stride: self.strides[0],
                points: Disjoint::new(v),
            };
            let (from, dy) = match dy {
                Gradient::Plain(dy) => (wave, dy),
                Gradient::Pooled(chosen, parts) => {
                    let [first, count] = wave.planes();
                    let dy = &mut planes[..count * chosen.plain()];
                    chosen.spread_together(cx, parts, first, dy);
                    (wave.by_itself(), &*dy)
                }
            };
            let output = Spread {
                wave: from,
                planes: dy,
                extent: g.output,
                depth: g.width,
                origin: [0, 0],
                panels: &self.filters.panels,
                stride: self.strides[1],
                points: Disjoint::new(z),
                ..input
            };
            cx.pool.run(count.div_ceil(CHUNK), &|task| {
                // SAFETY: a wave has room for `each` tiles, and chunks do not overlap.
                unsafe {
                    spread_input(isa, &input, chunk(count, CHUNK, task.index));
                    spread_gradient(isa, &output, chunk(count, CHUNK, task.index));
                }
            });
            let total = Disjoint::new(sums);
            let operands = [&*v, &*z];
            cx.pool.run(POINTS, &|task| self.product(isa, task.index, &wave, operands, total));
        }
        self.filters.gather(cx, sums, dw);
    }

    /// Adds a wave's matrix product at one point: `[tiles, C]` transposed and `[tiles, K]`.
    fn product(&self, isa: Isa, point: usize, wave: &Wave, [v, z]: [&[f32]; 2], sums: Disjoint) {
        let (tiles, depth) = (wave.count, self.geometry.depth);
        let v = &v[point * self.strides[0]..][..tiles * self.rows[0]];
        let z = &z[point * self.strides[1]..][..self.waves.each * self.rows[1]];
        // SAFETY: points lie apart.
        let sums = unsafe { sums.range(point * self.filters.stride, depth * self.rows[1]) };
        let products = Products { isa, panels: &self.filters.panels, depth, rows: self.rows };
        let mut add = wave.first > 0;
        if !add {
            let mut found = false;
            wave.at(point, |_, _| found = true);
            if !found {
                sums.fill(0.0);
            }
        }
        wave.at(point, |first, count| {
            products.add((first, count), [v, z], self.waves.each, (&mut *sums, add));
            add = true;
        });
    }
}
