//! The data section: which set, where it lies, how it is split.

use crate::pipeline::text_or_number;
use crate::words::bytes_of;
use crate::{ImagesPlan, PlanError, ShardsPlan};
use serde::{Deserialize, Serialize};
use sooner_base::Bytes;
use std::fmt;

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// What updates are computed on.
    Train,
    /// Held out of the authors' training files to choose and stop by.
    Val,
    /// The authors' test files.
    Test,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Train => "train",
            Split::Val => "val",
            Split::Test => "test",
        })
    }
}

/// The formats that examples are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// Ten classes of 32x32 colour drawings, made by code, the same for every plan and seed.
    Shapes,
    /// MNIST's four IDX files, plain or gzipped.
    Mnist,
    /// Fashion-MNIST's four IDX files, plain or gzipped.
    FashionMnist,
    /// The binary version of CIFAR-10: five training files and one test file.
    Cifar10,
    /// A folder of JPEG and PNG files: one folder a class, below `train/` and, where there are, `val/` and `test/`;
    /// or one folder a class and nothing above.
    ImageFolder,
    /// Tar shards whose members with one key are one example, plain or compressed, in a folder or at http addresses.
    Webdataset,
}

/// Which data set, where, and how it is split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPlan {
    /// The format and the set.
    pub kind: DataKind,
    /// The folder of the authors' files; none for sets drawn by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many classes there are, of kinds whose files do not say; found in the data if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// Bytes a second that reading is held to: a number, or text such as "8MiB"; as fast as it goes if none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "text_or_number_if_any")]
    pub rate: Option<String>,
    /// Use only the first so many examples of the training split; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<usize>,
    /// Examples held out for validation: the last so many of the authors' training files. 0 trains on everything.
    /// Of sets drawn by code, simply how many.
    pub validation: usize,
    /// Of sets drawn by code, how many test examples there are; of others, use only the first so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<usize>,
    /// How images of their own sizes are decoded; only of kinds that hold such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesPlan>,
    /// How tar shards are read; only of kind `webdataset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardsPlan>,
}

fn text_or_number_if_any<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text_or_number(from).map(Some)
}

/// What is known of a data set once the plan has split it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFacts {
    /// Examples that updates are computed on.
    pub train_examples: usize,
    /// Examples held out.
    pub val_examples: usize,
    /// Examples for testing.
    pub test_examples: usize,
    /// Height, width and channels of one example.
    pub image: [usize; 3],
    /// How many classes there are.
    pub classes: usize,
}

impl DataFacts {
    /// How many examples a split has.
    pub fn examples_of(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train_examples,
            Split::Val => self.val_examples,
            Split::Test => self.test_examples,
        }
    }
}

impl DataKind {
    /// Height, width and channels of one example; height and width are 0 where images have sizes of their own.
    pub fn image(self) -> [usize; 3] {
        match self {
            DataKind::ImageFolder | DataKind::Webdataset => [0, 0, 3],
            DataKind::Shapes | DataKind::Cifar10 => [32, 32, 3],
            DataKind::Mnist | DataKind::FashionMnist => [28, 28, 1],
        }
    }

    /// How many classes there are; 0 where only the files say.
    pub fn classes(self) -> usize {
        match self {
            DataKind::ImageFolder | DataKind::Webdataset => 0,
            DataKind::Shapes | DataKind::Mnist | DataKind::FashionMnist | DataKind::Cifar10 => 10,
        }
    }

    /// Whether examples are read from the authors' files, so that the plan needs their folder.
    pub fn has_files(self) -> bool {
        self != DataKind::Shapes
    }

    /// Whether images have sizes of their own, and the files alone say how many there are.
    pub fn has_own_sizes(self) -> bool {
        matches!(self, DataKind::ImageFolder | DataKind::Webdataset)
    }

    /// Examples in the authors' training and test files; none for sets drawn by code, which have as many as asked,
    /// and for the user's own files.
    pub fn file_examples(self) -> Option<(usize, usize)> {
        match self {
            DataKind::Shapes | DataKind::ImageFolder | DataKind::Webdataset => None,
            DataKind::Mnist | DataKind::FashionMnist => Some((60_000, 10_000)),
            DataKind::Cifar10 => Some((50_000, 10_000)),
        }
    }
}

impl DataPlan {
    /// Training and test examples of sets drawn by code, unless the plan says otherwise.
    pub const DRAWN: (usize, usize) = (10_000, 2000);

    /// How many classes are assumed before the user's own files are read.
    const ASSUMED_CLASSES: usize = 10;

    /// How images of their own sizes are decoded, defaults where the plan says nothing.
    pub fn images(&self) -> ImagesPlan {
        self.images.clone().unwrap_or_default()
    }

    /// How tar shards are read, defaults where the plan says nothing.
    pub fn shards(&self) -> ShardsPlan {
        self.shards.clone().unwrap_or_default()
    }

    /// Bytes a second that reading is held to, read.
    pub fn rate_bytes(&self) -> Result<Option<Bytes>, PlanError> {
        self.rate.as_deref().map(|rate| bytes_of("data.rate", rate)).transpose()
    }

    /// The facts as the plan and the authors' file sizes imply them, without reading a file. Of the user's own files
    /// they are a guess that lets everything else of a plan be checked.
    pub fn expected_facts(&self) -> DataFacts {
        if self.kind.has_own_sizes() {
            let images = self.images();
            // 0 where images keep their own sizes until a stage changes them.
            let side = images.size.unwrap_or(0);
            return DataFacts {
                train_examples: self.train.unwrap_or(Self::DRAWN.0),
                val_examples: self.validation.max(1),
                test_examples: self.test.unwrap_or(Self::DRAWN.1),
                image: [side, side, images.channels],
                classes: self.classes.unwrap_or(Self::ASSUMED_CLASSES),
            };
        }
        if let Some(files) = self.kind.file_examples() {
            return self.facts_of(files);
        }
        DataFacts {
            train_examples: self.train.unwrap_or(Self::DRAWN.0),
            val_examples: self.validation,
            test_examples: self.test.unwrap_or(Self::DRAWN.1),
            image: self.kind.image(),
            classes: self.kind.classes(),
        }
    }

    /// The facts where training and test files hold so many examples, which need not be as many as the authors' do:
    /// validation is the end of the training files, and the limits take the first of what is left.
    pub fn facts_of(&self, (train_files, test_files): (usize, usize)) -> DataFacts {
        let val = self.validation.min(train_files);
        let train = train_files - val;
        DataFacts {
            train_examples: self.train.map_or(train, |most| train.min(most)),
            val_examples: val,
            test_examples: self.test.map_or(test_files, |most| test_files.min(most)),
            image: self.kind.image(),
            classes: self.kind.classes(),
        }
    }

    /// The folder of the authors' files, which must be given; none for sets drawn by code.
    pub fn folder(&self) -> Result<Option<&str>, PlanError> {
        if self.kind.has_files() && self.path.is_none() {
            let kind = crate::words::word(&self.kind);
            let hint = match self.kind.file_examples() {
                Some(_) => format!("give it with --data DIR; `sooner data get {kind} DIR` fetches the files"),
                None => "give it with --data DIR".to_string(),
            };
            return Err(PlanError::impossible(
                "no folder to read the data from",
                "data.path",
                format_args!("the folder of the {kind} files"),
                "no path",
                &hint,
            ));
        }
        Ok(self.path.as_deref())
    }
}
