//! The transforms over many tiles: each kernel reads some tiles and writes all 36 points of each, or reads the points and
//! writes tiles. Addresses are made here, arithmetic is `transform`'s.

#![allow(unsafe_code)]

use super::TILES;
use super::transform::{self, LEFT_OUT, SHORT, SIDE, STEP, plane, square};
use crate::native::pool::Disjoint;
#[cfg(target_arch = "x86_64")]
use crate::native::simd::{Avx2, Avx512};
use crate::native::simd::{Isa, Portable, Simd};
use crate::native::tile::Panel;
use std::ops::Range;

/// Planes cut into tiles of 4 x 4 results (or of another number). Where one of 3 would do for the last rows or columns,
/// those tiles are short: they have values at 5 x 6, 6 x 5 or 5 x 5 points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// Rows and columns of results in a plane.
    output: [usize; 2],
    /// Rows and columns of tiles in a plane.
    tiles: [usize; 2],
    /// Rows and columns of results in a tile.
    step: usize,
    /// Whether the last row and the last column of tiles are short.
    short: [bool; 2],
}

/// What is short in a tile, in the order in which a wave holds its tiles.
const KINDS: [[bool; 2]; 4] = [[false, false], [false, true], [true, true], [true, false]];

impl Grid {
    pub(super) fn new(output: [usize; 2]) -> Grid {
        let tiles = output.map(|extent| extent.div_ceil(STEP));
        // Waves of short tiles are whole planes, which must fit.
        let fits = tiles[0] * tiles[1] <= TILES;
        Grid { output, tiles, step: STEP, short: output.map(|extent| fits && extent % STEP == STEP - 1) }
    }

    /// Tiles of so many rows and columns of results, none of them short.
    pub(super) fn even(output: [usize; 2], step: usize) -> Grid {
        Grid { output, tiles: output.map(|extent| extent.div_ceil(step)), step, short: [false; 2] }
    }

    /// Tiles of one plane.
    pub(super) fn per_plane(&self) -> usize {
        self.tiles[0] * self.tiles[1]
    }

    /// Whether waves must be whole planes.
    pub(super) fn has_short(&self) -> bool {
        self.short != [false, false]
    }

    /// Rows and columns of a plane's tiles of this kind.
    #[inline(always)]
    fn part(&self, kind: [bool; 2]) -> [usize; 2] {
        [0, 1].map(|d| {
            if kind[d] { usize::from(self.short[d]) } else { self.tiles[d] - usize::from(self.short[d]) }
        })
    }
}

/// Tiles that are worked on together: in order, or if some are short those of each kind after each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wave {
    pub(super) grid: Grid,
    /// The first tile's number; that of a plane's first one if some are short.
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Wave {
    /// The first plane and the number of planes, if it has whole ones.
    pub(super) fn planes(&self) -> [usize; 2] {
        [self.first, self.count].map(|tiles| tiles / self.grid.per_plane())
    }

    /// The same for planes that lie by themselves, if it has whole ones.
    pub(super) fn by_itself(self) -> Wave {
        Wave { first: 0, ..self }
    }

    /// The same for planes that lie by themselves from this one on.
    pub(super) fn since_plane(self, plane: usize) -> Wave {
        Wave { first: self.first - plane * self.grid.per_plane(), ..self }
    }

    /// The plane of a tile of this wave, the row and column of its first result, and what is short in it.
    #[inline(always)]
    pub(super) fn find(&self, tile: usize) -> (usize, [usize; 2], [bool; 2]) {
        let grid = &self.grid;
        let each = grid.per_plane();
        if !grid.has_short() {
            let (plane, rest) = ((self.first + tile) / each, (self.first + tile) % each);
            let at = [rest / grid.tiles[1], rest % grid.tiles[1]].map(|tile| tile * grid.step);
            return (plane, at, [false; 2]);
        }
        let planes = self.count / each;
        let mut local = tile;
        for kind in KINDS {
            let [rows, columns] = grid.part(kind);
            if local < planes * rows * columns {
                let (plane, rest) = (local / (rows * columns), local % (rows * columns));
                let at = [rest / columns, rest % columns];
                let at = [0, 1].map(|d| if kind[d] { grid.tiles[d] - 1 } else { at[d] } * STEP);
                return (self.first / each + plane, at, kind);
            }
            local -= planes * rows * columns;
        }
        unreachable!("a wave has no more tiles")
    }

    /// Calls `visit` with the first and the number of each run of tiles that have values at a point.
    pub(super) fn at(&self, point: usize, mut visit: impl FnMut(usize, usize)) {
        if !self.grid.has_short() {
            return visit(0, self.count);
        }
        let left_out = [point / SIDE == LEFT_OUT, point % SIDE == LEFT_OUT];
        let planes = self.count / self.grid.per_plane();
        let (mut start, mut end) = (0, 0);
        for kind in KINDS {
            let [rows, columns] = self.grid.part(kind);
            let count = planes * rows * columns;
            if (0..2).any(|d| kind[d] && left_out[d]) {
                if end > start {
                    visit(start, end - start);
                }
                start = end + count;
            }
            end += count;
        }
        if end > start {
            visit(start, end - start);
        }
    }
}

/// The number, along one dimension, of the point that a tile has its value i at.
#[inline(always)]
fn point(short: bool, i: usize) -> usize {
    if short && i >= LEFT_OUT { i + 1 } else { i }
}

/// From pixels to points: input tiles, or tiles of an output gradient.
pub(super) struct Spread<'a> {
    pub(super) wave: Wave,
    /// Planes `[H, W, C]` after each other.
    pub(super) planes: &'a [f32],
    pub(super) extent: [usize; 2],
    pub(super) depth: usize,
    /// Where a tile begins in the plane, beside its first result.
    pub(super) origin: [isize; 2],
    /// As many zeros as channels, read outside of the plane.
    pub(super) zeros: &'a [f32],
    /// Channels are laid out in these panels, of a row for each tile, `rows` rows from one panel to the next.
    pub(super) panels: &'a [Panel],
    pub(super) rows: usize,
    /// Points are this far apart.
    pub(super) stride: usize,
    pub(super) points: Disjoint<'a>,
}

impl Spread<'_> {
    /// Where the pixels of a tile are that begins at a result of plane n, in planes or in the zeros.
    #[inline(always)]
    fn pixels<const FROM: usize>(&self, n: usize, [i, j]: [usize; 2]) -> [[*const f32; FROM]; FROM] {
        let [height, width] = self.extent;
        let plane = &self.planes[n * height * width * self.depth..(n + 1) * height * width * self.depth];
        let mut pixels = [[self.zeros.as_ptr(); FROM]; FROM];
        for a in 0..FROM {
            let h = (i + a).wrapping_add_signed(self.origin[0]);
            if h >= height {
                continue;
            }
            for b in 0..FROM {
                let w = (j + b).wrapping_add_signed(self.origin[1]);
                if w < width {
                    pixels[a][b] = plane[(h * width + w) * self.depth..].as_ptr();
                }
            }
        }
        pixels
    }
}

/// From points to pixels: results.
pub(super) struct Gather<'a> {
    pub(super) wave: Wave,
    pub(super) points: &'a [f32],
    /// Points, and the rows of tiles, are this far apart.
    pub(super) stride: usize,
    pub(super) row: usize,
    /// `[I, J, K]` after each other.
    pub(super) planes: Disjoint<'a>,
    pub(super) depth: usize,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) relu: bool,
}

/// From points to pixels: pairs of rows and columns of results.
pub(super) struct GatherPairs<'a> {
    pub(super) wave: Wave,
    pub(super) points: &'a [f32],
    /// Points, and the rows of tiles, are this far apart.
    pub(super) stride: usize,
    pub(super) row: usize,
    /// Planes `[I, J, K]` after each other, from plane `first` on.
    pub(super) planes: Disjoint<'a>,
    pub(super) first: usize,
    pub(super) depth: usize,
    pub(super) bias: &'a [f32],
    pub(super) relu: bool,
}

/// From points to pixels that tiles share: the gradient by the input, each tile's added.
pub(super) struct Scatter<'a> {
    pub(super) wave: Wave,
    pub(super) points: &'a [f32],
    /// Points, and the rows of tiles, are this far apart.
    pub(super) stride: usize,
    pub(super) row: usize,
    /// Planes `[H, W, C]` after each other, from plane `first` on.
    pub(super) planes: Disjoint<'a>,
    pub(super) first: usize,
    pub(super) extent: [usize; 2],
    pub(super) depth: usize,
    /// Where a tile begins in the plane, beside its first result.
    pub(super) origin: [isize; 2],
}

/// A kernel's body for vectors of any width, compiled for every instruction set.
macro_rules! kernel {
    ($name:ident, $body:ident $([$($extra:tt),*])?, $($arg:ident: $type:ty),*) => {
        /// # Safety
        /// As the body says; the processor has the instruction set.
        pub(super) unsafe fn $name(isa: Isa, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2($($arg: $type),*) {
                // SAFETY: handed on to the caller.
                unsafe { $body::<Avx2 $($(, $extra)*)?>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
            unsafe fn avx512($($arg: $type),*) {
                // SAFETY: handed on to the caller.
                unsafe { $body::<Avx512 $($(, $extra)*)?>($($arg),*) }
            }
            // SAFETY: handed on to the caller; an `Isa` exists only where the processor has it.
            unsafe {
                match isa {
                    Isa::Portable => $body::<Portable $($(, $extra)*)?>($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => avx512($($arg),*),
                }
            }
        }
    };
}

kernel!(spread_input, input_body, job: &Spread, tiles: Range<usize>);
kernel!(spread_gradient, gradient_body, job: &Spread, tiles: Range<usize>);
kernel!(gather, gather_body, job: &Gather, tiles: Range<usize>);
kernel!(scatter, scatter_body, job: &Scatter, tiles: Range<usize>);
kernel!(gather_pairs, gather_pairs_body, job: &GatherPairs, tiles: Range<usize>);
kernel!(spread_pairs, pair_gradient_body, job: &Spread, tiles: Range<usize>);

pub(super) use kernel;

/// Calls `whole` for each start of a vector, then `tail` for each start of four lanes that remain; counts are multiples
/// of four.
#[inline(always)]
pub(super) fn each_vector<S: Simd>(count: usize, mut whole: impl FnMut(usize), mut tail: impl FnMut(usize)) {
    let mut c = 0;
    while c + S::LANES <= count {
        whole(c);
        c += S::LANES;
    }
    while c < count {
        tail(c);
        c += Portable::LANES;
    }
}

/// One tile's channels from pixels to points, by these transforms of columns and of rows; `S` is the caller's.
macro_rules! spread_tile {
    ($job:ident, $panel:ident, $at:ident, $pixels:ident,
     [$down:ident, $rows:expr, $to_rows:expr], [$along:ident, $columns:expr, $to_columns:expr]) => {
        each_vector::<S>(
            $panel.columns,
            // SAFETY: handed on to the caller; pixels are `depth` values long, zeros too.
            |c| unsafe { spread_tile!(vector S, c, $job, $panel, $at, $pixels,
                [$down, $rows, $to_rows], [$along, $columns, $to_columns]) },
            // SAFETY: as above.
            |c| unsafe { spread_tile!(vector Portable, c, $job, $panel, $at, $pixels,
                [$down, $rows, $to_rows], [$along, $columns, $to_columns]) },
        )
    };
    (vector $simd:ident, $c:ident, $job:ident, $panel:ident, $at:ident, $pixels:ident,
     [$down:ident, $rows:expr, $to_rows:expr], [$along:ident, $columns:expr, $to_columns:expr]) => {{
        let out = $job.points.pointer().add($at + $c);
        plane::<
            $simd,
            transform::$down,
            transform::$along,
            { $rows },
            { $to_rows },
            { $columns },
            { $to_columns },
        >(
            |i, j| $simd::load($pixels[i][j].add($panel.column + $c)),
            |i, j, v| {
                let [i, j] = [point($to_rows == SHORT, i), point($to_columns == SHORT, j)];
                $simd::store(out.add((i * SIDE + j) * $job.stride), v);
            },
        )
    }};
}

macro_rules! spread_body {
    ($body:ident, [$from:expr, $line:ident], [$short_from:expr, $short_line:ident]) => {
        /// # Safety
        /// The points have room for this wave's tiles; no other task writes the same.
        #[inline(always)]
        unsafe fn $body<S: Simd>(job: &Spread, tiles: Range<usize>) {
            for tile in tiles {
                let (n, start, short) = job.wave.find(tile);
                let pixels = job.pixels::<{ $from }>(n, start);
                for panel in job.panels {
                    let at = panel.packed * job.rows + tile * panel.width;
                    match short {
                        [false, false] => {
                            spread_tile!(job, panel, at, pixels, [$line, $from, SIDE], [$line, $from, SIDE])
                        }
                        [false, true] => {
                            spread_tile!(
                                job,
                                panel,
                                at,
                                pixels,
                                [$line, $from, SIDE],
                                [$short_line, $short_from, SHORT]
                            )
                        }
                        [true, false] => {
                            spread_tile!(
                                job,
                                panel,
                                at,
                                pixels,
                                [$short_line, $short_from, SHORT],
                                [$line, $from, SIDE]
                            )
                        }
                        [true, true] => {
                            spread_tile!(
                                job,
                                panel,
                                at,
                                pixels,
                                [$short_line, $short_from, SHORT],
                                [$short_line, $short_from, SHORT]
                            )
                        }
                    }
                }
            }
        }
    };
}
spread_body!(input_body, [SIDE, Input], [SHORT, ShortInput]);
spread_body!(gradient_body, [STEP, OutputGradient], [STEP - 1, ShortOutputGradient]);

/// # Safety
/// As for the others.
#[inline(always)]
unsafe fn pair_gradient_body<S: Simd>(job: &Spread, tiles: Range<usize>) {
    for tile in tiles {
        let (n, start, _) = job.wave.find(tile);
        let pixels = job.pixels::<2>(n, start);
        for panel in job.panels {
            let at = panel.packed * job.rows + tile * panel.width;
            spread_tile!(
                job,
                panel,
                at,
                pixels,
                [PairOutputGradient, 2, SIDE],
                [PairOutputGradient, 2, SIDE]
            );
        }
    }
}

/// # Safety
/// The points hold this wave's tiles, and no other task writes the same results.
#[inline(always)]
unsafe fn gather_body<S: Simd>(job: &Gather, tiles: Range<usize>) {
    let [height, width] = job.wave.grid.output;
    for tile in tiles {
        let (n, [i, j], short) = job.wave.find(tile);
        let limits = [STEP.min(height - i), STEP.min(width - j)];
        let start = ((n * height + i) * width + j) * job.depth;
        let row = tile * job.row;
        each_vector::<S>(
            job.depth,
            // SAFETY: handed on to the caller.
            |k| unsafe { gather_vector::<S>(job, [row + k, start + k, k], limits, short) },
            // SAFETY: as above.
            |k| unsafe { gather_vector::<Portable>(job, [row + k, start + k, k], limits, short) },
        );
    }
}

/// # Safety
/// As for [`gather_body`].
#[inline(always)]
unsafe fn gather_vector<S: Simd>(
    job: &Gather,
    [from, to, k]: [usize; 3],
    [rows, columns]: [usize; 2],
    short: [bool; 2],
) {
    let pitch = job.wave.grid.output[1] * job.depth;
    // SAFETY: handed on to the caller; a bias has a value for each of the K channels.
    unsafe {
        let points = job.points.as_ptr().add(from);
        let out = job.planes.pointer().add(to);
        let bias = job.bias.map(|bias| S::load(bias.as_ptr().add(k)));
        // By these transforms of columns and of rows.
        macro_rules! vector {
            ([$d:ident, $rows:expr, $to_rows:expr], [$a:ident, $columns:expr, $to_columns:expr]) => {
                plane::<
                    S,
                    transform::$d,
                    transform::$a,
                    { $rows },
                    { $to_rows },
                    { $columns },
                    { $to_columns },
                >(
                    |i, j| {
                        let [i, j] = [point($rows == SHORT, i), point($columns == SHORT, j)];
                        S::load(points.add((i * SIDE + j) * job.stride))
                    },
                    |i, j, v| {
                        let v = bias.map_or(v, |bias| S::add(v, bias));
                        let v = if job.relu { S::relu(v) } else { v };
                        if i < rows && j < columns {
                            S::store(out.add(i * pitch + j * job.depth), v);
                        }
                    },
                )
            };
        }
        match short {
            [false, false] => vector!([Output, SIDE, STEP], [Output, SIDE, STEP]),
            [false, true] => vector!([Output, SIDE, STEP], [ShortOutput, SHORT, STEP - 1]),
            [true, false] => vector!([ShortOutput, SHORT, STEP - 1], [Output, SIDE, STEP]),
            [true, true] => vector!([ShortOutput, SHORT, STEP - 1], [ShortOutput, SHORT, STEP - 1]),
        }
    }
}

/// Plane number n, of so many values.
///
/// # Safety
/// No other task writes it.
#[inline(always)]
unsafe fn plane_of(planes: Disjoint, n: usize, values: usize) -> *mut f32 {
    // SAFETY: handed on to the caller.
    unsafe { planes.range(n * values, values) }.as_mut_ptr()
}

/// # Safety
/// The points hold this wave's tiles, and no other task writes the same planes.
#[inline(always)]
unsafe fn gather_pairs_body<S: Simd>(job: &GatherPairs, tiles: Range<usize>) {
    let [height, width] = job.wave.grid.output;
    for tile in tiles {
        let (n, at, _) = job.wave.find(tile);
        // SAFETY: plane n is one of the task's.
        let plane = unsafe { plane_of(job.planes, n - job.first, height * width * job.depth) };
        let from = tile * job.row;
        each_vector::<S>(
            job.depth,
            // SAFETY: handed on to the caller.
            |k| unsafe { gather_pair::<S>(job, [from + k, k], at, plane) },
            // SAFETY: as above.
            |k| unsafe { gather_pair::<Portable>(job, [from + k, k], at, plane) },
        );
    }
}

/// # Safety
/// As for [`gather_pairs_body`].
#[inline(always)]
unsafe fn gather_pair<S: Simd>(job: &GatherPairs, [from, k]: [usize; 2], at: [usize; 2], plane: *mut f32) {
    let [height, width] = job.wave.grid.output;
    // SAFETY: handed on to the caller; pixels inside the plane have all channels, and so has the bias.
    unsafe {
        let points = job.points.as_ptr().add(from);
        let bias = S::load(job.bias.as_ptr().add(k));
        square::<S, transform::PairOutput, SIDE, 2>(
            |i, j| S::load(points.add((i * SIDE + j) * job.stride)),
            |i, j, v| {
                let v = S::add(v, bias);
                let v = if job.relu { S::relu(v) } else { v };
                let [h, w] = [at[0] + i, at[1] + j];
                if h < height && w < width {
                    S::store(plane.add((h * width + w) * job.depth + k), v);
                }
            },
        );
    }
}

/// # Safety
/// The points hold this wave's tiles, and no other task writes the same planes.
#[inline(always)]
unsafe fn scatter_body<S: Simd>(job: &Scatter, tiles: Range<usize>) {
    let [height, width] = job.extent;
    for tile in tiles {
        let (n, start, _) = job.wave.find(tile);
        // SAFETY: plane n is one of the task's.
        let plane = unsafe { plane_of(job.planes, n - job.first, height * width * job.depth) };
        let at = [0, 1].map(|d| start[d].wrapping_add_signed(job.origin[d]));
        let from = tile * job.row;
        each_vector::<S>(
            job.depth,
            // SAFETY: handed on to the caller.
            |c| unsafe { scatter_vector::<S>(job, [from + c, c], at, plane) },
            // SAFETY: as above.
            |c| unsafe { scatter_vector::<Portable>(job, [from + c, c], at, plane) },
        );
    }
}

/// # Safety
/// As for [`scatter_body`].
#[inline(always)]
unsafe fn scatter_vector<S: Simd>(job: &Scatter, [from, c]: [usize; 2], at: [usize; 2], plane: *mut f32) {
    let [height, width] = job.extent;
    // SAFETY: handed on to the caller; pixels inside the plane have all channels.
    unsafe {
        let points = job.points.as_ptr().add(from);
        square::<S, transform::InputGradient, SIDE, SIDE>(
            |i, j| S::load(points.add((i * SIDE + j) * job.stride)),
            |i, j, v| {
                let [h, w] = [at[0].wrapping_add(i), at[1].wrapping_add(j)];
                if h < height && w < width {
                    let out = plane.add((h * width + w) * job.depth + c);
                    S::store(out, S::add(S::load(out), v));
                }
            },
        );
    }
}
