use super::*;

fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

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
