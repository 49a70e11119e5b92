//! Sums over the rows of `[R, C]` matrices. Rows are cut into slices that depend on the shape alone, each summed by
//! one task; slices are then added in pairs of pairs, so the bits do not depend on threads.

use super::context::Context;
use super::simd::{Isa, multiversion};

/// Values of a matrix that one task of an elementwise kernel works on (64 KiB).
pub(crate) const PART: usize = 16 * 1024;
/// Columns, or channels, that are worked on at a time in registers.
pub(crate) const LANES: usize = 16;
/// Most slices that are summed apart.
const SLICES: usize = 64;

/// The first values, as many as there are; zeros for the rest. An array, so that the compiler knows its length.
#[inline(always)]
pub(crate) fn load(from: &[f32]) -> [f32; LANES] {
    match from.first_chunk() {
        Some(whole) => *whole,
        None => {
            let mut part = [0.0; LANES];
            part[..from.len()].copy_from_slice(from);
            part
        }
    }
}

/// Writes as many values as there is room for.
#[inline(always)]
pub(crate) fn store(values: [f32; LANES], to: &mut [f32]) {
    match to.first_chunk_mut() {
        Some(whole) => *whole = values,
        None => to.copy_from_slice(&values[..to.len()]),
    }
}

/// Rows that one task works on, for kernels whose tasks write only what they read.
pub(crate) fn rows_per_part(columns: usize) -> usize {
    (PART / columns.max(1)).max(1)
}

/// How the rows of a matrix are cut for a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(crate) count: usize,
    /// Rows of each slice but the last, which may have fewer.
    pub(crate) rows: usize,
}

impl Slices {
    pub(crate) fn of(rows: usize, columns: usize) -> Slices {
        let each = rows_per_part(columns).max(rows.div_ceil(SLICES));
        Slices { count: rows.div_ceil(each), rows: each }
    }

    /// Values of workspace that a sum of this many values a column takes.
    pub(crate) fn workspace(self, values: usize) -> usize {
        self.count * values
    }
}

/// Calls `sum` for every slice, with its number and the `values` of workspace that it must fill, then adds the slices
/// up into the first one's, which is returned. `None` if there are no rows.
pub(crate) fn sum_slices<'w>(
    cx: &Context,
    slices: Slices,
    values: usize,
    workspace: &'w mut [f32],
    sum: &(dyn Fn(usize, &mut [f32]) + Sync),
) -> Option<&'w [f32]> {
    let workspace = &mut workspace[..slices.workspace(values)];
    if workspace.is_empty() {
        return None;
    }
    cx.pool.parts(workspace, values, &|task, part| sum(task.index, part));
    let mut apart = values;
    while apart < workspace.len() {
        add_pairs(cx.isa, apart, values, workspace);
        apart *= 2;
    }
    Some(&workspace[..values])
}

/// x: `[R, C]` -> `[C]`: sums over rows. The workspace holds what [`Slices::workspace`] says.
pub(crate) fn column_sums(cx: &Context, x: &[f32], out: &mut [f32], workspace: &mut [f32]) {
    let columns = out.len();
    let slices = Slices::of(x.len().checked_div(columns).unwrap_or(0), columns);
    let length = slices.rows * columns;
    let sums = sum_slices(cx, slices, columns, workspace, &|slice, sums| {
        let start = slice * length;
        sums.fill(0.0);
        add_rows_to(cx.isa, &x[start..x.len().min(start + length)], sums);
    });
    match sums {
        Some(sums) => out.copy_from_slice(sums),
        None => out.fill(0.0),
    }
}

/// Adds every row of x: `[R, C]` to sums: `[C]`, blocks of rows first among themselves so that rounding stays small.
pub(crate) fn add_columns(isa: Isa, x: &[f32], sums: &mut [f32]) {
    add_rows_to(isa, x, sums);
}

multiversion! {
    fn add_rows_to(x: &[f32], sums: &mut [f32]) {
        const BLOCK: usize = 32;
        let columns = sums.len();
        let whole = columns - columns % LANES;
        // Blocks of rows: no sum of the slice is longer than rows / BLOCK + BLOCK additions.
        for block in x.chunks(BLOCK * columns) {
            for c in (0..whole).step_by(LANES) {
                let mut sum = [0f32; LANES];
                for row in block.chunks_exact(columns) {
                    let row: &[f32; LANES] = row[c..].first_chunk().expect("whole lanes are left");
                    for i in 0..LANES {
                        sum[i] += row[i];
                    }
                }
                for i in 0..LANES {
                    sums[c + i] += sum[i];
                }
            }
            for c in whole..columns {
                sums[c] += block.chunks_exact(columns).map(|row| row[c]).sum::<f32>();
            }
        }
    }

    fn add_pairs(apart: usize, values: usize, sums: &mut [f32]) {
        for pair in sums.chunks_mut(2 * apart) {
            if pair.len() > apart {
                let (to, from) = pair.split_at_mut(apart);
                for (to, from) in to[..values].iter_mut().zip(from) {
                    *to += *from;
                }
            }
        }
    }
}

/// The sum of all values, in an order that depends on their number alone. The workspace holds
/// [`total_workspace`] values.
pub(crate) fn total(cx: &Context, x: &[f32], workspace: &mut [f32]) -> f32 {
    let workspace = &mut workspace[..total_workspace(x.len())];
    cx.pool.parts(workspace, 1, &|task, sum| {
        let start = task.index * PART;
        part_sum(cx.isa, &x[start..x.len().min(start + PART)], &mut sum[0]);
    });
    workspace.iter().map(|v| f64::from(*v)).sum::<f64>() as f32
}

/// Values of workspace that [`total`] takes for this many values.
pub(crate) fn total_workspace(count: usize) -> usize {
    count.div_ceil(PART)
}

multiversion! {
    fn part_sum(x: &[f32], sum: &mut f32) {
        const LANES: usize = 64;
        let mut lanes = [0f32; LANES];
        let mut rows = x.chunks_exact(LANES);
        for row in &mut rows {
            for (lane, v) in lanes.iter_mut().zip(row) {
                *lane += v;
            }
        }
        for (lane, v) in lanes.iter_mut().zip(rows.remainder()) {
            *lane += v;
        }
        let mut count = LANES;
        while count > 1 {
            count /= 2;
            for i in 0..count {
                lanes[i] += lanes[i + count];
            }
        }
        *sum = lanes[0];
    }
}
