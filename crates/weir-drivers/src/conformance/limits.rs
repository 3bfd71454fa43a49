//! Checks that commands which cannot succeed end in time: without the topic, or without a broker.

use std::time::Duration;

use super::outcome::{CheckResult, require};
use super::session::{CheckSession, SHORT_TIMEOUT, burst, end_of};
use crate::{
    AssignmentMode, Consume, CopyTopic, Delivered, DriverError, DriverFailure, ProduceCommand,
    ProducerState, RoundTrip, WarmUp,
};

/// Reason why a command cannot succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandFault {
    MissingTopic,
    Unreachable,
}

/// Command that cannot succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitedWork {
    Produce(ProducerState),
    Consume(AssignmentMode),
    /// Reads by direct assignment, if the driver can.
    Copy,
    RoundTrip,
}

/// Result of a command that cannot succeed.
struct Attempt {
    took: Duration,
    /// Records reported as delivered or read.
    result: Result<u64, DriverError>,
}

/// Checks one command, then that the driver continues. A late result, or none, counts only if it
/// comes [`ATTEMPTS`] times, because the machine may be busy.
pub(super) fn check(
    session: &mut CheckSession<'_>,
    fault: CommandFault,
    work: LimitedWork,
) -> CheckResult {
    let capability = match work {
        LimitedWork::Produce(state) => state.capability(),
        LimitedWork::Consume(via) => via.capability(),
        LimitedWork::Copy => copy_mode(session)?.copy_capability(),
        LimitedWork::RoundTrip => "roundtrip.burst",
    };
    session.need(capability)?;
    let allowed = SHORT_TIMEOUT * 4 / 5;
    let expected = format!(
        "an error, or all records failed, after at most {allowed:?} of a timeout of \
         {SHORT_TIMEOUT:?}"
    );
    let in_time = |attempt: &Attempt| attempt.took <= allowed + TOLERANCE;
    let mut attempt = attempt(session, fault, work)?;
    for _ in 1..ATTEMPTS {
        if in_time(&attempt) {
            break;
        }
        attempt = self::attempt(session, fault, work)?;
    }
    let took = attempt.took.as_secs_f64();
    let result = attempt.result.as_ref();
    let result = result.map_or_else(|error| reason(error, &expected).map(Err), |it| Ok(Ok(*it)))?;
    let came = match &result {
        Ok(0) => "a response with all records failed".to_owned(),
        Ok(records) => format!("success with {records} records"),
        Err(error) => format!("the error \"{error}\""),
    };
    require!(
        !matches!(result, Ok(1..)),
        expected,
        "{came} after {took:.1} s"
    );
    require!(in_time(&attempt), expected, "{came} after {took:.1} s");
    continues(session)
}

fn attempt(
    session: &mut CheckSession<'_>,
    fault: CommandFault,
    work: LimitedWork,
) -> CheckResult<Attempt> {
    let topic = match fault {
        CommandFault::MissingTopic => {
            session.driver()?;
            session
                .cluster
                .missing_topic(&session.program.name, "missing")
        }
        CommandFault::Unreachable => {
            let topic = session.topic("unreachable")?;
            let mut request = session.configure();
            request.bootstrap = UNREACHABLE.to_owned();
            let configured = session.reconfigure(&request)?;
            configured.map_err(|error| {
                end_of("a valid response to configure with another address", &error)
            })?;
            topic
        }
    };
    let burst = burst(&topic, 10, 3, 1);
    let acked = |delivered: &Delivered| delivered.acked;
    let (result, took) = match work {
        LimitedWork::Produce(state) => {
            let per_record = false;
            let (response, took) = session.attempt(&ProduceCommand {
                burst,
                state,
                per_record,
            })?;
            (response.map(|answer| acked(&answer.delivered)), took)
        }
        LimitedWork::Consume(via) => {
            let (response, took) = session.attempt(&Consume {
                burst,
                via,
                verify: false,
                commit: false,
            })?;
            (response.map(|answer| answer.got), took)
        }
        LimitedWork::Copy => {
            let (via, to) = (copy_mode(session)?, session.topic("copies")?);
            let (response, took) = session.attempt(&CopyTopic { burst, to, via })?;
            (response.map(|answer| acked(&answer.delivered)), took)
        }
        LimitedWork::RoundTrip => {
            let (response, took) = session.attempt(&RoundTrip { burst, rate: 0.0 })?;
            (response.map(|answer| acked(&answer.delivered)), took)
        }
    };
    Ok(Attempt { took, result })
}

fn copy_mode(session: &mut CheckSession<'_>) -> CheckResult<AssignmentMode> {
    let assign = AssignmentMode::Assign;
    let can = session.can(assign.copy_capability())?;
    Ok(if can { assign } else { AssignmentMode::Group })
}

/// Returns the text of an error response. Other errors are deviations.
fn reason(error: &DriverError, expected: &str) -> CheckResult<String> {
    match &error.reason {
        DriverFailure::CommandFailed(text) => Ok(text.clone()),
        _ => Err(end_of(expected, error)),
    }
}

/// Checks that the same process works with a topic that exists.
fn continues(session: &mut CheckSession<'_>) -> CheckResult {
    let pid = session.started()?.pid();
    let request = WarmUp(burst(&session.topic("after")?, 10, 10, 1));
    session.run_configured(&request)?;
    require!(
        session.started()?.pid() == pid,
        "the same process afterwards",
        "another process"
    );
    Ok(())
}

/// Address at which no broker listens: the port needs privileges, and nothing uses it.
const UNREACHABLE: &str = "127.0.0.1:1";
/// Attempts of which one must end in time.
const ATTEMPTS: u32 = 3;
/// Tolerance for scheduling on a busy machine.
const TOLERANCE: Duration = Duration::from_millis(500);
