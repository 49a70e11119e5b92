//! What two plans differ in, key by key.

use crate::Plan;
use crate::text::to_table;
use toml::{Table, Value};

/// A key whose values differ, as plans write them; none where the key is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The dotted key; lists are compared whole.
    pub key: String,
    /// The value in the plan that was asked.
    pub this: Option<String>,
    /// The value in the other.
    pub other: Option<String>,
}

impl Plan {
    /// Every key in which another plan differs, in the order of this one's keys, the other's additional ones last.
    pub fn differences(&self, other: &Plan) -> Vec<Difference> {
        let mut found = Vec::new();
        compare(&to_table(self), &to_table(other), "", &mut found);
        found
    }
}

fn compare(this: &Table, other: &Table, above: &str, found: &mut Vec<Difference>) {
    let only_there = other.keys().filter(|key| !this.contains_key(*key));
    for key in this.keys().chain(only_there) {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match (this.get(key), other.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => compare(a, b, &name, found),
            (a, b) if a != b => {
                let text = |value: Option<&Value>| value.map(Value::to_string);
                found.push(Difference { key: name, this: text(a), other: text(b) });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plan;

    fn check(settings: &[&str], expect: &[(&str, &str, &str)]) {
        let (before, mut after) = (plan(), plan());
        settings.iter().for_each(|s| after.set(s).unwrap());
        let found = before.differences(&after);
        let shown: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|d| (&*d.key, d.this.as_deref().unwrap_or("-"), d.other.as_deref().unwrap_or("-")))
            .collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn keys_are_named() {
        check(&[], &[]);
        check(&["seed=2"], &[("seed", "1", "2")]);
        check(
            &["run.target=none", "run.threads=3"],
            &[("run.target", "\"val.error<0.40\"", "-"), ("run.threads", "-", "3")],
        );
        check(
            &["model.kind=softmax"],
            &[("model.kind", "\"resnet8\"", "\"softmax\""), ("model.channels", "[16, 32, 64]", "-")],
        );
        check(&["guard.loss=10"], &[("run.guard", "\"finite\"", "{ loss = 10.0 }")]);
    }
}
