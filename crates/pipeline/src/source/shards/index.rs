//! What a shard holds: where each example's image lies in it, and its label.

use super::super::notice::Notice;
use super::super::open::Packing;
use super::super::tar::{Kind, Member, Members, TarError};
use super::super::{http, open};
use crate::PipelineError;
use sooner_plan::{Duplicates, KeyRule, ShardsPlan, Truncated, Unsorted};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// Fields that hold the image, the first that there is.
const IMAGES: [&str; 3] = ["jpg", "jpeg", "png"];
const LABEL: &str = "cls";
/// Most bytes of a label.
const MOST_LABEL: u64 = 1024;
const FIRST_LINE: &str = "sooner shard index 1";

/// The examples of a shard, in the order of their first members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardIndex {
    pub(crate) examples: Vec<Indexed>,
}

/// One example of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indexed {
    pub(crate) key: String,
    pub(crate) label: u32,
    /// Where the image's bytes begin in the unpacked shard, and how many there are.
    pub(crate) at: u64,
    pub(crate) size: u64,
}

impl ShardIndex {
    /// The index as text: what `sooner data pack` writes beside a shard of so many bytes as it is stored.
    pub(crate) fn to_text(&self, stored: u64) -> String {
        let mut text = format!("{FIRST_LINE}\t{stored}\n");
        for Indexed { key, label, at, size } in &self.examples {
            text += &format!("{label}\t{at}\t{size}\t{key}\n");
        }
        text
    }

    /// Reads it; none if it is of another version or another shard.
    fn from_text(text: &str, stored: Option<u64>) -> Option<ShardIndex> {
        let mut lines = text.lines();
        let said = lines.next()?.strip_prefix(FIRST_LINE)?.trim().parse::<u64>().ok()?;
        if stored.is_some_and(|stored| stored != said) {
            return None;
        }
        let example = |line: &str| {
            let mut parts = line.splitn(4, '\t');
            let mut number = || parts.next()?.parse::<u64>().ok();
            let (label, at, size) = (number()?, number()?, number()?);
            let key = parts.next()?.to_string();
            Some(Indexed { key, label: u32::try_from(label).ok()?, at, size })
        };
        lines.map(example).collect::<Option<Vec<_>>>().map(|examples| ShardIndex { examples })
    }
}

/// The index of a shard: the one that lies beside it, or one made by reading the whole shard.
pub(super) fn of_shard(
    path: &str,
    plan: &ShardsPlan,
    classes: &[String],
    notices: &mut Vec<Notice>,
) -> Result<(Packing, ShardIndex), PipelineError> {
    let (packing, stream) = super::open_shard(path, None)?;
    // An address without an index beside it is no error.
    let beside = open::open(&format!("{path}.index"), None).ok().and_then(|(_, mut index)| {
        let mut text = String::new();
        index.read_to_string(&mut text).ok().map(|_| text)
    });
    let stored = match http::is_address(path) {
        true => None,
        false => std::fs::metadata(path).ok().map(|meta| meta.len()),
    };
    if let Some(index) = beside.and_then(|text| ShardIndex::from_text(&text, stored)) {
        return Ok((packing, index));
    }
    let index = read(path, stream, plan, classes, notices)?;
    Ok((packing, index))
}

/// What is known of an example while its shard is read.
#[derive(Default)]
struct Sample {
    key: String,
    /// Where the first member's header begins.
    offset: u64,
    /// Field, place and size of each member.
    fields: BTreeMap<String, (u64, u64)>,
    label: Option<u32>,
}

struct Indexing<'a> {
    path: &'a str,
    plan: &'a ShardsPlan,
    classes: &'a [String],
    samples: Vec<Sample>,
    by_key: HashMap<String, usize>,
    duplicates: (u64, String),
    ignored: (u64, String),
}

fn read(
    path: &str,
    stream: Box<dyn Read + Send>,
    plan: &ShardsPlan,
    classes: &[String],
    notices: &mut Vec<Notice>,
) -> Result<ShardIndex, PipelineError> {
    let mut indexing = Indexing {
        path,
        plan,
        classes,
        samples: Vec::new(),
        by_key: HashMap::new(),
        duplicates: Default::default(),
        ignored: Default::default(),
    };
    let mut members = Members::new(stream);
    // Content by name, for links: labels are kept, images only placed.
    let mut files: HashMap<String, (u64, u64, Option<Vec<u8>>)> = HashMap::new();
    let mut links = Vec::new();
    let mut content = Vec::new();
    // The example that may be incomplete where the shard is cut: the one that its last member belongs to.
    let mut last_key = None;
    let cut = loop {
        match members.next() {
            Ok(None) => break members.finish().err(),
            Ok(Some(member)) => {
                let Some((key, field)) = cut_name(&member.name, plan.key) else {
                    indexing.ignore(&member);
                    continue;
                };
                match &member.kind {
                    Kind::File => {
                        last_key = Some(key.clone());
                        let mut label = None;
                        if field == LABEL && member.size <= MOST_LABEL {
                            match members.content(&member, &mut content) {
                                Ok(()) => label = Some(content.clone()),
                                Err(error) => break Some(error),
                            }
                        }
                        files.insert(member.name.clone(), (member.data, member.size, label.clone()));
                        indexing.add(&member, (key, field), (member.data, member.size), label)?;
                    }
                    Kind::Hard(target) => links.push((member.clone(), (key, field), target.clone())),
                    Kind::Symbolic(target) => {
                        let folder = member.name.rsplit_once('/').map_or("", |(folder, _)| folder);
                        let target = resolve(folder, target);
                        links.push((member.clone(), (key, field), target));
                    }
                    Kind::Folder | Kind::Other => indexing.ignore(&member),
                }
            }
            Err(error) => break Some(error),
        }
    };
    // Links may name links, in any order, but not in a ring; each round follows at least one.
    while !links.is_empty() {
        let before = links.len();
        let mut left = Vec::new();
        for (member, name, target) in links {
            match files.get(&target).cloned() {
                Some((at, size, label)) => {
                    files.insert(member.name.clone(), (at, size, label.clone()));
                    indexing.add(&member, name, (at, size), label)?;
                }
                None => left.push((member, name, target)),
            }
        }
        if left.len() == before && cut.is_none() {
            let (member, _, target) = &left[0];
            return Err(indexing.wrong(
                member.offset,
                format!("a member named {target}, which the link {} stands for", member.name),
                "none, or a ring of links".into(),
                "pack the shard again without links",
            ));
        }
        if left.len() == before {
            break;
        }
        links = left;
    }
    if let Some(error) = cut {
        let offset = indexing.cut(error)?;
        notices.push(Notice::Cut { path: path.into(), offset });
        if let Some(last) = last_key {
            indexing.samples.retain(|sample| sample.key != last || sample.is_whole_before(offset));
        }
        // Links whose targets were lost leave examples without an image.
        indexing.samples.retain(|sample| sample.image().is_some() && sample.label.is_some());
    }
    let (count, example) = std::mem::take(&mut indexing.duplicates);
    if count > 0 {
        notices.push(Notice::Duplicates { members: count, example });
    }
    let (count, example) = std::mem::take(&mut indexing.ignored);
    if count > 0 {
        notices.push(Notice::Ignored { files: count, example });
    }
    indexing.finish()
}

impl Sample {
    fn image(&self) -> Option<(u64, u64)> {
        IMAGES.iter().find_map(|field| self.fields.get(*field)).copied()
    }

    /// Whether all of it lies before a place where the shard ends.
    fn is_whole_before(&self, offset: u64) -> bool {
        self.image().is_some()
            && self.label.is_some()
            && self.fields.values().all(|(at, size)| at.saturating_add(*size) <= offset)
    }
}

impl Indexing<'_> {
    fn wrong(&self, offset: u64, expected: String, found: String, hint: &str) -> PipelineError {
        PipelineError::Malformed { path: self.path.into(), offset, expected, found, hint: hint.into() }
    }

    fn ignore(&mut self, member: &Member) {
        if member.kind == Kind::Folder {
            return;
        }
        self.ignored.0 += 1;
        if self.ignored.1.is_empty() {
            self.ignored.1 = format!("{}: {}", self.path, member.name);
        }
    }

    /// Adds a member to its example.
    fn add(
        &mut self,
        member: &Member,
        (key, field): (String, String),
        place: (u64, u64),
        label: Option<Vec<u8>>,
    ) -> Result<(), PipelineError> {
        let newest = self.samples.len().checked_sub(1);
        let at = match self.by_key.get(&key).copied() {
            // Links are found a home after all files, so they follow nothing.
            Some(at)
                if Some(at) != newest
                    && self.plan.unsorted == Unsorted::Fail
                    && member.kind == Kind::File =>
            {
                return Err(self.wrong(
                    member.offset,
                    format!("the members of {key} one after the other"),
                    format!("{}, after members of {}", member.name, self.samples[self.samples.len() - 1].key),
                    "sort the members by name, or set data.shards.unsorted = \"gather\"",
                ));
            }
            Some(at) => at,
            None => {
                self.samples.push(Sample { key: key.clone(), offset: member.offset, ..Sample::default() });
                self.by_key.insert(key, self.samples.len() - 1);
                self.samples.len() - 1
            }
        };
        if self.samples[at].fields.contains_key(&field) {
            if self.plan.duplicates == Duplicates::Fail {
                return Err(self.wrong(
                    member.offset,
                    format!("one member named {}", member.name),
                    "a second one".into(),
                    "set data.shards.duplicates to \"first\" or \"last\" to choose one of them",
                ));
            }
            self.duplicates.0 += 1;
            if self.duplicates.1.is_empty() {
                self.duplicates.1 = format!("{}: {}", self.path, member.name);
            }
            if self.plan.duplicates == Duplicates::First {
                return Ok(());
            }
        }
        if field == LABEL {
            let label = self.label(member, label.as_deref().unwrap_or_default())?;
            self.samples[at].label = Some(label);
        }
        self.samples[at].fields.insert(field, place);
        Ok(())
    }

    /// A class by number, or by name where there is a list of names.
    fn label(&self, member: &Member, content: &[u8]) -> Result<u32, PipelineError> {
        let text = String::from_utf8_lossy(content);
        let text = text.trim();
        let named = self.classes.iter().position(|class| class == text).map(|label| label as u32);
        // A million classes are more than any set has; beyond is a mistake, and would be allocated.
        let number = text.parse::<u32>().ok().filter(|&label| label < 1_000_000);
        named.or(number).ok_or_else(|| {
            let found: String = text.chars().take(40).collect();
            self.wrong(
                member.data,
                format!("a class by number or name in {}", member.name),
                format!("{found:?}"),
                "list the names of the classes in classes.txt beside the shards, one a line",
            )
        })
    }

    /// Where the shard ends, if that is no error.
    fn cut(&self, error: TarError) -> Result<u64, PipelineError> {
        let keep = self.plan.truncated == Truncated::Keep;
        let (offset, expected, found) = match error {
            TarError::Cut { offset, .. } if keep => return Ok(offset),
            TarError::Cut { offset, expected } => (offset, expected, "the end of the file".to_string()),
            // Packed shards that are cut fail in unpacking.
            TarError::Io(offset, error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::UnexpectedEof
                        | std::io::ErrorKind::InvalidData
                        | std::io::ErrorKind::InvalidInput
                        | std::io::ErrorKind::Other
                ) && !http::is_address(self.path) =>
            {
                if keep && error.kind() == std::io::ErrorKind::UnexpectedEof {
                    return Ok(offset);
                }
                (offset, "whole packed data".to_string(), error.to_string())
            }
            TarError::Io(_, source) => return Err(PipelineError::Read { path: self.path.into(), source }),
            TarError::Malformed { offset, expected, found } => (offset, expected, found),
        };
        let hint =
            "fetch or pack the shard again, or keep its whole examples with data.shards.truncated = \"keep\"";
        Err(self.wrong(offset, expected, found, hint))
    }

    fn finish(self) -> Result<ShardIndex, PipelineError> {
        let mut examples = Vec::with_capacity(self.samples.len());
        for sample in &self.samples {
            let fields = || sample.fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let dotted = sample.fields.keys().any(|field| field.contains('.'));
            let hint = match dotted && self.plan.key == KeyRule::FirstDot {
                true => {
                    "names have dots in them: cut them at the last one with data.shards.key = \"last-dot\""
                }
                false => "each example needs an image and a class, as 0001.jpg and 0001.cls",
            };
            let missing = |what: &str| {
                self.wrong(sample.offset, format!("{what} of the example {}", sample.key), fields(), hint)
            };
            let (at, size) = sample.image().ok_or_else(|| missing("a field jpg, jpeg or png"))?;
            let label = sample.label.ok_or_else(|| missing("a field cls"))?;
            examples.push(Indexed { key: sample.key.clone(), label, at, size });
        }
        Ok(ShardIndex { examples })
    }
}

/// Key and field of a name; none for names that are no member of an example.
fn cut_name(name: &str, rule: KeyRule) -> Option<(String, String)> {
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    let base = &name[start..];
    if base.starts_with('.') {
        return None;
    }
    let dot = match rule {
        KeyRule::FirstDot => base.find('.'),
        KeyRule::LastDot => base.rfind('.'),
    }?;
    Some((name[..start + dot].to_string(), base[dot + 1..].to_lowercase()))
}

/// A symbolic link's target, from the archive's root.
fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
