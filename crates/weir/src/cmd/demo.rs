//! `weir demo`: everything at once on one machine, with nothing to prepare.

use std::path::PathBuf;

use clap::Args;
use weir_load::plan::Plan;
use weir_stats::run::{Outcome, Run};

use crate::cmd::bench;
use crate::cmd::bench_watch::Watch;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Where the demo leaves its result.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the run folder is made.
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    let plan = plan().map_err(|error| Failure::new(Exit::Usage, error))?;
    let levels: Vec<String> = plan.levels.iter().map(u64::to_string).collect();
    println!(
        "One topic, {} records a second under 40 keys, brought to {} clients in three ways:\n  \
         standalone  each client is a plain Kafka consumer and reads the whole topic\n  \
         gateway     each client subscribes to its one key at weir's gateway, by WebSocket\n  \
         floor       ready-made frames to plain sockets: the least any server could do\n\
         Broker, gateway, producers and clients all run here, on free ports; about 3 minutes.\n",
        plan.workload.rate_per_s,
        levels.join(", "),
    );
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = Watch::new(false);
    let options = bench::options(&args.out, None)?;
    let finished = bench::execute(&plan, &options, &mut watch, &stop)?;
    bench::print_result(&finished);
    Ok(exit_of(&finished.run))
}

fn plan() -> Result<Plan, weir_load::plan::PlanError> {
    // Invariant: the plan is built in, and a test parses it.
    let plan = Plan::built_in("keyed").expect("the plan is part of the program")?;
    let demo = plan.demo.clone();
    let mut plan = plan.with(&demo, "keyed.toml")?;
    // A demo on a small machine shows figures; it does not judge them.
    plan.thresholds.clear();
    Ok(plan)
}

/// Fine when each architecture has at least one valid level.
fn exit_of(run: &Run) -> Exit {
    match run.outcome {
        Outcome::Passed | Outcome::ThresholdFailed => Exit::Fine,
        Outcome::Invalid => Exit::Instrument,
        Outcome::Interrupted => Exit::Interrupted,
    }
}
