//! Studies, the pure half.

mod error;
pub mod nqm;
pub mod points;
pub mod space;

pub use error::{Fault, StudyError};
