//! Rules of the workspace that the compiler does not hold: which crate may use which, where `unsafe` may stand, how
//! long a file may be, and that ARCHITECTURE.md names files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Allowed edges: a crate and exactly what it uses of ours. A new edge is a decision: change ARCHITECTURE.md with it.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("plan", &["base"]),
    ("record", &["base", "plan"]),
    ("pipeline", &["base", "plan"]),
    ("engine", &["base"]),
    ("models", &["base", "plan", "engine"]),
    ("train", &["base", "plan", "record", "pipeline", "engine", "models"]),
    ("study", &["base", "plan", "record"]),
    ("report", &["base", "plan", "record", "study"]),
    ("cli", &["base", "plan", "record", "pipeline", "engine", "models", "train", "study", "report"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
}

#[test]
fn crates_use_only_what_the_design_allows() {
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates/") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(folder.join("Cargo.toml")).expect("every crate has a manifest");
        let manifest: toml::Table = text.parse().expect("manifests are TOML");
        let allowed = EDGES
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap_or_else(|| panic!("crate {name} is not in the list"));
        let used: BTreeSet<String> = ["dependencies", "build-dependencies"]
            .iter()
            .filter_map(|section| manifest.get(*section)?.as_table())
            .flat_map(|table| table.keys())
            .filter_map(|key| key.strip_prefix("sooner-").map(str::to_string))
            .collect();
        let allowed_set: BTreeSet<String> = allowed.1.iter().map(|s| s.to_string()).collect();
        let extra: Vec<_> = used.difference(&allowed_set).collect();
        assert!(extra.is_empty(), "crate {name} may not use {extra:?}");
        seen.insert(name);
    }
    for (name, _) in EDGES {
        assert!(seen.contains(*name), "crate {name} is listed but missing");
    }
}

#[test]
fn unsafe_stands_only_in_the_engine_and_is_argued() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("readable source");
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let block = code.contains("unsafe {") || code.contains("unsafe impl");
            if !block || file.ends_with("cli/tests/tidy.rs") {
                continue;
            }
            assert!(
                file.components().any(|c| c.as_os_str() == "engine"),
                "unsafe in {}:{}",
                file.display(),
                i + 1
            );
            let argued = lines[i.saturating_sub(6)..=i].iter().any(|l| l.contains("SAFETY:"));
            assert!(argued, "no SAFETY note at {}:{}", file.display(), i + 1);
        }
    }
}

#[test]
fn files_are_short_or_explain_themselves() {
    let mut files = Vec::new();
    rust_files(&root().join("crates"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("readable source");
        let long = text.lines().count() > 600 && !text.contains("Longer than 600 lines because");
        assert!(!long, "{} is over 600 lines: split it or explain", file.display());
    }
}

#[test]
fn architecture_names_files_that_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let paths =
        text.split('`').skip(1).step_by(2).filter(|s| s.starts_with("crates/") || s.starts_with("docs/"));
    let mut count = 0;
    for path in paths {
        count += 1;
        assert!(root().join(path).exists(), "ARCHITECTURE.md names `{path}`, which does not exist");
    }
    assert!(count >= 8, "ARCHITECTURE.md should name the crates' folders");
}
