//! Counts and times as types: echoing makes "examples seen" and "examples read" differ, and studies divide by both.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = $name;
            fn sub(self, other: $name) -> $name {
                $name(self.0 - other.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
    ($(#[$doc:meta])* $name:ident($inner:ty) exact) => {
        unit!($(#[$doc])* $name($inner));
        impl Eq for $name {}
        #[allow(clippy::derive_ord_xor_partial_ord)]
        impl Ord for $name {
            fn cmp(&self, other: &$name) -> std::cmp::Ordering {
                self.0.cmp(&other.0)
            }
        }
        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }
    };
}

unit!(
    /// Optimiser steps taken.
    Updates(u64) exact
);
unit!(
    /// Examples that went into updates, repeats included.
    Examples(u64) exact
);
unit!(
    /// Examples read by the first stage of the pipeline; repeats are not counted, later epochs are.
    FreshExamples(u64) exact
);
unit!(
    /// Bytes.
    Bytes(u64) exact
);
unit!(
    /// Passes of fresh reads over the training split; fractional inside a pass.
    Epochs(f64)
);
unit!(
    /// A length of time in seconds.
    Seconds(f64)
);
