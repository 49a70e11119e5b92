//! Changing a plan by `key=value`: the options `--set` and those that are short for it.

use crate::error::complain;
use crate::keys::{all_keys, nearest_key};
use crate::schema::{Fault, FaultKind, Form, Key, PLAN, names, one_of};
use crate::text::{fault_error, key_name, to_table};
use crate::words::describe;
use crate::{Plan, PlanError};
use toml::Value;

/// One change of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The dotted key, such as `optimizer.momentum`; list items by index, stages also by name.
    pub key: String,
    /// The value as typed: TOML, or a bare word. `none` takes an optional key away.
    pub value: String,
    /// What the user typed to ask for it, for messages: `--set optimizer.momentum=0.9`, or `--seed 3`.
    pub from: String,
}

impl Setting {
    /// Reads `key=value`.
    pub fn parse(text: &str) -> Result<Setting, PlanError> {
        let from = format!("--set {text}");
        match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Setting { key: key.trim().to_string(), value: value.trim().to_string(), from })
            }
            _ => Err(PlanError::Value(complain(
                "setting cannot be read",
                &from,
                "KEY=VALUE, such as optimizer.momentum=0.95",
                format_args!("`{text}`"),
                "to take an optional key away, set it to none",
            ))),
        }
    }

    /// The setting that an option of its own stands for, such as `--seed 3` for `seed=3`.
    pub fn option(option: &str, key: &str, value: &str) -> Setting {
        Setting { key: key.to_string(), value: value.to_string(), from: format!("{option} {value}") }
    }
}

impl Plan {
    /// Makes one change, `key=value`.
    pub fn set(&mut self, text: &str) -> Result<(), PlanError> {
        self.apply(&[Setting::parse(text)?])
    }

    /// Makes several changes at once, or none if any is wrong. Two that concern the same key, or a key and one
    /// inside it, are an error, whatever their order. Changing a `kind` takes away the keys that only the old kind
    /// had.
    pub fn apply(&mut self, settings: &[Setting]) -> Result<(), PlanError> {
        let before = Value::Table(to_table(self));
        let mut places = Vec::new();
        for setting in settings {
            places.push(locate(setting, &before, settings)?);
        }
        for (i, a) in places.iter().enumerate() {
            for (j, b) in places.iter().enumerate().skip(i + 1) {
                if a.path.iter().zip(&b.path).all(|(x, y)| x == y) {
                    return Err(overlap(&settings[i], &settings[j]));
                }
            }
        }
        let mut after = before;
        // Kinds first, so that keys of the new kind find their place; stages that go last, so that indices hold.
        let mut order: Vec<usize> = (0..settings.len()).collect();
        order.sort_by_key(|i| {
            (places[*i].path.last().is_none_or(|k| k != "kind"), places[*i].removed_stage())
        });
        for i in order {
            places[i].write(&mut after, &settings[i])?;
        }
        *self = decode(after, settings)?;
        Ok(())
    }
}

/// Where a setting points, stages by index, and what it puts there; no value takes the key away.
struct Place {
    path: Vec<String>,
    value: Option<Value>,
}

impl Place {
    /// Orders removals of stages behind everything else, the last stage first.
    fn removed_stage(&self) -> (bool, std::cmp::Reverse<usize>) {
        let index = match (&self.value, self.path.as_slice()) {
            (None, [a, b, index]) if a == "pipeline" && b == "stages" => index.parse().ok(),
            _ => None,
        };
        (index.is_some(), std::cmp::Reverse(index.unwrap_or(0)))
    }

    fn write(&self, root: &mut Value, setting: &Setting) -> Result<(), PlanError> {
        let (last, above) = self.path.split_last().expect("a key has at least one part");
        let mut at = root;
        for segment in above {
            at = match at {
                Value::Table(entries) => {
                    // An optional table that is absent, such as a word that becomes a table.
                    let entry =
                        entries.entry(segment.clone()).or_insert_with(|| Value::Table(toml::Table::new()));
                    if !entry.is_table() && !entry.is_array() {
                        *entry = Value::Table(toml::Table::new());
                    }
                    entry
                }
                Value::Array(items) => item_of(items, segment, setting)?,
                _ => unreachable!("scalars were replaced by tables on the way"),
            };
        }
        match (at, &self.value) {
            (Value::Table(entries), Some(value)) => {
                if last == "kind" {
                    drop_other_kinds(entries, &self.path, value);
                }
                entries.insert(last.clone(), value.clone());
            }
            (Value::Table(entries), None) => {
                entries.remove(last);
            }
            (Value::Array(items), Some(value)) => *item_of(items, last, setting)? = value.clone(),
            (Value::Array(items), None) => {
                item_of(items, last, setting)?;
                items.remove(last.parse().expect("an item was found by this index"));
            }
            _ => unreachable!("scalars were replaced by tables on the way"),
        }
        Ok(())
    }
}

fn item_of<'a>(items: &'a mut [Value], index: &str, setting: &Setting) -> Result<&'a mut Value, PlanError> {
    let count = items.len();
    let found = index.parse().ok().and_then(|i: usize| items.get_mut(i));
    found.ok_or_else(|| PlanError::Value(no_such_item(setting, count, index)))
}

fn no_such_item(setting: &Setting, count: usize, index: &str) -> Box<crate::Complaint> {
    let expected = match count {
        0 => "a list that has items".to_string(),
        n => format!("an index from 0 to {}", n - 1),
    };
    complain(
        "no such item in the list",
        &setting.from,
        expected,
        format_args!("`{index}`"),
        "set the whole list",
    )
}

/// Takes away the keys of a table with kinds that its new kind does not know.
fn drop_other_kinds(entries: &mut toml::Table, path: &[String], kind: &Value) {
    let mut form = PLAN;
    for segment in &path[..path.len() - 1] {
        match key_of(&form, segment) {
            Some(key) => form = key.form,
            None => return,
        }
    }
    if let Form::Kinds(kinds) = form
        && let Some((_, keys)) = kinds.iter().find(|k| Some(k.0) == kind.as_str())
    {
        entries.retain(|name, _| name == "kind" || keys.iter().any(|k| k.name == name));
    }
}

fn key_of(form: &Form, name: &str) -> Option<Key> {
    match form {
        Form::Table(keys) | Form::OneOf(keys) | Form::WordOr(_, keys) | Form::NumberOr(_, keys) => {
            keys.iter().find(|k| k.name == name).copied()
        }
        _ => None,
    }
}

/// What a key that has a short form on the command line is in full.
fn full_key(key: &str) -> String {
    let short = key == "guard" || key.starts_with("guard.");
    if short { format!("run.{key}") } else { key.to_string() }
}

/// Follows a setting's key through schema and plan, and reads its value.
fn locate(setting: &Setting, plan: &Value, all: &[Setting]) -> Result<Place, PlanError> {
    let mut path: Vec<String> = Vec::new();
    let (mut form, mut at) = (PLAN, Some(plan));
    let mut optional = false;
    for segment in full_key(&setting.key).split('.').map(str::trim) {
        let here = path.join(".");
        match form {
            Form::Table(keys) | Form::OneOf(keys) | Form::WordOr(_, keys) | Form::NumberOr(_, keys) => {
                let key = keys.iter().find(|k| k.name == segment);
                let key = key.ok_or_else(|| unknown(setting, names(keys), None, plan))?;
                (form, optional) = (key.form, !key.required);
                at = at.and_then(|v| v.get(segment));
                path.push(segment.to_string());
            }
            Form::Kinds(kinds) => {
                let kind = chosen_kind(&here, at, all);
                let keys = kinds.iter().find(|k| Some(k.0) == kind.as_deref()).map_or(&[][..], |k| k.1);
                if segment == "kind" {
                    let words: Vec<&str> = kinds.iter().map(|k| k.0).collect();
                    (form, optional) = (Form::Text, false);
                    check_kind(setting, &words)?;
                } else if let Some(key) = keys.iter().find(|k| k.name == segment) {
                    (form, optional) = (key.form, !key.required);
                } else {
                    let owner = kinds.iter().find(|(_, keys)| keys.iter().any(|k| k.name == segment));
                    let legal = [vec!["kind"], names(keys)].concat();
                    return Err(unknown(setting, legal, owner.map(|o| (o.0, here.clone())), plan));
                }
                at = at.and_then(|v| v.get(segment));
                path.push(segment.to_string());
            }
            Form::List(of, _) => {
                let items = at.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if let Form::OneOf(stages) = of
                    && segment.parse::<usize>().is_err()
                {
                    let index = stage_index(setting, segment, stages, items, plan)?;
                    path.push(index.to_string());
                    path.push(segment.to_string());
                    let key = stages.iter().find(|k| k.name == segment).expect("found by name");
                    (form, optional, at) = (key.form, true, items[index].get(segment));
                } else {
                    let item = segment.parse().ok().and_then(|i: usize| items.get(i));
                    if item.is_none() {
                        return Err(PlanError::Value(no_such_item(setting, items.len(), segment)));
                    }
                    path.push(segment.to_string());
                    (form, optional, at) = (*of, matches!(of, Form::OneOf(_)), item);
                }
            }
            Form::Text | Form::Size | Form::Whole | Form::Number | Form::Word(_) => {
                return Err(unknown(setting, Vec::new(), None, plan));
            }
        }
    }
    if setting.value == "none" && optional {
        // A stage goes with the table that it is the one key of.
        if let [first, second, _, _] = path.as_slice()
            && first == "pipeline"
            && second == "stages"
        {
            path.pop();
        }
        return Ok(Place { path, value: None });
    }
    let value = read_value(setting, &form)?;
    let check = form.check(&value, &mut path.clone());
    check.map_err(|fault| {
        let inside = fault.path.len() > path.len();
        let place = if inside {
            format!("{}, {}", setting.from, key_name(&fault.path))
        } else {
            setting.from.clone()
        };
        fault_error(&fault, &place, plan)
    })?;
    Ok(Place { path, value: Some(value) })
}

/// The kind that a table will have: the one set beside, or the one it has.
fn chosen_kind(table: &str, at: Option<&Value>, all: &[Setting]) -> Option<String> {
    let key = format!("{table}.kind");
    let set = all.iter().find(|s| s.key == key).map(|s| s.value.trim_matches(['"', '\'']).to_string());
    set.or_else(|| at.and_then(|v| v.get("kind")).and_then(Value::as_str).map(str::to_string))
}

fn check_kind(setting: &Setting, words: &[&'static str]) -> Result<(), PlanError> {
    let word = setting.value.trim_matches(['"', '\'']);
    if words.contains(&word) {
        return Ok(());
    }
    let kind = FaultKind::Word { words: words.to_vec(), found: word.to_string() };
    let fault = Fault { path: vec![setting.key.clone()], kind };
    Err(fault_error(&fault, &setting.from, &Value::Table(toml::Table::new())))
}

fn stage_index(
    setting: &Setting,
    name: &str,
    stages: &[Key],
    items: &[Value],
    plan: &Value,
) -> Result<usize, PlanError> {
    if !stages.iter().any(|k| k.name == name) {
        return Err(unknown(setting, names(stages), None, plan));
    }
    let mut found = items.iter().enumerate().filter(|(_, item)| item.get(name).is_some()).map(|(i, _)| i);
    let present: Vec<&str> =
        items.iter().filter_map(|i| i.as_table()?.keys().next()).map(String::as_str).collect();
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (None, _) => Err(PlanError::Value(complain(
            "the plan has no such stage",
            &setting.from,
            one_of(&present),
            format_args!("`{name}`"),
            "a new stage needs its place: set pipeline.stages to the whole list",
        ))),
        (Some(first), Some(second)) => Err(PlanError::Value(complain(
            "the plan has several such stages",
            &setting.from,
            "the index of one of them",
            format_args!("`{name}`"),
            &format!("the first two are pipeline.stages.{first} and pipeline.stages.{second}"),
        ))),
    }
}

fn unknown(setting: &Setting, here: Vec<&str>, owner: Option<(&str, String)>, plan: &Value) -> PlanError {
    let (_, nearest) = nearest_key(&setting.key, plan);
    let hint = match (&owner, &nearest) {
        (Some((kind, table)), _) => format!("it belongs to {table}.kind=\"{kind}\""),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => String::new(),
    };
    let expected = if here.is_empty() { "a key of the plan".to_string() } else { one_of(&here) };
    let found = key_name(std::slice::from_ref(&setting.key));
    let complaint = complain("unknown key", &setting.from, expected, found, &hint);
    PlanError::UnknownKey { complaint, nearest, keys: all_keys(plan) }
}

fn overlap(a: &Setting, b: &Setting) -> PlanError {
    let what = if a.key == b.key { "key is set twice" } else { "settings overlap" };
    PlanError::Overlap(complain(
        what,
        &b.from,
        "each key to be set once",
        format_args!("also `{}`", a.from),
        "leave one of them out",
    ))
}

/// The value as TOML; what is not TOML is a bare word. Where text is expected, text that happens to look like a
/// number stays text.
fn read_value(setting: &Setting, form: &Form) -> Result<Value, PlanError> {
    let text = &setting.value;
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let single = parsed.ok().filter(|t| t.len() == 1).and_then(|mut t| t.remove("value"));
    match single {
        Some(value @ Value::String(_)) => Ok(value),
        Some(_) if matches!(form, Form::Text) => Ok(Value::String(text.clone())),
        Some(value) => Ok(value),
        // TOML wants digits on both sides of the point; people do not.
        None if let (Form::Number | Form::NumberOr(..), Ok(number)) = (form, text.parse()) => {
            Ok(Value::Float(number))
        }
        // TOML's integers end at 2^63 - 1.
        None if matches!(form, Form::Whole) && text.bytes().all(|b| b.is_ascii_digit()) => {
            let expected = "a whole number below 2^63";
            Err(PlanError::value(&setting.from, expected, format_args!("`{text}`"), ""))
        }
        None if text.starts_with(['[', '{', '"', '\'']) => Err(PlanError::Value(complain(
            "value is not TOML",
            &setting.from,
            form.expected(),
            format_args!("`{text}`"),
            "the shell may have eaten quotes: put the whole KEY=VALUE between single ones",
        ))),
        None => Ok(Value::String(text.clone())),
    }
}

fn decode(value: Value, settings: &[Setting]) -> Result<Plan, PlanError> {
    PLAN.check(&value, &mut Vec::new()).map_err(|fault| {
        let froms: Vec<&str> = settings.iter().map(|s| s.from.as_str()).collect();
        let place = format!("{}, {}", froms.join(" "), key_name(&fault.path));
        fault_error(&fault, &place, &value)
    })?;
    let shown = describe(&value);
    value.try_into().map_err(|e: toml::de::Error| {
        PlanError::Value(complain(
            "value cannot be read",
            "plan",
            "a plan",
            format_args!("{shown}: {}", e.message()),
            "",
        ))
    })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
