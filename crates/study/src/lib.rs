//! Studies, the pure half.

mod error;
pub mod nqm;

pub use error::{Fault, StudyError};
