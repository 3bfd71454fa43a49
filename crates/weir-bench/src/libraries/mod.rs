//! Comparison of client libraries: drivers take turns at producing, consuming and round trips.

mod check;
mod client_file;
mod disk;
mod driver_set;
mod estimate;
mod grid;
mod job;
mod journal;
mod measure;
mod pack;
mod plan;
mod profile;
mod requested;
mod result;
mod run_end;
mod runner;
mod sample;
mod start;
mod topics;
mod warm_up;

pub use check::{CheckRequest, check_driver};
pub use estimate::{CellList, list_cells};
pub use pack::pack;
pub use plan::{LibrariesOverrides, LibrariesPlan};
pub use profile::Profile;
pub use start::run;
