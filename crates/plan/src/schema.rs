//! The form of a plan: its keys, and what each may hold. The types say the same to serde; this says it to people, so
//! that every wrong key gets the nearest right one. A test holds the two together.

use crate::model::MODEL;
use crate::words::describe;
use toml::Value;

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// Any text.
    Text,
    /// A number of bytes, or text such as "2GiB".
    Size,
    /// A whole number, 0 or more.
    Whole,
    /// A number.
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of values of one form, of this length if given.
    List(&'static Form, Option<usize>),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose key `kind` decides what its other keys are.
    Kinds(&'static [(&'static str, &'static [Key])]),
    /// A table with exactly one of these keys.
    OneOf(&'static [Key]),
    /// One of these words, or a table with exactly one of these keys.
    WordOr(&'static [&'static str], &'static [Key]),
    /// A number, one of these words (there may be none), or a table with these keys (there may be none).
    NumberOr(&'static [&'static str], &'static [Key]),
}

/// A key and what it may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) required: bool,
}

pub(crate) const fn need(name: &'static str, form: Form) -> Key {
    Key { name, form, required: true }
}

pub(crate) const fn may(name: &'static str, form: Form) -> Key {
    Key { name, form, required: false }
}

/// The whole plan.
pub(crate) const PLAN: Form = Form::Table(&[
    need("name", Form::Text),
    need("seed", Form::Whole),
    need("data", DATA),
    need("model", MODEL),
    need("pipeline", PIPELINE),
    need("optimizer", OPTIMIZER),
    need("schedule", SCHEDULE),
    need("run", RUN),
]);

pub(crate) const DATA: Form = Form::Table(&[
    need("kind", Form::Word(&["shapes", "mnist", "fashion-mnist", "cifar10", "image-folder", "webdataset"])),
    may("path", Form::Text),
    may("classes", Form::Whole),
    may("rate", Form::Size),
    may("train", Form::Whole),
    need("validation", Form::Whole),
    may("test", Form::Whole),
    may("images", IMAGES),
    may("shards", SHARDS),
]);

const IMAGES: Form = Form::Table(&[
    may("size", Form::Whole),
    may("channels", Form::Whole),
    may("orientation", Form::Word(&["ignore", "apply"])),
    may("truncated", Form::Word(&["fail", "keep"])),
    may("alpha", Form::Word(&["drop", "black", "white"])),
]);

const SHARDS: Form = Form::Table(&[
    may("key", Form::Word(&["first-dot", "last-dot"])),
    may("truncated", Form::Word(&["fail", "keep"])),
    may("unsorted", Form::Word(&["fail", "gather"])),
    may("duplicates", Form::Word(&["fail", "first", "last"])),
]);

pub(crate) const PIPELINE: Form = Form::Table(&[
    need("stages", Form::List(&STAGE, None)),
    may("threads", Form::Whole),
    may("queue", Form::Whole),
    may("tune", Form::Whole),
    may("budget", Form::Size),
    may("on_bad", Form::Word(&["fail", "skip"])),
    may("last_batch", Form::Word(&["keep", "drop"])),
    may("timeout", Form::Number),
    may("keep", Form::Word(&["nothing", "memory"])),
    may("draws", Form::Word(&["bulk", "single"])),
    may("workers", Form::Word(&["run", "epoch"])),
]);

pub(crate) const STAGE: Form = Form::OneOf(&[
    may("shuffle", Form::WordOr(&["epoch"], &[may("buffer", Form::Whole)])),
    may("echo", Form::NumberOr(&["auto"], ECHO)),
    may("resize", Form::Whole),
    may("center-crop", Form::Whole),
    may("random-resized-crop", RANDOM_RESIZED_CROP),
    may(
        "crop",
        Form::Table(&[
            need("size", Form::Whole),
            need("pad", Form::Whole),
            may("padding", Form::Word(&["zero", "reflect"])),
        ]),
    ),
    may("flip", Form::Word(&["random", "alternate"])),
    may("jitter", JITTER),
    may("cutout", Form::Whole),
    may("normalize", NORMALIZE),
    may("batch", Form::Whole),
    may("mixup", Form::Number),
    may("cutmix", Form::Number),
]);

const ECHO: &[Key] =
    &[need("factor", Form::NumberOr(&["auto"], &[])), may("buffer", Form::Whole), may("max", Form::Whole)];

const RANDOM_RESIZED_CROP: Form = Form::Table(&[
    need("size", Form::Whole),
    may("scale", Form::List(&Form::Number, Some(2))),
    may("ratio", Form::List(&Form::Number, Some(2))),
]);

const JITTER: Form = Form::Table(&[
    may("brightness", Form::Number),
    may("contrast", Form::Number),
    may("saturation", Form::Number),
    may("hue", Form::Number),
]);

pub(crate) const NORMALIZE: Form = Form::Table(&[
    need("mean", Form::List(&Form::Number, None)),
    need("std", Form::List(&Form::Number, None)),
]);

const OPTIMIZER: Form = Form::Table(&[
    need("kind", Form::Word(RULES)),
    may("momentum", Form::Number),
    may("weight_decay", Form::Number),
    may("decay", Form::Word(&["coupled", "decoupled"])),
    may("units", Form::Word(&["update", "decoupled-1024"])),
    may("second_momentum", Form::Number),
    may("eps", Form::Number),
    may("trust", Form::Number),
    may("rounds", Form::Whole),
    may("norms", Form::Word(&["free", "kept"])),
    may("clip", Form::Number),
    may("average", AVERAGE),
    may("label_smoothing", Form::Number),
    may("groups", Form::List(&GROUP, None)),
]);

const RULES: &[&str] = &["sgd", "heavy-ball", "nesterov", "adam", "adamw", "lars", "muon"];

const AVERAGE: Form = Form::Table(&[
    need("kind", Form::Word(&["ema", "lookahead"])),
    need("decay", Form::Number),
    may("every", Form::Whole),
    may("power", Form::Number),
]);

const MATCHES: &[&str] = &["weights", "biases", "gains", "all"];

const GROUP: Form = Form::Table(&[
    need("parameters", Form::Word(MATCHES)),
    may("prefix", Form::Text),
    may("rate_scale", Form::Number),
    may("decay_scale", Form::Number),
    may("rule", Form::Word(RULES)),
    may("momentum", Form::Number),
    may("until", Form::Number),
]);

const SCHEDULE: Form = Form::Kinds(&[
    (
        "constant",
        &[need("learning_rate", Form::Number), may("warmup", Form::Number), may("horizon", Form::Number)],
    ),
    (
        "linear",
        &[
            need("learning_rate", Form::Number),
            need("end_factor", Form::Number),
            may("decay_updates", Form::Whole),
            may("warmup", Form::Number),
            may("horizon", Form::Number),
        ],
    ),
    (
        "cosine",
        &[
            need("learning_rate", Form::Number),
            need("end_factor", Form::Number),
            may("warmup", Form::Number),
            may("horizon", Form::Number),
        ],
    ),
    (
        "one-cycle",
        &[
            need("learning_rate", Form::Number),
            need("start_factor", Form::Number),
            need("end_factor", Form::Number),
            need("peak", Form::Number),
            may("shape", Form::Word(&["linear", "cosine"])),
            may("warmup", Form::Number),
            may("horizon", Form::Number),
        ],
    ),
    (
        "step",
        &[
            need("learning_rate", Form::Number),
            need("factor", Form::Number),
            need("drops", Form::List(&Form::Number, None)),
            may("warmup", Form::Number),
            may("horizon", Form::Number),
        ],
    ),
    (
        "piecewise",
        &[
            need("points", Form::List(&Form::List(&Form::Number, Some(2)), None)),
            may("warmup", Form::Number),
            may("horizon", Form::Number),
        ],
    ),
]);

const RUN: Form = Form::Table(&[
    need("epochs", Form::Number),
    may("target", Form::Text),
    may("stop", Form::Word(&["target", "end"])),
    may(
        "evaluate",
        Form::WordOr(
            &["auto", "epoch", "geometric"],
            &[may("updates", Form::Whole), may("growing", GROWING)],
        ),
    ),
    may("views", Form::Word(&["one", "flips", "flips-shifts"])),
    may("guard", Form::WordOr(&["finite", "off"], &[may("loss", Form::Number)])),
    may("init", INIT),
    may("replay", Form::Text),
    may("initial", Form::List(&INITIAL, None)),
    may("threads", Form::Whole),
    may("convolutions", Form::Word(&["fast", "direct"])),
    may("activations", Form::Word(&["f32", "bf16"])),
    may("replicas", Form::Whole),
    may("accumulate", Form::Whole),
    may("noise_scale", Form::Whole),
    may("select", SELECT),
]);

const SELECT: Form = Form::Table(&[
    need("keep", Form::Number),
    may("power", Form::Number),
    may("from", Form::Number),
    may("until", Form::Number),
]);

const GROWING: Form = Form::Table(&[need("by", Form::Number), need("from", Form::Number)]);

const INITIAL: Form = Form::Table(&[
    need("parameters", Form::Word(MATCHES)),
    may("prefix", Form::Text),
    need("kind", Form::Word(INITIALS)),
    may("gain", Form::Number),
]);

const INITIALS: &[&str] =
    &["he-normal", "lecun-normal", "torch-uniform", "orthogonal", "dirac", "dirac-uniform", "zero"];

const INIT: Form = Form::Table(&[
    need("weights", Form::Text),
    may("except", Form::List(&Form::Text, None)),
    may("crc32", Form::Text),
]);

/// Something in a value that does not have its form, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// Keys and indices from the outermost in; for an unknown key, that key is the last.
    pub(crate) path: Vec<String>,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FaultKind {
    /// The key means nothing there; these would.
    Unknown { keys: Vec<&'static str>, owner: Option<&'static str> },
    /// This key is missing from the table at the path.
    Missing { key: &'static str },
    /// The value has another form.
    Form { expected: String, found: String },
    /// The word is none of these.
    Word { words: Vec<&'static str>, found: String },
}

impl Form {
    /// What would be right, in words.
    pub(crate) fn expected(&self) -> String {
        match self {
            Form::Text => "a text".to_string(),
            Form::Size => "a number of bytes, or a text such as \"512MiB\"".to_string(),
            Form::Whole => "a whole number, 0 or more".to_string(),
            Form::Number => "a number".to_string(),
            Form::Word(words) => one_of(words),
            Form::List(of, None) => format!("a list, each of it {}", of.expected()),
            Form::List(of, Some(n)) => format!("a list of {n}, each of it {}", of.expected()),
            Form::Table(keys) => format!("a table with the keys {}", names(keys).join(", ")),
            Form::Kinds(kinds) => {
                let kinds: Vec<&str> = kinds.iter().map(|k| k.0).collect();
                format!("a table whose `kind` is {}", one_of(&kinds))
            }
            Form::OneOf(keys) => format!("a table with one key, {}", one_of(&names(keys))),
            Form::WordOr(words, keys) => {
                format!("{}, or a table with one key, {}", one_of(words), one_of(&names(keys)))
            }
            Form::NumberOr(words, keys) => {
                let mut options = vec!["a number".to_string()];
                options.extend(words.iter().map(|word| format!("\"{word}\"")));
                if !keys.is_empty() {
                    options.push(format!("a table with the keys {}", names(keys).join(", ")));
                }
                one_of(&options.iter().map(String::as_str).collect::<Vec<_>>())
            }
        }
    }

    /// The first fault of a value, in the order of the keys in it.
    pub(crate) fn check(&self, value: &Value, path: &mut Vec<String>) -> Result<(), Fault> {
        let fault = |path: &[String], kind| Err(Fault { path: path.to_vec(), kind });
        let wrong_form = |path: &[String]| {
            fault(path, FaultKind::Form { expected: self.expected(), found: describe(value) })
        };
        match (self, value) {
            (Form::Text | Form::Size, Value::String(_)) => Ok(()),
            (Form::Whole | Form::Size, Value::Integer(n)) if *n >= 0 => Ok(()),
            (Form::Number | Form::NumberOr(..), Value::Integer(_) | Value::Float(_)) => Ok(()),
            (Form::NumberOr(_, keys), Value::Table(entries)) if !keys.is_empty() => {
                check_keys(keys, &[], entries, path)
            }
            (Form::Word(words) | Form::WordOr(words, _) | Form::NumberOr(words, _), Value::String(word)) => {
                if words.contains(&word.as_str()) {
                    return Ok(());
                }
                fault(path, FaultKind::Word { words: words.to_vec(), found: word.clone() })
            }
            (Form::List(of, length), Value::Array(items)) => {
                if length.is_some_and(|n| n != items.len()) {
                    return wrong_form(path);
                }
                for (i, item) in items.iter().enumerate() {
                    path.push(i.to_string());
                    of.check(item, path)?;
                    path.pop();
                }
                Ok(())
            }
            (Form::Table(keys), Value::Table(entries)) => check_keys(keys, &[], entries, path),
            (Form::Kinds(kinds), Value::Table(entries)) => {
                let Some(kind) = entries.get("kind") else {
                    return fault(path, FaultKind::Missing { key: "kind" });
                };
                path.push("kind".to_string());
                let Value::String(word) = kind else {
                    return fault(path, FaultKind::Form { expected: "a text".into(), found: describe(kind) });
                };
                let Some((_, keys)) = kinds.iter().find(|k| k.0 == word) else {
                    let words = kinds.iter().map(|k| k.0).collect();
                    return fault(path, FaultKind::Word { words, found: word.clone() });
                };
                path.pop();
                check_keys(keys, kinds, entries, path)
            }
            (Form::OneOf(keys) | Form::WordOr(_, keys), Value::Table(entries)) => {
                check_keys(keys, &[], entries, path)?;
                if entries.len() == 1 { Ok(()) } else { wrong_form(path) }
            }
            _ => wrong_form(path),
        }
    }
}

fn check_keys(
    keys: &'static [Key],
    kinds: &'static [(&'static str, &'static [Key])],
    entries: &toml::Table,
    path: &mut Vec<String>,
) -> Result<(), Fault> {
    for (name, value) in entries {
        if name == "kind" && !kinds.is_empty() {
            continue;
        }
        path.push(name.clone());
        let Some(key) = keys.iter().find(|k| k.name == name) else {
            let mut legal = names(keys);
            if !kinds.is_empty() {
                legal.insert(0, "kind");
            }
            let owner = kinds.iter().find(|(_, keys)| keys.iter().any(|k| k.name == name)).map(|k| k.0);
            return Err(Fault { path: path.clone(), kind: FaultKind::Unknown { keys: legal, owner } });
        };
        key.form.check(value, path)?;
        path.pop();
    }
    match keys.iter().find(|k| k.required && !entries.contains_key(k.name)) {
        Some(key) => Err(Fault { path: path.clone(), kind: FaultKind::Missing { key: key.name } }),
        None => Ok(()),
    }
}

pub(crate) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|k| k.name).collect()
}

/// `a, b or c`.
pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_string(),
        [only] => only.to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
