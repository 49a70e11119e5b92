//! The core of gradients by weights: long sums over pixels of outer products.
//!
//! x: images `[N, H, W, C]`; dy: `[N, I, J, K]`; dw: `[TH, TW, C, K]`.
//! `dw[a, b, c, k] = sum over n, i, j of x[n, i s + a d + o, j t + b e + p, c] dy[n, i, j, k]`, where x is 0 outside; c
//! and k go over the channels that the plan reads: all of them, or those of a group.
//!
//! For one a, (b, c) is contiguous in a padded image, so dw is TH matrices of TW C rows (or as many as there are taps,
//! of C rows, where taps or groups of channels lie apart); pixels are the products. The
//! batch is cut into slices that depend on the shapes alone, each summed by itself; their sums are then added in pairs.
//! So the bits depend neither on the number of threads nor on which of them did what.

#![allow(unsafe_code)]

use super::context::Context;
use super::correlate::{Geometry, call};
use super::long_sums::LongSums;
use super::padded::Padding;
use super::pool::Disjoint;
use super::simd::{Isa, multiversion};
use super::tile::{Panel, Reading, Start, Tile, kernels, packed_columns, panels, split, wide};

/// Values of packed dy that should stay in the first-level cache while rows of dw pass by (32 KiB).
const NEAR: usize = 8192;
/// Values of padded images and packed dy that should stay in the second-level cache (1 MiB).
const GROUP: usize = 256 * 1024;
/// Most slices of a batch.
const SLICES: usize = 16;
/// Most values in all the slices' sums (16 MiB).
const SUMS: usize = 4 * 1024 * 1024;

/// How a gradient by weights is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightGradient {
    /// Instead of all that follows, where it is a large product.
    long: Option<LongSums>,
    geometry: Geometry,
    padding: Padding,
    direct: bool,
    panels: Vec<Panel>,
    /// Whether dy must be packed: not if one panel is all of it.
    packs: bool,
    /// Where each row of pixels of a group of images begins in the padded images.
    segments: Vec<usize>,
    /// Where each run of taps begins, beside the first tap, and its values: so many rows of dw follow each other.
    runs: Vec<usize>,
    rows: usize,
    /// Rows of pixels that are summed before a tile of dw is left.
    block: usize,
    /// Images that are padded together.
    group: usize,
    slices: usize,
    /// Tasks that share a slice, each with some of the panels.
    shares: usize,
    positions: usize,
}

impl WeightGradient {
    /// Plans the gradient by the weights of a correlation of this geometry; `positions` pixels exist in all. The
    /// target's offset and column say where a pixel of dy has the K channels that are read.
    pub(crate) fn new(geometry: Geometry, positions: usize, isa: Isa) -> WeightGradient {
        let padding = geometry.padding();
        let direct = padding.is_inside();
        let panels = panels(isa, geometry.width, wide(isa, Reading::Columns));
        let widest = panels.iter().map(|p| p.width).max().unwrap_or(1);
        let packs = panels.len() > 1 || [widest, geometry.target.column] != [geometry.width; 2];
        let [rows, columns] = geometry.output;
        let block = (NEAR / widest / columns.max(1)).max(1);
        let result = result(&geometry);
        let slices = (SUMS / result.max(1)).clamp(1, SLICES).min(geometry.images.max(1));
        let slices = 1 << slices.ilog2();
        let shares = SLICES.div_ceil(slices).min(panels.len()).max(1);
        let padded = if direct { 0 } else { padding.len() };
        let share = if packs { packed_columns(&panels).div_ceil(shares) } else { 0 };
        let per_image = padded + rows * columns * share;
        let group = (GROUP / per_image.max(1)).clamp(1, geometry.images.div_ceil(slices).max(1));
        let pitch = pitch(&geometry, &padding, direct);
        let segment = |n: usize, i: usize| n * pitch[0] + i * geometry.stride[0] * pitch[1];
        let segments =
            (0..group).flat_map(|n| (0..rows).map(move |i| (n, i))).map(|(n, i)| segment(n, i)).collect();
        let (runs, run) = geometry.runs(pitch[1]);
        WeightGradient {
            long: LongSums::new(&geometry, positions, isa),
            geometry,
            padding,
            direct,
            panels,
            packs,
            segments,
            runs,
            rows: run,
            block,
            group,
            slices,
            shares,
            positions,
        }
    }

    /// Values of workspace that [`WeightGradient::run`] takes: the slices' sums, unless there is only one.
    pub(crate) fn workspace(&self) -> usize {
        if self.slices > 1 && self.long.is_none() { self.slices * self.result() } else { 0 }
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        if let Some(long) = &self.long {
            return long.scratch();
        }
        let [rows, columns] = self.geometry.output;
        let widest = (0..self.shares).map(|s| self.packed_width(s)).max().unwrap_or(0);
        self.padded() + self.group * rows * columns * widest
    }

    /// Computes dw.
    pub(crate) fn run(&self, cx: &mut Context, [x, dy]: [&[f32]; 2], dw: &mut [f32], workspace: &mut [f32]) {
        if let Some(long) = &self.long {
            return long.run(cx, [x, dy], dw);
        }
        let result = self.result();
        if self.positions == 0 {
            dw.fill(0.0);
        }
        if self.positions == 0 || result == 0 {
            return;
        }
        let g = &self.geometry;
        assert!(dw.len() == result && dy.len() == self.positions * g.target.column);
        assert!(x.len() >= self.positions_of_x() * g.depth);
        let isa = cx.isa;
        let sums =
            Disjoint::new(if self.slices > 1 { &mut workspace[..self.slices * result] } else { &mut *dw });
        cx.run(self.slices * self.shares, &|task, scratch| {
            let (slice, share) = (task.index / self.shares, task.index % self.shares);
            let bound = |s: usize| s * g.images / self.slices;
            let job = Job { plan: self, isa, x, dy, sums, base: slice * result };
            job.slice([bound(slice), bound(slice + 1)], share, scratch);
        });
        if self.slices > 1 {
            let sums = &workspace[..self.slices * result];
            cx.pool.parts(dw, 8192, &|task, out| add_slices(isa, sums, result, task.index * 8192, out));
        }
    }

    fn result(&self) -> usize {
        result(&self.geometry)
    }

    fn positions_of_x(&self) -> usize {
        let g = &self.geometry;
        let cut = self.positions < g.images * g.output[0] * g.output[1];
        if cut { self.positions } else { g.images * g.source[0] * g.source[1] }
    }

    fn padded(&self) -> usize {
        if self.direct { 0 } else { self.group * self.padding.len() }
    }

    fn share(&self, share: usize) -> &[Panel] {
        let bound = |s: usize| s * self.panels.len() / self.shares;
        &self.panels[bound(share)..bound(share + 1)]
    }

    /// Values of each pixel of dy that the panels of a share are packed to.
    fn packed_width(&self, share: usize) -> usize {
        if self.packs { self.share(share).iter().map(|p| p.width).sum() } else { 0 }
    }
}

/// Values of dw.
fn result(g: &Geometry) -> usize {
    g.taps[0] * g.taps[1] * g.channels[1] * g.width
}

/// Values of one image, and of one row of an image, as the kernels read them.
fn pitch(g: &Geometry, padding: &Padding, direct: bool) -> [usize; 2] {
    let [rows, columns] = if direct { g.source } else { padding.padded };
    [rows * columns * g.depth, columns * g.depth]
}

/// One task: some panels of one slice of the batch.
struct Job<'a> {
    plan: &'a WeightGradient,
    isa: Isa,
    x: &'a [f32],
    dy: &'a [f32],
    sums: Disjoint<'a>,
    /// Where this slice's sum is.
    base: usize,
}

impl Job<'_> {
    fn slice(&self, [first, last]: [usize; 2], share: usize, scratch: &mut [f32]) {
        let plan = self.plan;
        let g = &plan.geometry;
        let (padded, packed) = scratch.split_at_mut(plan.padded());
        let image = g.source[0] * g.source[1] * g.depth;
        let mut start = Start::Zero;
        for from in (first..last).step_by(plan.group) {
            let images = plan.group.min(last - from);
            let x = if plan.direct {
                &self.x[from * image..]
            } else {
                for i in 0..images {
                    let image = &self.x[(from + i) * image..(from + i + 1) * image];
                    plan.padding
                        .copy(image, &mut padded[i * plan.padding.len()..(i + 1) * plan.padding.len()]);
                }
                &*padded
            };
            let pixels = g.output[0] * g.output[1];
            let count = (images * pixels).min(plan.positions - from * pixels);
            let dy = &self.dy[from * pixels * g.target.column..][..count * g.target.column];
            let mut at = 0;
            for panel in plan.share(share).iter().filter(|_| plan.packs) {
                pack(dy, g, panel, &mut packed[at..at + count * panel.width]);
                at += count * panel.width;
            }
            start = self.group(x, if plan.packs { packed } else { dy }, count, share, start);
        }
    }

    /// Adds one group of images, whose pixels number `count`, to the panels of this share.
    fn group(&self, x: &[f32], packed: &[f32], count: usize, share: usize, mut start: Start) -> Start {
        let plan = self.plan;
        let columns = plan.geometry.output[1];
        // Only an image of one row can be cut short, so whole rows and one shorter row are all there is.
        let whole = count / columns;
        let mut rows = 0;
        while rows < whole {
            let next = whole.min(rows + plan.block);
            self.block(x, packed, [rows, next, columns, count], share, start);
            start = Start::Add;
            rows = next;
        }
        if !count.is_multiple_of(columns) {
            self.block(x, packed, [whole, whole + 1, count % columns, count], share, start);
            start = Start::Add;
        }
        start
    }

    /// Adds rows `first..last` of pixels, each `length` long, out of a group of `count` pixels.
    fn block(
        &self,
        x: &[f32],
        packed: &[f32],
        [first, last, length, count]: [usize; 4],
        share: usize,
        start: Start,
    ) {
        let plan = self.plan;
        let g = &plan.geometry;
        let mut at = 0;
        for panel in plan.share(share) {
            let kernels = kernels(self.isa, Reading::Columns, panel.vectors);
            let b = &packed[at + first * g.output[1] * panel.width..];
            let tile = Tile {
                a: x.as_ptr(),
                stride: g.stride[1] * g.depth,
                segments: &plan.segments[first..last],
                length,
                b: b.as_ptr(),
                c: self.sums.pointer(),
                c_stride: g.width,
                start,
                relu: false,
            };
            for (number, run) in plan.runs.iter().enumerate() {
                split(plan.rows, kernels.len(), |row, count| {
                    // SAFETY: `run` has seen that x, dy and dw are as long as the plan says, and segments lie within
                    // one group of padded images. Tasks write different slices or panels.
                    unsafe {
                        let c = self.base + (number * plan.rows + row) * g.width + panel.column;
                        let tile = Tile { a: tile.a.add(run + row), c: tile.c.add(c), ..tile };
                        call(kernels[count - 1], &tile, panel, count);
                    }
                });
            }
            at += count * panel.width;
        }
    }
}

/// Copies a panel's columns of dy to rows of the panel's width.
fn pack(dy: &[f32], g: &Geometry, panel: &Panel, packed: &mut [f32]) {
    let first = g.target.offset + panel.column;
    for (from, to) in dy.chunks_exact(g.target.column).zip(packed.chunks_exact_mut(panel.width)) {
        to[..panel.columns].copy_from_slice(&from[first..first + panel.columns]);
        to[panel.columns..].fill(0.0);
    }
}

multiversion! {
    /// The sum of all slices, each `size` long, at `start..`, in pairs of pairs.
    pub(super) fn add_slices(sums: &[f32], size: usize, start: usize, out: &mut [f32]) {
        let slices = sums.len() / size;
        let slice = |s: usize| &sums[s * size + start..][..out.len()];
        // Slices are a power of two, at most `SLICES`.
        let mut parts: [&[f32]; SLICES] = [&[]; SLICES];
        for s in 0..slices {
            parts[s] = slice(s);
        }
        for i in 0..out.len() {
            let mut values = [0f32; SLICES];
            for s in 0..slices {
                values[s] = parts[s][i];
            }
            let mut count = slices;
            while count > 1 {
                count /= 2;
                for s in 0..count {
                    values[s] = values[2 * s] + values[2 * s + 1];
                }
            }
            out[i] = values[0];
        }
    }
}
