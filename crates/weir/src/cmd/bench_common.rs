//! Shared by the `weir bench` commands and `weir demo`: plans, options, errors and printed results.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use weir_bench::plan::{BUILT_IN, Plan, PlanError};
use weir_bench::{BenchError, BenchOptions, Finished};
use weir_load::error::ErrorClass;
use weir_load::units::parse_count;
use weir_stats::run::{Run, RunOutcome};

use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::terminal;
use crate::exit::{Exit, Failure};

/// Name of the built-in plan that compares proxies.
pub(crate) const OVERHEAD_PLAN: &str = "proxy-overhead";
/// Name of the built-in plan that compares client libraries.
pub(crate) const LIBRARIES_PLAN: &str = "client-libraries";

/// Returns the built-in plan or the plan of a file, and its name in errors.
pub(crate) fn load_plan(name: &str) -> Result<(Plan, String), Failure> {
    if let Some(plan) = Plan::built_in(name) {
        return Ok((plan.map_err(usage)?, name.to_owned()));
    }
    if Path::new(name)
        .extension()
        .is_none_or(|extension| extension != "toml")
    {
        let known = BUILT_IN.iter().map(|plan| plan.name);
        let others = [OVERHEAD_PLAN, LIBRARIES_PLAN];
        let known: Vec<&str> = known.chain(others).collect();
        let known = known.join(", ");
        return Err(Failure::new(
            Exit::Usage,
            anyhow::anyhow!(
                "unknown plan \"{name}\": built-in plans are {known}; a plan file ends in .toml"
            ),
        ));
    }
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("cannot read plan \"{name}\""))
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let read_sibling =
        |file: &str| std::fs::read_to_string(Path::new(name).with_file_name(file)).ok();
    let plan = Plan::parse(&text, name, read_sibling).map_err(usage)?;
    Ok((plan, name.to_owned()))
}

/// Parses a count or a decimal number.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) => Ok(rate),
        Err(_) => parse_count(text)
            .map(|count| count as f64)
            .map_err(|error| error.to_string()),
    }
}

/// Returns the options of a run whose child processes run this executable.
pub(crate) fn options(out: &Path, bootstrap: Option<String>) -> Result<BenchOptions, Failure> {
    let exe = std::env::current_exe().context("cannot determine the path of the own executable");
    Ok(BenchOptions {
        out: out.to_owned(),
        bootstrap,
        exe: exe.map_err(|error| Failure::new(Exit::Instrument, error))?,
        command_line: std::env::args().collect(),
    })
}

/// Runs the plan and writes the report. The outcome of the run is not checked.
pub(crate) fn execute(
    plan: &Plan,
    options: &BenchOptions,
    progress: &mut BenchProgress,
    stop: &AtomicBool,
) -> Result<Finished, Failure> {
    let result = weir_bench::run(plan, options, progress, stop);
    progress.end();
    let finished = result.map_err(|error| failure(error, stop))?;
    write_report(&finished)?;
    Ok(finished)
}

/// Writes all reports into the run directory.
pub(crate) fn write_report(finished: &Finished) -> Result<(), Failure> {
    weir_report::write_all(&finished.dir)
        .map(|_| ())
        .context("report not written; the results are in the run directory")
        .map_err(|error| Failure::new(Exit::Instrument, error))
}

/// Prints the result table, the notes and the paths of the other files.
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

/// Prints the paths of the report and of the raw files.
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

/// Returns the exit code of a run outcome.
pub(crate) fn exit_of(outcome: RunOutcome) -> Exit {
    match outcome {
        RunOutcome::Passed => Exit::Success,
        RunOutcome::ThresholdFailed => Exit::Threshold,
        RunOutcome::Invalid => Exit::Instrument,
        RunOutcome::Interrupted => Exit::Interrupted,
    }
}

/// Returns the failure of a run that was aborted by `error`, or by the user if `stop` is set.
pub(crate) fn failure(error: BenchError, stop: &AtomicBool) -> Failure {
    let exit = match error.fault() {
        _ if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Target => Exit::Unreachable,
        ErrorClass::Instrument => Exit::Instrument,
    };
    Failure::new(exit, error)
}

/// Returns the failure for an invalid plan.
pub(crate) fn usage(error: PlanError) -> Failure {
    Failure::new(Exit::Usage, error)
}

/// Returns the width of the terminal from `COLUMNS` or the terminal; otherwise [`DEFAULT_WIDTH`].
fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let detected = || terminal::is_terminal().then(|| terminal::size().columns);
    columns.or_else(detected).unwrap_or(DEFAULT_WIDTH)
}

/// Wide enough for the whole table.
const DEFAULT_WIDTH: usize = 140;
