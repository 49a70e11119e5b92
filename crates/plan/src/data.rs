//! The data section: which set, where it lies, how it is split.

use serde::{Deserialize, Serialize};
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
    /// Ten classes of 32x32 colour drawings, made by code from the plan's own seed of the data.
    Shapes,
    /// MNIST's four IDX files, plain or gzipped.
    Mnist,
    /// Fashion-MNIST's four IDX files, plain or gzipped.
    FashionMnist,
    /// The binary version of CIFAR-10: five training files and one test file.
    Cifar10,
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
    /// Use only the first so many examples of the training split; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<usize>,
    /// Examples held out for validation: the last so many of the authors' training files. 0 trains on everything.
    /// Of sets drawn by code, simply how many.
    pub validation: usize,
    /// Of sets drawn by code, how many test examples there are; of others, use only the first so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<usize>,
}
