//! The skeleton that all experiments share: plans, overrides, run directories, brokers and turns.
//!
//! An experiment has its own plan type and measures its own cells. It gets everything else here:
//!
//! 1. [`plan_file`]: [`Valid::parse`] reads a plan and checks its rules, [`Valid::with`] replaces
//!    values. Only a [`Valid`] plan can be run. The overrides of a plan are also its options on the
//!    command line, so an option that a plan does not have is not part of its type.
//! 2. [`run_dir`]: [`RunDir`] is the run directory with its clock; it describes the run at the
//!    start and writes `run.json` at the end.
//! 3. [`broker`]: [`RunBroker`] is the broker, started for the run or existing.
//! 4. [`turns`]: [`turns::order`] rotates the subjects, [`turns::CellLog`] gives each cell its turn
//!    and records how it ended.

mod aa_test;
pub(crate) mod broker;
pub(crate) mod names;
pub(crate) mod plan_file;
pub(crate) mod run_dir;
pub(crate) mod turns;

pub use broker::BenchOptions;
pub(crate) use broker::Connection;
pub(crate) use broker::{KEEP_ALL, RunBroker};
pub use names::UnknownName;
pub use plan_file::{PlanError, PlanText, Rules, Siblings, Valid};
pub use run_dir::Finished;
pub(crate) use run_dir::RunDir;

/// State that all cells of a run share.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) run_dir: &'a RunDir<'a>,
    pub(crate) broker: &'a RunBroker,
}

impl RunContext<'_> {
    /// Returns a topic name that is unique on the broker, also across runs.
    pub(crate) fn topic_name(&self, plan: &str, id: &str) -> String {
        let now_ms = self.run_dir.clock.now_unix_ns() / 1_000_000;
        format!("weir-{plan}-{id}-{now_ms}")
    }
}
