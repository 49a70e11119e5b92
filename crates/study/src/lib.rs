//! Studies, the pure half.

mod error;
mod interval;
pub mod nqm;
pub mod points;
mod scaling;
pub mod space;
mod target;
mod trial;

pub use error::{Fault, StudyError};
pub use interval::{Bootstrap, Interval, Reach};
pub use scaling::{
    Bend, CurvePoint, Regimes, Scaling, ScalingIntervals, fit_scaling, perfect_scaling, regimes,
    scaling_intervals,
};
pub use target::{Best, Operator, Target, ToTarget, first_complete, to_target};
pub use trial::{Measure, Progress, Series, Status, Trial};
