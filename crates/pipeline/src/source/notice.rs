//! What a person should know about a data set that can be read all the same.

use std::fmt;

/// One such thing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A class without a file; it keeps its number.
    EmptyClass {
        /// Its name.
        class: String,
        /// Where files were looked for.
        place: String,
    },
    /// Files that are no images by their names, or that are hidden.
    Ignored {
        /// How many.
        files: u64,
        /// One of them.
        example: String,
    },
    /// A link to a folder that it lies in, not followed.
    Loop {
        /// The link.
        path: String,
    },
    /// A shard that ends too early, of which the whole examples were kept.
    Cut {
        /// The shard.
        path: String,
        /// Where it ends.
        offset: u64,
    },
    /// Second members of one name, which were passed over.
    Duplicates {
        /// How many.
        members: u64,
        /// One of them.
        example: String,
    },
    /// Files of a set that are another published set's, or have a published set's name and length and not its labels.
    OtherSet {
        /// The file of labels.
        path: String,
        /// What the plan says it is.
        expected: String,
        /// The set that has these labels, if one is known.
        found: Option<String>,
    },
    /// Examples of one class that follow each other for longer than any shuffle buffer is likely to mix.
    Runs {
        /// Examples of the longest run.
        longest: u64,
        /// Examples of the split.
        examples: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::EmptyClass { class, place } => write!(f, "class {class} has no examples in {place}"),
            Notice::Ignored { files, example } => write!(f, "{files} files are no images, such as {example}"),
            Notice::Loop { path } => write!(f, "{path} leads back to a folder that it lies in; not followed"),
            Notice::Cut { path, offset } => {
                write!(f, "{path} ends too early, at byte {offset}; its whole examples are kept")
            }
            Notice::Duplicates { members, example } => {
                write!(f, "{members} members have the name of another one, such as {example}")
            }
            Notice::OtherSet { path, expected, found: Some(found) } => {
                write!(
                    f,
                    "{path} is {found}'s, not {expected}'s: the images may be too; see data.kind and --data"
                )
            }
            Notice::OtherSet { path, expected, found: None } => write!(
                f,
                "{path} has as many labels as {expected}'s, but not the same: `sooner data check {expected} DIR` says more"
            ),
            Notice::Runs { longest, examples } => write!(
                f,
                "{longest} of {examples} examples of one class follow each other: shuffle the whole epoch, or pack the \
                 shards in shuffled order"
            ),
        }
    }
}
