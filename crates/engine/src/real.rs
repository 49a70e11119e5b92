//! The numbers that the naive executor can compute with.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// f32 or f64: the arithmetic that operations need, so that one plain loop serves as reference in both.
pub trait Real:
    Copy
    + Debug
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// The same number in f64.
    fn to_f64(self) -> f64;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// Whether this is not a number.
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            fn from_f64(value: f64) -> $t {
                value as $t
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            fn exp(self) -> $t {
                $t::exp(self)
            }
            fn ln(self) -> $t {
                $t::ln(self)
            }
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }
    };
}

real!(f32);
real!(f64);
