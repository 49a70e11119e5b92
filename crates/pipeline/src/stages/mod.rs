//! The stages of a plan, one file each: what it takes, what it gives, and its random choices.

mod buffer;
mod crop;
mod cutout;
mod echo;
mod flip;
mod jitter;
mod mix;
mod normalize;
mod resized;
mod shuffle;

pub use buffer::Mixing;
pub(crate) use crop::Crop;
pub(crate) use cutout::Cutout;
pub(crate) use echo::{Echo, Spread};
pub(crate) use flip::Flip;
pub(crate) use jitter::Jitter;
pub(crate) use mix::{Mix, MixKind};
pub(crate) use normalize::{table, unit_table};
pub(crate) use resized::RandomResizedCrop;
pub(crate) use shuffle::{EpochOrder, Order, Pick};
