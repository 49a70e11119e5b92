//! JSON has no NaN and no infinity; a diverged run has both. They are written as null and read as NaN.

use serde::{Deserialize, Deserializer, Serializer};

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { to.serialize_f64(*value) } else { to.serialize_none() }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The same for numbers by name.
pub(crate) mod map {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<S: Serializer>(values: &BTreeMap<String, f64>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(values.iter().map(|(name, value)| (name, value.is_finite().then_some(*value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let values = BTreeMap::<String, Option<f64>>::deserialize(from)?;
        Ok(values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
    }

    /// As one JSON object.
    pub(crate) fn to_text(values: &BTreeMap<String, f64>) -> String {
        let mut text = Vec::new();
        serialize(values, &mut serde_json::Serializer::new(&mut text)).expect("names and numbers are JSON");
        String::from_utf8(text).expect("JSON is UTF-8")
    }

    /// Reads what `to_text` wrote.
    pub(crate) fn from_text(text: &str) -> serde_json::Result<BTreeMap<String, f64>> {
        deserialize(&mut serde_json::Deserializer::from_str(text))
    }
}
