//! How plain values are written in a plan.

use crate::PlanError;
use serde::Serialize;
use sooner_base::Bytes;

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

/// A number of bytes, alone or followed by a binary unit.
pub(crate) fn bytes_of(place: &str, written: &str) -> Result<Bytes, PlanError> {
    let text = written.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "kib" => Some(10),
        "mib" => Some(20),
        "gib" => Some(30),
        "tib" => Some(40),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(shift).and_then(|(n, shift)| n.checked_mul(1 << shift));
    bytes.map(Bytes).ok_or_else(|| {
        let hint = match unit.trim().to_ascii_lowercase().as_str() {
            "k" | "kb" => "did you mean KiB (1024 bytes)?",
            "m" | "mb" => "did you mean MiB (1024 KiB)?",
            "g" | "gb" => "did you mean GiB (1024 MiB)?",
            _ => "",
        };
        let expected = "a whole number of bytes, alone or followed by KiB, MiB, GiB or TiB";
        PlanError::value(place, expected, format_args!("\"{written}\""), hint)
    })
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
