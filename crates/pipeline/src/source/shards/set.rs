//! Which shards there are, and for which split.

use super::super::http::is_address;
use super::super::open;
use crate::PipelineError;
use sooner_plan::Split;
use std::fs;
use std::io::Read;
use std::path::Path;

const ENDINGS: [&str; 6] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd", ".tzst"];
/// The list of shards that `sooner data pack` writes, needed at addresses, where nothing can be listed.
pub(crate) const LIST: &str = "shards.txt";
/// The list of class names, one a line.
pub(crate) const CLASSES: &str = "classes.txt";
/// Most shards of one pattern.
const MOST: usize = 1_000_000;

/// The shards of a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardSet {
    shards: Vec<(Split, String)>,
    classes: Vec<String>,
}

impl ShardSet {
    /// Finds shards: in a folder (and in its folders train, val and test), at an address that has a list of them, or by
    /// a pattern such as `http://host/train-{000..012}.tar`. What a name begins with, or its folder, decides its split:
    /// `val` or `test`, and `train` otherwise. Sorted byte by byte.
    pub fn find(path: &str) -> Result<ShardSet, PipelineError> {
        let is_shard = |name: &str| ENDINGS.iter().any(|ending| name.ends_with(ending));
        let is_pattern = path.contains('{');
        let base = match is_pattern || is_shard(path) {
            true => path.rsplit_once('/').map_or(".", |(base, _)| base),
            false => path.trim_end_matches('/'),
        };
        let mut names = if is_pattern || is_shard(path) {
            expand(path)?
        } else if is_address(path) {
            let list = read_text(&format!("{base}/{LIST}"))?;
            let name = |line: &str| format!("{base}/{}", line.split('\t').next().unwrap_or_default());
            list.lines().filter(|line| !line.trim().is_empty()).map(name).collect()
        } else {
            in_folder(Path::new(path))?.into_iter().filter(|name| is_shard(name)).collect()
        };
        names.sort();
        if names.is_empty() {
            return Err(PipelineError::Missing {
                path: path.into(),
                expected: "tar shards: NAME.tar, NAME.tar.gz or NAME.tar.zst".into(),
                found: "none".into(),
                hint: "name their folder or address with --data, or pack some with `sooner data pack`".into(),
            });
        }
        let classes = match is_address(base) || Path::new(base).join(CLASSES).exists() {
            // At an address the list may be missing.
            true => read_text(&format!("{base}/{CLASSES}")).unwrap_or_default(),
            false => String::new(),
        };
        let classes = classes.lines().map(str::to_string).filter(|name| !name.is_empty()).collect();
        let shards = names.into_iter().map(|name| (split_of(&name, base), name)).collect();
        Ok(ShardSet { shards, classes })
    }

    /// The shards of a split.
    pub fn of(&self, split: Split) -> impl Iterator<Item = &String> {
        self.shards.iter().filter(move |(of, _)| *of == split).map(|(_, name)| name)
    }

    /// Class names in the order of the labels; nothing where there is no list.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}

fn split_of(name: &str, base: &str) -> Split {
    let below = name.strip_prefix(base).unwrap_or(name).trim_start_matches('/');
    let begins = |words: &[&str]| {
        words.iter().any(|word| {
            let rest = below.strip_prefix(word);
            rest.is_some_and(|rest| {
                rest.starts_with(['-', '_', '.', '/']) || rest.starts_with(|c: char| c.is_ascii_digit())
            })
        })
    };
    match () {
        () if begins(&["val", "valid", "validation"]) => Split::Val,
        () if begins(&["test"]) => Split::Test,
        () => Split::Train,
    }
}

fn read_text(path: &str) -> Result<String, PipelineError> {
    let read = |source| PipelineError::Read { path: path.into(), source };
    let (_, mut stream) = open::open(path, None).map_err(read)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(read)?;
    Ok(text)
}

/// The files of a folder and of its folders for splits.
fn in_folder(folder: &Path) -> Result<Vec<String>, PipelineError> {
    let mut names = Vec::new();
    let parts = ["train", "val", "valid", "validation", "test"].map(|part| folder.join(part));
    let folders = std::iter::once(folder.to_path_buf()).chain(parts.into_iter().filter(|part| part.is_dir()));
    for folder in folders {
        let read = |source| PipelineError::Read { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if path.is_file() && !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
            {
                names.push(path.display().to_string());
            }
        }
    }
    Ok(names)
}

/// Every name of a pattern with `{a,b}` or `{000..012}` in it.
fn expand(pattern: &str) -> Result<Vec<String>, PipelineError> {
    let wrong = |found: &str| PipelineError::Missing {
        path: pattern.into(),
        expected: "a pattern such as train-{000..012}.tar or {a,b}.tar".into(),
        found: found.to_string(),
        hint: "give both ends of the range the same number of digits".into(),
    };
    let Some(open) = pattern.find('{') else { return Ok(vec![pattern.to_string()]) };
    let length = pattern[open..].find('}').ok_or_else(|| wrong("{ without }"))?;
    let inside = &pattern[open + 1..open + length];
    let choices: Vec<String> = match inside.split_once("..") {
        None => inside.split(',').map(str::to_string).collect(),
        Some((from, to)) => {
            let (low, high): (usize, usize) =
                from.parse().ok().zip(to.parse().ok()).ok_or_else(|| wrong(inside))?;
            if low > high || high - low >= MOST {
                return Err(wrong(inside));
            }
            let width = from.len();
            (low..=high).map(|number| format!("{number:0width$}")).collect()
        }
    };
    let mut all = Vec::new();
    for rest in expand(&pattern[open + length + 1..])? {
        all.extend(choices.iter().map(|choice| format!("{}{choice}{rest}", &pattern[..open])));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, expect: &[&str]) {
        assert_eq!(expand(pattern).ok().unwrap_or_default(), expect, "{pattern}");
    }

    #[test]
    fn patterns() {
        check("a.tar", &["a.tar"]);
        check("t-{08..11}.tar", &["t-08.tar", "t-09.tar", "t-10.tar", "t-11.tar"]);
        check("{a,b}.tar", &["a.tar", "b.tar"]);
        check("{a,b}{0..1}", &["a0", "b0", "a1", "b1"]);
        for wrong in ["{3..1}", "{a..b}", "{1..", "{0..9999999}", "{..}"] {
            check(wrong, &[]);
        }
    }

    #[test]
    fn names_decide_the_split() {
        for (name, split) in [
            ("d/train-0.tar", Split::Train),
            ("d/0.tar", Split::Train),
            ("d/val-0.tar", Split::Val),
            ("d/valid/0.tar", Split::Val),
            ("d/validation_3.tar", Split::Val),
            ("d/test0.tar.gz", Split::Test),
            ("d/testimony.tar", Split::Train),
            ("d/value.tar", Split::Train),
            ("d/test/0.tar", Split::Test),
        ] {
            assert_eq!(split_of(name, "d"), split, "{name}");
        }
    }
}
