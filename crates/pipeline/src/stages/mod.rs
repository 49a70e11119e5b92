//! The stages of a plan, one file each: what it takes, what it gives, and its random choices.

mod crop;
mod flip;
mod normalize;
mod shuffle;

pub(crate) use crop::Crop;
pub(crate) use flip::Flip;
pub(crate) use normalize::{table, unit_table};
pub(crate) use shuffle::Order;
