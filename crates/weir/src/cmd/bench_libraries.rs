//! `weir bench run client-libraries`: the plan that compares client libraries, and what can be changed about it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_bench::Observer as _;
use weir_bench::libraries::{self, LibrariesOverrides, LibrariesPlan, Profile};
use weir_bench::plan::PlanError;
use weir_load::units::{parse_bytes, parse_count, parse_duration};

use crate::cmd::bench::{BenchRunArgs, exit_of, failure, options, print_result, usage};
use crate::cmd::bench_progress::BenchProgress;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What only the plan client-libraries has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of client-libraries")]
pub(crate) struct LibrariesArgs {
    /// Libraries, the one that ratios refer to first: java, librdkafka, franz-go, confluent-kafka, aiokafka, kafkajs, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    libraries: Option<Vec<String>>,
    /// A driver of your own (docs/drivers.md), run by a shell; may be repeated.
    #[arg(long = "driver", value_name = "NAME=COMMAND")]
    drivers: Vec<String>,
    /// fair: all settings alike; legacy: as the published comparison; default-settings: as libraries come.
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
    /// Cells, in the order they are to run: WORK.MODE/BYTESxRECORDS, or roundtrip.open/BYTES@RATE; * stands for anything.
    /// produce: cold, metadata, warm; consume: group, assign; roundtrip: burst, open; in profile legacy produce.legacy.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    cells: Option<Vec<String>>,
    /// Bytes of each value, for example 100,1k.
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    payloads: Option<Vec<u64>>,
    /// Records of a repetition, for example 100,10k.
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    bursts: Option<Vec<u64>>,
    /// Run cells of more than 500 MB a repetition as well, so often.
    #[arg(long, value_name = "COUNT")]
    big_repetitions: Option<u32>,
    /// Acknowledgements: 0, 1, or -1 for all.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    acks: Option<i64>,
    /// Compare every key and value that is read with what was to be written, once per cell and library; not among the
    /// figures.
    #[arg(long)]
    verify: bool,
    /// The first library twice, as two drivers: no difference is the right answer, in 90 % of all cells at least.
    #[arg(long)]
    null_test: bool,
    /// Go on with an interrupted run in its folder; all other options have to be the same.
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// Disk space that topics of the run never exceed, for example 20GB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    disk_cap: Option<u64>,
    /// Time after which a driver has hung, beyond what the amount of data excuses.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    command_timeout: Option<Duration>,
    /// Cells that have not begun by then are left out.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    time_limit: Option<Duration>,
    /// First part of topic names.
    #[arg(long, value_name = "TEXT")]
    topic_prefix: Option<String>,
    /// Topic names, from {prefix}, {run}, {cell}, {work}, {mode}, {name}, {packets}, {length}, {rate}, {repetition}.
    #[arg(long, value_name = "TEXT")]
    topic_template: Option<String>,
}

/// The plan, if `name` is that of one that compares client libraries: the built-in one, or a file of that kind.
pub(crate) fn plan(name: &str) -> Option<Result<LibrariesPlan, PlanError>> {
    if name == NAME {
        return Some(LibrariesPlan::built_in());
    }
    let text = std::fs::read_to_string(name).ok()?;
    let is_one = text
        .lines()
        .any(|line| line.trim_start().starts_with("libraries"));
    is_one.then(|| LibrariesPlan::parse(&text, name))
}

/// Runs it.
pub(crate) fn run(args: &BenchRunArgs, plan: LibrariesPlan) -> Result<Exit, Failure> {
    let mut plan = plan;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &args.plan).map_err(usage)?;
    }
    let plan = plan.with(&overrides(args), "command line").map_err(usage)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(args.json);
    if !args.quick && args.libraries.time_limit.is_none() {
        let text = "all cells of a full comparison take hours; --time-limit DURATION leaves out the last ones";
        watch.note(text);
    }
    let options = options(&args.out, args.bootstrap.clone())?;
    let resume = args.libraries.resume.as_deref();
    let result = libraries::run(&plan, &options, resume, &mut watch, &stop);
    watch.end();
    let finished = result.map_err(|error| failure(error, &stop))?;
    weir_report::write_all(&finished.dir)
        .map_err(|error| Failure::new(Exit::Instrument, anyhow::Error::new(error)))?;
    match args.json {
        true => print!("{}", finished.run.to_json()),
        false => print_result(&finished),
    }
    Ok(exit_of(finished.run.outcome))
}

fn overrides(args: &BenchRunArgs) -> LibrariesOverrides {
    let own = &args.libraries;
    let whole =
        |rates: &[f64]| -> Vec<u64> { rates.iter().map(|rate| rate.round() as u64).collect() };
    LibrariesOverrides {
        libraries: own.libraries.clone(),
        drivers: (!own.drivers.is_empty()).then(|| own.drivers.clone()),
        profile: own.profile,
        payloads_bytes: own.payloads.clone(),
        bursts: own.bursts.clone(),
        cells: own.cells.clone(),
        repetitions: args.repetitions,
        big_repetitions: own.big_repetitions,
        rates_per_s: args.rates.as_deref().map(whole),
        open_hold: args.hold,
        acks: own.acks,
        topic_prefix: own.topic_prefix.clone(),
        topic_template: own.topic_template.clone(),
        disk_cap: own.disk_cap,
        command_timeout: own.command_timeout,
        time_limit: own.time_limit,
        verify: own.verify.then_some(true),
        null_test: own.null_test.then_some(true),
        ..LibrariesOverrides::default()
    }
}

/// Name of the plan.
pub(crate) const NAME: &str = "client-libraries";
