//! How plain values are written in a plan.

use serde::Serialize;

/// The word that a plan writes for a unit variant, such as `fashion-mnist`.
pub(crate) fn word<T: Serialize>(value: &T) -> String {
    match toml::Value::try_from(value) {
        Ok(toml::Value::String(word)) => word,
        other => panic!("only unit variants are written as one word, not {other:?}"),
    }
}

/// What a value is, for messages: its text if it is short.
pub(crate) fn describe(value: &toml::Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 {
        return text;
    }
    match value {
        toml::Value::String(s) => format!("a text of {} characters", s.chars().count()),
        toml::Value::Array(items) => format!("a list of {} values", items.len()),
        toml::Value::Table(entries) => format!("a table of {} keys", entries.len()),
        _ => text,
    }
}
