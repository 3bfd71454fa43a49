//! Comparison of client libraries: drivers take turns at producing, consuming and round trips.

mod broker;
mod cpu_affinity;
mod disk;
mod driver_set;
mod grid;
mod host_usage;
mod job;
mod journal;
mod measure;
mod operation;
mod plan;
mod profile;
mod result;
mod runner;
mod sample;
mod start;
mod topics;
mod warm_up;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::{BenchError, BenchOptions, Finished, Observer};
use crate::plan::Valid;

pub use plan::{LibrariesOverrides, LibrariesPlan, WarmUpPlan};
pub use profile::Profile;

/// Runs the plan, or the rest of the run in the directory `resume`. When `stop` becomes true, the
/// drivers are ended and the results so far are written.
///
/// # Errors
/// [`BenchError`] if the plan or the directory is invalid, or if there is no broker or no driver.
pub fn run(
    plan: &Valid<LibrariesPlan>,
    options: &BenchOptions,
    resume: Option<&Path>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    start::run(plan, options, resume, observer, stop)
}
