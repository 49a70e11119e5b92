//! Examples in memory: pixels as bytes, shared by whoever reads them.

use crate::{Notice, OwnSource, PipelineError, Source};
use sooner_base::StageStats;
use sooner_plan::{DataFacts, Split};
use std::sync::Arc;

/// What a data set is, beside its examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetInfo {
    /// The set's name, such as `cifar10`.
    pub name: String,
    /// Which part of the set.
    pub split: Split,
    /// Height, width and channels of every image.
    pub shape: [usize; 3],
    /// What each class is called, in the order of the labels.
    pub classes: Vec<String>,
}

/// One split of a data set: in memory, or a source that is read example by example while training goes on.
#[derive(Debug, Clone)]
pub struct Dataset {
    info: DatasetInfo,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Memory { pixels: Vec<u8>, labels: Vec<u32> },
    Streamed(Arc<dyn Source>),
}

impl PartialEq for Dataset {
    /// Equal examples in memory; of sources, the same one.
    fn eq(&self, other: &Dataset) -> bool {
        self.info == other.info
            && match (&self.content, &other.content) {
                (Content::Memory { pixels, labels }, Content::Memory { pixels: p, labels: l }) => {
                    labels == l && pixels == p
                }
                (Content::Streamed(a), Content::Streamed(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
    }
}

impl Eq for Dataset {}

impl Dataset {
    /// A data set of arrays in memory. `pixels` is row-major [N, H, W, C] and `labels` has N classes, from 0.
    /// An error if the lengths disagree or a label is no class.
    pub fn new(info: DatasetInfo, pixels: Vec<u8>, labels: Vec<u32>) -> Result<Dataset, PipelineError> {
        let [h, w, c] = info.shape;
        let wrong = |expected: String, found: String| PipelineError::Arrays {
            name: info.name.clone(),
            expected,
            found,
        };
        let image = h.checked_mul(w).and_then(|hw| hw.checked_mul(c)).filter(|&size| size > 0);
        let Some(image) = image else {
            return Err(wrong("images of at least one pixel".into(), format!("[{h}, {w}, {c}]")));
        };
        if Some(pixels.len()) != labels.len().checked_mul(image) {
            let expected = format!("{} images of {image} bytes ([{h}, {w}, {c}])", labels.len());
            return Err(wrong(expected, format!("{} bytes of pixels", pixels.len())));
        }
        if let Some(i) = labels.iter().position(|&label| label as usize >= info.classes.len()) {
            let expected = format!("labels below {} classes", info.classes.len());
            return Err(wrong(expected, format!("label {} of example {i}", labels[i])));
        }
        Ok(Dataset { info, content: Content::Memory { pixels, labels } })
    }

    /// A data set that is read from its source whenever a pipeline needs an example afresh.
    pub fn streamed(source: Arc<dyn Source>) -> Dataset {
        Dataset { info: source.info().clone(), content: Content::Streamed(source) }
    }

    /// Where examples are read from; none for those in memory.
    pub fn source(&self) -> Option<&Arc<dyn Source>> {
        match &self.content {
            Content::Memory { .. } => None,
            Content::Streamed(source) => Some(source),
        }
    }

    /// Name, split, shape and classes.
    pub fn info(&self) -> &DatasetInfo {
        &self.info
    }

    /// Height, width and channels of every image; height and width are 0 where images have sizes of their own.
    pub fn shape(&self) -> [usize; 3] {
        self.info.shape
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.info.classes.len()
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Memory { labels, .. } => labels.len(),
            Content::Streamed(source) => source.len(),
        }
    }

    /// Whether there are no examples, as in a validation split of 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pixels of one example in memory, row-major [H, W, C]. Panics if there is no such example.
    pub fn image(&self, index: usize) -> &[u8] {
        let [h, w, c] = self.info.shape;
        &self.pixels()[index * h * w * c..][..h * w * c]
    }

    /// The class of each example in memory; nothing of a source.
    pub fn labels(&self) -> &[u32] {
        match &self.content {
            Content::Memory { labels, .. } => labels,
            Content::Streamed(_) => &[],
        }
    }

    /// The pixels of all examples in memory, row-major [N, H, W, C]; nothing of a source.
    pub fn pixels(&self) -> &[u8] {
        match &self.content {
            Content::Memory { pixels, .. } => pixels,
            Content::Streamed(_) => &[],
        }
    }
}

/// The splits of a data set, and what it took to get them into memory.
#[derive(Debug, Clone)]
pub struct Splits {
    /// What updates are computed on.
    pub train: Arc<Dataset>,
    /// Held out of the authors' training files; may have no examples.
    pub val: Arc<Dataset>,
    /// The authors' test files.
    pub test: Arc<Dataset>,
    /// Reading files; nothing for sets drawn by code.
    pub read: StageStats,
    /// Unpacking and rearranging what was read, or drawing it.
    pub decode: StageStats,
    /// What a person should know of the user's own files.
    pub notices: Vec<Notice>,
    /// The user's own files behind these splits, which count what was odd as they decode; nothing of other sets.
    pub sources: Vec<OwnSource>,
}

impl Splits {
    /// The data set of one split.
    pub fn get(&self, split: Split) -> &Arc<Dataset> {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
            Split::Test => &self.test,
        }
    }

    /// What a plan is checked and resolved against.
    pub fn facts(&self) -> DataFacts {
        DataFacts {
            train_examples: self.train.len(),
            val_examples: self.val.len(),
            test_examples: self.test.len(),
            image: self.train.shape(),
            classes: self.train.classes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(shape: [usize; 3], classes: usize) -> DatasetInfo {
        let classes = (0..classes).map(|c| format!("class {c}")).collect();
        DatasetInfo { name: "made".into(), split: Split::Train, shape, classes }
    }

    fn check(shape: [usize; 3], pixels: usize, labels: &[u32], expect: &str) {
        let got = match Dataset::new(info(shape, 3), vec![0; pixels], labels.to_vec()) {
            Ok(data) => format!("{} examples", data.len()),
            Err(error) => {
                let complaint = error.complaint();
                format!("expected {}, found {}", complaint.expected, complaint.found)
            }
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn arrays_must_agree() {
        check([2, 1, 3], 12, &[0, 2], "2 examples");
        check([2, 1, 3], 0, &[], "0 examples");
        let bytes = "expected 2 images of 6 bytes ([2, 1, 3]), found 11 bytes of pixels";
        check([2, 1, 3], 11, &[0, 2], bytes);
        let label = "expected labels below 3 classes, found label 3 of example 1";
        check([2, 1, 3], 12, &[0, 3], label);
        check([2, 0, 3], 0, &[], "expected images of at least one pixel, found [2, 0, 3]");
        let huge = "expected images of at least one pixel, found [18446744073709551615, 2, 1]";
        check([usize::MAX, 2, 1], 0, &[], huge);
    }
}
