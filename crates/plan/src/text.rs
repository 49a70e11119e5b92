//! Plans as TOML text, both ways.

use crate::error::complain;
use crate::keys::suggest;
use crate::model::MODEL;
use crate::schema::{DATA, Fault, FaultKind, Form, PIPELINE, PLAN, one_of};
use crate::{DataPlan, ModelPlan, PipelinePlan, Plan, PlanError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;
use toml::de::{DeTable, DeValue};

impl Plan {
    /// Reads a plan. Every error says line and column, and for an unknown key or word the nearest right one. What
    /// the values mean together is checked by [`Plan::check`].
    pub fn parse(text: &str) -> Result<Plan, PlanError> {
        parse(text, &PLAN)
    }

    /// Writes the plan, so that reading it again gives the same plan and writing that gives the same bytes. Panics
    /// if the seed is not below 2^63, which a checked plan's is.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for (key, value) in to_table(self) {
            match value {
                Value::Table(section) => {
                    out += &format!("\n[{key}]\n");
                    write_entries(&mut out, &section);
                }
                value => out += &format!("{key} = {value}\n"),
            }
        }
        out
    }
}

macro_rules! section {
    ($name:ident, $form:expr) => {
        impl $name {
            /// Reads the section on its own, as [`Plan::parse`] reads a plan.
            pub fn parse(text: &str) -> Result<$name, PlanError> {
                parse(text, &$form)
            }

            /// Writes the section on its own.
            pub fn to_toml(&self) -> String {
                section_to_toml(self)
            }
        }
    };
}

section!(DataPlan, DATA);
section!(ModelPlan, MODEL);
section!(PipelinePlan, PIPELINE);

fn section_to_toml<T: Serialize>(section: &T) -> String {
    let mut out = String::new();
    write_entries(&mut out, &to_table(section));
    out
}

pub(crate) fn to_table<T: Serialize>(value: &T) -> toml::Table {
    match Value::try_from(value) {
        Ok(Value::Table(table)) => table,
        other => panic!("a checked plan can be written as a table, not {other:?}"),
    }
}

/// One line a key; a list of tables gets a line for each of them.
fn write_entries(out: &mut String, entries: &toml::Table) {
    for (key, value) in entries {
        match value {
            Value::Array(items) if items.iter().any(Value::is_table) => {
                *out += &format!("{key} = [\n");
                for item in items {
                    *out += &format!("  {item},\n");
                }
                *out += "]\n";
            }
            value => *out += &format!("{key} = {value}\n"),
        }
    }
}

fn parse<T: DeserializeOwned>(text: &str, form: &Form) -> Result<T, PlanError> {
    let document = DeTable::parse(text).map_err(|e| syntax_error(text, &e))?;
    let value: toml::Table = toml::from_str(text).map_err(|e| syntax_error(text, &e))?;
    let value = Value::Table(value);
    form.check(&value, &mut Vec::new()).map_err(|fault| {
        let at = span_of(document.get_ref(), &fault).map_or(0, |span| span.start);
        let place = format!("{}, {}", position(text, at), key_name(&fault.path));
        fault_error(&fault, &place, &value)
    })?;
    // The schema has accepted it, so a refusal now means that schema and types disagree, or a number too large.
    value.try_into().map_err(|e: toml::de::Error| {
        PlanError::Value(complain("value cannot be read", "plan", "a plan", e.message(), ""))
    })
}

pub(crate) fn key_name(path: &[String]) -> String {
    if path.is_empty() { "top level".to_string() } else { format!("`{}`", path.join(".")) }
}

/// A fault as an error; `root` is the whole value that was checked, for suggestions from elsewhere in the plan.
pub(crate) fn fault_error(fault: &Fault, place: &str, root: &Value) -> PlanError {
    match &fault.kind {
        FaultKind::Unknown { keys, owner } => {
            let (typed, above) = fault.path.split_last().expect("an unknown key is on its own path");
            let nearest = suggest(typed, above, keys, root);
            let hint = match (owner, &nearest) {
                (Some(kind), _) => format!("`{typed}` belongs to kind \"{kind}\""),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => String::new(),
            };
            let complaint = complain("unknown key", place, one_of(keys), format_args!("`{typed}`"), &hint);
            PlanError::UnknownKey { complaint, nearest, keys: keys.iter().map(|k| k.to_string()).collect() }
        }
        FaultKind::Missing { key } => PlanError::MissingKey(complain(
            "key is missing",
            place,
            format_args!("a key `{key}`"),
            "none",
            "",
        )),
        FaultKind::Form { expected, found } => {
            PlanError::Value(complain("value of the wrong form", place, expected, found, ""))
        }
        FaultKind::Word { words, found } => {
            let near = crate::nearest::nearest(found, words.iter().copied());
            let hint = near.map_or(String::new(), |word| format!("did you mean \"{word}\"?"));
            let found = Value::String(found.clone());
            PlanError::Value(complain("unknown word", place, one_of(words), found, &hint))
        }
    }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> PlanError {
    let at = error.span().map_or(0, |span| span.start);
    let line = text[..floor(text, at)].matches('\n').count();
    let found = format!("`{}`", text.lines().nth(line).unwrap_or("").trim());
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, expected),
        None => (error.message(), "TOML"),
    };
    let what = format!("not TOML, {}", what.replace('\n', ", "));
    PlanError::Syntax(complain(&what, &position(text, at), expected, found, ""))
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Line and column of a byte offset, from 1; columns count characters.
fn position(text: &str, at: usize) -> String {
    let before = &text[..floor(text, at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

/// Where a fault is: its key if that is unknown or heads a table, else its value.
fn span_of(root: &DeTable, fault: &Fault) -> Option<std::ops::Range<usize>> {
    let on_key = matches!(fault.kind, FaultKind::Unknown { .. } | FaultKind::Missing { .. });
    let mut found = None;
    let mut table = Some(root);
    let mut array = None;
    for segment in &fault.path {
        let value = match (table, array) {
            (Some(entries), _) => {
                let (key, value) = entries.iter().find(|(key, _)| key.get_ref() == segment)?;
                found = Some(if on_key { key.span() } else { value.span() });
                value
            }
            (None, Some(items)) => {
                let items: &toml::de::DeArray = items;
                let value = items.get(segment.parse::<usize>().ok()?)?;
                found = Some(value.span());
                value
            }
            (None, None) => return found,
        };
        (table, array) = match value.get_ref() {
            DeValue::Table(entries) => (Some(entries), None),
            DeValue::Array(items) => (None, Some(items)),
            _ => (None, None),
        };
    }
    found
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
