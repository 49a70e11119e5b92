//! Names the sources that decide a run's bits, so that a record can say which program wrote it: two programs of the same
//! version need not compute alike between releases.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose sources decide what an update computes. A published crate stands alone, and its version says the rest.
const CRATES: [&str; 6] = ["base", "plan", "pipeline", "engine", "models", "train"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut sum = Fnv(0xcbf2_9ce4_8422_2325);
    for name in CRATES {
        for folder in ["src", "workloads"].map(|part| here.join("..").join(name).join(part)) {
            if folder.is_dir() {
                println!("cargo::rerun-if-changed={}", folder.display());
                add(&folder, &folder, &mut sum);
            }
        }
    }
    println!("cargo::rustc-env=SOONER_SOURCES={:08x}", (sum.0 >> 32) as u32 ^ sum.0 as u32);
}

/// FNV-1a of 64 bits: against accidents, not against malice.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Adds a folder's files, name and content, in the order of their names; tests decide no bits.
fn add(folder: &Path, root: &Path, sum: &mut Fnv) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a readable folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.strip_prefix(root).expect("below it").to_string_lossy().replace('\\', "/");
        if name.ends_with("tests.rs") || name.ends_with("/tests") || name.contains("testing") {
            continue;
        }
        if path.is_dir() {
            add(&path, root, sum);
        } else {
            sum.add(name.as_bytes());
            sum.add(&fs::read(&path).expect("a readable file"));
        }
    }
}
