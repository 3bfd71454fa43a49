//! `weir bench run client-libraries`: the plan that compares client libraries.

use std::path::PathBuf;

use clap::Args;
use weir_bench::Observer as _;
use weir_bench::libraries::{self, LibrariesOverrides, LibrariesPlan};
use weir_bench::plan::Valid;

use crate::cmd::bench_common::{CommonArgs, print_result};
use crate::exit::{Exit, Failure};

/// Arguments of comparisons of client libraries.
#[derive(Debug, Args)]
pub(crate) struct LibrariesArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) values: LibrariesOverrides,
    /// Directory of an interrupted run to resume; all other options must be the same
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
}

/// Runs the plan.
pub(crate) fn run(args: LibrariesArgs, plan: &Valid<LibrariesPlan>) -> Result<Exit, Failure> {
    let common = &args.common;
    let is_long = !common.quick && args.values.time_limit.is_none();
    let plan = common.apply(plan, args.values)?;
    let finished = common.run.execute(None, |options, progress, stop| {
        if is_long {
            let text = "a full comparison takes hours; --time-limit DURATION skips the last cells";
            progress.note(text);
        }
        libraries::run(&plan, options, args.resume.as_deref(), progress, stop)
    })?;
    Ok(common.run.print(&finished, print_result))
}
