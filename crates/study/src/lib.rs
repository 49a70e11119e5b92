//! Studies, the pure half.

mod advice;
mod budget;
mod dawnbench;
mod echo;
mod error;
mod interval;
mod noise_scale;
pub mod nqm;
pub mod points;
mod rates;
mod scaling;
pub mod space;
mod target;
mod trial;

pub use advice::{Advice, BatchAdvice, batch_advice};
pub use budget::{BestWithin, Budget, Class, ClassCounts, best_within, classify};
pub use dawnbench::{DawnBenchRow, first_at_goal, parse_dawnbench};
pub use echo::{
    EchoAdvice, EchoChoice, FreshRatio, SharedCores, TimeLaw, best_echo, fresh_ratio, relative_time, time_map,
};
pub use error::{Fault, StudyError};
pub use interval::{Bootstrap, Interval, Reach};
pub use noise_scale::{NoisePair, NoiseScale, SquaredNorm, noise_pair};
pub use rates::{BestRate, RateRule, best_rates, effective_rate};
pub use scaling::{
    Bend, CurvePoint, Regimes, Scaling, ScalingIntervals, fit_scaling, perfect_scaling, regimes,
    scaling_intervals,
};
pub use target::{Best, Operator, Target, ToTarget, first_complete, to_target};
pub use trial::{Measure, Progress, Series, Status, Trial};
