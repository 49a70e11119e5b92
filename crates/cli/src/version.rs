//! What was compiled in: a build that silently lacks a feature is a classic way to lose half the speed.

use sooner_engine::native::Kernels;

/// The long form of `--version`.
pub(crate) fn long() -> String {
    let kernels: Vec<&str> = Kernels::available().iter().map(|k| k.name()).collect();
    format!(
        "{}\nengine: native, kernels this machine runs: {}\ntarget: {}-{}\nbuild: {}",
        sooner_train::PROGRAM,
        kernels.join(", "),
        std::env::consts::ARCH,
        std::env::consts::OS,
        if cfg!(debug_assertions) { "debug (slow: use --release)" } else { "release" },
    )
}
