//! `weir bench check-driver`: checks that a driver of a client library follows the protocol.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use weir_bench::libraries::{self, CheckRequest};
use weir_drivers::conformance::{CheckOutcome, DriverCheck};
use weir_load::kafka::KafkaArgs;
use weir_stats::utc;

use crate::cmd::bench_common::{BOOTSTRAP_HELP, failure, options};
use crate::cmd::bench_progress::BenchProgress;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

const AFTER_HELP: &str = "\
Examples:
  weir bench check-driver java
  weir bench check-driver mine='./my-driver --fast'
  weir bench check-driver mine=./my-driver --checks 'produce.*,missing-topic.*'";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, mut_arg("bootstrap", |arg| arg.help(BOOTSTRAP_HELP)))]
pub(crate) struct CheckDriverArgs {
    /// Driver to check: NAME=COMMAND for your own, or the name of a library
    ///
    /// A shell runs the command, which must become the driver. Libraries are those of `weir bench
    /// run client-libraries --libraries`.
    #[arg(value_name = "DRIVER")]
    driver: String,
    /// Checks to run; * at the end of a name matches anything [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    checks: Vec<String>,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Parent directory of the directory with the log of the driver
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
}

pub(crate) fn run(args: &CheckDriverArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let options = options(&args.out, &args.kafka)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.map_or(0, |now| now.as_secs());
    let dir = args
        .out
        .join(format!("{}-check-driver", utc::compact(now_s)));
    fs::create_dir_all(&dir)
        .with_context(|| format!("cannot create {}", dir.display()))
        .or_exit(Exit::Usage)?;
    let request = CheckRequest {
        driver: &args.driver,
        checks: &args.checks,
        dir: &dir,
    };
    let mut progress = BenchProgress::new(true);
    let mut print = |check: &DriverCheck| println!("{}", line(check));
    let checked = libraries::check_driver(request, &options, &mut progress, &stop, &mut print);
    let results = checked.map_err(|error| {
        // Nothing was written if the checks did not begin.
        let _ = fs::remove_dir(&dir);
        failure(error, &stop)
    })?;
    let count = |is: fn(&CheckOutcome) -> bool| {
        let outcomes = results.iter().filter(|check| is(&check.outcome));
        outcomes.count()
    };
    let failed = count(|it| matches!(it, CheckOutcome::Failed(_)));
    println!(
        "{} passed, {failed} failed, {} skipped; log of the driver in {}",
        count(|it| matches!(it, CheckOutcome::Passed)),
        count(|it| matches!(it, CheckOutcome::Skipped(_))),
        dir.display()
    );
    Ok(match failed {
        0 => Exit::Success,
        _ => Exit::Threshold,
    })
}

/// Returns the line of a check: outcome, name, duration, and the deviation.
fn line(check: &DriverCheck) -> String {
    let (word, text) = match &check.outcome {
        CheckOutcome::Passed => ("passed", String::new()),
        CheckOutcome::Failed(it) => (
            "FAILED",
            format!("expected {}; got {}", it.expected, it.got),
        ),
        CheckOutcome::Skipped(reason) => ("skipped", reason.clone()),
    };
    let seconds = check.took.as_secs_f64();
    let line = format!("{word:<8}{:<31}{seconds:>5.1} s  {text}", check.name);
    // Texts of a driver may contain anything.
    line.replace(char::is_control, " ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_drivers::conformance::Deviation;

    use super::*;

    #[test]
    fn every_check_has_one_line() {
        let check = |outcome| DriverCheck {
            name: "produce.cold",
            outcome,
            took: Duration::from_millis(1240),
        };
        assert_eq!(
            line(&check(CheckOutcome::Passed)),
            "passed  produce.cold                     1.2 s"
        );
        let deviation = Deviation {
            expected: "acked 3".to_owned(),
            got: "acked 2\n\u{1b}[2J".to_owned(),
        };
        assert_eq!(
            line(&check(CheckOutcome::Failed(deviation))),
            "FAILED  produce.cold                     1.2 s  expected acked 3; got acked 2  [2J"
        );
    }
}
