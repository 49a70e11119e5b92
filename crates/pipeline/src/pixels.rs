//! From bytes to features in one write a pixel. Every geometric stage (crop, flip) moves whole rows and columns, so
//! any chain of them is two maps from output to source, one for rows and one for columns; normalisation is a table
//! of 256 features for each channel. Composing the maps costs a few tables of H or W numbers an example, and the
//! pixels are then touched once, however many stages there are.

/// Marks an output row or column that lies outside the image: black, that is byte 0.
const BLACK: i32 = -1;

/// Which source row (or column) each output row (or column) shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Axis {
    from: Vec<i32>,
    spare: Vec<i32>,
}

impl Axis {
    /// Every row shows itself.
    pub(crate) fn reset(&mut self, len: usize) {
        self.from.clear();
        self.from.extend(0..len as i32);
    }

    /// The number of output rows.
    pub(crate) fn len(&self) -> usize {
        self.from.len()
    }

    /// Keeps `size` rows of the axis padded by `pad` on both sides, from row `start` of the padded axis on.
    pub(crate) fn cut(&mut self, start: usize, size: usize, pad: usize, reflect: bool) {
        let len = self.from.len() as i32;
        let first = start as i32 - pad as i32;
        self.spare.clear();
        let from = &self.from;
        self.spare.extend((first..first + size as i32).map(|at| match at {
            at if (0..len).contains(&at) => from[at as usize],
            _ if !reflect => BLACK,
            at if at < 0 => from[-at as usize],
            at => from[(2 * (len - 1) - at) as usize],
        }));
        std::mem::swap(&mut self.from, &mut self.spare);
    }

    /// Reverses the axis.
    pub(crate) fn mirror(&mut self) {
        self.from.reverse();
    }

    /// The runs of equal direction of this axis, in output order.
    fn runs(&self, out: &mut Vec<Run>) {
        out.clear();
        let from = &self.from;
        let mut i = 0;
        while i < from.len() {
            let run_of = |step: i32| {
                1 + from[i..].windows(2).take_while(|w| w[1] != BLACK && w[1] - w[0] == step).count()
            };
            let run = if from[i] == BLACK {
                Run::Black(from[i..].iter().take_while(|&&at| at == BLACK).count())
            } else {
                let (up, down) = (run_of(1), run_of(-1));
                let at = from[i] as usize;
                if up >= down { Run::Forward(at, up) } else { Run::Backward(at + 1 - down, down) }
            };
            i += run.len();
            out.push(run);
        }
    }
}

/// A piece of an output row whose source columns are neighbours: (first source column, columns).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Run {
    Forward(usize, usize),
    Backward(usize, usize),
    Black(usize),
}

impl Run {
    fn len(self) -> usize {
        match self {
            Run::Forward(_, len) | Run::Backward(_, len) | Run::Black(len) => len,
        }
    }
}

/// The feature of each byte, for each channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table(Vec<[f32; 256]>);

impl Table {
    /// (x / 255 - mean) / std, computed in f64 and rounded once.
    pub(crate) fn new(mean: &[f64], std: &[f64]) -> Table {
        let channel =
            |(&mean, &std): (&f64, &f64)| std::array::from_fn(|x| ((x as f64 / 255.0 - mean) / std) as f32);
        Table(mean.iter().zip(std).map(channel).collect())
    }

    /// The feature of black, for each channel.
    pub(crate) fn black(&self) -> Vec<f32> {
        self.0.iter().map(|features| features[0]).collect()
    }
}

/// Everything that writing one example needs beside its pixels; kept by each worker, so that nothing is allocated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placement {
    /// Rows of the output.
    pub(crate) rows: Axis,
    /// Columns of the output.
    pub(crate) cols: Axis,
    runs: Vec<Run>,
}

impl Placement {
    /// Writes one example. image: [H, W, C] bytes with W = `width`; out: [rows, cols, C].
    pub(crate) fn write(&mut self, image: &[u8], width: usize, table: &Table, out: &mut [f32]) {
        self.cols.runs(&mut self.runs);
        match &table.0[..] {
            [a] => self.write_channels(image, width, &[a], out),
            [a, b, c] => self.write_channels(image, width, &[a, b, c], out),
            many => self.write_any(image, width, many, out),
        }
    }

    /// With the number of channels known to the compiler, a pixel is C loads, C look-ups and C stores.
    fn write_channels<const C: usize>(
        &self,
        image: &[u8],
        width: usize,
        table: &[&[f32; 256]; C],
        out: &mut [f32],
    ) {
        let (image, _) = image.as_chunks::<C>();
        let (mut out, _) = out.as_chunks_mut::<C>();
        let look_up = |out: &mut [f32; C], pixel: &[u8; C]| {
            for c in 0..C {
                out[c] = table[c][pixel[c] as usize];
            }
        };
        for &row in &self.rows.from {
            let (row_out, rest) = out.split_at_mut(self.cols.from.len());
            out = rest;
            if row == BLACK {
                row_out.iter_mut().for_each(|out| look_up(out, &[0; C]));
                continue;
            }
            let row_in = &image[row as usize * width..][..width];
            let mut row_out = row_out;
            for &run in &self.runs {
                let (piece, rest) = row_out.split_at_mut(run.len());
                row_out = rest;
                match run {
                    Run::Forward(at, len) => {
                        piece
                            .iter_mut()
                            .zip(&row_in[at..at + len])
                            .for_each(|(out, pixel)| look_up(out, pixel));
                    }
                    Run::Backward(at, len) => {
                        let pixels = row_in[at..at + len].iter().rev();
                        piece.iter_mut().zip(pixels).for_each(|(out, pixel)| look_up(out, pixel));
                    }
                    Run::Black(_) => piece.iter_mut().for_each(|out| look_up(out, &[0; C])),
                }
            }
        }
    }

    /// Moves bytes about without looking them up. image: [H, W, C] with W = `width`; gives [rows, cols, C].
    pub(crate) fn copy(&self, image: &[u8], width: usize, channels: usize, out: &mut Vec<u8>) -> [usize; 3] {
        out.clear();
        for &row in &self.rows.from {
            for &col in &self.cols.from {
                if row == BLACK || col == BLACK {
                    out.resize(out.len() + channels, 0);
                } else {
                    let at = (row as usize * width + col as usize) * channels;
                    out.extend_from_slice(&image[at..at + channels]);
                }
            }
        }
        [self.rows.from.len(), self.cols.from.len(), channels]
    }

    fn write_any(&self, image: &[u8], width: usize, table: &[[f32; 256]], out: &mut [f32]) {
        let channels = table.len();
        let pixels = self.rows.from.iter().flat_map(|&row| self.cols.from.iter().map(move |&col| (row, col)));
        for (out, (row, col)) in out.chunks_exact_mut(channels).zip(pixels) {
            for c in 0..channels {
                let outside = row == BLACK || col == BLACK;
                let at = (row as usize).wrapping_mul(width).wrapping_add(col as usize);
                let byte = if outside { 0 } else { image[at * channels + c] };
                out[c] = table[c][byte as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(len: usize) -> Axis {
        let mut axis = Axis::default();
        axis.reset(len);
        axis
    }

    fn check_cut(len: usize, start: usize, size: usize, pad: usize, expect: [&[i32]; 2]) {
        for (reflect, expect) in [(false, expect[0]), (true, expect[1])] {
            let mut axis = axis(len);
            axis.cut(start, size, pad, reflect);
            assert_eq!(axis.from, expect, "len {len} start {start} size {size} pad {pad} reflect {reflect}");
        }
    }

    #[test]
    fn cutting_pads() {
        check_cut(3, 0, 3, 0, [&[0, 1, 2], &[0, 1, 2]]);
        check_cut(3, 0, 3, 1, [&[-1, 0, 1], &[1, 0, 1]]);
        check_cut(3, 2, 3, 1, [&[1, 2, -1], &[1, 2, 1]]);
        check_cut(3, 0, 7, 2, [&[-1, -1, 0, 1, 2, -1, -1], &[2, 1, 0, 1, 2, 1, 0]]);
        check_cut(4, 1, 2, 0, [&[1, 2], &[1, 2]]);
        check_cut(1, 0, 1, 0, [&[0], &[0]]);
    }

    fn check_runs(from: &[i32], expect: &[Run]) {
        let mut runs = Vec::new();
        Axis { from: from.to_vec(), spare: Vec::new() }.runs(&mut runs);
        assert_eq!(runs, expect);
    }

    #[test]
    fn runs_cover_the_axis() {
        use Run::{Backward, Black, Forward};
        check_runs(&[], &[]);
        check_runs(&[0], &[Forward(0, 1)]);
        check_runs(&[0, 1, 2], &[Forward(0, 3)]);
        check_runs(&[2, 1, 0], &[Backward(0, 3)]);
        check_runs(&[-1, -1, 0, 1, -1], &[Black(2), Forward(0, 2), Black(1)]);
        check_runs(&[2, 1, 0, 1, 2, 1, 0], &[Backward(0, 3), Forward(1, 2), Backward(0, 2)]);
        check_runs(&[1, 0, -1], &[Backward(0, 2), Black(1)]);
    }

    /// The naive twin: one pixel at a time through the maps.
    fn naive(placement: &Placement, image: &[u8], width: usize, table: &Table) -> Vec<f32> {
        let mut out = Vec::new();
        for &row in &placement.rows.from {
            for &col in &placement.cols.from {
                for (c, features) in table.0.iter().enumerate() {
                    let at = |row: i32, col: i32| (row as usize * width + col as usize) * table.0.len() + c;
                    let black = row == BLACK || col == BLACK;
                    out.push(features[if black { 0 } else { image[at(row, col)] as usize }]);
                }
            }
        }
        out
    }

    #[test]
    fn fast_paths_equal_the_naive_twin() {
        for channels in [1, 2, 3, 4] {
            for (h, w) in [(1, 1), (2, 3), (7, 5), (8, 8)] {
                let image: Vec<u8> = (0..h * w * channels).map(|i| (i * 37 % 251) as u8).collect();
                let mean: Vec<f64> = (0..channels).map(|c| 0.1 * c as f64).collect();
                let table = Table::new(&mean, &vec![0.25; channels]);
                for start in 0..3usize {
                    for (mirror, reflect) in [(false, false), (true, false), (false, true), (true, true)] {
                        let pad = 1.min(h - 1).min(w - 1);
                        let mut placement = Placement::default();
                        placement.rows.reset(h);
                        placement.cols.reset(w);
                        placement.rows.cut(start.min(2 * pad), h, pad, reflect);
                        if mirror {
                            placement.cols.mirror();
                        }
                        placement.cols.cut((2 - start).min(2 * pad), w, pad, reflect);
                        let mut out = vec![f32::NAN; h * w * channels];
                        placement.write(&image, w, &table, &mut out);
                        assert_eq!(out, naive(&placement, &image, w, &table));
                    }
                }
            }
        }
    }

    #[test]
    fn the_table_is_exact_at_both_ends() {
        let table = Table::new(&[0.5, 0.0], &[0.25, 1.0]);
        assert_eq!((table.0[0][0], table.0[0][255], table.0[1][255], table.0[1][0]), (-2.0, 2.0, 1.0, 0.0));
    }
}
