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

use super::columns::LANES;
use super::context::Context;
use super::geometry::Geometry;
use super::long_sums::LongSums;
use super::packing::pack_panel;
use super::padded::Padding;
use super::pool::Disjoint;
use super::simd::{Isa, multiversion};
use super::tile::{
    MAX_ROWS, Panel, Reading, Soon, Start, Tile, call, kernels, packed_columns, panels, split, wide,
};
use crate::ops::pool::chosen::Chosen;

/// Values of packed dy that should stay in the first-level cache while rows of dw pass by (32 KiB).
const NEAR: usize = 8192;
/// Values of padded images and packed dy that should stay in the second-level cache (1 MiB).
const GROUP: usize = 256 * 1024;
/// Most slices of a batch.
const SLICES: usize = 16;
/// Pixels that make a slice worth writing, reading and adding its sums.
const LEAST: usize = 512;
/// Fewest rows of dw in a task where all of them are one run, a multiple of what tiles of few columns have.
const ROWS: usize = 256;
/// Most values in all the slices' sums (16 MiB).
const SUMS: usize = 4 * 1024 * 1024;

/// The gradient of a convolution's results.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gradient<'a> {
    /// dy
    Plain(&'a [f32]),
    /// dp behind a pooling, and codes of it.
    Pooled(Chosen, [&'a [f32]; 2]),
}

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
    /// Tasks that share the runs of taps of a share, or the rows of dw if all taps are one run.
    cuts: usize,
    positions: usize,
    /// Of what dy is made, a group at a time.
    pooling: Option<Chosen>,
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
        let most = (positions / LEAST).min(geometry.images).min(SUMS / result.max(1));
        let slices = 1 << most.clamp(1, SLICES).ilog2();
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
        let most = if runs.len() == 1 { run / ROWS } else { runs.len() };
        let cuts = SLICES.div_ceil(slices * shares).min(most).max(1);
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
            cuts,
            positions,
            pooling: None,
        }
    }

    /// Takes dy as dp and codes of a pooling, if it is made of whole images.
    pub(crate) fn unpool(&mut self, chosen: Chosen) -> bool {
        let g = &self.geometry;
        if !g.is_images() {
            return false;
        }
        let pixels = g.output[0] * g.output[1];
        debug_assert_eq!(pixels * g.target.column, chosen.plain());
        // Every cut would make its own.
        self.cuts = 1;
        let packed: usize = (0..self.shares).map(|s| self.packed_width(s)).max().unwrap_or(0);
        let per_image = if self.direct { 0 } else { self.padding.len() } + pixels * packed + chosen.plain();
        self.group = self.group.min(GROUP / per_image).max(1);
        self.segments.truncate(self.group * g.output[0]);
        self.pooling = Some(chosen);
        true
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
        self.padded() + self.spread() + self.group * rows * columns * widest
    }

    /// Computes dw from x and dy, or from x, dp and codes.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        (x, dy): (&[f32], Gradient),
        dw: &mut [f32],
        workspace: &mut [f32],
    ) {
        if let (Some(long), Gradient::Plain(dy)) = (&self.long, dy) {
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
        match (dy, self.pooling) {
            (Gradient::Plain(dy), None) => assert!(dy.len() == self.positions * g.target.column),
            (Gradient::Pooled(_, [dp, codes]), Some(chosen)) => {
                let pooled = g.images * chosen.pooled();
                assert!(dp.len() == pooled && codes.len() == Chosen::codes(pooled));
            }
            _ => unreachable!("a plan knows how its gradient is given"),
        }
        assert!(dw.len() == result);
        assert!(x.len() >= self.positions_of_x() * g.depth);
        let isa = cx.isa;
        let sums =
            Disjoint::new(if self.slices > 1 { &mut workspace[..self.slices * result] } else { &mut *dw });
        cx.run(self.slices * self.shares * self.cuts, &|task, scratch| {
            let (cut, task) = (task.index % self.cuts, task.index / self.cuts);
            let (slice, share) = (task / self.shares, task % self.shares);
            let bound = |s: usize| s * g.images / self.slices;
            let (runs, rows) = self.part(cut);
            let job = Job { plan: self, isa, x, dy, sums, base: slice * result, runs, rows };
            job.slice([bound(slice), bound(slice + 1)], share, scratch);
        });
        if self.slices > 1 {
            let sums = &workspace[..self.slices * result];
            cx.pool.parts(dw, 8192, &|task, out| add_slices(isa, sums, result, task.index * 8192, out));
        }
    }

    /// The runs of taps of a cut, and which rows of each.
    fn part(&self, cut: usize) -> ([usize; 2], [usize; 2]) {
        let part = |count: usize| [cut, cut + 1].map(|c| c * count / self.cuts);
        if self.runs.len() == 1 {
            let rows = part(self.rows.div_ceil(MAX_ROWS)).map(|tile| self.rows.min(tile * MAX_ROWS));
            ([0, 1], rows)
        } else {
            (part(self.runs.len()), [0, self.rows])
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

    /// Values of a group of images of dy that are made of others.
    fn spread(&self) -> usize {
        self.pooling.map_or(0, |chosen| self.group * chosen.plain())
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

/// One task: some panels and runs of taps of one slice of the batch.
struct Job<'a> {
    plan: &'a WeightGradient,
    isa: Isa,
    x: &'a [f32],
    dy: Gradient<'a>,
    sums: Disjoint<'a>,
    /// Where this slice's sum is.
    base: usize,
    /// The runs of taps that it takes, and which rows of each.
    runs: [usize; 2],
    rows: [usize; 2],
}

impl Job<'_> {
    fn slice(&self, [first, last]: [usize; 2], share: usize, scratch: &mut [f32]) {
        let plan = self.plan;
        let g = &plan.geometry;
        let (padded, rest) = scratch.split_at_mut(plan.padded());
        let (spread, packed) = rest.split_at_mut(plan.spread());
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
            let dy = match self.dy {
                Gradient::Plain(dy) => &dy[from * pixels * g.target.column..][..count * g.target.column],
                Gradient::Pooled(chosen, parts) => {
                    let dy = &mut spread[..images * chosen.plain()];
                    chosen.spread(self.isa, parts, from, dy);
                    dy
                }
            };
            let mut at = 0;
            for panel in plan.share(share).iter().filter(|_| plan.packs) {
                let from = &dy[g.target.offset + panel.column..];
                pack_panel(from, g.target.column, panel, &mut packed[at..at + count * panel.width]);
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
                soon: Soon::default(),
            };
            for (number, run) in (self.runs[0]..).zip(&plan.runs[self.runs[0]..self.runs[1]]) {
                split(self.rows[1] - self.rows[0], kernels.len(), |row, count| {
                    let row = self.rows[0] + row;
                    // SAFETY: `run` has seen that x, dy and dw are as long as the plan says, and segments lie within
                    // one group of padded images. Tasks write different slices, panels or runs.
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

multiversion! {
    /// The sum of all slices, each `size` long, at `start..`, in pairs of pairs.
    pub(super) fn add_slices(sums: &[f32], size: usize, start: usize, out: &mut [f32]) {
        // Slices are a power of two, at most `SLICES`.
        match sums.len() / size {
            1 => add::<1>(sums, size, start, out),
            2 => add::<2>(sums, size, start, out),
            4 => add::<4>(sums, size, start, out),
            8 => add::<8>(sums, size, start, out),
            _ => add::<SLICES>(sums, size, start, out),
        }
    }
}

/// As [`add_slices`], of so many slices.
#[inline(always)]
fn add<const N: usize>(sums: &[f32], size: usize, start: usize, out: &mut [f32]) {
    debug_assert_eq!(sums.len(), N * size);
    let slices: [&[f32]; N] = std::array::from_fn(|s| &sums[s * size + start..][..out.len()]);
    let whole = out.len() - out.len() % LANES;
    for at in (0..whole).step_by(LANES) {
        let mut values = [[0f32; LANES]; N];
        for s in 0..N {
            values[s] = *slices[s][at..].first_chunk().expect("whole lanes are left");
        }
        let mut count = N;
        // As often as a power of two is halved, up to that of `SLICES`.
        for _ in 0..SLICES.ilog2() {
            count /= 2;
            for s in 0..count {
                for i in 0..LANES {
                    values[s][i] = values[2 * s][i] + values[2 * s + 1][i];
                }
            }
        }
        *out[at..].first_chunk_mut().expect("whole lanes are left") = values[0];
    }
    for at in whole..out.len() {
        let mut values: [f32; N] = std::array::from_fn(|s| slices[s][at]);
        let mut count = N;
        while count > 1 {
            count /= 2;
            for s in 0..count {
                values[s] = values[2 * s] + values[2 * s + 1];
            }
        }
        out[at] = values[0];
    }
}
