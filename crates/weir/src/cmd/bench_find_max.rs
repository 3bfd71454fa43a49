//! `weir bench find-max`: searches for the maximum sustained load.

use std::time::Duration;

use clap::Args;
use weir_bench::plan::{Architecture, Plan, PlanOverrides};
use weir_bench::{FindMaxOptions, Variable, parse_rate};
use weir_load::units::{parse_count, parse_duration};

use crate::cmd::bench_common::{RunOptions, apply, load_clients_plan, print_files};
use crate::cmd::plan_name::PlanNameParser;
use crate::exit::{Exit, Failure};

const AFTER_HELP: &str = "\
Examples:
  weir bench find-max keyed --quick
  weir bench find-max broadcast --architecture gateway --vary clients \\
    --p99 500ms

Example, a broker without gateway:
  weir bench find-max keyed --architecture standalone --clients 1";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FindMaxArgs {
    /// Built-in plan (see `weir bench list`), or a plan file ending in .toml
    #[arg(value_parser = PlanNameParser, hide_possible_values = true)]
    plan: String,
    /// Use a resolution of 25 % instead of 5 %, and the quick windows of the plan
    #[arg(long)]
    quick: bool,
    /// Architecture under load: groups, standalone, gateway or floor
    ///
    /// The default is gateway, or the first architecture of a plan without gateway.
    #[arg(long, value_name = "NAME")]
    architecture: Option<Architecture>,
    /// Quantity to increase
    #[arg(long, value_enum, default_value = "rate")]
    vary: Variable,
    /// Number of clients with --vary rate [default: lowest level of the plan]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    clients: Option<u64>,
    /// Records per second with --vary clients [default: rate of the plan]
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = parse_rate)]
    rate: Option<f64>,
    /// First load to try, in clients or records per second [default: from the plan]
    #[arg(long, value_name = "LOAD", value_parser = parse_rate)]
    start_load: Option<f64>,
    /// Highest load to try, in clients or records per second
    #[arg(long, value_name = "LOAD", value_parser = parse_rate)]
    max_load: Option<f64>,
    /// Maximum p99 response time of a sustained load
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p99: Option<Duration>,
    /// Length of the load before each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    warm_up: Option<Duration>,
    /// Length of each measured window; the confirming window is twice as long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    hold: Option<Duration>,
    /// Search twice in a row (A/A test)
    ///
    /// The difference between the two loads found is the noise of the search on this machine.
    #[arg(long)]
    aa_test: bool,
    #[command(flatten)]
    run: RunOptions,
}

/// Searches for the maximum sustained load, writes the report and prints the result.
pub(crate) fn run(args: &FindMaxArgs) -> Result<Exit, Failure> {
    let overrides = PlanOverrides {
        rate_per_s: args.rate,
        warm_up: args.warm_up,
        warm_up_max: args.warm_up,
        hold: args.hold,
        ..PlanOverrides::default()
    };
    let quick = args.quick.then_some(args.plan.as_str());
    let plan = apply(&load_clients_plan(&args.plan)?, quick, overrides)?;
    let search = search(args, &plan)?;
    let time = search.estimated_time(&plan);
    let finished = args.run.execute(Some(time), |options, progress, stop| {
        weir_bench::find_max(&plan, &search, options, progress, stop)
    })?;
    Ok(args.run.print(&finished, |finished| {
        if let Some(find_max) = &finished.run.find_max {
            print!("\n{}", weir_report::render_find_max(find_max));
        }
        print_files(finished);
    }))
}

fn search(args: &FindMaxArgs, plan: &Plan) -> Result<FindMaxOptions, Failure> {
    let first = plan.architectures.first().copied();
    let has_gateway = plan.architectures.contains(&Architecture::Gateway);
    let default = first.filter(|_| !has_gateway);
    let lowest = plan.levels.first().copied().unwrap_or(1);
    let (start, highest) = (args.start_load, args.max_load.unwrap_or(DEFAULT_MAX_LOAD));
    if let Some(start) = start.or(Some(1.0)).filter(|it| *it <= 0.0 || *it > highest) {
        return Err(Failure::usage(format!(
            "--start-load \"{start}\": must be above 0 and at most --max-load \"{highest}\""
        )));
    }
    if args.clients == Some(0) {
        return Err(Failure::usage("--clients \"0\": must be at least 1"));
    }
    Ok(FindMaxOptions {
        architecture: args
            .architecture
            .or(default)
            .unwrap_or(Architecture::Gateway),
        variable: args.vary,
        clients: args.clients.unwrap_or(lowest),
        start,
        highest,
        resolution_share: if args.quick { 0.25 } else { 0.05 },
        p99_ms: args.p99.map(|limit| limit.as_secs_f64() * 1e3),
        aa_test: args.aa_test,
    })
}

/// Beyond the capacity of any machine that this runs on.
const DEFAULT_MAX_LOAD: f64 = 10_000_000.0;
