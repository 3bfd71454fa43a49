//! Comparison of client libraries: drivers take turns at producing, consuming and round trips.

mod cpu_affinity;
mod disk;
mod driver_set;
mod grid;
mod host_usage;
mod job;
mod journal;
mod measure;
mod plan;
mod profile;
mod result;
mod run_end;
mod runner;
mod sample;
mod start;
mod topics;
mod warm_up;

pub use plan::{LibrariesOverrides, LibrariesPlan};
pub use profile::Profile;
pub use start::run;
