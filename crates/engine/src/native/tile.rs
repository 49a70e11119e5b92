//! The inner kernel of every convolution and matrix product: a tile of the result is kept in vector registers while
//! one run of products is added to it.
//!
//! C: M rows of V vectors (L lanes each), `C[i, :] += sum over s, k of A[s, i, k] B[s, k, :]`.
//! - B is packed: rows of V L consecutive values, one row for each (s, k) in order.
//! - A is read where it lies, through one offset for each segment s. Within a segment either rows are `stride` apart
//!   and k is contiguous ([`Reading::Rows`]: images and filters), or k is `stride` apart and rows are contiguous
//!   ([`Reading::Columns`]: gradients of filters, where k runs over pixels).
//!
//! That suffices for a convolution without an im2col copy: in a padded image `[H, W, C]` the values that one output
//! pixel sees in one row of the image are contiguous.

#![allow(unsafe_code)]

use super::memory::LINE;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::simd::{Isa, Portable, Simd, prefetch};

/// Most vectors in a row of a tile.
pub(crate) const MAX_VECTORS: usize = 4;
/// Most values in a row of a tile, on any instruction set.
pub(crate) const MAX_WIDTH: usize = 64;
/// Most rows of a tile, on any instruction set.
pub(crate) const MAX_ROWS: usize = 16;

/// How A is laid out within a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// `A[i, k]` at `i stride + k`.
    Rows,
    /// `A[i, k]` at `i + k stride`.
    Columns,
}

/// What a tile starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// From zero.
    Zero,
    /// From what C holds.
    Add,
    /// From sums that lie elsewhere, a row of the tile after the other without gaps.
    Sums(*const f32),
    /// From one value a column, given for as many columns as the tile is wide.
    Bias(*const f32),
}

/// The operands of one tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    pub(crate) a: *const f32,
    pub(crate) stride: usize,
    /// Where each segment of A begins.
    pub(crate) segments: &'a [usize],
    /// Products in a segment.
    pub(crate) length: usize,
    pub(crate) b: *const f32,
    pub(crate) c: *mut f32,
    /// Distance between rows of C.
    pub(crate) c_stride: usize,
    pub(crate) start: Start,
    /// Whether the result is max(C, 0), NaN staying NaN.
    pub(crate) relu: bool,
    /// What is asked for on the way; only where A is read by columns.
    pub(crate) soon: Soon<'a>,
}

/// Parts of matrices, as wide as C, that will be wanted soon: asked for a few rows at a time, with each segment, since more
/// than a core can wait for at once would hold up the products.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Soon<'a> {
    /// Where they begin; nothing depends on it but time.
    pub(crate) places: &'a [*const f32],
    /// Distance between rows.
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    /// How many rows at a time.
    each: usize,
}

impl<'a> Soon<'a> {
    /// So many rows, `stride` apart, during a tile of so many segments.
    pub(crate) fn new(places: &'a [*const f32], [stride, rows]: [usize; 2], segments: usize) -> Soon<'a> {
        Soon { places, stride, rows, each: rows.div_ceil(segments) }
    }

    /// Asks for rows from this one on; returns the next.
    #[inline(always)]
    fn ask(&self, first: usize, width: usize) -> usize {
        let end = self.rows.min(first + self.each);
        for place in self.places {
            for row in first..end {
                for line in (0..width).step_by(LINE) {
                    prefetch(place.wrapping_add(row * self.stride + line));
                }
            }
        }
        end
    }
}

/// Computes one tile.
///
/// # Safety
/// The processor has the instruction set that the function came from; all of A, B and C that the description above
/// names is valid, C is not aliased.
pub(crate) type TileFn = unsafe fn(&Tile);

/// Most rows of a tile of this many vectors: as many accumulators as the registers hold, beside a row of B and a value
/// of A.
pub(crate) fn max_rows(isa: Isa, vectors: usize) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => [16, 12, 8, 6][vectors - 1],
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => [12, 6, 4, 3][vectors - 1],
        Isa::Portable if cfg!(target_arch = "aarch64") => [16, 12, 8, 6][vectors - 1],
        Isa::Portable => [12, 6, 4, 3][vectors - 1],
    }
}

/// The number of vectors whose tiles come nearest to the machine's peak where a matrix is wide enough for them.
pub(crate) fn wide(isa: Isa, reading: Reading) -> usize {
    match (isa, reading) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _) => 4,
        _ => 2,
    }
}

/// Products of a row, read where it lies, that are added in one go. Rows of a tile are `stride` apart, and there are
/// more of them than registers for addresses: an address is made anew each time, an instruction beside those that
/// count, unless it serves several products. Bounded by the registers that hold as many rows of B.
const fn steps(lanes: usize, vectors: usize) -> usize {
    match (lanes, vectors) {
        (16, 1) => 4,
        (16, 2 | 3) => 2,
        (8, 1) => 2,
        _ => 1,
    }
}

/// Adds so often STEPS products of each row, from these places of A and B on; returns the places behind them.
///
/// # Safety
/// As for [`TileFn`].
#[inline(always)]
unsafe fn add<S: Simd, const M: usize, const V: usize, const STEPS: usize, const COLUMNS: bool>(
    acc: &mut [[S::V; V]; M],
    [mut a, mut b]: [*const f32; 2],
    stride: usize,
    times: usize,
) -> [*const f32; 2] {
    // SAFETY: handed on to the caller.
    unsafe {
        for _ in 0..times {
            let mut rows = [[S::splat(0.0); V]; STEPS];
            for s in 0..STEPS {
                for j in 0..V {
                    rows[s][j] = S::load(b.add((s * V + j) * S::LANES));
                }
            }
            for i in 0..M {
                let from = a.add(if COLUMNS { i } else { i * stride });
                for s in 0..STEPS {
                    let value = S::splat(*from.add(s));
                    for j in 0..V {
                        acc[i][j] = S::mul_add(value, rows[s][j], acc[i][j]);
                    }
                }
            }
            a = a.add(if COLUMNS { stride } else { STEPS });
            b = b.add(STEPS * V * S::LANES);
        }
    }
    [a, b]
}

#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const V: usize, const COLUMNS: bool>(t: &Tile) {
    // SAFETY: the caller promises valid operands for every address that the loops below form.
    unsafe {
        let mut acc = [[S::splat(0.0); V]; M];
        match t.start {
            Start::Zero => {}
            Start::Add => {
                for i in 0..M {
                    for j in 0..V {
                        acc[i][j] = S::load(t.c.add(i * t.c_stride + j * S::LANES));
                    }
                }
            }
            Start::Sums(sums) => {
                for i in 0..M {
                    for j in 0..V {
                        acc[i][j] = S::load(sums.add((i * V + j) * S::LANES));
                    }
                }
            }
            Start::Bias(bias) => {
                for j in 0..V {
                    let b = S::load(bias.add(j * S::LANES));
                    for i in 0..M {
                        acc[i][j] = b;
                    }
                }
            }
        }
        let mut b = t.b;
        let stride = t.stride;
        let mut asked = 0;
        for &segment in t.segments {
            if COLUMNS && asked < t.soon.rows {
                asked = t.soon.ask(asked, V * S::LANES);
            }
            let mut at = [t.a.add(segment), b];
            let mut rest = t.length;
            if !COLUMNS && steps(S::LANES, V) == 4 {
                at = add::<S, M, V, 4, COLUMNS>(&mut acc, at, stride, rest / 4);
                rest %= 4;
            } else if !COLUMNS && steps(S::LANES, V) == 2 {
                at = add::<S, M, V, 2, COLUMNS>(&mut acc, at, stride, rest / 2);
                rest %= 2;
            }
            [_, b] = add::<S, M, V, 1, COLUMNS>(&mut acc, at, stride, rest);
        }
        if t.relu {
            for i in 0..M {
                for j in 0..V {
                    acc[i][j] = S::relu(acc[i][j]);
                }
            }
        }
        for i in 0..M {
            for j in 0..V {
                S::store(t.c.add(i * t.c_stride + j * S::LANES), acc[i][j]);
            }
        }
    }
}

macro_rules! entry {
    ($name:ident, $simd:ty, $($feature:literal)?) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $name<const M: usize, const V: usize, const COLUMNS: bool>(t: &Tile) {
            // SAFETY: handed on to the caller.
            unsafe { tile::<$simd, M, V, COLUMNS>(t) }
        }
    };
}
entry!(portable, Portable,);
#[cfg(target_arch = "x86_64")]
entry!(avx2, Avx2, "avx2,fma");
#[cfg(target_arch = "x86_64")]
entry!(avx512, Avx512, "avx512f,avx512vl,avx2,fma");

/// A table of entries by vectors and rows, as far as `max_rows` of the instruction set needs.
macro_rules! table {
    ($name:ident, $columns:literal) => {
        [
            &[
                $name::<1, 1, $columns>,
                $name::<2, 1, $columns>,
                $name::<3, 1, $columns>,
                $name::<4, 1, $columns>,
                $name::<5, 1, $columns>,
                $name::<6, 1, $columns>,
                $name::<7, 1, $columns>,
                $name::<8, 1, $columns>,
                $name::<9, 1, $columns>,
                $name::<10, 1, $columns>,
                $name::<11, 1, $columns>,
                $name::<12, 1, $columns>,
                $name::<13, 1, $columns>,
                $name::<14, 1, $columns>,
                $name::<15, 1, $columns>,
                $name::<16, 1, $columns>,
            ],
            &[
                $name::<1, 2, $columns>,
                $name::<2, 2, $columns>,
                $name::<3, 2, $columns>,
                $name::<4, 2, $columns>,
                $name::<5, 2, $columns>,
                $name::<6, 2, $columns>,
                $name::<7, 2, $columns>,
                $name::<8, 2, $columns>,
                $name::<9, 2, $columns>,
                $name::<10, 2, $columns>,
                $name::<11, 2, $columns>,
                $name::<12, 2, $columns>,
            ],
            &[
                $name::<1, 3, $columns>,
                $name::<2, 3, $columns>,
                $name::<3, 3, $columns>,
                $name::<4, 3, $columns>,
                $name::<5, 3, $columns>,
                $name::<6, 3, $columns>,
                $name::<7, 3, $columns>,
                $name::<8, 3, $columns>,
            ],
            &[
                $name::<1, 4, $columns>,
                $name::<2, 4, $columns>,
                $name::<3, 4, $columns>,
                $name::<4, 4, $columns>,
                $name::<5, 4, $columns>,
                $name::<6, 4, $columns>,
            ],
        ]
    };
}
type Table = [&'static [TileFn]; MAX_VECTORS];
static PORTABLE: [Table; 2] = [table!(portable, false), table!(portable, true)];
#[cfg(target_arch = "x86_64")]
static AVX2: [Table; 2] = [table!(avx2, false), table!(avx2, true)];
#[cfg(target_arch = "x86_64")]
static AVX512: [Table; 2] = [table!(avx512, false), table!(avx512, true)];

/// The kernels for tiles of this many vectors, by rows less one.
pub(crate) fn kernels(isa: Isa, reading: Reading, vectors: usize) -> &'static [TileFn] {
    let tables = match isa {
        Isa::Portable => &PORTABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &AVX512,
    };
    let table = &tables[usize::from(reading == Reading::Columns)];
    &table[vectors - 1][..max_rows(isa, vectors)]
}

/// A block of columns that is computed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panel {
    /// The first column.
    pub(crate) column: usize,
    /// Columns that exist; the rest of `width` is padding.
    pub(crate) columns: usize,
    /// Vectors in a row.
    pub(crate) vectors: usize,
    /// Values in a row: vectors times lanes.
    pub(crate) width: usize,
    /// Columns of the packed matrix before this panel, padding included.
    pub(crate) packed: usize,
}

/// Calls a kernel on a tile whose panel may be wider than what exists of C.
///
/// # Safety
/// As for [`TileFn`], except that C has only the panel's columns.
pub(crate) unsafe fn call(kernel: TileFn, tile: &Tile, panel: &Panel, rows: usize) {
    if panel.columns == panel.width {
        // SAFETY: handed on to the caller.
        return unsafe { kernel(tile) };
    }
    let mut whole = [0f32; MAX_ROWS * MAX_WIDTH];
    for i in (0..rows).filter(|_| tile.start == Start::Add) {
        // SAFETY: row i of C has the panel's columns, which are fewer than the row of `whole`.
        let c = unsafe { std::slice::from_raw_parts(tile.c.add(i * tile.c_stride), panel.columns) };
        whole[i * panel.width..][..panel.columns].copy_from_slice(c);
    }
    // SAFETY: `whole` has room for the largest tile; the rest is handed on to the caller.
    unsafe { kernel(&Tile { c: whole.as_mut_ptr(), c_stride: panel.width, ..*tile }) };
    for i in 0..rows {
        // SAFETY: as above.
        let c = unsafe { std::slice::from_raw_parts_mut(tile.c.add(i * tile.c_stride), panel.columns) };
        c.copy_from_slice(&whole[i * panel.width..][..panel.columns]);
    }
}

/// Splits columns into panels of `vectors` vectors and one panel for what remains.
pub(crate) fn panels(isa: Isa, columns: usize, vectors: usize) -> Vec<Panel> {
    let lanes = isa.lanes();
    let full = vectors * lanes;
    let mut panels = Vec::new();
    let mut packed = 0;
    for column in (0..columns).step_by(full) {
        let rest = full.min(columns - column);
        let vectors = rest.div_ceil(lanes);
        panels.push(Panel { column, columns: rest, vectors, width: vectors * lanes, packed });
        packed += vectors * lanes;
    }
    panels
}

/// Columns of the packed matrix, padding included.
pub(crate) fn packed_columns(panels: &[Panel]) -> usize {
    panels.last().map_or(0, |p| p.packed + p.width)
}

/// Splits `length` into the fewest parts of at most `most`, as equal as can be; `visit` gets start and length.
pub(crate) fn split(length: usize, most: usize, mut visit: impl FnMut(usize, usize)) {
    let parts = length.div_ceil(most);
    let mut start = 0;
    for part in 0..parts {
        let end = (part + 1) * length / parts;
        visit(start, end - start);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Kernels;

    /// Small whole numbers, so that every order of summation gives the same sum.
    fn numbers(count: usize, salt: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + salt) % 11) as f32 - 5.0).collect()
    }

    fn check(isa: Isa, reading: Reading, [rows, vectors, segments, length]: [usize; 4]) {
        let width = vectors * isa.lanes();
        let stride = 23;
        let offsets: Vec<usize> = (0..segments).map(|s| (s * 5) % 17).collect();
        let a = numbers(20 + (rows.max(length) + 1) * (stride + 1), 1);
        let b = numbers(segments * length * width, 2);
        let bias = numbers(width, 3);
        let c_stride = width + 3;
        let before = numbers(rows * c_stride, 4);
        let sums = numbers(rows * width, 5);
        for start in [Start::Zero, Start::Add, Start::Sums(sums.as_ptr()), Start::Bias(bias.as_ptr())] {
            for relu in [false, true] {
                let mut expected = before.clone();
                for i in 0..rows {
                    for j in 0..width {
                        let mut sum = match start {
                            Start::Zero => 0.0,
                            Start::Add => before[i * c_stride + j],
                            Start::Sums(_) => sums[i * width + j],
                            Start::Bias(_) => bias[j],
                        };
                        for (s, offset) in offsets.iter().enumerate() {
                            for k in 0..length {
                                let at =
                                    if reading == Reading::Rows { i * stride + k } else { i + k * stride };
                                sum += a[offset + at] * b[(s * length + k) * width + j];
                            }
                        }
                        expected[i * c_stride + j] = if relu { sum.max(0.0) } else { sum };
                    }
                }
                let mut c = before.clone();
                let t = Tile {
                    a: a.as_ptr(),
                    stride,
                    segments: &offsets,
                    length,
                    b: b.as_ptr(),
                    c: c.as_mut_ptr(),
                    c_stride,
                    start,
                    relu,
                    soon: Soon::default(),
                };
                // SAFETY: the buffers above hold all that the tile names, and the instruction set exists.
                unsafe { kernels(isa, reading, vectors)[rows - 1](&t) };
                assert_eq!(c, expected, "{isa:?} {reading:?} {rows} {vectors} {segments} {length}");
            }
        }
    }

    #[test]
    fn every_kernel_computes_its_tile() {
        for kernels in Kernels::available() {
            let isa = kernels.resolve().expect("it is available");
            for reading in [Reading::Rows, Reading::Columns] {
                for vectors in 1..=MAX_VECTORS {
                    for rows in 1..=max_rows(isa, vectors) {
                        for [segments, length] in [[0, 3], [1, 0], [1, 1], [3, 9], [2, 64]] {
                            check(isa, reading, [rows, vectors, segments, length]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn panels_cover_the_columns_once() {
        let isa = Isa::Portable;
        for columns in [0, 1, 3, 4, 5, 16, 17, 63, 64, 100] {
            for vectors in 1..=MAX_VECTORS {
                let panels = panels(isa, columns, vectors);
                let (mut column, mut packed) = (0, 0);
                for p in &panels {
                    assert_eq!((p.column, p.packed), (column, packed));
                    assert!(p.columns > 0 && p.columns <= p.width && p.width - p.columns < isa.lanes());
                    column += p.columns;
                    packed += p.width;
                }
                assert_eq!((column, packed), (columns, packed_columns(&panels)));
            }
        }
    }

    #[test]
    fn splits_are_even() {
        for length in 0..50 {
            for most in 1..9 {
                let mut parts = vec![];
                split(length, most, |start, len| parts.push((start, len)));
                assert_eq!(parts.iter().map(|p| p.1).sum::<usize>(), length);
                assert!(
                    parts.iter().all(|p| p.1 <= most && p.1 + 1 >= most.min(length / parts.len().max(1)))
                );
                assert!(parts.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0));
            }
        }
    }
}
