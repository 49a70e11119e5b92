//! The sizes of correlations, and how their windows lie in memory.

use super::padded::Padding;

/// Pixels that make a task worth its loads of w.
pub(super) const PIXELS: usize = 256;

/// Where results go: element (n, i, j, k) at offset + n image + i row + j column + k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strides {
    pub(crate) offset: usize,
    pub(crate) image: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// The sizes of a correlation, in the letters above.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) images: usize,
    /// H, W
    pub(crate) source: [usize; 2],
    /// C, the channels of a pixel in memory.
    pub(crate) depth: usize,
    /// The first channel that is read, and how many are.
    pub(crate) channels: [usize; 2],
    /// TH, TW
    pub(crate) taps: [usize; 2],
    /// s, t
    pub(crate) stride: [usize; 2],
    /// d, e
    pub(crate) dilation: [usize; 2],
    /// o, p
    pub(crate) origin: [isize; 2],
    /// I, J
    pub(crate) output: [usize; 2],
    /// K
    pub(crate) width: usize,
    pub(crate) target: Strides,
}

impl Geometry {
    /// x: `[M, C]`, w: `[C, K]`, y: `[M, K]`: as images of one row, so that tasks have something to divide.
    pub(crate) fn product([rows, depth, width]: [usize; 3]) -> Geometry {
        let run = rows.min(PIXELS);
        Geometry {
            images: rows.div_ceil(run.max(1)),
            source: [1, run],
            depth,
            channels: [0, depth],
            taps: [1, 1],
            stride: [1, 1],
            dilation: [1, 1],
            origin: [0, 0],
            output: [1, run],
            width,
            target: Strides { offset: 0, image: run * width, row: run * width, column: width },
        }
    }

    /// Whether results of an image follow each other, all channels of them, as those of a pooled convolution must.
    pub(super) fn is_images(&self) -> bool {
        self.output[0] > 1 && self.target.offset == 0 && self.target.column == self.width
    }

    pub(super) fn padding(&self) -> Padding {
        Padding {
            image: self.source,
            depth: self.depth,
            padded: Padding::extent(
                self.output,
                [0, 1].map(|d| (self.taps[d] - 1) * self.dilation[d] + 1),
                self.stride,
            ),
            origin: self.origin,
        }
    }

    /// Where runs of values that a pixel sees begin, in images whose rows are `pitch` apart, and the length of a run: a
    /// row of taps if nothing lies between them, else a tap. In the order of (a, b, c).
    pub(super) fn runs(&self, pitch: usize) -> (Vec<usize>, usize) {
        let [first, count] = self.channels;
        if count == self.depth && (self.dilation[1] == 1 || self.taps[1] == 1) {
            let starts = (0..self.taps[0]).map(|a| a * self.dilation[0] * pitch);
            return (starts.collect(), self.taps[1] * count);
        }
        let row = |a: usize| {
            (0..self.taps[1])
                .map(move |b| a * self.dilation[0] * pitch + b * self.dilation[1] * self.depth + first)
        };
        ((0..self.taps[0]).flat_map(row).collect(), count)
    }
}
