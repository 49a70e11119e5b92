//! Operands in the order in which tiles read them.

use super::tile::{Panel, split};

/// Rows of w in the order in which they are packed, by where they are found: `count` rows `row` apart, the columns of
/// a row `column` apart, from `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WeightRows {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// Copies rows `start..end` of w, whose rows are these parts after each other, for a panel; its columns that do not exist
/// are zeros.
pub(crate) fn pack_rows(
    weights: &[WeightRows],
    panel: &Panel,
    [start, end]: [usize; 2],
    (w, mut out): (&[f32], &mut [f32]),
) {
    let mut before = 0;
    for part in weights {
        let [first, last] = [start, end].map(|row| row.clamp(before, before + part.count) - before);
        let (now, later) = std::mem::take(&mut out).split_at_mut((last - first) * panel.width);
        let start = part.start + panel.column * part.column + first * part.row;
        pack_part(&WeightRows { start, count: last - first, ..*part }, panel, w, now);
        out = later;
        before += part.count;
    }
}

/// Copies the rows of a part of w for a panel, which begins with them.
fn pack_part(rows: &WeightRows, panel: &Panel, w: &[f32], out: &mut [f32]) {
    /// Rows and columns of a square that is transposed at a time, so that both sides stay in the cache.
    const SQUARE: usize = 16;
    if rows.column == 1 {
        for (r, out) in out.chunks_exact_mut(panel.width).enumerate() {
            copy_row(&w[rows.start + r * rows.row..], panel.columns, out);
        }
        return;
    }
    for first in (0..rows.count).step_by(SQUARE) {
        let last = rows.count.min(first + SQUARE);
        let out = &mut out[first * panel.width..last * panel.width];
        for j in 0..panel.columns {
            let from = w[rows.start + first * rows.row + j * rows.column..].iter().step_by(rows.row);
            let to = out[j..].iter_mut().step_by(panel.width);
            to.zip(from).for_each(|(to, from)| *to = *from);
        }
        if panel.columns < panel.width {
            out.chunks_exact_mut(panel.width).for_each(|out| out[panel.columns..].fill(0.0));
        }
    }
}

/// Copies a panel's columns of rows that are `stride` apart, the first of which begins with them; columns that do not exist
/// are zeros.
pub(crate) fn pack_panel(from: &[f32], stride: usize, panel: &Panel, out: &mut [f32]) {
    for (out, from) in out.chunks_exact_mut(panel.width).zip(from.chunks(stride)) {
        copy_row(from, panel.columns, out);
    }
}

/// Copies so many values; zeros after them.
fn copy_row(from: &[f32], columns: usize, out: &mut [f32]) {
    match (out.as_chunks_mut::<4>().0, from.as_chunks::<4>().0) {
        // Vectors have four lanes at least; a copy of variable length would be a call.
        (to, from) if columns < 4 * to.len() && from.len() >= to.len() => {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            out[columns..].iter_mut().for_each(|v| *v = 0.0);
        }
        _ => {
            out[..columns].copy_from_slice(&from[..columns]);
            out[columns..].fill(0.0);
        }
    }
}

/// A matrix in memory: its rows are `stride` apart, from `start`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) start: usize,
    pub(crate) stride: usize,
}

/// Calls a function of a number of rows that it is compiled for, up to the most of a tile.
macro_rules! sized {
    ($rows:expr, $call:ident $args:tt) => {
        sized!($rows, $call $args, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    ($rows:expr, $call:ident $args:tt, $($count:literal)*) => {
        match $rows {
            $($count => $call::<$count> $args,)*
            rows => unreachable!("tiles of {rows} rows"),
        }
    };
}

/// Copies rows of `depth` products for tiles of at most `most` rows: tile after tile, in each the products in order, in each
/// its rows. Where they lie a multiple of a page apart, more rows than the first-level cache has ways would push each other out.
pub(crate) fn pack_tiles(x: &Rows, [rows, depth]: [usize; 2], most: usize, out: &mut [f32]) {
    split(rows, most, |first, count| {
        let from = &x.values[x.start + first * x.stride..];
        sized!(count, transpose(from, x.stride, &mut out[first * depth..(first + count) * depth]))
    });
}

/// M rows, `stride` apart, as columns.
fn transpose<const M: usize>(from: &[f32], stride: usize, to: &mut [f32]) {
    /// Products at a time.
    const SIDE: usize = 16;
    let columns = to.as_chunks_mut::<M>().0;
    let depth = columns.len();
    let (blocks, rest) = columns.as_chunks_mut::<SIDE>();
    for (block, to) in blocks.iter_mut().enumerate() {
        for i in 0..M {
            let row: &[f32; SIDE] = from[i * stride + block * SIDE..].first_chunk().expect("rows are long");
            for k in 0..SIDE {
                to[k][i] = row[k];
            }
        }
    }
    let whole = depth - rest.len();
    for (k, to) in rest.iter_mut().enumerate() {
        for i in 0..M {
            to[i] = from[i * stride + whole + k];
        }
    }
}

/// Copies the columns of `depth` rows for tiles of at most `most` of the columns: as [`pack_tiles`] of the transposed matrix.
pub(crate) fn pack_columns(x: &Rows, [columns, depth]: [usize; 2], most: usize, out: &mut [f32]) {
    /// Rows that are read side by side: their parts of a line of the cache are used before they leave it.
    const SIDE: usize = 16;
    for k in (0..depth).step_by(SIDE) {
        let count = SIDE.min(depth - k);
        split(columns, most, |first, width| {
            let from = &x.values[x.start + k * x.stride + first..];
            let to = &mut out[first * depth + k * width..][..count * width];
            sized!(width, copy(from, x.stride, to))
        });
    }
}

/// M columns of rows that are `stride` apart.
fn copy<const M: usize>(from: &[f32], stride: usize, to: &mut [f32]) {
    for (to, from) in to.as_chunks_mut::<M>().0.iter_mut().zip(from.chunks(stride)) {
        to.copy_from_slice(&from[..M]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_rows_and_of_columns() {
        let values: Vec<f32> = (0..4000).map(|v| v as f32).collect();
        for [rows, depth] in [[1, 1], [5, 3], [6, 17], [12, 40], [23, 33], [31, 16]] {
            for most in [1, 3, 5, 6, 8, 16] {
                let by_rows = Rows { values: &values, start: 7, stride: depth + 2 };
                let by_columns = Rows { values: &values, start: 7, stride: rows + 2 };
                let mut out = [vec![f32::NAN; rows * depth], vec![f32::NAN; rows * depth]];
                pack_tiles(&by_rows, [rows, depth], most, &mut out[0]);
                pack_columns(&by_columns, [rows, depth], most, &mut out[1]);
                split(rows, most, |first, count| {
                    for k in 0..depth {
                        for i in 0..count {
                            let at = first * depth + k * count + i;
                            assert_eq!(out[0][at], values[7 + (first + i) * (depth + 2) + k]);
                            assert_eq!(out[1][at], values[7 + k * (rows + 2) + first + i]);
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn rows_of_several_parts() {
        let w: Vec<f32> = (0..60).map(|v| v as f32).collect();
        let weights = [
            WeightRows { start: 3, count: 4, row: 5, column: 1 },
            WeightRows { start: 1, count: 0, row: 1, column: 1 },
            WeightRows { start: 30, count: 5, row: 1, column: 7 },
        ];
        let panel = Panel { column: 1, columns: 3, vectors: 1, width: 4, packed: 0 };
        let at = |row: usize, column: usize| match row {
            0..4 => w[3 + 5 * row + column],
            _ => w[30 + (row - 4) + 7 * column],
        };
        for start in 0..=9 {
            for end in start..=9 {
                let mut out = vec![f32::NAN; (end - start) * 4];
                pack_rows(&weights, &panel, [start, end], (&w, &mut out));
                for (row, out) in (start..end).zip(out.chunks_exact(4)) {
                    assert_eq!(out, [at(row, 1), at(row, 2), at(row, 3), 0.0], "{start}..{end}, row {row}");
                }
            }
        }
    }
}
