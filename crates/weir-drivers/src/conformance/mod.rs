//! Conformance session: checks on a real cluster that a driver follows `docs/drivers.md`.
//!
//! Every check is independent of the others. A driver that is killed because of a deviation is
//! started again for the next check.

mod cluster;
mod limits;
mod lines;
mod outcome;
mod records;
mod rest;
mod session;
mod setup;
mod timed;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub use cluster::CheckCluster;
pub use outcome::{CheckOutcome, ConformanceError, Deviation, DriverCheck};

use crate::{AssignmentMode, DriverProgram, ProducerState};
use outcome::{CheckFailure, CheckResult};
use session::CheckSession;

/// Runs the checks that match one of `patterns`, or all if there are none, and reports each to
/// `on_check`. Logs of the driver are written to `dir`.
///
/// # Errors
/// A pattern matches no check, the cluster does not respond, or `stop` was set. Deviations of the
/// driver are results.
pub fn check_driver(
    program: &DriverProgram,
    cluster: &CheckCluster,
    dir: &Path,
    patterns: &[String],
    stop: &AtomicBool,
    on_check: &mut dyn FnMut(&DriverCheck),
) -> Result<Vec<DriverCheck>, ConformanceError> {
    let chosen = choose(patterns)?;
    let mut session = CheckSession::new(cluster, program, dir, stop);
    let mut results: Vec<DriverCheck> = Vec::new();
    let mut starts = true;
    for check in chosen {
        session.check_stop()?;
        let began = Instant::now();
        let outcome = match starts {
            true => outcome((check.run)(&mut session))?,
            false => CheckOutcome::Skipped("the driver does not start".to_owned()),
        };
        starts &= !matches!(outcome, CheckOutcome::Failed(_)) || session.start().is_ok();
        let result = DriverCheck {
            name: check.name,
            outcome,
            took: began.elapsed(),
        };
        on_check(&result);
        results.push(result);
    }
    Ok(results)
}

/// Returns an error if a pattern matches no check.
///
/// # Errors
/// [`ConformanceError::NoCheck`] with the names of all checks.
pub fn require_names(patterns: &[String]) -> Result<(), ConformanceError> {
    choose(patterns).map(|_| ())
}

/// Returns the names of all checks, in order.
pub fn check_names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name)
}

fn outcome(result: CheckResult) -> Result<CheckOutcome, ConformanceError> {
    match result {
        Ok(()) => Ok(CheckOutcome::Passed),
        Err(CheckFailure::Deviation(deviation)) => Ok(CheckOutcome::Failed(deviation)),
        Err(CheckFailure::Skipped(reason)) => Ok(CheckOutcome::Skipped(reason)),
        Err(CheckFailure::Aborted(error)) => Err(error),
    }
}

fn choose(patterns: &[String]) -> Result<Vec<&'static Check>, ConformanceError> {
    let matches = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    for pattern in patterns {
        if !check_names().any(|name| matches(pattern, name)) {
            let names = check_names().collect::<Vec<_>>().join(", ");
            return Err(ConformanceError::NoCheck(pattern.clone(), names));
        }
    }
    let is_chosen = |check: &&Check| {
        let mut patterns_left = patterns.iter();
        patterns.is_empty() || patterns_left.any(|pattern| matches(pattern, check.name))
    };
    Ok(CHECKS.iter().filter(is_chosen).collect())
}

/// A check of the session.
struct Check {
    name: &'static str,
    run: fn(&mut CheckSession<'_>) -> CheckResult,
}

macro_rules! checks {
    ($($name:literal: $run:expr;)*) => {
        &[$(Check { name: $name, run: $run }),*]
    };
}

use AssignmentMode::{Assign, Group};
use ProducerState::{Cold, Metadata, Warm};
use limits::CommandFault::{MissingTopic, Unreachable};
use limits::LimitedWork::{Consume, Copy, Produce, RoundTrip};

/// All checks, in order.
const CHECKS: &[Check] = checks! {
    "hello": setup::hello;
    "stats": setup::stats;
    "configure": setup::configure;
    "wrong-settings": setup::wrong_settings;
    "warmup": records::warm_up;
    "produce.cold": |session| records::produce(session, Cold);
    "produce.metadata": |session| records::produce(session, Metadata);
    "produce.warm": |session| records::produce(session, Warm);
    "consume.group": |session| records::consume(session, Group);
    "consume.assign": |session| records::consume(session, Assign);
    "verify.group": |session| records::verify(session, Group);
    "verify.assign": |session| records::verify(session, Assign);
    "copy.group": |session| records::copy(session, Group);
    "copy.assign": |session| records::copy(session, Assign);
    "roundtrip.burst": timed::burst_roundtrip;
    "roundtrip.open": timed::open_roundtrip;
    "steady.produce": timed::steady_produce;
    "steady.consume": timed::steady_consume;
    "flush": timed::flush;
    "missing-topic.produce.cold": |it| limits::check(it, MissingTopic, Produce(Cold));
    "missing-topic.produce.metadata": |it| limits::check(it, MissingTopic, Produce(Metadata));
    "missing-topic.produce.warm": |it| limits::check(it, MissingTopic, Produce(Warm));
    "missing-topic.consume.group": |it| limits::check(it, MissingTopic, Consume(Group));
    "missing-topic.consume.assign": |it| limits::check(it, MissingTopic, Consume(Assign));
    "missing-topic.copy": |it| limits::check(it, MissingTopic, Copy);
    "missing-topic.roundtrip": |it| limits::check(it, MissingTopic, RoundTrip);
    "unreachable.produce.cold": |it| limits::check(it, Unreachable, Produce(Cold));
    "unreachable.produce.metadata": |it| limits::check(it, Unreachable, Produce(Metadata));
    "unreachable.produce.warm": |it| limits::check(it, Unreachable, Produce(Warm));
    "unreachable.consume.group": |it| limits::check(it, Unreachable, Consume(Group));
    "unreachable.consume.assign": |it| limits::check(it, Unreachable, Consume(Assign));
    "unreachable.copy": |it| limits::check(it, Unreachable, Copy);
    "unreachable.roundtrip": |it| limits::check(it, Unreachable, RoundTrip);
    "idle": rest::idle;
    "leftovers": rest::leftovers;
    "invalid-lines": lines::invalid_lines;
    "end-of-input": lines::end_of_input;
    "bye": |session| session.bye();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_checks_in_order() {
        let names = |patterns: &[&str]| -> Result<Vec<&str>, String> {
            let patterns: Vec<String> = patterns.iter().map(|&it| it.to_owned()).collect();
            let chosen = choose(&patterns).map_err(|error| error.to_string())?;
            Ok(chosen.iter().map(|check| check.name).collect())
        };
        assert_eq!(
            names(&["produce.*", "hello"]).unwrap(),
            ["hello", "produce.cold", "produce.metadata", "produce.warm"]
        );
        assert_eq!(names(&[]).unwrap().len(), CHECKS.len());
        let error = names(&["produced"]).unwrap_err();
        assert!(
            error.contains("\"produced\"; checks are hello, "),
            "{error}"
        );
    }

    #[test]
    fn check_names_are_unique() {
        let mut names: Vec<&str> = check_names().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }
}
