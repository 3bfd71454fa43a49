//! `weir bench find-max`: the highest load that is held.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use weir_bench::plan::{Architecture, PlanOverrides};
use weir_bench::{FindMaxOptions, Variable};
use weir_load::units::{parse_count, parse_duration};

use crate::cmd::bench::{exit_of, failure, load_plan, options, parse_rate, print_files, usage};
use crate::cmd::bench_progress::BenchProgress;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What to load, and how far.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir bench find-max keyed --quick\n  weir bench find-max broadcast --architecture gateway --vary clients --p99 500ms\n  \
                  weir bench find-max keyed --architecture standalone --clients 1    (a plain broker: produce and consume)"
)]
pub(crate) struct FindMaxArgs {
    /// A built-in plan (weir bench list), or a plan file ending in .toml.
    plan: String,
    /// Coarser (to 25 %) and with the plan's quick windows.
    #[arg(long)]
    quick: bool,
    /// Who is loaded: groups, standalone, gateway, floor; default: gateway, or the plan's first.
    #[arg(long, value_name = "NAME")]
    architecture: Option<Architecture>,
    /// What is raised.
    #[arg(long, value_enum, default_value = "rate")]
    vary: Vary,
    /// Clients while the rate is raised; default: the plan's lowest level.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    clients: Option<u64>,
    /// Records per second while the clients are raised; default: the plan's.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// The first load; default: the plan's.
    #[arg(long, value_name = "LOAD", value_parser = parse_rate)]
    from: Option<f64>,
    /// Nothing above this load is tried.
    #[arg(long, value_name = "LOAD", value_parser = parse_rate)]
    up_to: Option<f64>,
    /// 99th percentile of the response up to which a load counts as held.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    p99: Option<Duration>,
    /// Load before each measured window.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    warm_up: Option<Duration>,
    /// Length of each measured window; the one that confirms is twice as long.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    hold: Option<Duration>,
    /// Brokers of a running cluster; without it a broker is started, and gone afterwards.
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,
    /// Where the run folder is made.
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Print the content of run.json instead of the steps.
    #[arg(long)]
    json: bool,
}

/// What is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Vary {
    /// Records per second.
    Rate,
    /// Number of clients.
    Clients,
}

/// Searches, and writes and prints what came of it.
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
            "{}: a sweep searches by itself; give a plan with clients",
            args.plan
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let first = plan.architectures.first().copied();
    let has_gateway = plan.architectures.contains(&Architecture::Gateway);
    let usual = first.filter(|_| !has_gateway);
    let search = FindMaxOptions {
        architecture: args.architecture.or(usual).unwrap_or(Architecture::Gateway),
        variable: match args.vary {
            Vary::Rate => Variable::Rate,
            Vary::Clients => Variable::Clients,
        },
        clients: args
            .clients
            .or_else(|| plan.levels.first().copied())
            .unwrap_or(1),
        start: args.from,
        highest: args.up_to.unwrap_or(HIGHEST),
        resolution_share: if args.quick { 0.25 } else { 0.05 },
        p99_ms: args.p99.map(|limit| limit.as_secs_f64() * 1e3),
    };
    check(&search)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(args.json);
    watch.announce(search.estimated_time(&plan));
    let options = options(&args.out, args.bootstrap.clone())?;
    let result = weir_bench::find_max(&plan, &search, &options, &mut watch, &stop);
    watch.end();
    let finished = result.map_err(|error| failure(error, &stop))?;
    weir_report::write_all(&finished.dir)
        .context("report not written; the results are in the run folder")
        .map_err(|error| Failure::new(Exit::Instrument, error))?;
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
        true => "--clients 0: a load needs a client".to_owned(),
        false => format!(
            "--from {start} --up-to {}: give a load above 0, and at most the highest",
            search.highest
        ),
    };
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
}

/// No machine that this runs on comes near.
const HIGHEST: f64 = 10_000_000.0;
