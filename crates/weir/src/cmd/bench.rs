//! `weir bench`: runs plans and compares their results.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use weir_bench::libraries::{self, CellList, LibrariesPlan};
use weir_bench::plan::{AnyPlan, Plan, PlanEstimate, Valid};
use weir_bench::{DryRun, Finished, Observer as _, overhead, sweep};
use weir_load::kafka::command_line;
use weir_report::{RunData, TextColumn, TextTable};
use weir_stats::compare::NamedRun;

use crate::cmd::bench_check_driver::{self, CheckDriverArgs};
use crate::cmd::bench_common::{
    RunOptions, failure, load_plan, print_files, print_result, write_report,
};
use crate::cmd::bench_compare::{self, CompareArgs};
use crate::cmd::bench_find_max::{self, FindMaxArgs};
use crate::cmd::bench_kubernetes;
use crate::cmd::bench_list::{self, ListArgs};
use crate::cmd::bench_run_args::{
    BaselineArgs, ClientsArgs, LibrariesArgs, OverheadArgs, RunArgs, SweepArgs,
};
use crate::cmd::text_table::{add_row, print_table};
use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// List the built-in plans with question, duration and resources, or export them
    List(ListArgs),
    /// Run a plan and write a report
    Run(RunArgs),
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
    /// Check that a driver of a client library follows the protocol
    ///
    /// Runs every command of docs/drivers.md on a real broker and prints one line per check. The
    /// exit code is 1 if the driver deviates.
    CheckDriver(CheckDriverArgs),
    /// Run the built-in librdkafka driver on standard input and output
    ///
    /// Uses the driver protocol of docs/drivers.md. Plans start this driver themselves; it is also
    /// an example for new drivers.
    Driver,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Run directories
    ///
    /// The outputs of each run are rebuilt. With several runs, an additional report shows them side
    /// by side.
    #[arg(required = true, value_name = "RUN")]
    dirs: Vec<PathBuf>,
    /// Directory of the side-by-side report of several runs
    #[arg(long, value_name = "DIR", default_value = "weir-runs/side-by-side")]
    out: PathBuf,
}

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

pub(crate) fn run(command: BenchCommand) -> Result<Exit, Failure> {
    match command {
        BenchCommand::List(args) => bench_list::run(&args),
        BenchCommand::Run(args) => run_plan(&args),
        BenchCommand::Import(args) => import(&args),
        BenchCommand::Compare(args) => bench_compare::run(&args),
        BenchCommand::FindMax(args) => bench_find_max::run(&args),
        BenchCommand::Report(args) => report(args),
        BenchCommand::CheckDriver(args) => bench_check_driver::run(&args),
        BenchCommand::Driver => driver(),
    }
}

fn run_plan(args: &RunArgs) -> Result<Exit, Failure> {
    match load_plan(&args.plan)? {
        AnyPlan::Clients(plan) => {
            let clients: ClientsArgs = args.of()?;
            match clients.dry_run.is_kubernetes() {
                true => run_in_kubernetes(args, clients, &plan),
                false => run_clients(clients, &plan),
            }
        }
        AnyPlan::Sweep(plan) => {
            let SweepArgs {
                common,
                aa_test,
                dry_run,
                values,
                baseline,
            } = args.of()?;
            baseline.read()?;
            if values.topic.is_some() {
                common.run.require_cluster("--topic")?;
            }
            let mut plan = common.apply(&plan, values)?;
            if aa_test.is_requested {
                plan = plan.aa_test();
            }
            let printed = dry_run.run(|machines, here| DryRun::of_sweep(&plan, machines, here))?;
            if let Some(exit) = printed {
                return Ok(exit);
            }
            if dry_run.is_remote() {
                let text = "--engine: a sweep runs on this machine; only its brokers can be remote";
                return Err(Failure::usage(text));
            }
            let time = PlanEstimate::of_sweep(&plan).time;
            let finished = common.run.execute(Some(time), |options, progress, stop| {
                sweep::run(&plan, options, progress, stop)
            })?;
            baseline.finish(&common.run, finished)
        }
        AnyPlan::Overhead(plan) => {
            let mut args: OverheadArgs = args.of()?;
            args.values.producer = args.common.run.kafka.client.without_connection();
            let mut plan = args.common.apply(&plan, args.values)?;
            if args.aa_test.is_requested {
                plan = plan.aa_test();
            }
            let (run, time) = (&args.common.run, plan.estimated_time());
            let finished = run.execute(Some(time), |options, progress, stop| {
                overhead::run(&plan, options, args.broker_port, progress, stop)
            })?;
            Ok(run.print(&finished, |finished| {
                match weir_report::overhead_table(&finished.run) {
                    Some(table) => println!("\n{table}"),
                    None => print_result(finished),
                }
                print_files(finished);
            }))
        }
        AnyPlan::Libraries(plan) => run_libraries(args.of()?, &plan),
    }
}

fn run_libraries(args: LibrariesArgs, plan: &Valid<LibrariesPlan>) -> Result<Exit, Failure> {
    let common = &args.common;
    let is_long = !common.quick && args.values.time_limit.is_none();
    let plan = common.apply(plan, args.values)?;
    let list = libraries::list_cells(&plan).map_err(|error| failure(error, &NEVER))?;
    if args.list_cells {
        print_cells(&list);
        return Ok(Exit::Success);
    }
    let finished = common
        .run
        .execute(Some(list.time), |options, progress, stop| {
            if is_long && list.time > LONG_RUN {
                let text =
                    "--list-cells shows the cells; --time-limit DURATION skips the last ones";
                progress.note(text);
            }
            libraries::run(&plan, options, args.resume.as_deref(), progress, stop)
        })?;
    Ok(common.run.print(&finished, print_result))
}

/// Prints one line per cell: its name, and its estimated time or the reason why it is skipped.
fn print_cells(list: &CellList) {
    let mut table = TextTable::new(&[
        TextColumn::text("cell", usize::MAX),
        TextColumn::number("repetitions"),
        TextColumn::number("time"),
        TextColumn::text("skipped", usize::MAX),
    ]);
    for (cell, time) in &list.cells {
        let (repetitions, time) = match &cell.skipped {
            Some(_) => (String::new(), String::new()),
            None => (
                cell.repetitions.to_string(),
                format!("{:.0} s", time.as_secs_f64().ceil()),
            ),
        };
        let reason = cell.skipped.as_deref().unwrap_or_default();
        add_row(&mut table, &[&cell.name, &repetitions, &time, reason]);
    }
    print_table(&table, "");
    let included = list.cells.iter().filter(|(cell, _)| cell.skipped.is_none());
    println!(
        "{} of {} cells run, with {} drivers: about {:.0} minutes (estimated)",
        included.count(),
        list.cells.len(),
        list.drivers,
        (list.time.as_secs_f64() / 60.0).ceil()
    );
}

fn run_clients(mut args: ClientsArgs, plan: &Valid<Plan>) -> Result<Exit, Failure> {
    args.baseline.read()?;
    if args.values.topic.is_some() {
        args.common.run.require_cluster("--topic")?;
    }
    // A warm-up given on the command line is not extended.
    args.values.warm_up_max = args.values.warm_up;
    let mut plan = args.common.apply(plan, args.values)?;
    plan = args.gateways.apply(plan, &args.common.run)?;
    if args.aa_test.is_requested {
        plan = plan.aa_test()?;
    }
    let dry_run = args
        .dry_run
        .run(|machines, here| DryRun::of(&plan, machines, here))?;
    if let Some(exit) = dry_run {
        return Ok(exit);
    }
    let time = PlanEstimate::of(&plan).time;
    let run = &args.common.run;
    let machines = args.dry_run.machines(run)?;
    let finished = run.execute(Some(time), |options, progress, stop| {
        let mut options = options.clone();
        if let Some(machines) = &machines {
            machines.connect(&mut options, &mut |text| progress.note(text), stop)?;
        }
        weir_bench::run(&plan, &options, progress, stop)
    })?;
    let dir = finished.dir.clone();
    let exit = args.baseline.finish(run, finished)?;
    args.kubernetes.finish(&dir)?;
    Ok(exit)
}

/// Checks the options of a run, then prints its Kubernetes objects or runs it in the cluster.
fn run_in_kubernetes(
    args: &RunArgs,
    clients: ClientsArgs,
    plan: &Valid<Plan>,
) -> Result<Exit, Failure> {
    let values = clients.values.clone();
    let plan = clients.common.apply(plan, values)?;
    bench_kubernetes::run(args, &clients, &plan)
}

impl BaselineArgs {
    /// Reads the baseline, so that a comparison is possible before anything is started.
    fn read(&self) -> Result<(), Failure> {
        match &self.baseline {
            Some(dir) => Ok(RunData::read(dir).map(|_| ())?),
            None if self.compare.needs_baseline() => Err(Failure::usage(
                "--fail-on, --aa and --metrics need a run to compare with: use --baseline DIR",
            )),
            None => Ok(()),
        }
    }

    /// Adds the comparison with the baseline to the run, prints the results and returns the exit
    /// code.
    fn finish(&self, run: &RunOptions, mut finished: Finished) -> Result<Exit, Failure> {
        let mut compared = Exit::Success;
        if let Some(base) = &self.baseline {
            let label = finished.dir.display().to_string();
            let named = NamedRun {
                label: &label,
                run: &finished.run,
            };
            let comparison = self.compare.with_baseline(base, named)?;
            compared = bench_compare::exit(&self.compare, &comparison);
            finished.run.comparisons.push(comparison);
            finished.write().or_exit(Exit::Tool)?;
            write_report(&finished)?;
        }
        let exit = run.print(&finished, |finished| {
            print_result(finished);
            for comparison in &finished.run.comparisons {
                println!();
                bench_compare::show(comparison, false);
            }
        });
        Ok(match exit {
            Exit::Success => compared,
            other => other,
        })
    }
}

fn driver() -> Result<Exit, Failure> {
    weir_drivers::librdkafka::run()
        .context("cannot write to standard output")
        .or_exit(Exit::Tool)?;
    Ok(Exit::Success)
}

fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let command_line = command_line();
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

/// Rebuilds the reports of the runs. Writes a side-by-side report of several runs.
fn report(args: ReportArgs) -> Result<Exit, Failure> {
    for dir in &args.dirs {
        weir_report::write_all(dir)?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            weir_report::write_index(parent)?;
        }
    }
    let (dir, data) = match args.dirs.as_slice() {
        [dir] => (dir.clone(), RunData::read(dir)?),
        dirs => {
            let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
            let data = weir_report::overlay(&dirs)?;
            weir_report::write_data(&data, &args.out)?;
            (args.out, data)
        }
    };
    print_result(&Finished { dir, run: data.run });
    Ok(Exit::Success)
}

/// Stop flag of a command that cannot be interrupted.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Estimated time above which the options that shorten a run are printed.
const LONG_RUN: Duration = Duration::from_secs(3600);
