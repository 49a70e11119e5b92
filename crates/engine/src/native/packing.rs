//! Weights in the order in which tiles read them.

use super::tile::Panel;

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
            let from = rows.start + r * rows.row;
            out[..panel.columns].copy_from_slice(&w[from..from + panel.columns]);
            out[panel.columns..].fill(0.0);
        }
        return;
    }
    for first in (0..rows.count).step_by(SQUARE) {
        let last = rows.count.min(first + SQUARE);
        for j in 0..panel.width {
            for r in first..last {
                let inside = j < panel.columns;
                out[r * panel.width + j] =
                    if inside { w[rows.start + r * rows.row + j * rows.column] } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
