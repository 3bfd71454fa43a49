//! Checks of the responses of drivers: for plausibility, and against observations of the process.
//!
//! `docs/drivers.md` defines the marks `t0`, `s0`, `r1` and so on. They are times in nanoseconds.

use std::time::Duration;

use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use weir_stats::run::Distribution;

use super::error::DriverFailure;
use super::protocol::{
    Burst, Configure, Configured, Consume, Consumed, Copied, CopyTopic, Delivered, DriverHello,
    Hello, PROTOCOL, ProduceCommand, Produced, RoundTrip, RoundTripped, Stats, Steady, SteadyDone,
    SteadySecond, TopicEnd, WarmUp, WarmedUp,
};

/// Fields of a command to a driver.
pub trait DriverRequest: Serialize {
    /// Name of the command in the protocol.
    const OP: &'static str;
    /// Fields of the response.
    type Response: DeserializeOwned;

    /// Checks the response against the command and the observations of the process.
    ///
    /// # Errors
    /// [`DriverFailure::ImpossibleResult`] names the contradiction.
    fn check(&self, _: &Self::Response, _: &CommandObservation<'_>) -> CheckResult {
        Ok(())
    }

    /// Returns the number of one-second reports that precede the response.
    fn seconds(&self) -> u64 {
        0
    }
}

/// Defines commands that have no fields and whose responses are not checked.
macro_rules! plain_requests {
    ($($(#[$doc:meta])* $name:ident = $op:literal -> $response:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Serialize)]
        pub struct $name {}

        impl DriverRequest for $name {
            const OP: &'static str = $op;
            type Response = $response;
        }
    )*};
}

plain_requests! {
    /// Command to run the garbage collector.
    Gc = "gc" -> IgnoredAny;
    /// Command to report memory use and the number of threads.
    GetStats = "stats" -> Stats;
    /// Command to close the clients and exit.
    Bye = "bye" -> IgnoredAny;
}

/// Observations of a driver during a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandObservation<'a> {
    /// Wall-clock time from writing the command to reading the response.
    pub(super) wall: Duration,
    /// CPU time of all threads of the driver; `None` if the system does not report it.
    pub(super) cpu_us: Option<f64>,
    /// Number of cores, which bounds the CPU time.
    pub(super) cores: f64,
    /// One-second reports that the driver sent before the response.
    pub(super) seconds: &'a [SteadySecond],
}

pub(super) type CheckResult = Result<(), DriverFailure>;

/// Returns an error with the given text unless the condition holds.
macro_rules! ensure {
    ($condition:expr => $($text:tt)+) => {
        // A match, so that comparisons with NaN fail.
        match $condition {
            true => {}
            false => return Err(DriverFailure::ImpossibleResult(format!($($text)+))),
        }
    };
}

impl DriverRequest for Hello {
    const OP: &'static str = "hello";
    type Response = DriverHello;

    fn check(&self, response: &DriverHello, _: &CommandObservation<'_>) -> CheckResult {
        let protocol = response.protocol;
        ensure!(protocol == PROTOCOL => "driver has protocol {protocol}, expected {PROTOCOL}");
        ensure!(!response.library.is_empty() => "library is empty");
        ensure!(!response.library_version.is_empty() => "library_version is empty");
        Ok(())
    }
}

impl DriverRequest for Configure {
    const OP: &'static str = "configure";
    type Response = Configured;

    fn check(&self, response: &Configured, _: &CommandObservation<'_>) -> CheckResult {
        for name in self.settings.keys() {
            ensure!(response.effective.contains_key(name) => "effective has no value of {name}");
        }
        let is_read = self.client_file.is_none() || response.client_file;
        ensure!(is_read => "driver does not use client_file, which encryption or login requires");
        Ok(())
    }
}

impl DriverRequest for WarmUp {
    const OP: &'static str = "warmup";
    type Response = WarmedUp;

    fn check(&self, response: &WarmedUp, seen: &CommandObservation<'_>) -> CheckResult {
        let produce = non_negative(
            "produce_cpu_us_per_record",
            response.produce_cpu_us_per_record,
        )?;
        let consume = non_negative(
            "consume_cpu_us_per_record",
            response.consume_cpu_us_per_record,
        )?;
        seen.check_cpu_max((produce + consume) * self.0.count as f64)
    }
}

impl DriverRequest for ProduceCommand {
    const OP: &'static str = "produce";
    type Response = Produced;

    fn check(&self, response: &Produced, seen: &CommandObservation<'_>) -> CheckResult {
        let marks = &response.marks;
        check_ascending(&[("t0", marks.t0), ("t1", marks.t1)])?;
        check_ascending(&[("t0", marks.t0), ("t2", marks.t2)])?;
        check_all_reported(self.burst.count, &response.delivered)?;
        seen.check_times(marks.t0, marks.t1.max(marks.t2), response.cpu_us)?;
        if !self.per_record {
            return Ok(());
        }
        let times = (response.create_us, response.send_us);
        let (Some(create), Some(send)) = times else {
            return Err(DriverFailure::ImpossibleResult(
                "create_us and send_us are missing, but per_record was requested".to_owned(),
            ));
        };
        let both = non_negative("create_us", create)? + non_negative("send_us", send)?;
        let sending = micros(marks.t1 - marks.t0);
        ensure!(both <= sending * (1.0 + WALL_SHARE) + WALL_SLACK_US
            => "create_us + send_us is {both:.0}, but t0 to t1 is {sending:.0}");
        Ok(())
    }
}

impl DriverRequest for Consume {
    const OP: &'static str = "consume";
    type Response = Consumed;

    fn check(&self, response: &Consumed, seen: &CommandObservation<'_>) -> CheckResult {
        let (marks, commit) = (&response.marks, self.commit);
        let s4 = if marks.s4.is_some() {
            "present"
        } else {
            "missing"
        };
        ensure!(marks.s4.is_some() == commit => "s4 is {s4}, but commit was {commit}");
        let last = marks.s4.unwrap_or(marks.s3);
        check_ascending(&[
            ("s0", marks.s0),
            ("s1", marks.s1),
            ("s2", marks.s2),
            ("s3", marks.s3),
            ("s4", last),
        ])?;
        check_received(&self.burst, response.got, response.bytes, response.bad)?;
        let cpu = response.cpu_us;
        check_part("drain_cpu_us", response.drain_cpu_us, cpu)?;
        seen.check_span(marks.s0, last)?;
        seen.check_times(marks.s0, marks.s3, cpu)
    }
}

impl DriverRequest for CopyTopic {
    const OP: &'static str = "copy";
    type Response = Copied;

    fn check(&self, response: &Copied, seen: &CommandObservation<'_>) -> CheckResult {
        let marks = &response.marks;
        check_ascending(&[("s0", marks.s0), ("s1", marks.s1), ("s2", marks.s2)])?;
        for (name, mark) in [("t1", marks.t1), ("t2", marks.t2)] {
            check_ascending(&[("s2", marks.s2), (name, mark)])?;
        }
        check_received(&self.burst, response.got, response.bytes, response.bad)?;
        check_all_reported(self.burst.count, &response.delivered)?;
        check_part("copy_cpu_us", response.copy_cpu_us, response.cpu_us)?;
        seen.check_times(marks.s0, marks.t1.max(marks.t2), response.cpu_us)
    }
}

impl DriverRequest for RoundTrip {
    const OP: &'static str = "roundtrip";
    type Response = RoundTripped;

    fn check(&self, response: &RoundTripped, seen: &CommandObservation<'_>) -> CheckResult {
        let (marks, got) = (&response.marks, response.got);
        for (name, mark) in [("t1", marks.t1), ("t2", marks.t2), ("r1", marks.r1)] {
            check_ascending(&[("t0", marks.t0), (name, mark)])?;
        }
        let count = self.burst.count;
        check_all_reported(count, &response.delivered)?;
        let Delivered { acked, failed, .. } = response.delivered;
        ensure!(got == acked || (failed > 0 && got <= count)
            => "got is {got}, but acked is {acked}");
        let paced = if self.rate > 0.0 { count } else { 0 };
        seen.check_distribution("latency", &response.latency, got)?;
        seen.check_distribution("pacing", &response.pacing, paced)?;
        let end = marks.t1.max(marks.t2).max(marks.r1);
        seen.check_times(marks.t0, end, response.cpu_us)
    }
}

impl DriverRequest for Steady {
    const OP: &'static str = "steady";
    type Response = SteadyDone;

    fn seconds(&self) -> u64 {
        self.seconds
    }

    fn check(&self, response: &SteadyDone, seen: &CommandObservation<'_>) -> CheckResult {
        let (reported, requested) = (seen.seconds.len() as u64, self.seconds);
        ensure!(reported == requested
            => "{reported} seconds were reported, but {requested} requested");
        let (mut records, mut bytes, mut cpu_us) = (0_u64, 0_u64, 0.0);
        for (expected, second) in (0..).zip(seen.seconds) {
            let found = second.second;
            ensure!(found == expected => "second {found} was reported, expected {expected}");
            records = records.saturating_add(second.records);
            bytes = bytes.saturating_add(second.bytes);
            cpu_us += non_negative("cpu_us", second.cpu_us)?;
        }
        for (name, all, parts) in [
            ("records", response.records, records),
            ("bytes", response.bytes, bytes),
        ] {
            ensure!(all == parts => "{name} is {all}, but its seconds add up to {parts}");
        }
        seen.check_cpu_max(non_negative("cpu_us", response.cpu_us)?)?;
        seen.check_cpu_max(cpu_us)?;
        if self.role == TopicEnd::Consume {
            return Ok(());
        }
        let due = (self.rate * self.seconds as f64).ceil() + 1.0;
        ensure!(records as f64 <= due => "records is {records}, but only {due:.0} were due");
        let failed = response.failed;
        ensure!(failed <= records => "failed is {failed}, but records is {records}");
        let (Some(latency), Some(pacing)) = (&response.latency, &response.pacing) else {
            let text = "latency and pacing are missing".to_owned();
            return Err(DriverFailure::ImpossibleResult(text));
        };
        seen.check_distribution("latency", latency, records - failed)?;
        seen.check_distribution("pacing", pacing, records)
    }
}

/// Checks that the distribution `name` is consistent and has `count` values.
fn check_consistent(name: &str, found: &Distribution, count: u64) -> CheckResult {
    let Distribution {
        count: values,
        sum_us: sum,
        min_us: min,
        max_us: max,
        pairs,
    } = found;
    ensure!(*values == count => "{name} has {values} values, expected {count}");
    let counted = pairs
        .iter()
        .fold(0, |sum: u64, (_, times)| sum.saturating_add(*times));
    ensure!(counted == count
        => "the pairs of {name} have {counted} values, but count is {count}");
    ensure!(pairs.is_sorted_by(|a, b| a.0 < b.0) => "the pairs of {name} are not ascending");
    for (value, _) in pairs {
        ensure!(is_rounded(*value)
            => "{name} has {value}, with more than three significant digits");
    }
    let (Some((first, _)), Some((last, _))) = (pairs.first(), pairs.last()) else {
        return Ok(());
    };
    ensure!(near(*min, *first) && near(*max, *last)
        => "{name} is from {min} to {max}, but its pairs are from {first} to {last}");
    let (least, most, all) = (*min as f64, *max as f64, count as f64);
    // The driver may truncate values to whole microseconds before or after adding them.
    let possible = least * all * 0.99 - all..=most * all * 1.01 + all;
    ensure!(possible.contains(&(*sum as f64))
        => "the sum of {name} is {sum}, impossible for {count} values from {min} to {max}");
    Ok(())
}

/// Returns `true` if `value` has at most three significant digits.
fn is_rounded(mut value: u64) -> bool {
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

impl CommandObservation<'_> {
    /// Checks the time between two marks, and the CPU time that the driver reports for it.
    fn check_times(&self, first: u64, last: u64, cpu_us: f64) -> CheckResult {
        self.check_span(first, last)?;
        self.check_cpu_max(non_negative("cpu_us", cpu_us)?)?;
        let Some(process) = self.cpu_us else {
            return Ok(());
        };
        // Upper bound of the CPU time used before the first mark and after the last one.
        let outside = (self.wall_us() - micros(last - first)).max(0.0) * self.cores;
        ensure!(cpu_us >= process * (1.0 - CPU_SHARE) - outside - CPU_SLACK_US
            => "cpu_us is {cpu_us:.0}, but the system reports {process:.0} for the whole command");
        Ok(())
    }

    /// Checks a distribution of times of records within the command.
    fn check_distribution(&self, name: &str, found: &Distribution, count: u64) -> CheckResult {
        check_consistent(name, found, count)?;
        let (max, wall) = (found.max_us, self.wall_us());
        ensure!(max as f64 <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US
            => "{name} goes up to {max} us, but the whole command took {wall:.0}");
        Ok(())
    }

    /// Checks that the time between two marks, in nanoseconds, is not longer than the command.
    fn check_span(&self, first: u64, last: u64) -> CheckResult {
        let (span, wall) = (micros(last - first), self.wall_us());
        ensure!(span <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US
            => "the marks are {span:.0} us apart, but the whole command took {wall:.0}");
        Ok(())
    }

    /// Checks that a reported CPU time is possible, and is not above that of the process.
    fn check_cpu_max(&self, cpu_us: f64) -> CheckResult {
        let possible = self.wall_us() * self.cores;
        ensure!(cpu_us <= possible + CPU_SLACK_US
            => "cpu_us is {cpu_us:.0}, but all cores together had {possible:.0}");
        let process = self.cpu_us.unwrap_or(f64::INFINITY);
        ensure!(cpu_us <= process * (1.0 + CPU_SHARE) + CPU_SLACK_US
            => "cpu_us is {cpu_us:.0}, but the system reports {process:.0} for the whole command");
        Ok(())
    }

    fn wall_us(&self) -> f64 {
        self.wall.as_secs_f64() * 1e6
    }
}

/// Checks that every one of `count` records was acknowledged or failed.
fn check_all_reported(count: u64, delivered: &Delivered) -> CheckResult {
    let Delivered { acked, failed, .. } = delivered;
    ensure!(acked.checked_add(*failed) == Some(count)
        => "acked {acked} and failed {failed} do not add up to {count}");
    Ok(())
}

/// Checks the numbers of records that were read, and of their bytes.
fn check_received(requested: &Burst, got: u64, bytes: u64, bad: u64) -> CheckResult {
    let (count, len) = (requested.count, requested.len);
    ensure!(got == count => "got is {got}, but {count} records were requested");
    ensure!(bad <= got => "bad is {bad}, but got is {got}");
    let expected = got.saturating_mul(len.saturating_add(KEY_BYTES));
    ensure!(bad > 0 || bytes == expected
        => "bytes is {bytes}, but {got} records of {len} bytes and a key have {expected}");
    Ok(())
}

/// Checks that the CPU time `part` of a command is not above that of all of it.
fn check_part(name: &str, part: f64, cpu_us: f64) -> CheckResult {
    ensure!(non_negative(name, part)? <= cpu_us + ROUNDING_US
        => "{name} is {part:.0}, but cpu_us is {cpu_us:.0}");
    Ok(())
}

/// Checks that no mark is before the previous one.
fn check_ascending(marks: &[(&str, u64)]) -> CheckResult {
    for pair in marks.windows(2) {
        let ((before, first), (after, second)) = (pair[0], pair[1]);
        ensure!(first <= second => "mark {after} ({second}) is before {before} ({first})");
    }
    Ok(())
}

/// Returns `value`. Fails if it is negative or not a number.
fn non_negative(name: &str, value: f64) -> Result<f64, DriverFailure> {
    ensure!(value >= 0.0 => "{name} is {value}");
    Ok(value)
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

const KEY_BYTES: u64 = 8;
/// Absolute tolerance of wall-clock times, for reading a pipe on a busy machine.
const WALL_SLACK_US: f64 = 5_000.0;
/// Relative tolerance of wall-clock times, for the drift of two clocks.
const WALL_SHARE: f64 = 0.01;
/// Absolute tolerance of CPU times: the system counts user and system time in steps of 10 ms each.
const CPU_SLACK_US: f64 = 20_000.0;
/// Relative tolerance of CPU times.
const CPU_SHARE: f64 = 0.15;
/// Rounding error of two readings of one clock.
const ROUNDING_US: f64 = 2.0;

#[cfg(test)]
mod tests;
