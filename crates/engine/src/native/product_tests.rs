//! Matrix products of large batches, which are packed and kept in other ways than small ones, against exact sums of whole
//! numbers, by every kernel choice, on memory full of NaN.

use super::context::Context;
use super::correlate::{Correlation, Epilogue};
use super::geometry::Geometry;
use super::packing::WeightRows;
use super::simd::{Isa, Kernels};
use super::tile::{Reading, wide};
use super::weight_gradient::{Gradient, WeightGradient};
use super::{Pool, long_sums::LongSums};
use std::num::NonZeroUsize;

fn numbers(count: usize, salt: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 13 + salt) % 11) as f32 - 5.0).collect()
}

/// Runs with scratch of NaN for each of these many threads.
fn run(isa: Isa, threads: usize, scratch: usize, work: &mut dyn FnMut(&mut Context)) {
    let pool = Pool::new(NonZeroUsize::new(threads).expect("not zero"));
    let mut memory = vec![f32::NAN; scratch * threads];
    work(&mut Context::new(&pool, isa, &mut memory));
}

#[test]
fn rows_of_large_batches() {
    for kernels in Kernels::available() {
        let isa = kernels.resolve().expect("it is available");
        let full = wide(isa, Reading::Rows) * isa.lanes();
        // Twelve panels and part of one; sixteen groups of rows, the last cut short; one block of products or several, and
        // none at all.
        for [rows, depth, width] in [
            [4093, 10, 12 * full + 5],
            [4093, 563, 12 * full + 5],
            [3841, 600, 12 * full],
            [4093, 0, 12 * full + 1],
            [600, 1024, 3],
        ] {
            let (x, w, b) = (numbers(rows * depth, 1), numbers(depth * width, 2), numbers(width, 3));
            let weights = WeightRows { start: 0, count: depth, row: width, column: 1 };
            let plan = Correlation::new(Geometry::product([rows, depth, width]), vec![weights], rows, isa);
            let mut results = Vec::new();
            for threads in [1, 3] {
                let mut y = vec![f32::NAN; rows * width];
                let mut workspace = vec![f32::NAN; plan.workspace()];
                run(isa, threads, plan.scratch(), &mut |cx| {
                    let epilogue = Epilogue { bias: Some(&b), relu: true };
                    plan.run(cx, [&x, &w], epilogue, &mut y, &mut workspace);
                });
                results.push(y);
            }
            assert!(results[0] == results[1], "threads change {rows} {depth} {width} of {isa:?}");
            for n in (0..rows).step_by(89).chain(rows - 7..rows) {
                let mut sums = b.clone();
                for k in 0..depth {
                    for (sum, w) in sums.iter_mut().zip(&w[k * width..]) {
                        *sum += x[n * depth + k] * w;
                    }
                }
                sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
                assert!(
                    results[0][n * width..][..width] == sums,
                    "{isa:?}: row {n} of {rows} {depth} {width}"
                );
            }
        }
    }
}

#[test]
fn long_sums_of_every_size() {
    for kernels in Kernels::available() {
        let isa = kernels.resolve().expect("it is available");
        for [rows, inputs, outputs] in
            [[192, 64, 8], [193, 131, 300], [515, 67, 256], [1031, 70, 257], [256, 1030, 131], [700, 99, 10]]
        {
            let geometry = Geometry::product([rows, inputs, outputs]);
            assert!(LongSums::new(&geometry, rows, isa).is_some());
            let plan = WeightGradient::new(geometry, rows, isa);
            assert_eq!(plan.workspace(), 0);
            let (x, dy) = (numbers(rows * inputs, 4), numbers(rows * outputs, 5));
            let mut expected = vec![0f32; inputs * outputs];
            for (x, dy) in x.chunks_exact(inputs).zip(dy.chunks_exact(outputs)) {
                for (x, sums) in x.iter().zip(expected.chunks_exact_mut(outputs)) {
                    sums.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += x * dy);
                }
            }
            for threads in [1, 2, 5] {
                let mut dw = vec![f32::NAN; inputs * outputs];
                run(isa, threads, plan.scratch(), &mut |cx| {
                    plan.run(cx, (&x, Gradient::Plain(&dy)), &mut dw, &mut [])
                });
                assert!(dw == expected, "{isa:?}: {rows} {inputs} {outputs} on {threads} threads");
            }
        }
    }
}

/// Sums too short or too long, or of a matrix too small, are made otherwise, and so are those of convolutions.
#[test]
fn sums_that_are_not_long() {
    let isa = Isa::widest();
    for [rows, inputs, outputs] in [[191, 64, 64], [16385, 64, 64], [1000, 63, 64], [1000, 64, 7]] {
        assert_eq!(LongSums::new(&Geometry::product([rows, inputs, outputs]), rows, isa), None);
    }
    let product = Geometry::product([512, 64, 64]);
    let strided = Geometry { stride: [1, 2], ..product.clone() };
    let part = Geometry { channels: [0, 32], ..product };
    for geometry in [strided, part] {
        assert_eq!(LongSums::new(&geometry, 512, isa), None);
    }
}
