//! `weir bench find-max`: searches for the maximum sustained load.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_bench::plan::{Architecture, PlanOverrides};
use weir_bench::{FindMaxOptions, Variable};
use weir_load::units::{parse_count, parse_duration};

use crate::cmd::bench_common::{
    exit_of, failure, load_plan, options, parse_rate, print_files, usage, write_report,
};
use crate::cmd::bench_progress::BenchProgress;
use crate::exit::{Exit, Failure};
use crate::signal;

const AFTER_HELP: &str = "\
Examples:
  weir bench find-max keyed --quick
  weir bench find-max broadcast --architecture gateway --vary clients --p99 500ms
  weir bench find-max keyed --architecture standalone --clients 1
    (a broker without gateway: produce and consume)";

/// Arguments of `weir bench find-max`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FindMaxArgs {
    /// Built-in plan (see `weir bench list`), or a plan file ending in .toml
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
    vary: Vary,
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
    /// Bootstrap servers of a running cluster [default: a broker started for the run]
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Parent directory of the run directory
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Print the content of run.json instead of the steps
    #[arg(long)]
    json: bool,
}

/// Quantities that the search can increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Vary {
    /// Records per second
    Rate,
    /// Number of clients
    Clients,
}

/// Searches for the maximum sustained load, writes the report and prints the result.
pub(crate) fn run(args: &FindMaxArgs) -> Result<Exit, Failure> {
    let (mut plan, file) = load_plan(&args.plan)?;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &file).map_err(usage)?;
    }
    let overrides = PlanOverrides {
        rate_per_s: args.rate,
        warm_up: args.warm_up,
        warm_up_max: args.warm_up,
        hold: args.hold,
        ..PlanOverrides::default()
    };
    let plan = plan.with(&overrides, "command line").map_err(usage)?;
    if plan.sweep.is_some() {
        let text = format!(
            "plan {}: is a sweep; use a plan with numbers of clients",
            args.plan
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let first = plan.architectures.first().copied();
    let has_gateway = plan.architectures.contains(&Architecture::Gateway);
    let default = first.filter(|_| !has_gateway);
    let search = FindMaxOptions {
        architecture: args
            .architecture
            .or(default)
            .unwrap_or(Architecture::Gateway),
        variable: match args.vary {
            Vary::Rate => Variable::Rate,
            Vary::Clients => Variable::Clients,
        },
        clients: args
            .clients
            .or_else(|| plan.levels.first().copied())
            .unwrap_or(1),
        start: args.start_load,
        highest: args.max_load.unwrap_or(DEFAULT_MAX_LOAD),
        resolution_share: if args.quick { 0.25 } else { 0.05 },
        p99_ms: args.p99.map(|limit| limit.as_secs_f64() * 1e3),
    };
    check(&search)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut progress = BenchProgress::new(args.json);
    progress.announce(search.estimated_time(&plan));
    let options = options(&args.out, args.bootstrap.clone())?;
    let result = weir_bench::find_max(&plan, &search, &options, &mut progress, &stop);
    progress.end();
    let finished = result.map_err(|error| failure(error, &stop))?;
    write_report(&finished)?;
    if args.json {
        print!("{}", finished.run.to_json());
    } else {
        if let Some(find_max) = &finished.run.find_max {
            print!("\n{}", weir_report::render_find_max(find_max));
        }
        print_files(&finished);
    }
    Ok(exit_of(finished.run.outcome))
}

fn check(search: &FindMaxOptions) -> Result<(), Failure> {
    let start = search.start.unwrap_or(1.0);
    let is_range = start > 0.0 && start <= search.highest;
    if is_range && search.clients > 0 {
        return Ok(());
    }
    let text = match is_range {
        true => "--clients \"0\": must be at least 1".to_owned(),
        false => format!(
            "--start-load \"{start}\": must be above 0 and at most --max-load \"{}\"",
            search.highest
        ),
    };
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
}

/// Beyond the capacity of any machine that this runs on.
const DEFAULT_MAX_LOAD: f64 = 10_000_000.0;
