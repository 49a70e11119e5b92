//! Convolution, and its gradient by the input, which is one with the filters turned around.

#![allow(unsafe_code)]

use super::filters::Filters;
use super::products::Products;
use super::tiles::{Gather, Spread, Wave, gather, spread_input};
use super::transform::POINTS;
use super::{CHUNK, Waves, chunk, staggered};
use crate::native::context::Context;
use crate::native::correlate::{Epilogue, Geometry};
use crate::native::pool::Disjoint;
use crate::native::simd::Isa;
use crate::native::tile::{Panel, Reading, packed_columns};

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
}

impl Waved {
    /// Plans a correlation of this geometry; see [`Waved::run`] for `turned`.
    pub(crate) fn new(geometry: Geometry, turned: bool, isa: Isa) -> Waved {
        let filters = Filters::new(3, [geometry.depth, geometry.width], isa, Reading::Rows);
        let rows = [staggered(geometry.depth), packed_columns(&filters.panels)];
        let waves = Waves::new(&geometry, rows[0] + rows[1]);
        let strides = rows.map(|row| staggered(waves.each * row));
        Waved { geometry, waves, filters, turned, strides, rows }
    }

    /// Values of workspace that [`Waved::run`] takes: filters turned around, transformed; a wave's input and results;
    /// zeros.
    pub(crate) fn workspace(&self) -> usize {
        self.parts().iter().sum()
    }

    fn parts(&self) -> [usize; 5] {
        let turned = if self.turned { self.filters.given() } else { 0 };
        let [v, m] = self.strides.map(|stride| POINTS * stride);
        [self.filters.points(), v, m, turned, self.geometry.depth]
    }

    /// Computes y. x: `[N, H, W, C]`; w: `[3, 3, C, K]`, or if turned `[3, 3, K, C]` whose taps are taken in reverse
    /// order; y: `[N, I, J, K]`.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        [x, w]: [&[f32]; 2],
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        let g = &self.geometry;
        let [images, height, width] = [g.images, g.source[0], g.source[1]];
        assert!(x.len() == images * height * width * g.depth && w.len() == self.filters.given());
        assert!(y.len() == images * g.output[0] * g.output[1] * g.width);
        let [u, v, m, turned, zeros] = self.parts();
        let (u, rest) = workspace[..self.workspace()].split_at_mut(u);
        let (v, rest) = rest.split_at_mut(v);
        let (m, rest) = rest.split_at_mut(m);
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
            let input = Spread {
                wave,
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
            let count = wave.count;
            let chunks = count.div_ceil(CHUNK);
            cx.pool.run(chunks, &|task| {
                // SAFETY: a wave has room for `each` tiles, and chunks do not overlap.
                unsafe { spread_input(isa, &input, chunk(count, CHUNK, task.index)) }
            });
            let results = Disjoint::new(m);
            let operands = [&*u, &*v];
            cx.pool.run(POINTS, &|task| self.product(isa, task.index, &wave, operands, results));
            let output = Gather {
                wave,
                points: m,
                stride: self.strides[1],
                row: self.rows[1],
                planes: y,
                depth: g.width,
                bias: epilogue.bias,
                relu: epilogue.relu,
            };
            cx.pool.run(chunks, &|task| {
                // SAFETY: the products above have written these tiles; tiles are apart in y.
                unsafe { gather(isa, &output, chunk(count, CHUNK, task.index)) }
            });
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
