//! Pages and figures: what studies and runs recorded, as self-contained HTML with inline SVG, and as CSV.
//! **Invariant:** pure: no clock, no disk, no random numbers but keyed ones; texts go out as strings.

mod trials;

pub use trials::study_trials;
