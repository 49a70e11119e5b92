//! How the user's own files are read: the parts of the data section that only files with images of their own need.

use serde::{Deserialize, Serialize};

/// How images of their own sizes become arrays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagesPlan {
    /// Hold whole splits in memory: images are scaled until their shorter side is this, and the middle square is kept.
    /// Without it they are read and decoded while training, and a stage has to give them one size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// 3 for red, green and blue; 1 for grey. Files of the other form are converted.
    #[serde(default = "three")]
    pub channels: usize,
    /// What to do with a camera's note that the picture has to be turned. Images with such a note are counted.
    #[serde(default)]
    pub orientation: Orientation,
    /// What to do with a file that ends before its image does.
    #[serde(default)]
    pub truncated: Truncated,
    /// What to do with transparency.
    #[serde(default)]
    pub alpha: Alpha,
}

impl Default for ImagesPlan {
    fn default() -> ImagesPlan {
        ImagesPlan {
            size: None,
            channels: three(),
            orientation: Orientation::default(),
            truncated: Truncated::default(),
            alpha: Alpha::default(),
        }
    }
}

fn three() -> usize {
    3
}

/// What to do with a note that the picture has to be turned (the EXIF orientation).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    /// Take pixels as they are stored, as most training code does.
    #[default]
    Ignore,
    /// Turn and mirror them as the note says, as viewers do.
    Apply,
}

/// What to do with a file, or a shard, that ends too early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Truncated {
    /// It is an error.
    #[default]
    Fail,
    /// Keep what there is; counted.
    Keep,
}

/// What to do with transparency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alpha {
    /// Take the colours as they are stored, as most training code does.
    #[default]
    Drop,
    /// Lay the image on black.
    Black,
    /// Lay the image on white.
    White,
}

/// How the members of tar shards become examples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardsPlan {
    /// Where a member's name is cut into key and field.
    #[serde(default)]
    pub key: KeyRule,
    /// What to do with a shard that ends too early: `keep` leaves out the example that is not whole.
    #[serde(default)]
    pub truncated: Truncated,
    /// What to do where the members of one example do not follow each other.
    #[serde(default)]
    pub unsorted: Unsorted,
    /// What to do with a second member of the same name.
    #[serde(default)]
    pub duplicates: Duplicates,
}

/// Where a member's name is cut into key and field. The folder always belongs to the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyRule {
    /// At the first dot after the folder: `a/22.05.png` is the field `05.png` of `a/22`. WebDataset's own rule.
    #[default]
    FirstDot,
    /// At the last dot: `a/22.05.png` is the field `png` of `a/22.05`.
    LastDot,
}

/// What to do where the members of one example do not follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsorted {
    /// It is an error that names the key.
    #[default]
    Fail,
    /// Gather them from the whole shard, in the order of each key's first member.
    Gather,
}

/// What to do with a second member of the same name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// It is an error that names the member.
    #[default]
    Fail,
    /// Keep the first, and count the others.
    First,
    /// Keep the last, as unpacking would, and count the others.
    Last,
}
