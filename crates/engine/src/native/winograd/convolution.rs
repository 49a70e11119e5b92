//! Convolution, and its gradient by the input, which is one with the filters turned around.

#![allow(unsafe_code)]

use super::filters::Filters;
use super::products::Products;
use super::tiles::{Gather, Spread, Wave, gather, spread_input};
use super::transform::POINTS;
use super::{CHUNK, Waves, chunk, staggered};
use crate::native::context::Context;
use crate::native::correlate::Epilogue;
use crate::native::geometry::Geometry;
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Panel, Reading, packed_columns};
use crate::native::weight_gradient::Gradient;
use crate::ops::pool::chosen::Chosen;

/// How a convolution is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waved {
    geometry: Geometry,
    waves: Waves,
    filters: Filters,
    /// Whether w is given as `[3, 3, K, C]` and taken in reverse order, as the gradient by the input takes it.
    turned: bool,
    /// Values from one point to the next, and from one tile to the next: input, results.
    strides: [usize; 2],
    rows: [usize; 2],
    /// What becomes of a wave's results, or of what a wave's input is made: then waves are whole planes.
    pooling: Option<Chosen>,
}

impl Waved {
    /// Plans a correlation of this geometry; see [`Waved::run`] for `turned`.
    pub(crate) fn new(geometry: Geometry, turned: bool, isa: Isa) -> Waved {
        let filters = Filters::new(3, [geometry.depth, geometry.width], isa, Reading::Rows);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let waves = Waves::new(&geometry, rows[0] + rows[1]);
        let strides = rows.map(|row| staggered(waves.each * row));
        Waved { geometry, waves, filters, turned, strides, rows, pooling: None }
    }

    /// Makes p and codes of a pooling of y the results, and not y, if planes are small enough. Or if turned, takes dp and
    /// codes instead of dy.
    pub(crate) fn pool(&mut self, chosen: Chosen) -> bool {
        let Some(waves) = self.waves.whole(&self.geometry, self.rows[0] + self.rows[1]) else { return false };
        let g = &self.geometry;
        let ([rows, columns], channels) = if self.turned { (g.source, g.depth) } else { (g.output, g.width) };
        assert!(rows * columns * channels == chosen.plain(), "a pooling of these planes");
        self.waves = waves;
        self.strides = self.rows.map(|row| staggered(waves.each * row));
        self.pooling = Some(chosen);
        true
    }

    /// Values of workspace that [`Waved::run`] takes: filters transformed; a wave's input and results; its planes that are
    /// pooled, or made of others; filters turned around; zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 6] {
        let turned = if self.turned { self.filters.given() } else { 0 };
        let [v, m] = self.strides.map(|stride| POINTS * stride);
        let planes = self.pooling.map_or(0, |chosen| self.waves.planes() * chosen.plain());
        [self.filters.points(), v, m, planes, turned, self.geometry.depth]
    }

    /// Computes y, or p and codes. x: `[N, H, W, C]`, or dp and codes that it is made of; w: `[3, 3, C, K]`, or if turned
    /// `[3, 3, K, C]` whose taps are taken in reverse order; y: `[N, I, J, K]`.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, w): (Gradient, &[f32]),
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        let g = &self.geometry;
        let [images, height, width] = [g.images, g.source[0], g.source[1]];
        if let Gradient::Plain(x) = x {
            assert!(x.len() == images * height * width * g.depth);
        }
        let pooled = self.pooling.filter(|_| !self.turned);
        assert!(w.len() == self.filters.given());
        assert!(pooled.is_some() || y.len() == images * g.output[0] * g.output[1] * g.width);
        let [u, v, m, planes, turned, zeros] = self.parts();
        let (u, rest) = workspace[..self.workspace()].split_at_mut(u);
        let (v, rest) = rest.split_at_mut(v);
        let (m, rest) = rest.split_at_mut(m);
        let (planes, rest) = rest.split_at_mut(planes);
        let (turned, zeros_) = rest.split_at_mut(turned);
        debug_assert_eq!(zeros_.len(), zeros);
        zeros_.fill(0.0);
        let w = if self.turned {
            turn(cx, w, [g.depth, g.width], true, turned);
            &*turned
        } else {
            w
        };
        self.filters.spread(cx, w, u);
        let isa = cx.isa;
        let whole = [whole_row(g.depth, self.rows[0])];
        let y = Disjoint::new(y);
        for wave in self.waves.each() {
            let [first, count] = wave.planes();
            let (from, x) = match x {
                Gradient::Plain(x) => (wave, x),
                Gradient::Pooled(chosen, parts) => {
                    let dy = &mut planes[..count * chosen.plain()];
                    chosen.spread_together(cx, parts, first, dy);
                    (wave.by_itself(), &*dy)
                }
            };
            let input = Spread {
                wave: from,
                planes: x,
                extent: g.source,
                depth: g.depth,
                origin: g.origin,
                zeros: zeros_,
                panels: &whole,
                rows: self.waves.each,
                stride: self.strides[0],
                points: Disjoint::new(v),
            };
            let tiles = wave.count;
            let chunks = tiles.div_ceil(CHUNK);
            cx.pool.run(chunks, &|task| {
                // SAFETY: a wave has room for `each` tiles, and chunks do not overlap.
                unsafe { spread_input(isa, &input, chunk(tiles, CHUNK, task.index)) }
            });
            let results = Disjoint::new(m);
            let operands = [&*u, &*v];
            cx.pool.run(POINTS, &|task| self.product(isa, task.index, &wave, operands, results));
            let (to, results) = match pooled {
                Some(chosen) => (wave.by_itself(), Disjoint::new(&mut planes[..count * chosen.plain()])),
                None => (wave, y),
            };
            let output = Gather {
                wave: to,
                points: m,
                stride: self.strides[1],
                row: self.rows[1],
                planes: results,
                depth: g.width,
                bias: epilogue.bias,
                relu: epilogue.relu && pooled.is_none(),
            };
            cx.pool.run(chunks, &|task| {
                // SAFETY: the products above have written these tiles; tiles are apart in y.
                unsafe { gather(isa, &output, chunk(tiles, CHUNK, task.index)) }
            });
            if let Some(chosen) = pooled {
                // SAFETY: `y` is borrowed mutably, and no task is left.
                unsafe { chosen.pool_together(cx, &planes[..count * chosen.plain()], y, [first, images]) };
            }
        }
    }

    /// The matrix product of one point: `[tiles, C]` and `[C, K]`.
    fn product(&self, isa: Isa, point: usize, wave: &Wave, [u, v]: [&[f32]; 2], m: Disjoint) {
        let (tiles, depth) = (wave.count, self.geometry.depth);
        let u = &u[point * self.filters.stride..][..depth * self.rows[1]];
        let v = &v[point * self.strides[0]..][..tiles * self.rows[0]];
        // SAFETY: points lie apart.
        let m = unsafe { m.range(point * self.strides[1], tiles * self.rows[1]) };
        let products = Products { isa, panels: &self.filters.panels, depth, rows: self.rows };
        products.multiply([u, v], m, &|visit| wave.at(point, visit));
    }
}

/// One panel for all channels of a row.
pub(super) fn whole_row(channels: usize, row: usize) -> Panel {
    Panel { column: 0, columns: channels, vectors: 0, width: row, packed: 0 }
}

/// w: `[T, T, Q, R]` -> `[T, T, R, Q]`, with the taps in reverse order if so. Q and R are multiples of four.
pub(super) fn turn(cx: &Context, w: &[f32], [rows, columns]: [usize; 2], reversed: bool, turned: &mut [f32]) {
    const BAND: usize = 16;
    const SIDE: usize = 4;
    assert!(rows.is_multiple_of(SIDE) && columns.is_multiple_of(SIDE));
    let tap = rows * columns;
    let taps = w.len() / tap;
    let bands = rows.div_ceil(BAND);
    let turned = Disjoint::new(turned);
    cx.pool.run(taps * bands, &|task| {
        let (to, band) = (task.index / bands, chunk(rows, BAND, task.index % bands));
        let from = if reversed { taps - 1 - to } else { to };
        let from = &w[from * tap..(from + 1) * tap];
        // SAFETY: each task has rows of its own.
        let out = unsafe { turned.range(to * tap + band.start * columns, band.len() * columns) };
        // Squares, whose values the compiler exchanges in registers.
        for q in (0..columns).step_by(SIDE) {
            let line = |i: usize| from[(q + i) * rows..][band.clone()].as_chunks::<SIDE>().0;
            let lines = line(0).iter().zip(line(1)).zip(line(2)).zip(line(3));
            for (out, (((a, b), c), d)) in out.chunks_exact_mut(SIDE * columns).zip(lines) {
                for j in 0..SIDE {
                    let square: &mut [f32; SIDE] =
                        out[j * columns + q..].first_chunk_mut().expect("squares are whole");
                    *square = [a[j], b[j], c[j], d[j]];
                }
            }
        }
    });
}
