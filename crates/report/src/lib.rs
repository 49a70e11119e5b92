//! Pages and figures: what studies and runs recorded, as self-contained HTML with inline SVG, and as CSV. A page needs no
//! network and no script; every name on it is escaped; every number comes from a record.
//! **Invariant:** pure: no clock, no disk, no random numbers but keyed ones; texts go out as strings.

mod trials;
mod view;

mod chart;
mod echo;
mod figures;
mod regions;
mod repeats;
mod tables;

mod html;
mod lanes;
mod page;
mod runs;

pub use html::number;
pub use lanes::{LanePair, lanes_picture};
pub use page::{Asset, Page, study_page};
pub use repeats::{NOISE_SCALE, RepeatsView};
pub use runs::run_page;
pub use trials::study_trials;
pub use view::{FEWEST, LineView, PointView, StudyView};
