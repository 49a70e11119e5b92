//! Convolutions without an im2col copy: the core of convolution, of its gradient by the input, and of matrix products.
//!
//! x: images `[N, H, W, C]`; w: taps `[TH, TW, C, K]`, packed; y: N results of `[I, J, K]` with strides of their own.
//! `y[n, i, j, :] (+)= sum over a, b, c of x[n, i s + a d + o, j t + b e + p, c] w[a, b, c, :]`, where x is 0 outside
//! and c goes over the channels that the plan reads: all of them, or those of a group.
//!
//! A task takes a group of images that fits the second-level cache, padded. For a panel of columns of y and a block of
//! products whose part of w fits the first-level cache, it goes over all pixels of the group, a tile at a time.

#![allow(unsafe_code)]

use super::context::Context;
use super::geometry::{Geometry, PIXELS};
use super::packing::{Rows, WeightRows, pack_rows, pack_tiles};
use super::padded::Padding;
use super::pool::Disjoint;
use super::simd::Isa;
use super::tile::{
    MAX_ROWS, MAX_WIDTH, Panel, Reading, Soon, Start, Tile, call, kernels, packed_columns, panels, split,
    wide,
};
use super::weight_gradient::Gradient;
use crate::ops::pool::chosen::Chosen;

/// Values of packed w that should stay in the first-level cache while pixels pass by (32 KiB).
const NEAR: usize = 8448;
/// Values of padded images that should stay in the second-level cache (512 KiB).
const GROUP: usize = 128 * 1024;
/// Tasks that keep several threads evenly busy.
const TASKS: usize = 16;
/// Most pixels of a group whose sums of a panel are kept by themselves until they are whole.
const SUMS: usize = 512;
/// Most products in a sum whose rows of x are packed: more than that of a group would not fit the second-level cache.
const PACKED: usize = 2048;
/// Fewest panels that rows of x are packed for.
const PANELS: usize = 12;
/// Values of packed w that are read for every few rows.
const SMALL: usize = 64 * 1024;
/// Values of a page: rows that lie a multiple of it apart share one place in the first-level cache, for so many lines.
const PAGE: usize = 1024;
const WAYS: usize = 8;

/// A run of products: `segments` (positions in the plan's list) of `length` each, whose rows of packed w start at `row`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    segments: [usize; 2],
    length: usize,
    row: usize,
}

/// How a correlation is computed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Correlation {
    geometry: Geometry,
    padding: Padding,
    direct: bool,
    panels: Vec<Panel>,
    weights: Vec<WeightRows>,
    segments: Vec<usize>,
    /// By segment: the row of the padded image that it lies in, counted from the first that a pixel sees.
    rows: Vec<usize>,
    blocks: Vec<Block>,
    /// Rows of w: products in one sum.
    products: usize,
    /// Images in a task.
    group: usize,
    /// Tasks that share a group, each with some of the panels.
    shares: usize,
    /// Whether sums lie by themselves between blocks: in y, rows of a tile are often a multiple of a page apart.
    keeps: bool,
    /// Whether rows of x are packed for tiles.
    packs: bool,
    /// Whether all panels pass by for a few rows at a time, so that y is written row by row.
    by_rows: bool,
    /// All pixels there are; less than images times pixels of an image if the last image is cut short.
    positions: usize,
    /// What becomes of a group's results while they are in the cache.
    pooling: Option<Chosen>,
    /// Of what x is made, a group at a time.
    spreading: Option<Chosen>,
}

/// What is done to results before they are written for the last time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Epilogue<'a> {
    /// Added to every pixel: one value a column.
    pub(crate) bias: Option<&'a [f32]>,
    /// Negative results become 0.
    pub(crate) relu: bool,
}

impl Correlation {
    /// Plans a correlation whose w has these rows; `positions` pixels exist in all.
    pub(crate) fn new(
        geometry: Geometry,
        weights: Vec<WeightRows>,
        positions: usize,
        isa: Isa,
    ) -> Correlation {
        let padding = geometry.padding();
        let direct = padding.is_inside();
        let panels = panels(isa, geometry.width, wide(isa, Reading::Rows));
        let widest = panels.iter().map(|p| p.width).max().unwrap_or(1);
        let columns = if direct { geometry.source[1] } else { padding.padded[1] };
        let pitch = columns * geometry.depth;
        let (starts, run) = geometry.runs(pitch);
        let products = starts.len() * run;
        let (segments, blocks) = blocks(&starts, run, NEAR / widest);
        let rows = segments.iter().map(|start| start / pitch.max(1)).collect();
        debug_assert_eq!(products, weights.iter().map(|w| w.count).sum::<usize>());

        let pixels = geometry.output[0] * geometry.output[1];
        let fits = GROUP / padding.len().max(1);
        let group = PIXELS.div_ceil(pixels.max(1)).min(fits).clamp(1, geometry.images.max(1));
        let groups = geometry.images.div_ceil(group).max(1);
        let shares = TASKS.div_ceil(groups).clamp(1, panels.len().max(1));
        let keeps = blocks.len() > 1 && group * pixels <= SUMS;
        let row =
            Geometry { target: geometry.target, ..Geometry::product([pixels, products, geometry.width]) };
        let flat = group == 1 && groups > 1 && Geometry { images: 1, ..geometry.clone() } == row;
        let flat = flat && panels.len() / shares >= PANELS;
        let packs = flat && keeps && products <= PACKED;
        let by_rows = flat && blocks.len() == 1 && products * packed_columns(&panels) <= SMALL;
        Correlation {
            geometry,
            padding,
            direct,
            panels,
            weights,
            segments,
            rows,
            blocks,
            products,
            group,
            shares,
            keeps,
            packs,
            by_rows,
            positions,
            pooling: None,
            spreading: None,
        }
    }

    /// Makes p and codes of a pooling of y the results, and not y, if results are whole images.
    pub(crate) fn pool(&mut self, chosen: Chosen) -> bool {
        if !self.geometry.is_images() {
            return false;
        }
        debug_assert_eq!(self.geometry.target.image, chosen.plain());
        self.shares = 1;
        self.pooling = Some(chosen);
        true
    }

    /// Takes x, the gradient of results, as dp and codes of a pooling, if each image is made for one task alone and is read
    /// whole.
    pub(crate) fn unpool(&mut self, chosen: Chosen) -> bool {
        let g = &self.geometry;
        let whole = g.is_images() && g.channels == [0, g.depth];
        if !whole || self.shares > 1 || g.source[0] * g.source[1] * g.depth != chosen.plain() {
            return false;
        }
        self.spreading = Some(chosen);
        true
    }

    /// Values of workspace that [`Correlation::run`] takes: packed w, and a padded bias.
    pub(crate) fn workspace(&self) -> usize {
        let packed = if self.is_once() { 0 } else { self.products };
        (packed + 1) * packed_columns(&self.panels)
    }

    /// Values of scratch that each thread needs.
    pub(crate) fn scratch(&self) -> usize {
        self.spread() + self.padded() + self.unpooled() + self.near() + self.kept() + self.packed()
    }

    /// Values of a block of w for one panel, packed where it is used.
    fn near(&self) -> usize {
        if self.is_once() { NEAR.max(MAX_WIDTH) } else { 0 }
    }

    /// Pixels of a group.
    fn pixels(&self) -> usize {
        self.group * self.geometry.output[0] * self.geometry.output[1]
    }

    /// Values of a group's sums for one panel.
    fn kept(&self) -> usize {
        if self.keeps { self.pixels() * MAX_WIDTH } else { 0 }
    }

    /// Values of a group's rows of x.
    fn packed(&self) -> usize {
        if self.packs { self.pixels() * self.products } else { 0 }
    }

    /// Values of a group's results before they are pooled.
    fn unpooled(&self) -> usize {
        self.pooling.map_or(0, |chosen| self.group * chosen.plain())
    }

    /// Values of a group of images that are made of others.
    fn spread(&self) -> usize {
        self.spreading.map_or(0, |chosen| self.group * chosen.plain())
    }

    /// Values of a group of padded images.
    fn padded(&self) -> usize {
        if self.direct { 0 } else { self.group * self.padding.len() }
    }

    /// Whether each part of w is used by one task alone, which then packs it where it needs it.
    fn is_once(&self) -> bool {
        self.geometry.images <= self.group && self.geometry.output[0] == 1
    }

    /// Computes y, or p and codes. Elements of `y` that are not in the target are left alone.
    pub(crate) fn run(
        &self,
        cx: &mut Context,
        [x, w]: [&[f32]; 2],
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        self.run_from(cx, (Gradient::Plain(x), w), epilogue, y, workspace);
    }

    /// As [`Correlation::run`], where x may be a gradient that is given as dp and codes.
    pub(crate) fn run_from(
        &self,
        cx: &mut Context,
        (x, w): (Gradient, &[f32]),
        epilogue: Epilogue,
        y: &mut [f32],
        workspace: &mut [f32],
    ) {
        if self.positions == 0 || self.geometry.width == 0 {
            return;
        }
        self.check(x, [w.len(), y.len()]);
        let (packed, bias) = self.prepare(cx, w, epilogue, workspace);
        let y = Disjoint::new(y);
        let isa = cx.isa;
        let g = &self.geometry;
        let groups = g.images.div_ceil(self.group);
        cx.run(groups * self.shares, &|task, scratch| {
            let (spread, rest) = scratch[..self.scratch()].split_at_mut(self.spread());
            let (padded, rest) = rest.split_at_mut(self.padded());
            let (unpooled, rest) = rest.split_at_mut(self.unpooled());
            let (near, rest) = rest.split_at_mut(self.near());
            let (sums, tiles) = rest.split_at_mut(self.kept());
            let (group, share) = (task.index / self.shares, task.index % self.shares);
            let first = group * self.group;
            let images = self.group.min(g.images - first);
            let x = self.source((isa, x), [first, images], [spread, padded]);
            let tiles: Option<&[f32]> = if self.packs {
                let rows = g.output[1].min(self.positions - first * g.output[1]);
                let x = Rows { values: x, start: 0, stride: g.depth };
                let most = kernels(isa, Reading::Columns, self.panels[0].vectors).len();
                pack_tiles(&x, [rows, self.products], most, tiles);
                Some(tiles)
            } else {
                None
            };
            let (into, relu) = match self.pooling {
                Some(_) => ((Disjoint::new(&mut *unpooled), 0), false),
                None => ((y, first), epilogue.relu),
            };
            let job = Job { plan: self, packed, bias, relu, into, x, tiles, first, images };
            let bound = |s: usize| s * self.panels.len() / self.shares;
            let panels = &self.panels[bound(share)..bound(share + 1)];
            if self.by_rows {
                return job.rows(isa, panels);
            }
            for panel in panels {
                job.panel(isa, panel, (w, &mut *near), &mut *sums);
            }
            if let Some(chosen) = self.pooling {
                // SAFETY: tasks have images of their own.
                unsafe { chosen.pool(isa, &unpooled[..images * chosen.plain()], y, [first, g.images]) };
            }
        });
    }

    /// Packs w and the bias.
    fn prepare<'w>(
        &self,
        cx: &Context,
        w: &[f32],
        epilogue: Epilogue,
        workspace: &'w mut [f32],
    ) -> (&'w [f32], Option<&'w [f32]>) {
        let columns = packed_columns(&self.panels);
        let (packed, bias) = workspace[..self.workspace()].split_at_mut(self.workspace() - columns);
        if !self.is_once() {
            self.pack(cx, w, packed);
        }
        if let Some(values) = epilogue.bias {
            // Padding follows the last column only, since every panel but the last is full.
            bias[..values.len()].copy_from_slice(values);
            bias[values.len()..].fill(0.0);
        }
        (packed, epilogue.bias.is_some().then_some(bias))
    }

    /// Panics if an operand is too short for what the kernels will address.
    fn check(&self, x: Gradient, [w, y]: [usize; 2]) {
        let g = &self.geometry;
        let [rows, columns] = g.output;
        assert!(self.positions <= g.images * rows * columns);
        // A last image that is cut short has one row.
        assert!(rows == 1 || self.positions == g.images * rows * columns);
        let last = if rows == 1 { (self.positions - 1) % columns } else { columns - 1 };
        let end = g.target.offset
            + (g.images - 1) * g.target.image
            + (rows - 1) * g.target.row
            + last * g.target.column
            + g.width;
        let pooled = self.pooling.map(|chosen| g.images * (chosen.pooled() + Chosen::codes(chosen.pooled())));
        let end = pooled.unwrap_or(end);
        assert!(end <= y, "results end at {end}, memory at {y}");
        let image = g.source[0] * g.source[1] * g.depth;
        let needed = if self.is_cut() { self.positions * g.depth } else { g.images * image };
        match (x, self.spreading) {
            (Gradient::Plain(x), None) => {
                assert!(needed <= x.len(), "images end at {needed}, memory at {}", x.len())
            }
            (Gradient::Pooled(_, [dp, codes]), Some(chosen)) => {
                let pooled = g.images * chosen.pooled();
                assert!(dp.len() == pooled && codes.len() == Chosen::codes(pooled));
            }
            _ => unreachable!("a plan knows how its gradient is given"),
        }
        for rows in self.weights.iter().filter(|r| r.count > 0) {
            let end = rows.start + (rows.count - 1) * rows.row + (g.width - 1) * rows.column;
            assert!(end < w, "weights end at {end}, memory at {w}");
        }
    }

    fn is_cut(&self) -> bool {
        self.positions < self.geometry.images * self.geometry.output[0] * self.geometry.output[1]
    }

    /// Images from `first` on, padded.
    fn source<'s>(
        &self,
        (isa, x): (Isa, Gradient<'s>),
        [first, images]: [usize; 2],
        [spread, scratch]: [&'s mut [f32]; 2],
    ) -> &'s [f32] {
        let g = &self.geometry;
        let image = g.source[0] * g.source[1] * g.depth;
        let from = match x {
            Gradient::Plain(x) => &x[first * image..],
            Gradient::Pooled(chosen, parts) => {
                let dy = &mut spread[..images * image];
                chosen.spread(isa, parts, first, dy);
                dy
            }
        };
        if self.direct {
            return from;
        }
        let padded = self.padding.len();
        for i in 0..images {
            self.padding.copy(&from[i * image..(i + 1) * image], &mut scratch[i * padded..(i + 1) * padded]);
        }
        &scratch[..images * padded]
    }

    /// Values of one image, and of one row of an image, as the kernels read them.
    fn pitch(&self) -> [usize; 2] {
        let [rows, columns] = if self.direct { self.geometry.source } else { self.padding.padded };
        [rows * columns * self.geometry.depth, columns * self.geometry.depth]
    }

    /// Copies w: panel after panel, in each the rows in order, in each the panel's columns and zeros as padding.
    fn pack(&self, cx: &Context, w: &[f32], packed: &mut [f32]) {
        let packed = Disjoint::new(packed);
        let tasks = self.panels.len() * self.weights.len();
        cx.pool.run(tasks, &|task| {
            let panel = &self.panels[task.index / self.weights.len()];
            let part = task.index % self.weights.len();
            let before: usize = self.weights[..part].iter().map(|w| w.count).sum();
            let rows = [before, before + self.weights[part].count];
            let start = panel.packed * self.products + before * panel.width;
            // SAFETY: panels and their parts have places of their own.
            let out = unsafe { packed.range(start, (rows[1] - rows[0]) * panel.width) };
            pack_rows(&self.weights, panel, rows, (w, out));
        });
    }
}

/// One task: a group of images.
struct Job<'a> {
    plan: &'a Correlation,
    packed: &'a [f32],
    bias: Option<&'a [f32]>,
    relu: bool,
    /// Where results go, and which image of it is the group's first.
    into: (Disjoint<'a>, usize),
    x: &'a [f32],
    /// Rows of x for the tiles of full panels.
    tiles: Option<&'a [f32]>,
    first: usize,
    images: usize,
}

impl Job<'_> {
    /// The segments of a block that pixels of row i see the image in. The others are zeros of the padding: their products
    /// add nothing.
    fn seen(&self, block: &Block, i: usize) -> [usize; 2] {
        let plan = self.plan;
        let [first, last] = block.segments;
        if plan.direct {
            return [first, last];
        }
        let (low, high) = plan.padding.inside(0);
        let rows = &plan.rows[first..last];
        let above = i * plan.geometry.stride[0];
        let [start, end] = [low, high].map(|bound| first + rows.partition_point(|row| above + row < bound));
        [start, end.max(start)]
    }

    /// Results of one panel.
    fn panel(&self, isa: Isa, panel: &Panel, (w, near): (&[f32], &mut [f32]), sums: &mut [f32]) {
        let plan = self.plan;
        let g = &plan.geometry;
        let tiles = self.tiles.filter(|_| panel.vectors == plan.panels[0].vectors);
        let reading = if tiles.is_some() { Reading::Columns } else { Reading::Rows };
        let kernels = kernels(isa, reading, panel.vectors);
        let pitch = plan.pitch();
        let per_image = g.output[0] * g.output[1];
        let stride = g.stride[1] * g.depth;
        let most = if tiles.is_none() && stride.is_multiple_of(PAGE) { WAYS } else { MAX_ROWS };
        for (number, block) in plan.blocks.iter().enumerate() {
            let last = number + 1 == plan.blocks.len();
            let b = if plan.is_once() {
                let rows = (block.segments[1] - block.segments[0]) * block.length;
                let near = &mut near[..rows * panel.width];
                pack_rows(&plan.weights, panel, [block.row, block.row + rows], (w, &mut *near));
                &*near
            } else {
                &self.packed[panel.packed * plan.products + block.row * panel.width..]
            };
            let start = if number > 0 { Start::Add } else { self.start(panel) };
            let keeps = plan.keeps && !last;
            for n in 0..self.images {
                for i in 0..g.output[0] {
                    let rest = plan.positions - (self.first + n) * per_image - i * g.output[1];
                    let seen = self.seen(block, i);
                    let relu = self.relu && last;
                    if seen[0] == seen[1] && number > 0 && (keeps || !plan.keeps && !relu) {
                        continue;
                    }
                    let skipped = (seen[0] - block.segments[0]) * block.length * panel.width;
                    let a = n * pitch[0] + i * g.stride[0] * pitch[1];
                    let image = (self.into.1 + n) * g.target.image;
                    let c = g.target.offset + image + i * g.target.row + panel.column;
                    let pixel = n * per_image + i * g.output[1];
                    split(g.output[1].min(rest), kernels.len().min(most), |at, rows| {
                        let mut tile = Tile {
                            a: self.x.as_ptr(),
                            stride,
                            segments: &plan.segments[seen[0]..seen[1]],
                            length: block.length,
                            b: b[skipped..].as_ptr(),
                            c: self.into.0.pointer(),
                            c_stride: g.target.column,
                            start,
                            relu,
                            soon: Soon::default(),
                        };
                        let kept =
                            plan.keeps.then(|| &mut sums[(pixel + at) * panel.width..][..rows * panel.width]);
                        // SAFETY: `check` has seen that all images, results and weights are in memory; a tile stays
                        // within a row of pixels, whose windows the padded extent covers. Tasks write different images
                        // or panels, and have sums and packed rows of x of their own.
                        unsafe {
                            if let Some(tiles) = tiles {
                                tile.a = tiles[at * plan.products + block.row * rows..].as_ptr();
                                (tile.stride, tile.segments) = (rows, &[0]);
                            } else {
                                tile.a = tile.a.add(a + at * stride);
                            }
                            if let (true, Some(sums)) = (number > 0, &kept) {
                                tile.start = Start::Sums(sums.as_ptr());
                            }
                            if let (true, Some(sums)) = (keeps, kept) {
                                (tile.c, tile.c_stride) = (sums.as_mut_ptr(), panel.width);
                                return kernels[rows - 1](&tile);
                            }
                            tile.c = tile.c.add(c + at * g.target.column);
                            call(kernels[rows - 1], &tile, panel, rows);
                        }
                    });
                }
            }
        }
    }

    /// What the sums of a panel start from.
    fn start(&self, panel: &Panel) -> Start {
        self.bias.map_or(Start::Zero, |bias| Start::Bias(bias[panel.packed..].as_ptr()))
    }

    /// Results of one image of one row whose products are one block, a few pixels after the other.
    fn rows(&self, isa: Isa, panels: &[Panel]) {
        let plan = self.plan;
        let g = &plan.geometry;
        let most = kernels(isa, Reading::Rows, plan.panels[0].vectors).len();
        let count = g.output[1].min(plan.positions - self.first * g.output[1]);
        let c = g.target.offset + self.into.1 * g.target.image;
        split(count, most, |at, rows| {
            for panel in panels {
                let tile = Tile {
                    a: self.x[at * g.depth..].as_ptr(),
                    stride: g.depth,
                    segments: &plan.segments,
                    length: plan.blocks[0].length,
                    b: self.packed[panel.packed * plan.products..].as_ptr(),
                    c: self.into.0.pointer(),
                    c_stride: g.target.column,
                    start: self.start(panel),
                    relu: self.relu,
                    soon: Soon::default(),
                };
                let kernels = kernels(isa, Reading::Rows, panel.vectors);
                // SAFETY: as for panels.
                unsafe {
                    let c = tile.c.add(c + at * g.target.column + panel.column);
                    call(kernels[rows - 1], &Tile { c, ..tile }, panel, rows);
                }
            }
        });
    }
}

/// Cuts the products of runs of `run` values, which begin at these places of the image, into blocks of at most `most`.
fn blocks(starts: &[usize], run: usize, most: usize) -> (Vec<usize>, Vec<Block>) {
    let mut segments = vec![];
    let mut blocks = vec![];
    if starts.len() * run == 0 {
        // One empty block, so that results are written all the same.
        blocks.push(Block { segments: [0, 0], length: 0, row: 0 });
    } else if run <= most {
        segments.extend(starts);
        split(starts.len(), most / run, |start, count| {
            blocks.push(Block { segments: [start, start + count], length: run, row: start * run });
        });
    } else {
        for (number, first) in starts.iter().enumerate() {
            split(run, most, |start, length| {
                let at = segments.len();
                segments.push(first + start);
                blocks.push(Block { segments: [at, at + 1], length, row: number * run + start });
            });
        }
    }
    (segments, blocks)
}
