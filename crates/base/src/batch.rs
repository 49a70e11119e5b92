//! What the pipeline hands to a consumer.

use crate::Shape;
use std::collections::HashSet;

/// Where an example came from; together with the seed it decides every random choice made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The example's index in its source, from 0.
    pub index: u64,
    /// Which use of the example this is, from 0 (the fresh one).
    pub echo: u32,
}

/// The second label of an example that was mixed with another: the first counts 1 - `weight`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// The other example's class.
    pub label: u32,
    /// Its share of the label, from 0 to 1.
    pub weight: f32,
}

/// A batch of examples, ready for an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Features of all examples, row-major, `shape[0]` examples.
    pub features: Vec<f32>,
    /// `[N, H, W, C]` for images.
    pub shape: Shape,
    /// Class of each example, N of them.
    pub labels: Vec<u32>,
    /// What each example was mixed with: N of them, or none where nothing was mixed.
    pub mixes: Vec<Mix>,
    /// Origin of each example, N of them.
    pub origins: Vec<Origin>,
    /// How many of the examples are used for the first time since they were read; the others are repeats.
    pub fresh: usize,
}

impl Batch {
    /// A batch of no examples of this shape, which has a first extent of 0.
    pub fn empty(shape: Shape) -> Batch {
        let (features, labels) = (Vec::new(), Vec::new());
        Batch { features, shape, labels, mixes: Vec::new(), origins: Vec::new(), fresh: 0 }
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether the batch has no examples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Examples that show something which an earlier example of this batch shows too: other uses of the same one.
    pub fn duplicates(&self) -> usize {
        let mut seen = HashSet::with_capacity(self.origins.len());
        self.origins.iter().filter(|origin| !seen.insert(origin.index)).count()
    }

    /// Writes labels as distributions over so many classes, row-major [N, `classes`]; of examples that were not mixed
    /// all of it is on one class. Panics if a label is no class.
    pub fn write_distributions(&self, classes: usize, into: &mut Vec<f32>) {
        into.clear();
        into.resize(self.len() * classes, 0.0);
        for (i, (row, &label)) in into.chunks_exact_mut(classes).zip(&self.labels).enumerate() {
            let mix = self.mixes.get(i).copied().unwrap_or(Mix { label, weight: 0.0 });
            row[label as usize] += 1.0 - mix.weight;
            row[mix.label as usize] += mix.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(indices: &[u64]) -> Batch {
        let origins = indices.iter().map(|&index| Origin { epoch: 0, index, echo: 0 }).collect();
        let labels = indices.iter().map(|&index| index as u32).collect();
        Batch { labels, origins, ..Batch::empty(Shape::from([0, 1, 1, 1])) }
    }

    #[test]
    fn duplicates_are_counted_beyond_the_first() {
        let count = |indices: &[u64]| batch(indices).duplicates();
        assert_eq!((count(&[]), count(&[1, 2, 3]), count(&[1, 2, 1, 1, 2])), (0, 0, 3));
    }

    #[test]
    fn labels_as_distributions() {
        let mut out = vec![9.0];
        let mut batch = batch(&[2, 0]);
        batch.write_distributions(3, &mut out);
        assert_eq!(out, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        batch.mixes = vec![Mix { label: 1, weight: 0.25 }, Mix { label: 0, weight: 0.5 }];
        batch.write_distributions(3, &mut out);
        assert_eq!(out, [0.0, 0.25, 0.75, 1.0, 0.0, 0.0]);
    }
}
