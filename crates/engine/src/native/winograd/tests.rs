//! The fast convolutions against plain sums in f64, over awkward sizes, on every instruction set and several threads.

use super::{Fast, FastGradWeight};
use crate::native::context::Context;
use crate::native::correlate::{Epilogue, Geometry, Strides};
use crate::native::pool::Pool;
use crate::native::{Isa, Kernels};
use sooner_base::{Purpose, Seed};
use std::num::NonZeroUsize;

/// A convolution of images of this extent, padded by so many pixels on each side.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    images: usize,
    extent: [usize; 2],
    pad: [usize; 2],
    channels: usize,
    filters: usize,
}

impl Sizes {
    fn output(&self) -> [usize; 2] {
        [0, 1].map(|d| self.extent[d] + 2 * self.pad[d] - 2)
    }

    fn x(&self) -> usize {
        self.images * self.extent[0] * self.extent[1] * self.channels
    }

    fn y(&self) -> usize {
        self.images * self.output()[0] * self.output()[1] * self.filters
    }

    /// As the forward pass sees it, or as the gradient by the input does.
    fn geometry(&self, turned: bool) -> Geometry {
        let (source, output) =
            if turned { (self.output(), self.extent) } else { (self.extent, self.output()) };
        let (depth, width) =
            if turned { (self.filters, self.channels) } else { (self.channels, self.filters) };
        let origin = self.pad.map(|pad| if turned { pad as isize - 2 } else { -(pad as isize) });
        Geometry {
            images: self.images,
            source,
            depth,
            channels: [0, depth],
            taps: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            origin,
            output,
            width,
            target: Strides {
                offset: 0,
                image: output[0] * output[1] * width,
                row: output[1] * width,
                column: width,
            },
        }
    }

    /// Calls `visit` with the places in x, w and y of every product.
    fn each(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let ([height, width], [rows, columns]) = (self.extent, self.output());
        for n in 0..self.images {
            for i in 0..rows {
                for j in 0..columns {
                    for tap in 0..9 {
                        let h = (i + tap / 3).wrapping_sub(self.pad[0]);
                        let w = (j + tap % 3).wrapping_sub(self.pad[1]);
                        if h >= height || w >= width {
                            continue;
                        }
                        let x = ((n * height + h) * width + w) * self.channels;
                        let y = ((n * rows + i) * columns + j) * self.filters;
                        for c in 0..self.channels {
                            for k in 0..self.filters {
                                visit(x + c, (tap * self.channels + c) * self.filters + k, y + k);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn normal(count: usize, salt: u64) -> Vec<f32> {
    let mut rng = Seed(8).key(Purpose::Study, salt).at(0, 0, 0);
    (0..count).map(|_| rng.normal() as f32).collect()
}

/// Root mean square of the differences, over that of the expected values.
fn error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let off: f64 = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
    (off / expected.iter().map(|v| v * v).sum::<f64>().max(1e-30)).sqrt()
}

/// y with bias and ReLU, dx and dw, from memory full of NaN.
fn run(sizes: Sizes, isa: Isa, threads: usize, [x, w, dy, bias]: [&[f32]; 4]) -> [Vec<f32>; 3] {
    let pool = Pool::new(NonZeroUsize::new(threads).expect("not zero"));
    let cx = &mut Context::new(&pool, isa, &mut []);
    let mut results = [sizes.y(), sizes.x(), w.len()].map(|len| vec![f32::NAN; len]);
    let [y, dx, dw] = &mut results;
    let forward = Fast::new(sizes.geometry(false), false, isa);
    let epilogue = Epilogue { bias: Some(bias), relu: true };
    forward.run(cx, [x, w], epilogue, y, &mut vec![f32::NAN; forward.workspace()]);
    let back = Fast::new(sizes.geometry(true), true, isa);
    back.run(cx, [dy, w], Epilogue::default(), dx, &mut vec![f32::NAN; back.workspace()]);
    let weight = FastGradWeight::new(sizes.geometry(false), isa);
    weight.run(cx, [x, dy], dw, &mut vec![f32::NAN; weight.workspace()]);
    results
}

/// The errors of y, dx and dw, the largest of all instruction sets.
fn check(sizes: Sizes) -> [f64; 3] {
    let weights = 9 * sizes.channels * sizes.filters;
    let (x, w, dy) = (normal(sizes.x(), 1), normal(weights, 2), normal(sizes.y(), 3));
    let bias = normal(sizes.filters, 4);
    let mut y: Vec<f64> = bias.iter().cycle().take(sizes.y()).map(|v| f64::from(*v)).collect();
    let (mut dx, mut dw) = (vec![0f64; sizes.x()], vec![0f64; weights]);
    sizes.each(|from, tap, to| {
        y[to] += f64::from(x[from]) * f64::from(w[tap]);
        dx[from] += f64::from(dy[to]) * f64::from(w[tap]);
        dw[tap] += f64::from(dy[to]) * f64::from(x[from]);
    });
    y.iter_mut().for_each(|v| *v = v.max(0.0));
    let mut worst = [0f64; 3];
    for kernels in Kernels::available() {
        let isa = kernels.resolve().expect("it is available");
        let one = run(sizes, isa, 1, [&x, &w, &dy, &bias]);
        for (worst, off) in
            worst.iter_mut().zip([error(&one[0], &y), error(&one[1], &dx), error(&one[2], &dw)])
        {
            assert!(off <= 1e-5, "{sizes:?} is off by {off} with {kernels:?}");
            *worst = worst.max(off);
        }
        for threads in [2, 3] {
            let same = run(sizes, isa, threads, [&x, &w, &dy, &bias]) == one;
            assert!(same, "{sizes:?}: other bits on {threads} threads with {kernels:?}");
        }
    }
    worst
}

#[test]
fn awkward_sizes() {
    let extents = [[1, 1], [2, 5], [3, 3], [4, 4], [7, 6], [9, 13], [15, 15], [31, 3]];
    let channels = [[4, 4], [24, 20], [12, 68], [68, 12], [4, 132]];
    for (number, extent) in extents.into_iter().enumerate() {
        for (other, [channels, filters]) in channels.into_iter().enumerate() {
            let images = [1, 2, 3][(number + other) % 3];
            let pad = [[1, 1], [2, 1], [0, 2], [2, 2]][(number + 3 * other) % 4];
            let sizes = Sizes { images, extent, pad, channels, filters };
            if extent.iter().zip(pad).all(|(extent, pad)| extent + 2 * pad >= 3) {
                check(sizes);
            }
        }
    }
}

/// More than one wave, blocks of channels and several panels; and what the error is: of the direct sums it would be about
/// 2e-7.
#[test]
fn errors_are_as_stated() {
    let wide = Sizes { images: 3, extent: [8, 8], pad: [1, 1], channels: 200, filters: 136 };
    let long = Sizes { images: 14, extent: [16, 15], pad: [1, 1], channels: 48, filters: 52 };
    for sizes in [wide, long] {
        let found = check(sizes);
        assert!(found.iter().all(|off| *off < 4e-6), "{sizes:?}: {found:?}");
    }
}
