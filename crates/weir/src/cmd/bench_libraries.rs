//! `weir bench run client-libraries`: the plan that compares client libraries.

use weir_bench::Observer as _;
use weir_bench::libraries::{self, LibrariesOverrides, LibrariesPlan};
use weir_bench::plan::PlanError;

use crate::cmd::bench_common::{LIBRARIES_PLAN, exit_of, failure, options, print_result, usage};
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::bench_run_args::BenchRunArgs;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Returns the plan if `name` is the built-in plan or a plan file that compares client libraries.
pub(crate) fn plan(name: &str) -> Option<Result<LibrariesPlan, PlanError>> {
    if name == LIBRARIES_PLAN {
        return Some(LibrariesPlan::built_in());
    }
    let text = std::fs::read_to_string(name).ok()?;
    let is_one = text
        .lines()
        .any(|line| line.trim_start().starts_with("libraries"));
    is_one.then(|| LibrariesPlan::parse(&text, name))
}

/// Runs the plan.
pub(crate) fn run(args: &BenchRunArgs, plan: LibrariesPlan) -> Result<Exit, Failure> {
    let mut plan = plan;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &args.plan).map_err(usage)?;
    }
    let plan = plan.with(&overrides(args), "command line").map_err(usage)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut progress = BenchProgress::new(args.json);
    if !args.quick && args.libraries.time_limit.is_none() {
        progress.note("a full comparison takes hours; --time-limit DURATION skips the last cells");
    }
    let options = options(&args.out, args.bootstrap.clone())?;
    let resume = args.libraries.resume.as_deref();
    let result = libraries::run(&plan, &options, resume, &mut progress, &stop);
    progress.end();
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
        value_sizes_bytes: own.value_sizes.clone(),
        burst_records: own.burst_records.clone(),
        cells: own.cells.clone(),
        repetitions: args.repetitions,
        large_cell_repetitions: own.large_cell_repetitions,
        rates_per_s: args.rates.as_deref().map(whole),
        open_loop_hold: args.hold,
        acks: own.acks,
        topic_prefix: own.topic_prefix.clone(),
        topic_template: own.topic_template.clone(),
        disk_cap: own.disk_cap,
        command_timeout: own.command_timeout,
        time_limit: own.time_limit,
        verify: own.verify.then_some(true),
        null_test: args.aa_test.then_some(true),
        ..LibrariesOverrides::default()
    }
}
