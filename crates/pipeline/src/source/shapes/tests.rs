use super::*;
use crate::testing::fnv;

#[test]
fn more_examples_and_threads_change_none() {
    for split in [Split::Train, Split::Val, Split::Test] {
        let few = draw(split, 37, 1);
        for (count, threads) in [(37, 0), (37, 2), (37, 64), (50, 3)] {
            let mut many = draw(split, count, threads);
            many.truncate(37, BYTES);
            assert!(many == few, "{split} {count} {threads}");
        }
    }
}

#[test]
fn splits_differ_and_no_two_drawings_are_equal() {
    let mut seen = std::collections::HashSet::new();
    for split in [Split::Train, Split::Val, Split::Test] {
        for image in draw(split, 200, 2).pixels.chunks_exact(BYTES) {
            assert!(seen.insert(fnv(image)));
        }
    }
}

#[test]
fn every_ten_have_every_class() {
    let labels = draw(Split::Train, 100, 1).labels;
    for ten in labels.chunks(10) {
        let mut sorted = ten.to_vec();
        sorted.sort();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
    assert_ne!(labels[..10], labels[10..20]);
}

#[test]
fn golden_drawings() {
    // May change only with a stated change of the data set: results on it are comparable only while this holds.
    let hashes: Vec<u64> = [Split::Train, Split::Val, Split::Test]
        .into_iter()
        .map(|split| {
            let Examples { pixels, labels } = draw(split, 100, 2);
            fnv(&pixels) ^ fnv(&labels.iter().map(|&label| label as u8).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(hashes, GOLDEN);
}
const GOLDEN: [u64; 3] = [12_412_031_076_769_400_114, 9_360_868_485_487_110_903, 3_312_591_558_493_183_663];

#[test]
fn brightness_tells_no_class() {
    // The mean and the spread of a drawing's pixels differ between classes by little next to what they differ by
    // within one.
    let Examples { pixels, labels } = draw(Split::Train, 2000, 2);
    for moment in 0..2 {
        let values: Vec<f64> = pixels
            .chunks_exact(BYTES)
            .map(|image| {
                let n = BYTES as f64;
                let mean = image.iter().map(|&b| f64::from(b)).sum::<f64>() / n;
                let var = image.iter().map(|&b| (f64::from(b) - mean).powi(2)).sum::<f64>() / n;
                [mean, var.sqrt()][moment]
            })
            .collect();
        let sd = sooner_base::sample_sd(&values).unwrap();
        let means: Vec<f64> = (0..10)
            .map(|class| {
                let of =
                    values.iter().zip(&labels).filter(|&(_, &label)| label == class).map(|(&value, _)| value);
                sooner_base::mean(&of.collect::<Vec<_>>()).unwrap()
            })
            .collect();
        let between = sooner_base::sample_sd(&means).unwrap();
        // Without any difference the means of 200 would spread by 0.07 sd.
        assert!(between < [0.15, 0.5][moment] * sd, "moment {moment}: {between} of {sd}");
    }
}
