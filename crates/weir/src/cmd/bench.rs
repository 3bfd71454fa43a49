//! `weir bench`: runs plans and compares their results.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use weir_bench::Finished;
use weir_bench::plan::{PlanEstimate, PlanOverrides, SweepOverrides};
use weir_stats::compare::NamedRun;

use crate::cmd::bench_common::{
    execute, exit_of, failure, load_plan, options, print_result, usage, write_report,
};
use crate::cmd::bench_compare::{self, CompareArgs};
use crate::cmd::bench_driver;
use crate::cmd::bench_find_max::{self, FindMaxArgs};
use crate::cmd::bench_libraries;
use crate::cmd::bench_list::{self, ListArgs};
use crate::cmd::bench_options::PlanKind;
use crate::cmd::bench_overhead;
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::bench_report::{self, ReportArgs};
use crate::cmd::bench_run_args::BenchRunArgs;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Commands of `weir bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// List the built-in plans with question, duration and resources, or export them
    List(ListArgs),
    /// Run a plan and write a report
    Run(Box<BenchRunArgs>),
    /// Compare two runs metric by metric
    ///
    /// The verdict of each metric is better, worse, equivalent or inconclusive.
    Compare(CompareArgs),
    /// Search for the maximum sustained load
    ///
    /// The result is confirmed in a longer window, and the limiting process or resource is named.
    FindMax(FindMaxArgs),
    /// Convert output of Apache Kafka's performance tools into a run with reports
    ///
    /// Reads the output of kafka-producer-perf-test and kafka-consumer-perf-test.
    Import(ImportArgs),
    /// Rebuild the reports of runs from their raw files
    ///
    /// Several runs are also shown side by side.
    Report(ReportArgs),
    /// Run the built-in librdkafka driver on standard input and output
    ///
    /// Uses the driver protocol of docs/drivers.md. Plans start this driver themselves; it is also
    /// an example for new drivers.
    Driver,
}

/// Arguments of `weir bench import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files with the output of the tools
    ///
    /// File names carry the parameters: test-producer-{record size}-{rate}.txt and
    /// test-consumer-{fetch size}.txt.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Parent directory of the run directory
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Print the content of run.json instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs one command.
pub(crate) fn run(command: BenchCommand) -> Result<Exit, Failure> {
    match command {
        BenchCommand::List(args) => bench_list::run(&args),
        BenchCommand::Run(args) => run_plan(&args),
        BenchCommand::Import(args) => import(&args),
        BenchCommand::Compare(args) => bench_compare::run(&args),
        BenchCommand::FindMax(args) => bench_find_max::run(&args),
        BenchCommand::Report(args) => bench_report::run(args),
        BenchCommand::Driver => bench_driver::run(),
    }
}

fn run_plan(args: &BenchRunArgs) -> Result<Exit, Failure> {
    if let Some(plan) = bench_overhead::plan(&args.plan) {
        args.given
            .check::<BenchRunArgs>(&args.plan, PlanKind::Overhead)?;
        return bench_overhead::run(args, plan.map_err(usage)?);
    }
    if let Some(plan) = bench_libraries::plan(&args.plan) {
        args.given
            .check::<BenchRunArgs>(&args.plan, PlanKind::Libraries)?;
        return bench_libraries::run(args, plan.map_err(usage)?);
    }
    let (mut plan, file) = load_plan(&args.plan)?;
    let kind = match plan.sweep {
        Some(_) => PlanKind::Sweep,
        None => PlanKind::Clients,
    };
    args.given.check::<BenchRunArgs>(&args.plan, kind)?;
    check_baseline(args)?;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &file).map_err(usage)?;
    }
    let overrides = PlanOverrides {
        architectures: args.architectures.clone(),
        levels: args.levels.clone(),
        repetitions: args.repetitions,
        rate_per_s: args.rate,
        rates_per_s: args.rates.clone(),
        sweep: SweepOverrides {
            record_sizes_bytes: args.record_sizes.clone(),
            target_rates_per_s: args.target_rates.clone(),
            fetch_sizes_bytes: args.fetch_sizes.clone(),
            consumer_records: args.records,
            mib_per_s_max: None,
            kafka_tools: args.kafka_tools.then_some(true),
        },
        topic: args.topic.clone(),
        key: args.key.clone(),
        broker_warm_up: None,
        warm_up: args.warm_up,
        // A warm-up given on the command line is not extended.
        warm_up_max: args.warm_up,
        hold: args.hold,
        drain: args.drain,
    };
    let mut plan = plan.with(&overrides, "command line").map_err(usage)?;
    if args.aa_test {
        plan = plan.aa_test().map_err(usage)?;
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut progress = BenchProgress::new(args.json);
    progress.announce(PlanEstimate::of(&plan).time);
    let options = options(&args.out, args.bootstrap.clone())?;
    let mut finished = execute(&plan, &options, &mut progress, &stop)?;
    let compare_exit = compare_with_baseline(args, &mut finished)?;
    if args.json {
        print!("{}", finished.run.to_json());
    } else {
        print_result(&finished);
        for comparison in &finished.run.comparisons {
            println!();
            bench_compare::show(comparison, false);
        }
    }
    Ok(match exit_of(finished.run.outcome) {
        Exit::Success => compare_exit,
        other => other,
    })
}

/// Checks that the comparison with the baseline is possible before anything is started.
fn check_baseline(args: &BenchRunArgs) -> Result<(), Failure> {
    match &args.baseline {
        Some(dir) => weir_report::RunData::read(dir)
            .map(|_| ())
            .map_err(|error| Failure::new(Exit::Usage, error)),
        None if args.compare.needs_baseline() => {
            let text =
                "--fail-on, --aa and --metrics need a run to compare with: use --baseline DIR";
            Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
        }
        None => Ok(()),
    }
}

/// Adds the comparison with the baseline to the run and returns its exit code.
fn compare_with_baseline(args: &BenchRunArgs, finished: &mut Finished) -> Result<Exit, Failure> {
    let Some(base) = &args.baseline else {
        return Ok(Exit::Success);
    };
    let label = finished.dir.display().to_string();
    let named = NamedRun {
        label: &label,
        run: &finished.run,
    };
    let comparison = args.compare.with_baseline(base, named)?;
    let exit = bench_compare::exit(&args.compare, &comparison);
    finished.run.comparisons.push(comparison);
    finished
        .write()
        .map_err(|error| Failure::new(Exit::Instrument, error))?;
    weir_report::write_all(&finished.dir).map_err(|error| Failure::new(Exit::Instrument, error))?;
    Ok(exit)
}

fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let command_line: Vec<String> = std::env::args().collect();
    let stop = AtomicBool::new(false);
    let finished = weir_bench::import(&args.files, &args.out, &command_line);
    let finished = finished.map_err(|error| failure(error, &stop))?;
    write_report(&finished)?;
    match args.json {
        true => print!("{}", finished.run.to_json()),
        false => print_result(&finished),
    }
    Ok(Exit::Success)
}
