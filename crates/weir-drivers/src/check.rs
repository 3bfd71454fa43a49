//! Checks responses of drivers for plausibility, and against observations of the process.

use std::time::Duration;

use super::protocol::{
    Consume, Consumed, DriverHello, PROTOCOL, ProduceCommand, Produced, ReportedDistribution,
    RoundTrip, RoundTripped, Steady, SteadyDone, SteadySecond, TopicEnd, WarmUp, WarmedUp,
};

/// Observations of a driver during a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CommandObservation {
    /// Time from writing the command to reading the response.
    pub(super) wall: Duration,
    /// CPU time of all its threads; `None` if the system does not report it.
    pub(super) cpu_us: Option<f64>,
    /// Number of the machine's cores.
    pub(super) cores: f64,
}

type CheckResult = Result<(), String>;

/// Returns an error with the given text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        // A match, so that comparisons with NaN fail.
        match $condition {
            true => {}
            false => return Err(format!($($text)+)),
        }
    };
}

pub(super) fn hello(response: &DriverHello) -> CheckResult {
    ensure!(
        response.protocol == PROTOCOL,
        "driver has protocol {}, expected {PROTOCOL}",
        response.protocol
    );
    ensure!(!response.library.is_empty(), "library is empty");
    ensure!(
        !response.library_version.is_empty(),
        "library_version is empty"
    );
    Ok(())
}

pub(super) fn warmed_up(
    requested: &WarmUp,
    response: &WarmedUp,
    observation: &CommandObservation,
) -> CheckResult {
    let per_record = response.produce_cpu_us_per_record + response.consume_cpu_us_per_record;
    positive(
        "produce_cpu_us_per_record",
        response.produce_cpu_us_per_record,
    )?;
    positive(
        "consume_cpu_us_per_record",
        response.consume_cpu_us_per_record,
    )?;
    observation.not_above(per_record * requested.count as f64)
}

pub(super) fn produced(
    requested: &ProduceCommand,
    response: &Produced,
    observation: &CommandObservation,
) -> CheckResult {
    let marks = &response.marks;
    ascending(&[("t0", marks.t0), ("t1", marks.t1)])?;
    ascending(&[("t0", marks.t0), ("t2", marks.t2)])?;
    all_reported(requested.count, response.acked, response.failed)?;
    let end = marks.t1.max(marks.t2);
    observation.allows(marks.t0, end, response.cpu_us)?;
    if !requested.per_record {
        return Ok(());
    }
    let (Some(create), Some(send)) = (response.create_us, response.send_us) else {
        return Err("create_us and send_us are missing, but per_record was requested".to_owned());
    };
    positive("create_us", create)?;
    positive("send_us", send)?;
    let sending = micros(marks.t1 - marks.t0);
    ensure!(
        create + send <= sending * (1.0 + WALL_SHARE) + WALL_SLACK_US,
        "create_us + send_us is {:.0}, but t0 to t1 is {sending:.0}",
        create + send
    );
    Ok(())
}

pub(super) fn consumed(
    requested: &Consume,
    response: &Consumed,
    observation: &CommandObservation,
) -> CheckResult {
    let marks = &response.marks;
    let mut order = vec![
        ("s0", marks.s0),
        ("s1", marks.s1),
        ("s2", marks.s2),
        ("s3", marks.s3),
    ];
    ensure!(
        marks.s4.is_some() == requested.commit,
        "s4 is {}, but commit was {}",
        if marks.s4.is_some() {
            "present"
        } else {
            "missing"
        },
        requested.commit
    );
    order.extend(marks.s4.map(|s4| ("s4", s4)));
    ascending(&order)?;
    ensure!(
        response.got == requested.count,
        "got is {}, but {} records were requested",
        response.got,
        requested.count
    );
    ensure!(
        response.bad <= response.got,
        "bad is {}, but got is {}",
        response.bad,
        response.got
    );
    let right = response
        .got
        .saturating_mul(requested.len.saturating_add(KEY_BYTES));
    ensure!(
        response.bad > 0 || response.bytes == right,
        "bytes is {}, but {} records of {} bytes and a key have {right}",
        response.bytes,
        response.got,
        requested.len
    );
    positive("drain_cpu_us", response.drain_cpu_us)?;
    ensure!(
        response.drain_cpu_us <= response.cpu_us + ROUNDING_US,
        "drain_cpu_us is {:.0}, but cpu_us is {:.0}",
        response.drain_cpu_us,
        response.cpu_us
    );
    if let Some(s4) = marks.s4 {
        observation.has_time_for(marks.s0, s4)?;
    }
    observation.allows(marks.s0, marks.s3, response.cpu_us)
}

pub(super) fn round_tripped(
    requested: &RoundTrip,
    response: &RoundTripped,
    observation: &CommandObservation,
) -> CheckResult {
    let marks = &response.marks;
    for (name, mark) in [("t1", marks.t1), ("t2", marks.t2), ("r1", marks.r1)] {
        ascending(&[("t0", marks.t0), (name, mark)])?;
    }
    all_reported(requested.count, response.acked, response.failed)?;
    ensure!(
        response.got == response.acked || (response.failed > 0 && response.got <= requested.count),
        "got is {}, but acked is {}",
        response.got,
        response.acked
    );
    let paced = if requested.rate > 0.0 {
        requested.count
    } else {
        0
    };
    observation.spread("latency", &response.latency, response.got)?;
    observation.spread("pacing", &response.pacing, paced)?;
    let end = marks.t1.max(marks.t2).max(marks.r1);
    observation.allows(marks.t0, end, response.cpu_us)
}

/// Checks the response of `steady`; `reported` are the seconds before it.
pub(super) fn steady(
    requested: &Steady,
    response: &SteadyDone,
    reported: &[SteadySecond],
    observation: &CommandObservation,
) -> CheckResult {
    ensure!(
        reported.len() as u64 == requested.seconds,
        "{} seconds were reported, but {} requested",
        reported.len(),
        requested.seconds
    );
    for (expected, second) in reported.iter().enumerate() {
        ensure!(
            second.second == expected as u64,
            "second {} was reported, expected {expected}",
            second.second
        );
        positive("cpu_us", second.cpu_us)?;
    }
    let sum =
        |part: fn(&SteadySecond) -> u64| reported.iter().map(part).fold(0, u64::saturating_add);
    for (name, all, parts) in [
        ("records", response.records, sum(|second| second.records)),
        ("bytes", response.bytes, sum(|second| second.bytes)),
    ] {
        ensure!(
            all == parts,
            "{name} is {all}, but its seconds add up to {parts}"
        );
    }
    positive("cpu_us", response.cpu_us)?;
    observation.not_above(response.cpu_us)?;
    observation.not_above(reported.iter().map(|second| second.cpu_us).sum())?;
    if requested.role == TopicEnd::Consume {
        return Ok(());
    }
    let due = (requested.rate * requested.seconds as f64).ceil() + 1.0;
    ensure!(
        response.records as f64 <= due,
        "records is {}, but only {due:.0} were due",
        response.records
    );
    ensure!(
        response.failed <= response.records,
        "failed is {}, but records is {}",
        response.failed,
        response.records
    );
    let (Some(latency), Some(pacing)) = (&response.latency, &response.pacing) else {
        return Err("latency and pacing are missing".to_owned());
    };
    observation.spread("latency", latency, response.records - response.failed)?;
    observation.spread("pacing", pacing, response.records)
}

/// Checks that a distribution is consistent and has `count` values.
fn distribution(name: &str, found: &ReportedDistribution, count: u64) -> CheckResult {
    ensure!(
        found.count == count,
        "{name} has {} values, expected {count}",
        found.count
    );
    let counted = found.pairs.iter().map(|(_, times)| *times);
    let counted = counted.fold(0, u64::saturating_add);
    ensure!(
        counted == count,
        "the pairs of {name} have {counted} values, but count is {count}"
    );
    let ascending = found.pairs.windows(2).all(|two| two[0].0 < two[1].0);
    ensure!(ascending, "the pairs of {name} are not ascending");
    for (value, _) in &found.pairs {
        ensure!(
            is_rounded(*value),
            "{name} has {value}, with more than three significant digits"
        );
    }
    let (Some((first, _)), Some((last, _))) = (found.pairs.first(), found.pairs.last()) else {
        return Ok(());
    };
    ensure!(
        near(found.min_us, *first) && near(found.max_us, *last),
        "{name} is from {} to {}, but its pairs are from {first} to {last}",
        found.min_us,
        found.max_us
    );
    let (least, most) = (found.min_us as f64, found.max_us as f64);
    let (sum, count) = (found.sum_us as f64, count as f64);
    ensure!(
        // The driver may truncate values to whole microseconds before or after adding them.
        sum >= least * count * 0.99 - count && sum <= most * count * 1.01 + count,
        "the sum of {name} is {sum}, impossible for {count} values from {least} to {most}"
    );
    Ok(())
}

fn is_rounded(value: u64) -> bool {
    let mut value = value;
    while value >= 1000 {
        if value % 10 != 0 {
            return false;
        }
        value /= 10;
    }
    true
}

/// Returns `true` if `exact` may have been rounded to `rounded`.
fn near(exact: u64, rounded: u64) -> bool {
    exact.abs_diff(rounded) as f64 <= exact as f64 * 0.01 + 1.0
}

impl CommandObservation {
    /// Checks the time between two marks, and the CPU time between them.
    fn allows(&self, first: u64, last: u64, cpu_us: f64) -> CheckResult {
        positive("cpu_us", cpu_us)?;
        self.has_time_for(first, last)?;
        self.not_above(cpu_us)?;
        let Some(process) = self.cpu_us else {
            return Ok(());
        };
        let outside = (self.wall_us() - micros(last - first)).max(0.0) * self.cores;
        let least = process * (1.0 - CPU_SHARE) - outside - CPU_SLACK_US;
        ensure!(
            cpu_us >= least,
            "cpu_us is {cpu_us:.0}, but the system reports {process:.0} for the whole command"
        );
        Ok(())
    }

    /// Checks a distribution of times of records within the command.
    fn spread(&self, name: &str, found: &ReportedDistribution, count: u64) -> CheckResult {
        distribution(name, found, count)?;
        let wall = self.wall_us();
        ensure!(
            found.max_us as f64 <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US,
            "{name} goes up to {} us, but the whole command took {wall:.0}",
            found.max_us
        );
        Ok(())
    }

    fn has_time_for(&self, first: u64, last: u64) -> CheckResult {
        let (span, wall) = (micros(last - first), self.wall_us());
        ensure!(
            span <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US,
            "the marks are {span:.0} us apart, but the whole command took {wall:.0}"
        );
        Ok(())
    }

    fn not_above(&self, cpu_us: f64) -> CheckResult {
        let possible = self.wall_us() * self.cores;
        ensure!(
            cpu_us <= possible + CPU_SLACK_US,
            "cpu_us is {cpu_us:.0}, but all cores together had {possible:.0}"
        );
        if let Some(process) = self.cpu_us {
            ensure!(
                cpu_us <= process * (1.0 + CPU_SHARE) + CPU_SLACK_US,
                "cpu_us is {cpu_us:.0}, but the system reports {process:.0} for the whole command"
            );
        }
        Ok(())
    }

    fn wall_us(&self) -> f64 {
        self.wall.as_secs_f64() * 1e6
    }
}

fn all_reported(count: u64, acked: u64, failed: u64) -> CheckResult {
    ensure!(
        acked.checked_add(failed) == Some(count),
        "acked {acked} and failed {failed} do not add up to {count}"
    );
    Ok(())
}

fn ascending(marks: &[(&str, u64)]) -> CheckResult {
    for two in marks.windows(2) {
        let ((before, first), (after, second)) = (two[0], two[1]);
        ensure!(
            first <= second,
            "mark {after} ({second}) is before {before} ({first})"
        );
    }
    Ok(())
}

fn positive(name: &str, value: f64) -> CheckResult {
    ensure!(value >= 0.0, "{name} is {value}");
    Ok(())
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

const KEY_BYTES: u64 = 8;
/// Tolerance for reading a pipe on a busy machine and for the drift of two clocks.
const WALL_SLACK_US: f64 = 5_000.0;
const WALL_SHARE: f64 = 0.01;
/// The system counts user and system time in steps of 10 ms each.
const CPU_SLACK_US: f64 = 20_000.0;
const CPU_SHARE: f64 = 0.15;
/// Rounding of two readings of one clock.
const ROUNDING_US: f64 = 2.0;

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
