//! The fast convolutions against plain sums in f64, over awkward sizes, on every instruction set and several threads.

use super::local::Local;
use super::local_weight::LocalGradWeight;
use super::{Fast, FastGradWeight};
use crate::native::context::Context;
use crate::native::correlate::Epilogue;
use crate::native::geometry::{Geometry, Strides};
use crate::native::pool::Pool;
use crate::native::weight_gradient::Gradient;
use crate::native::{Isa, Kernels};
use sooner_base::{Purpose, Seed};
use std::num::NonZeroUsize;

/// A convolution of images of this extent by windows of so many taps, padded by so many pixels on each side.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    taps: usize,
    images: usize,
    extent: [usize; 2],
    pad: [usize; 2],
    channels: usize,
    filters: usize,
}

impl Sizes {
    fn output(&self) -> [usize; 2] {
        [0, 1].map(|d| self.extent[d] + 2 * self.pad[d] + 1 - self.taps)
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
        let origin =
            self.pad.map(|pad| if turned { pad as isize + 1 - self.taps as isize } else { -(pad as isize) });
        Geometry {
            images: self.images,
            source,
            depth,
            channels: [0, depth],
            taps: [self.taps; 2],
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
                    for tap in 0..self.taps * self.taps {
                        let h = (i + tap / self.taps).wrapping_sub(self.pad[0]);
                        let w = (j + tap % self.taps).wrapping_sub(self.pad[1]);
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

/// The forward pass, the gradients by the input and by the weights; if `alone`, each thread by itself whatever the sizes.
fn plans(sizes: Sizes, isa: Isa, alone: bool) -> (Fast, Fast, FastGradWeight) {
    let [forward, turned] = [false, true].map(|turned| sizes.geometry(turned));
    if alone {
        let weight = FastGradWeight::Local(LocalGradWeight::new(forward.clone(), isa));
        let [forward, back] =
            [(forward, false), (turned, true)].map(|(g, turned)| Local::new(g, turned, isa));
        return (Fast::Local(forward), Fast::Local(back), weight);
    }
    let weight = FastGradWeight::new(forward.clone(), isa);
    (Fast::new(forward, false, isa), Fast::new(turned, true, isa), weight)
}

/// dx, dw and y with bias and ReLU, from memory full of NaN.
fn run(
    sizes: Sizes,
    (isa, threads, alone): (Isa, usize, bool),
    [x, w, dy, bias]: [&[f32]; 4],
) -> [Vec<f32>; 3] {
    let pool = Pool::new(NonZeroUsize::new(threads).expect("not zero"));
    let (forward, back, weight) = plans(sizes, isa, alone);
    let scratch = back.scratch().max(weight.scratch()).max(forward.scratch());
    let mut scratch = vec![f32::NAN; scratch * threads];
    let cx = &mut Context::new(&pool, isa, &mut scratch);
    let mut results = [sizes.x(), w.len(), sizes.y()].map(|len| vec![f32::NAN; len]);
    let [dx, dw, y] = &mut results;
    let epilogue = Epilogue { bias: Some(bias), relu: true };
    forward.run(cx, (Gradient::Plain(x), w), epilogue, y, &mut vec![f32::NAN; forward.workspace()]);
    back.run(cx, (Gradient::Plain(dy), w), Epilogue::default(), dx, &mut vec![f32::NAN; back.workspace()]);
    weight.run(cx, (x, Gradient::Plain(dy)), dw, &mut vec![f32::NAN; weight.workspace()]);
    results
}

/// The errors of dx, dw and y, the largest of all instruction sets.
fn check(sizes: Sizes) -> [f64; 3] {
    let weights = sizes.taps * sizes.taps * sizes.channels * sizes.filters;
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
    for (kernels, alone) in
        Kernels::available().into_iter().flat_map(|kernels| [(kernels, false), (kernels, true)])
    {
        let isa = kernels.resolve().expect("it is available");
        let one = run(sizes, (isa, 1, alone), [&x, &w, &dy, &bias]);
        for ((worst, found), expected) in worst.iter_mut().zip(&one).zip([&dx, &dw, &y]) {
            let off = error(found, expected);
            assert!(off <= 1e-5, "{sizes:?} is off by {off} with {kernels:?}, alone: {alone}");
            *worst = worst.max(off);
        }
        for threads in [2, 3] {
            let same = run(sizes, (isa, threads, alone), [&x, &w, &dy, &bias]) == one;
            assert!(same, "{sizes:?}: other bits on {threads} threads with {kernels:?}, alone: {alone}");
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
            for taps in [3, 5] {
                let sizes = Sizes { taps, images, extent, pad, channels, filters };
                if extent.iter().zip(pad).all(|(extent, pad)| extent + 2 * pad >= taps) {
                    check(sizes);
                }
            }
        }
    }
}

/// More than one wave, blocks of channels and several panels; and what the error is: of the direct sums it would be about
/// 2e-7.
#[test]
fn errors_are_as_stated() {
    let wide = Sizes { taps: 3, images: 3, extent: [8, 8], pad: [1, 1], channels: 200, filters: 136 };
    let long = Sizes { taps: 3, images: 14, extent: [16, 15], pad: [1, 1], channels: 48, filters: 52 };
    let windows = Sizes { taps: 5, images: 19, extent: [12, 12], pad: [0, 0], channels: 32, filters: 68 };
    let few = Sizes { taps: 3, images: 37, extent: [17, 16], pad: [1, 1], channels: 20, filters: 16 };
    for sizes in [wide, long, windows, few] {
        let found = check(sizes);
        assert!(found.iter().all(|off| *off < 4e-6), "{sizes:?}: {found:?}");
    }
}
