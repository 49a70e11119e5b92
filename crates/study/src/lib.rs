//! Studies, the pure half: where trials lie, what they needed to meet a target, how sure that is, and what follows for
//! batch size and echo factor.
//!
//! In reading order:
//! - before trials run: [`definition`] is a study's file; [`space`] holds the ranges and scales of metaparameters, [`points`] spreads trials over them as a
//!   function of (study seed, trial number);
//! - what they measured: a [`Trial`] with its [`Series`], judged against a [`Target`] by [`to_target`], with a
//!   [`Bootstrap`] over trials and a [`Reach`] over seeds; [`space::Space::edges`] tells whether the search was wide enough;
//! - what it means: [`fit_scaling`] and [`regimes`] for updates against batch size, [`best_rates`] for learning rates,
//!   [`ClassCounts`] and [`best_within`] for budgets, [`fresh_ratio`], [`TimeLaw`] and [`best_echo`] for echoing,
//!   [`NoiseScale`] and [`batch_advice`] for the batch size;
//! - a workload that is solved exactly: [`nqm`], the noisy quadratic model, the oracle of all of the above;
//! - data of others: [`batch_science`] reads the published raw data of the data-parallelism paper, [`parse_dawnbench`]
//!   DAWNBench's tables.
//!
//! **Invariant:** no clock, no disk, no environment, no generator of random numbers but keyed ones whose seed is an
//! argument; texts come in as strings. **Invariant:** threads only where their number is an argument, and no result
//! depends on it. **Invariant:** diverged and censored trials are counted and never silently dropped.

mod advice;
pub mod batch_science;
mod budget;
mod dawnbench;
pub mod definition;
mod echo;
mod error;
mod interval;
pub mod nqm;
pub mod points;
mod rates;
mod repeats;
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
pub use rates::{BestRate, RateRule, best_rates, effective_rate};
pub use repeats::{EchoPlace, PlaceAdvice, RepeatValue, advise};
pub use scaling::{
    Bend, CurvePoint, Regimes, Scaling, ScalingIntervals, fit_scaling, perfect_scaling, regimes,
    scaling_intervals,
};
pub use sooner_base::{NoisePair, NoiseScale, SquaredNorm, noise_pair};
pub use target::{Best, Operator, Target, ToTarget, first_complete, to_target};
pub use trial::{Measure, Progress, Series, Status, Trial};
