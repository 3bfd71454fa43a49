//! Shared by the `weir bench` commands and `weir demo`: plans, options, errors and printed results.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_bench::plan::{AnyPlan, Plan, PlanText, Valid};
use weir_bench::{BenchError, BenchOptions, Finished};
use weir_load::kafka::{KafkaArgs, command_line};
use weir_stats::run::{ConfidenceLevel, Run, RunOutcome};

use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::plan_name::{self, PlanNameParser};
use crate::cmd::summary_file::SummaryArgs;
use crate::cmd::terminal;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Built-in plan (see `weir bench list`), or a plan file ending in .toml
    #[arg(value_parser = PlanNameParser, hide_possible_values = true)]
    pub(crate) plan: String,
    /// Use the quick values of the plan: fewer clients, shorter windows
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Args)]
#[command(mut_arg("bootstrap", |arg| arg.help(BOOTSTRAP_HELP)))]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) kafka: KafkaArgs,
    /// Parent directory of the run directory
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
    /// Print the content of run.json instead of the result
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,
    /// Exit with code 4 unless the run is conclusive: repeated, undisturbed, with enough samples
    #[arg(long)]
    pub(crate) require_conclusive: bool,
}

type RunResult = Result<Finished, BenchError>;

impl CommonArgs {
    /// Returns the plan with its quick values if requested, then those of the command line.
    pub(crate) fn apply<P: PlanText>(
        &self,
        plan: &Valid<P>,
        values: P::Overrides,
    ) -> Result<Valid<P>, Failure> {
        apply(plan, self.quick.then_some(self.plan.as_str()), values)
    }
}

/// Returns the plan with the values of the command line, before them its quick values if the name
/// of the plan is given for them.
pub(crate) fn apply<P: PlanText>(
    plan: &Valid<P>,
    quick: Option<&str>,
    values: P::Overrides,
) -> Result<Valid<P>, Failure> {
    let quick = quick.map(|name| plan.quick(name)).transpose();
    let quick = quick?;
    let plan = quick.as_ref().unwrap_or(plan);
    Ok(plan.with(values, "command line")?)
}

impl RunOptions {
    /// Runs a plan and writes its report. The outcome of the run is not checked.
    pub(crate) fn execute(
        &self,
        estimate: Option<Duration>,
        run: impl FnOnce(&BenchOptions, &mut BenchProgress, &AtomicBool) -> RunResult,
    ) -> Result<Finished, Failure> {
        let stop = signal::stop_flag().or_exit(Exit::Tool)?;
        let mut progress = BenchProgress::new(self.json);
        estimate
            .into_iter()
            .for_each(|time| progress.announce(time));
        let options = options(&self.out, &self.kafka)?;
        let result = run(&options, &mut progress, &stop);
        progress.end();
        let finished = result.map_err(|error| failure(error, &stop))?;
        write_report(&finished)?;
        Ok(finished)
    }

    /// Returns an error if an option needs a running cluster and none is given.
    pub(crate) fn require_cluster(&self, option: &str) -> Result<(), Failure> {
        let (servers, _) = self.kafka.read()?;
        match servers {
            Some(_) => Ok(()),
            None => Err(Failure::usage(format!(
                "{option} needs a running cluster: add --bootstrap, or bootstrap.servers in \
                 --kafka-config"
            ))),
        }
    }

    /// Prints `run.json` if requested, otherwise calls `show`, and returns the exit code.
    /// Also writes `run.json` to the file of `--summary-json`.
    pub(crate) fn print(&self, finished: &Finished, show: impl FnOnce(&Finished)) -> Exit {
        if let Err(failure) = self.summary.write(&finished.run) {
            eprintln!("weir: {failure}");
            return failure.exit;
        }
        match self.json {
            true => print!("{}", finished.run.to_json()),
            false => show(finished),
        }
        exit_of(&finished.run, self.require_conclusive)
    }
}

pub(crate) fn load_plan(name: &str) -> Result<AnyPlan, Failure> {
    if let Some(plan) = AnyPlan::built_in(name) {
        return Ok(plan?);
    }
    if Path::new(name)
        .extension()
        .is_none_or(|extension| extension != "toml")
    {
        let known: Vec<&str> = plan_name::names().collect();
        let known = known.join(", ");
        return Err(Failure::usage(format!(
            "unknown plan \"{name}\": built-in plans are {known}; a plan file ends in .toml"
        )));
    }
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("cannot read plan \"{name}\""))
        .or_exit(Exit::Usage)?;
    let siblings = |file: &str| std::fs::read_to_string(Path::new(name).with_file_name(file)).ok();
    Ok(AnyPlan::parse(&text, name, &siblings)?)
}

pub(crate) fn load_clients_plan(name: &str) -> Result<Valid<Plan>, Failure> {
    match load_plan(name)? {
        AnyPlan::Clients(plan) => Ok(plan),
        _ => Err(Failure::usage(format!(
            "plan {name}: is another experiment; use a plan with numbers of clients"
        ))),
    }
}

/// Returns the options of a run whose child processes run this executable.
pub(crate) fn options(out: &Path, kafka: &KafkaArgs) -> Result<BenchOptions, Failure> {
    let (bootstrap, client) = kafka.read()?;
    let exe = std::env::current_exe().context("cannot determine the path of the own executable");
    Ok(BenchOptions {
        out: out.to_owned(),
        bootstrap,
        client,
        exe: exe.or_exit(Exit::Tool)?,
        machines: None,
        command_line: command_line(),
    })
}

pub(crate) fn write_report(finished: &Finished) -> Result<(), Failure> {
    let written = weir_report::write_all(&finished.dir);
    let parent = finished.dir.parent().unwrap_or_else(|| Path::new("."));
    let written = written
        .and_then(|_| weir_report::write_index(parent))
        .map(|_| ());
    let written = written.context("report not written; the results are in the run directory");
    written.or_exit(Exit::Tool)
}

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

pub(crate) fn print_files(finished: &Finished) {
    println!("report  {}", finished.dir.join("report.html").display());
    println!("raw     {}", finished.dir.display());
    if let Some(parent) = finished.dir.parent() {
        println!("history {}", parent.join(weir_report::INDEX_FILE).display());
    }
}

fn print_notes(run: &Run) {
    for cell in run.cells.iter().filter(|cell| cell.is_valid()) {
        for note in &cell.notes {
            println!("note    {}: {note}", cell.id());
        }
    }
}

/// Returns the exit code of a run. A failed threshold has priority over insufficient confidence:
/// it was measured.
fn exit_of(run: &Run, require_conclusive: bool) -> Exit {
    match run.outcome {
        RunOutcome::Complete if run.confidence.level == ConfidenceLevel::NotUsable => Exit::Tool,
        RunOutcome::Complete if require_conclusive && !run.confidence.is_conclusive() => Exit::Tool,
        RunOutcome::Complete => Exit::Success,
        RunOutcome::ThresholdFailed => Exit::Threshold,
        RunOutcome::Incomplete => Exit::Unreachable,
        RunOutcome::Invalid => Exit::Tool,
        RunOutcome::Interrupted => Exit::Interrupted,
    }
}

/// Returns the failure of a run that was aborted by `error`, or by the user if `stop` is set.
pub(crate) fn failure(error: BenchError, stop: &AtomicBool) -> Failure {
    let exit = match stop.load(Ordering::Relaxed) {
        true => Exit::Interrupted,
        false => error.fault().into(),
    };
    Failure::new(exit, error)
}

/// Returns the width of the terminal from `COLUMNS` or the terminal; otherwise [`DEFAULT_WIDTH`].
fn terminal_width() -> usize {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let detected = || terminal::is_terminal().then(|| terminal::size().columns);
    columns.or_else(detected).unwrap_or(DEFAULT_WIDTH)
}

pub(crate) const BOOTSTRAP_HELP: &str =
    "Bootstrap servers of a running cluster [default: a broker started for the run]";
/// Wide enough for the whole table.
const DEFAULT_WIDTH: usize = 140;

#[cfg(test)]
mod tests {
    use weir_stats::run::Confidence;

    use super::*;

    #[test]
    fn confidence_decides_the_exit_code_of_a_complete_run() {
        let exit = |outcome, level, require_conclusive| {
            let reasons = Vec::new();
            let run = Run {
                outcome,
                confidence: Confidence { level, reasons },
                ..Run::default()
            };
            exit_of(&run, require_conclusive)
        };
        use ConfidenceLevel::{Conclusive, Indicative, NotUsable};
        let complete = RunOutcome::Complete;
        assert_eq!(exit(complete, Conclusive, true), Exit::Success);
        assert_eq!(exit(complete, Indicative, false), Exit::Success);
        assert_eq!(exit(complete, Indicative, true), Exit::Tool);
        assert_eq!(exit(complete, NotUsable, false), Exit::Tool);
        let failed = RunOutcome::ThresholdFailed;
        assert_eq!(exit(failed, Indicative, true), Exit::Threshold);
    }
}
