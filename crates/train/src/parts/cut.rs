//! Where a batch is cut.

use std::ops::Range;

/// Cuts so many examples, in order, into at most so many parts that differ by at most one group of examples; no part is
/// empty. The last group may be smaller than the others.
pub(crate) fn cut(examples: usize, parts: usize, group: usize) -> Vec<Range<usize>> {
    let groups = examples.div_ceil(group);
    let (each, more) = (groups / parts, groups % parts);
    let mut ranges = Vec::with_capacity(parts);
    let mut from = 0;
    for part in 0..parts {
        let size = each + usize::from(part < more);
        let to = examples.min(from + size * group);
        if to > from {
            ranges.push(from..to);
        }
        from = to;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn parts_are_alike_and_cover_the_batch() {
        assert_eq!(cut(8, 4, 1), [0..2, 2..4, 4..6, 6..8]);
        assert_eq!(cut(7, 3, 1), [0..3, 3..5, 5..7]);
        assert_eq!(cut(2, 4, 1), [0..1, 1..2]);
        for examples in 1..40 {
            for parts in 1..9 {
                for group in 1..6 {
                    let ranges = cut(examples, parts, group);
                    assert!(ranges.len() <= parts && !ranges.is_empty());
                    assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, examples));
                    assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
                    assert!(
                        ranges.iter().all(|range| range.start.is_multiple_of(group) && !range.is_empty())
                    );
                    let sizes = ranges.iter().map(|range| range.len().div_ceil(group));
                    assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
                }
            }
        }
    }
}
