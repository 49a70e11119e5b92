//! One file for each command.

pub(crate) mod bench;
pub(crate) mod ceiling;
pub(crate) mod data;
pub(crate) mod dawnbench;
pub(crate) mod eval;
pub(crate) mod nqm;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod rerun;
pub(crate) mod resume;
mod roofline;
pub(crate) mod seeds;
pub(crate) mod submit;
pub(crate) mod train;
pub(crate) mod workloads;
