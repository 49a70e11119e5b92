//! All keys a plan may have, dotted, and the one that was probably meant.

use crate::nearest::likeness;
use crate::schema::{Form, Key, PLAN};
use toml::Value;

/// What people call things elsewhere, and the key that it is here.
const HABITS: &[(&str, &str)] = &[
    ("lr", "schedule.learning_rate"),
    ("rate", "schedule.learning_rate"),
    ("wd", "optimizer.weight_decay"),
    ("smoothing", "optimizer.label_smoothing"),
    ("batch_size", "pipeline.stages.batch"),
    ("bs", "pipeline.stages.batch"),
    ("workers", "pipeline.threads"),
    ("num_workers", "pipeline.threads"),
    ("width", "model.channels"),
    ("val", "data.validation"),
];

/// Every legal key of the plan, optional ones that are absent included. Tables with kinds have those of the kind they
/// are of, or of every kind if that is unknown; stages are called by name.
pub(crate) fn all_keys(plan: &Value) -> Vec<String> {
    let mut keys = Vec::new();
    collect(&PLAN, Some(plan), "", &mut keys);
    keys
}

fn collect(form: &Form, value: Option<&Value>, prefix: &str, keys: &mut Vec<String>) {
    let add = |list: &[Key], value: Option<&Value>, keys: &mut Vec<String>| {
        for key in list {
            let name =
                if prefix.is_empty() { key.name.to_string() } else { format!("{prefix}.{}", key.name) };
            keys.push(name.clone());
            collect(&key.form, value.and_then(|v| v.get(key.name)), &name, keys);
        }
    };
    match form {
        Form::Table(list) | Form::OneOf(list) | Form::WordOr(_, list) | Form::NumberOr(_, list) => {
            add(list, value, keys)
        }
        Form::Kinds(kinds) => {
            keys.push(format!("{prefix}.kind"));
            let kind = value.and_then(|v| v.get("kind")).and_then(Value::as_str);
            let known = kinds.iter().any(|k| Some(k.0) == kind);
            for (_, list) in kinds.iter().filter(|k| !known || Some(k.0) == kind) {
                add(list, value, keys);
            }
        }
        // A stage's name stands in for its index.
        Form::List(of @ Form::OneOf(_), _) => collect(of, None, prefix, keys),
        _ => {}
    }
    keys.dedup();
}

/// The legal key that was probably meant by one typed below `above`, where only `local` is legal. Keys of the same
/// table are named as they stand there, keys from elsewhere with their whole path.
pub(crate) fn suggest(typed: &str, above: &[String], local: &[&str], root: &Value) -> Option<String> {
    let (near_score, near) = best(typed, local.iter().map(|k| k.to_string()));
    if near_score >= 0.75 {
        return near;
    }
    let (far_score, far) = nearest_key(&[above, &[typed.to_string()]].concat().join("."), root);
    if far_score > near_score { far } else { near }
}

/// The legal key most like a dotted one, and how like it is.
pub(crate) fn nearest_key(typed: &str, root: &Value) -> (f64, Option<String>) {
    let last = last_segment(typed);
    let habit = HABITS.iter().find(|(habit, _)| *habit == typed || *habit == last);
    if let Some((_, key)) = habit
        && all_keys(root).iter().any(|k| k == key)
    {
        return (1.0, Some(key.to_string()));
    }
    let whole = best(typed, all_keys(root).into_iter());
    // A right name in the wrong table, or without one.
    let mut ends: Vec<(f64, String)> =
        all_keys(root).into_iter().map(|k| (0.95 * likeness(last, last_segment(&k)), k)).collect();
    // Stable, so that of equals the one that comes first in a plan is proposed.
    ends.sort_by(|a, b| b.0.total_cmp(&a.0));
    match ends.into_iter().next() {
        Some((score, key)) if score > whole.0 => (score, Some(key)),
        _ => whole,
    }
}

fn last_segment(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn best(typed: &str, keys: impl Iterator<Item = String>) -> (f64, Option<String>) {
    let mut top = (0.0, None);
    for key in keys {
        let score = likeness(typed, &key);
        if score > top.0 {
            top = (score, Some(key));
        }
    }
    top
}
