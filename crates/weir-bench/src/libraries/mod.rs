//! Client libraries beside each other: drivers that take turns at producing, consuming and going there and back.

mod broker;
mod disk;
mod driver_set;
mod grid;
mod job;
mod journal;
mod measure;
mod others;
mod pin;
mod plan;
mod profile;
mod result;
mod runner;
mod sample;
mod start;
mod topics;
mod warm;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::{BenchError, BenchOptions, Finished, Observer};

pub use plan::{BUILT_IN_FILE, BUILT_IN_TEXT, LibrariesOverrides, LibrariesPlan, WarmUpPlan};
pub use profile::Profile;

/// Runs the plan, or what is left of the run in the folder `resume`. When `stop` becomes true, the drivers end, and what
/// was measured is written.
///
/// # Errors
/// [`BenchError`] if the plan or the folder makes no sense, there is no broker, or no driver at all.
pub fn run(
    plan: &LibrariesPlan,
    options: &BenchOptions,
    resume: Option<&Path>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    start::run(plan, options, resume, observer, stop)
}
