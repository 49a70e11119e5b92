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
    // TOML would write some texts on several lines.
    let text = value.as_str().map_or_else(|| value.to_string(), |s| format!("{s:?}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Value;

    #[test]
    fn long_values_are_described() {
        assert_eq!(describe(&Value::String("a\nb".into())), r#""a\nb""#);
        assert_eq!(describe(&Value::String("x".repeat(50))), "a text of 50 characters");
        assert_eq!(describe(&Value::Array(vec![Value::Integer(1234567); 9])), "a list of 9 values");
        assert_eq!(describe(&Value::Array(vec![Value::Integer(1)])), "[1]");
    }

    #[test]
    fn words_are_the_plans() {
        assert_eq!(word(&crate::DataKind::FashionMnist), "fashion-mnist");
        assert_eq!(word(&crate::GroupMatch::Biases), "biases");
    }
}
