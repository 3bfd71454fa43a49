//! `weir bench`: plans, run to an answer.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use weir_bench::plan::{Architecture, BUILT_IN, Plan, PlanEstimate, PlanOverrides, SweepOverrides};
use weir_bench::{BenchError, BenchOptions, Finished};
use weir_load::error::ErrorClass;
use weir_load::units::{parse_count, parse_duration};
use weir_stats::compare::NamedRun;
use weir_stats::run::{Run, RunOutcome};

use crate::cmd::bench_compare::{self, CompareArgs, CompareOptions};
use crate::cmd::bench_driver;
use crate::cmd::bench_find_max::{self, FindMaxArgs};
use crate::cmd::bench_libraries::{self, LibrariesArgs};
use crate::cmd::bench_list::{self, ListArgs};
use crate::cmd::bench_options::{Given, PlanKind};
use crate::cmd::bench_overhead::{self, OverheadArgs};
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::bench_report::{self, ReportArgs};
use crate::cmd::terminal;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What can be done with plans.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Say what each built-in plan answers, needs and takes, or copy them out to be changed.
    List(ListArgs),
    /// Run a plan and write a report.
    Run(Box<BenchRunArgs>),
    /// Hold one run against another: better, worse, equivalent or inconclusive, metric by metric.
    Compare(CompareArgs),
    /// Search for the highest load that is held, confirm it, and name what limits it.
    FindMax(FindMaxArgs),
    /// Make a run folder, with reports, from what kafka-producer-perf-test and kafka-consumer-perf-test printed.
    Import(ImportArgs),
    /// Rebuild the reports of runs from their raw files; several runs are shown side by side too.
    Report(ReportArgs),
    /// Speak the driver protocol of docs/drivers.md on standard input and output, for librdkafka; what plans start
    /// themselves, and an example for those who write a driver.
    Driver,
}

/// What to take in.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files with the tools' output. Parameters come from names as test-producer-{record size}-{rate}.txt and
    /// test-consumer-{fetch size}.txt.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the run folder is made.
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Print the content of run.json instead of the table.
    #[arg(long)]
    json: bool,
}

/// What to run, and what to change about it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir bench run keyed --quick\n  weir bench run broadcast --levels 1k,2k --architectures groups,standalone,gateway\n  \
                  weir bench run keyed --levels 1k,5k --hold 30s --architectures gateway,floor\n  weir bench run keyed --quick --repetitions 5 --baseline weir-runs/before --fail-on worse"
)]
pub(crate) struct BenchRunArgs {
    // First: see its documentation.
    #[command(flatten)]
    pub(crate) given: Given,
    /// A built-in plan (weir bench list), or a plan file ending in .toml.
    pub(crate) plan: String,
    /// Take the plan's quick values: fewer clients, shorter windows.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Hold the plan's gateway against itself: the same twice, taking turns. What differs then is the machine; give the
    /// run to weir bench compare --aa.
    #[arg(long)]
    twice: bool,
    /// Numbers of clients, for example 500,1k,10k.
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    levels: Option<Vec<u64>>,
    /// Architectures: groups, standalone, gateway, floor.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    architectures: Option<Vec<Architecture>>,
    /// Times each cell runs.
    #[arg(long, value_name = "COUNT")]
    pub(crate) repetitions: Option<u32>,
    /// Records per second, all producers together.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Records per second of a grid, for example 500,2k,8k: each with each number of clients.
    #[arg(long, value_name = "RATES", value_parser = parse_rate, value_delimiter = ',', conflicts_with = "rate")]
    pub(crate) rates: Option<Vec<f64>>,
    /// An existing topic, in place of a new one for each cell; what others write there is background.
    #[arg(long, value_name = "NAME", requires = "bootstrap")]
    topic: Option<String>,
    /// Sweeps: bytes of each record, for example 100,1k.
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    record_sizes: Option<Vec<u64>>,
    /// Sweeps: records per second, for example 1k,5k.
    #[arg(long, value_name = "RATES", value_parser = parse_count, value_delimiter = ',')]
    targets: Option<Vec<u64>>,
    /// Sweeps: bytes that the consumer fetches at most per request and partition.
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    fetch_sizes: Option<Vec<u64>>,
    /// Sweeps: messages that each consumer reads.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) messages: Option<u64>,
    /// Sweeps: run Apache Kafka's own performance tools on the same cells.
    #[arg(long)]
    pub(crate) kafka_tools: bool,
    /// The one key that all clients want; our producers write it among others.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Load before the measured window.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) warm_up: Option<Duration>,
    /// Length of the measured window.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) hold: Option<Duration>,
    /// Longest wait for late deliveries.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Brokers of a running cluster; without it a broker is started, and gone afterwards.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) bootstrap: Option<String>,
    /// Where the run folder is made.
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
    /// Print the content of run.json instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) overhead: OverheadArgs,
    #[command(flatten)]
    pub(crate) libraries: LibrariesArgs,
    /// Folder of an earlier run to hold this one against.
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    judging: CompareOptions,
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
            targets_per_s: args.targets.clone(),
            fetch_sizes_bytes: args.fetch_sizes.clone(),
            messages: args.messages,
            mib_per_s_max: None,
            kafka_tools: args.kafka_tools.then_some(true),
        },
        topic: args.topic.clone(),
        key: args.key.clone(),
        preheat: None,
        warm_up: args.warm_up,
        // Who says how long means it.
        warm_up_max: args.warm_up,
        hold: args.hold,
        drain: args.drain,
    };
    let mut plan = plan.with(&overrides, "command line").map_err(usage)?;
    if args.twice {
        plan = plan.twice().map_err(usage)?;
    }
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(args.json);
    watch.announce(PlanEstimate::of(&plan).time);
    let options = options(&args.out, args.bootstrap.clone())?;
    let mut finished = execute(&plan, &options, &mut watch, &stop)?;
    let against = compare_with_baseline(args, &mut finished)?;
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
        Exit::Fine => against,
        other => other,
    })
}

/// Nothing is started for a comparison that cannot be made.
fn check_baseline(args: &BenchRunArgs) -> Result<(), Failure> {
    match &args.baseline {
        Some(dir) => weir_report::RunData::read(dir)
            .map(|_| ())
            .map_err(|error| Failure::new(Exit::Usage, error)),
        None if args.judging.is_given() => {
            let text = "--fail-on, --aa and --metrics compare with a run: give it with --baseline";
            Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
        }
        None => Ok(()),
    }
}

/// Adds the comparison with the baseline to the run; the code it stands for.
fn compare_with_baseline(args: &BenchRunArgs, finished: &mut Finished) -> Result<Exit, Failure> {
    let Some(base) = &args.baseline else {
        return Ok(Exit::Fine);
    };
    let label = finished.dir.display().to_string();
    let named = NamedRun {
        label: &label,
        run: &finished.run,
    };
    let comparison = args.judging.against(base, named)?;
    let exit = bench_compare::exit(&args.judging, &comparison);
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
    Ok(Exit::Fine)
}

/// The plan and the name its errors carry.
pub(crate) fn load_plan(name: &str) -> Result<(Plan, String), Failure> {
    if let Some(plan) = Plan::built_in(name) {
        return Ok((plan.map_err(usage)?, name.to_owned()));
    }
    if Path::new(name)
        .extension()
        .is_none_or(|extension| extension != "toml")
    {
        let known = BUILT_IN.iter().map(|plan| plan.name);
        let others = [bench_overhead::NAME, bench_libraries::NAME];
        let known: Vec<&str> = known.chain(others).collect();
        let known = known.join(", ");
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!("unknown plan \"{name}\": built in are {known}; a file ends in .toml"),
        ));
    }
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("cannot read plan {name}"))
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let beside = |file: &str| std::fs::read_to_string(Path::new(name).with_file_name(file)).ok();
    let plan = Plan::parse(&text, name, beside).map_err(usage)?;
    Ok((plan, name.to_owned()))
}

/// A count, or a decimal number.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) => Ok(rate),
        Err(_) => parse_count(text)
            .map(|count| count as f64)
            .map_err(|error| error.to_string()),
    }
}

/// Options of a run by this program.
pub(crate) fn options(out: &Path, bootstrap: Option<String>) -> Result<BenchOptions, Failure> {
    let exe = std::env::current_exe().context("own program not found");
    Ok(BenchOptions {
        out: out.to_owned(),
        bootstrap,
        exe: exe.map_err(|error| Failure::new(Exit::Instrument, error))?,
        command_line: std::env::args().collect(),
    })
}

/// Runs the plan and writes the report; the run's outcome is not looked at.
pub(crate) fn execute(
    plan: &Plan,
    options: &BenchOptions,
    watch: &mut BenchProgress,
    stop: &AtomicBool,
) -> Result<Finished, Failure> {
    let result = weir_bench::run(plan, options, watch, stop);
    watch.end();
    let finished = result.map_err(|error| failure(error, stop))?;
    write_report(&finished)?;
    Ok(finished)
}

fn write_report(finished: &Finished) -> Result<(), Failure> {
    weir_report::write_all(&finished.dir)
        .map(|_| ())
        .context("report not written; the results are in the run folder")
        .map_err(|error| Failure::new(Exit::Instrument, error))
}

/// The table, and where the rest is.
pub(crate) fn print_result(finished: &Finished) {
    let is_terminal = std::io::stdout().is_terminal();
    let color = is_terminal && std::env::var_os("NO_COLOR").is_none();
    println!(
        "\n{}",
        weir_report::render_table(&finished.run, terminal_width(), color)
    );
    print_notes(&finished.run);
    print_files(finished);
}

/// Where the rest is.
pub(crate) fn print_files(finished: &Finished) {
    println!("report  {}", finished.dir.join("report.html").display());
    println!("raw     {}", finished.dir.display());
}

fn print_notes(run: &Run) {
    for cell in run.cells.iter().filter(|cell| cell.is_valid()) {
        for note in &cell.notes {
            println!("note    {}: {note}", cell.id());
        }
    }
}

/// The code a run's outcome stands for.
pub(crate) fn exit_of(outcome: RunOutcome) -> Exit {
    match outcome {
        RunOutcome::Passed => Exit::Fine,
        RunOutcome::ThresholdFailed => Exit::Threshold,
        RunOutcome::Invalid => Exit::Instrument,
        RunOutcome::Interrupted => Exit::Interrupted,
    }
}

/// The code a run that could not go on ends with.
pub(crate) fn failure(error: BenchError, stop: &AtomicBool) -> Failure {
    let exit = match error.fault() {
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Target => Exit::Unreachable,
        ErrorClass::Instrument => Exit::Instrument,
    };
    Failure::new(exit, error)
}

/// A plan that is none.
pub(crate) fn usage(error: weir_bench::plan::PlanError) -> Failure {
    Failure::new(Exit::Usage, error)
}

/// Columns as the environment or the terminal tells them; enough for the whole table elsewhere.
fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let shown = || terminal::is_terminal().then(|| terminal::size().columns);
    columns.or_else(shown).unwrap_or(WIDTH)
}

const WIDTH: usize = 140;
