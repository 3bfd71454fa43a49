//! Whether an answer can be true: by itself, and against what was seen of the process meanwhile.

use std::time::Duration;

use super::protocol::{
    Consume, Consumed, DriverHello, PROTOCOL, ProduceCommand, Produced, ReportedDistribution,
    RoundTrip, RoundTripped, Steady, SteadyDone, SteadySecond, TopicEnd, WarmUp, WarmedUp,
};

/// What was seen of a driver while it did a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CommandObservation {
    /// From writing the command to reading the answer.
    pub(super) wall: Duration,
    /// Processor time of all its threads, where the system tells.
    pub(super) cpu_us: Option<f64>,
    /// Processors of the machine.
    pub(super) cores: f64,
}

type CheckResult = Result<(), String>;

/// Fails with a text.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        // Written so that what is not a number fails too.
        match $condition {
            true => {}
            false => return Err(format!($($text)+)),
        }
    };
}

pub(super) fn hello(answer: &DriverHello) -> CheckResult {
    hold!(
        answer.protocol == PROTOCOL,
        "it speaks protocol {}, this program speaks {PROTOCOL}",
        answer.protocol
    );
    hold!(!answer.library.is_empty(), "library is empty");
    hold!(
        !answer.library_version.is_empty(),
        "library_version is empty"
    );
    Ok(())
}

pub(super) fn warmed_up(
    asked: &WarmUp,
    answer: &WarmedUp,
    seen: &CommandObservation,
) -> CheckResult {
    let per_record = answer.produce_cpu_us_per_record + answer.consume_cpu_us_per_record;
    positive(
        "produce_cpu_us_per_record",
        answer.produce_cpu_us_per_record,
    )?;
    positive(
        "consume_cpu_us_per_record",
        answer.consume_cpu_us_per_record,
    )?;
    seen.not_above(per_record * asked.count as f64)
}

pub(super) fn produced(
    asked: &ProduceCommand,
    answer: &Produced,
    seen: &CommandObservation,
) -> CheckResult {
    let marks = &answer.marks;
    ascending(&[("t0", marks.t0), ("t1", marks.t1)])?;
    ascending(&[("t0", marks.t0), ("t2", marks.t2)])?;
    all_reported(asked.count, answer.acked, answer.failed)?;
    let end = marks.t1.max(marks.t2);
    seen.allows(marks.t0, end, answer.cpu_us)?;
    if !asked.per_record {
        return Ok(());
    }
    let (Some(create), Some(send)) = (answer.create_us, answer.send_us) else {
        return Err("create_us and send_us are missing, though per_record was asked".to_owned());
    };
    positive("create_us", create)?;
    positive("send_us", send)?;
    let sending = micros(marks.t1 - marks.t0);
    hold!(
        create + send <= sending * (1.0 + WALL_SHARE) + WALL_SLACK_US,
        "create_us + send_us is {:.0}, from t0 to t1 there are {sending:.0}",
        create + send
    );
    Ok(())
}

pub(super) fn consumed(
    asked: &Consume,
    answer: &Consumed,
    seen: &CommandObservation,
) -> CheckResult {
    let marks = &answer.marks;
    let mut order = vec![
        ("s0", marks.s0),
        ("s1", marks.s1),
        ("s2", marks.s2),
        ("s3", marks.s3),
    ];
    hold!(
        marks.s4.is_some() == asked.commit,
        "s4 is {}, commit was {}",
        if marks.s4.is_some() {
            "there"
        } else {
            "missing"
        },
        asked.commit
    );
    order.extend(marks.s4.map(|s4| ("s4", s4)));
    ascending(&order)?;
    hold!(
        answer.got == asked.count,
        "got is {}, asked were {} records",
        answer.got,
        asked.count
    );
    hold!(
        answer.bad <= answer.got,
        "bad is {}, got only {}",
        answer.bad,
        answer.got
    );
    let right = answer
        .got
        .saturating_mul(asked.len.saturating_add(KEY_BYTES));
    hold!(
        answer.bad > 0 || answer.bytes == right,
        "bytes is {}, {} records of {} and a key have {right}",
        answer.bytes,
        answer.got,
        asked.len
    );
    positive("drain_cpu_us", answer.drain_cpu_us)?;
    hold!(
        answer.drain_cpu_us <= answer.cpu_us + ROUNDING_US,
        "drain_cpu_us is {:.0}, cpu_us only {:.0}",
        answer.drain_cpu_us,
        answer.cpu_us
    );
    if let Some(s4) = marks.s4 {
        seen.has_time_for(marks.s0, s4)?;
    }
    seen.allows(marks.s0, marks.s3, answer.cpu_us)
}

pub(super) fn round_tripped(
    asked: &RoundTrip,
    answer: &RoundTripped,
    seen: &CommandObservation,
) -> CheckResult {
    let marks = &answer.marks;
    for (name, mark) in [("t1", marks.t1), ("t2", marks.t2), ("r1", marks.r1)] {
        ascending(&[("t0", marks.t0), (name, mark)])?;
    }
    all_reported(asked.count, answer.acked, answer.failed)?;
    hold!(
        answer.got == answer.acked || (answer.failed > 0 && answer.got <= asked.count),
        "got is {}, acked {}",
        answer.got,
        answer.acked
    );
    let paced = if asked.rate > 0.0 { asked.count } else { 0 };
    seen.spread("latency", &answer.latency, answer.got)?;
    seen.spread("pacing", &answer.pacing, paced)?;
    let end = marks.t1.max(marks.t2).max(marks.r1);
    seen.allows(marks.t0, end, answer.cpu_us)
}

/// `told` are the seconds that came before the answer.
pub(super) fn steady(
    asked: &Steady,
    answer: &SteadyDone,
    told: &[SteadySecond],
    seen: &CommandObservation,
) -> CheckResult {
    hold!(
        told.len() as u64 == asked.seconds,
        "it told {} seconds, asked were {}",
        told.len(),
        asked.seconds
    );
    for (place, second) in told.iter().enumerate() {
        hold!(
            second.second == place as u64,
            "second {} came where {place} should",
            second.second
        );
        positive("cpu_us", second.cpu_us)?;
    }
    let sum = |part: fn(&SteadySecond) -> u64| told.iter().map(part).fold(0, u64::saturating_add);
    for (name, all, parts) in [
        ("records", answer.records, sum(|second| second.records)),
        ("bytes", answer.bytes, sum(|second| second.bytes)),
    ] {
        hold!(
            all == parts,
            "{name} is {all}, its seconds add up to {parts}"
        );
    }
    positive("cpu_us", answer.cpu_us)?;
    seen.not_above(answer.cpu_us)?;
    seen.not_above(told.iter().map(|second| second.cpu_us).sum())?;
    if asked.role == TopicEnd::Consume {
        return Ok(());
    }
    let due = (asked.rate * asked.seconds as f64).ceil() + 1.0;
    hold!(
        answer.records as f64 <= due,
        "records is {}, only {due:.0} were due",
        answer.records
    );
    hold!(
        answer.failed <= answer.records,
        "failed is {}, records {}",
        answer.failed,
        answer.records
    );
    let (Some(latency), Some(pacing)) = (&answer.latency, &answer.pacing) else {
        return Err("latency and pacing are missing".to_owned());
    };
    seen.spread("latency", latency, answer.records - answer.failed)?;
    seen.spread("pacing", pacing, answer.records)
}

/// Whether a distribution agrees with itself and has `count` values.
fn distribution(name: &str, found: &ReportedDistribution, count: u64) -> CheckResult {
    hold!(
        found.count == count,
        "{name} has {} values, there should be {count}",
        found.count
    );
    let counted = found.pairs.iter().map(|(_, times)| *times);
    let counted = counted.fold(0, u64::saturating_add);
    hold!(
        counted == count,
        "the pairs of {name} count {counted}, it says {count}"
    );
    let ascending = found.pairs.windows(2).all(|two| two[0].0 < two[1].0);
    hold!(ascending, "the pairs of {name} do not ascend");
    for (value, _) in &found.pairs {
        hold!(
            is_rounded(*value),
            "{name} has {value}, which has more than three digits"
        );
    }
    let (Some((first, _)), Some((last, _))) = (found.pairs.first(), found.pairs.last()) else {
        return Ok(());
    };
    hold!(
        near(found.min_us, *first) && near(found.max_us, *last),
        "{name} is from {} to {}, its pairs from {first} to {last}",
        found.min_us,
        found.max_us
    );
    let (least, most) = (found.min_us as f64, found.max_us as f64);
    let (sum, count) = (found.sum_us as f64, count as f64);
    hold!(
        // Values may have been cut to whole microseconds before or after they were added.
        sum >= least * count * 0.99 - count && sum <= most * count * 1.01 + count,
        "the sum of {name} is {sum}, {count} values from {least} to {most} can not have it"
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

/// Whether `rounded` may be what `exact` was rounded to.
fn near(exact: u64, rounded: u64) -> bool {
    exact.abs_diff(rounded) as f64 <= exact as f64 * 0.01 + 1.0
}

impl CommandObservation {
    /// Whether so much time between two marks, and so much processor time, can be.
    fn allows(&self, first: u64, last: u64, cpu_us: f64) -> CheckResult {
        positive("cpu_us", cpu_us)?;
        self.has_time_for(first, last)?;
        self.not_above(cpu_us)?;
        let Some(process) = self.cpu_us else {
            return Ok(());
        };
        let outside = (self.wall_us() - micros(last - first)).max(0.0) * self.cores;
        let least = process * (1.0 - CPU_SHARE) - outside - CPU_SLACK_US;
        hold!(
            cpu_us >= least,
            "cpu_us is {cpu_us:.0}, the system counts {process:.0} in the whole command"
        );
        Ok(())
    }

    /// Whether these can be times of records within the command.
    fn spread(&self, name: &str, found: &ReportedDistribution, count: u64) -> CheckResult {
        distribution(name, found, count)?;
        let wall = self.wall_us();
        hold!(
            found.max_us as f64 <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US,
            "{name} goes up to {} us, the whole command took {wall:.0}",
            found.max_us
        );
        Ok(())
    }

    fn has_time_for(&self, first: u64, last: u64) -> CheckResult {
        let (span, wall) = (micros(last - first), self.wall_us());
        hold!(
            span <= wall * (1.0 + WALL_SHARE) + WALL_SLACK_US,
            "its marks are {span:.0} us apart, the whole command took {wall:.0}"
        );
        Ok(())
    }

    fn not_above(&self, cpu_us: f64) -> CheckResult {
        let possible = self.wall_us() * self.cores;
        hold!(
            cpu_us <= possible + CPU_SLACK_US,
            "cpu_us is {cpu_us:.0}, all processors together had {possible:.0}"
        );
        if let Some(process) = self.cpu_us {
            hold!(
                cpu_us <= process * (1.0 + CPU_SHARE) + CPU_SLACK_US,
                "cpu_us is {cpu_us:.0}, the system counts {process:.0} in the whole command"
            );
        }
        Ok(())
    }

    fn wall_us(&self) -> f64 {
        self.wall.as_secs_f64() * 1e6
    }
}

fn all_reported(count: u64, acked: u64, failed: u64) -> CheckResult {
    hold!(
        acked.checked_add(failed) == Some(count),
        "acked {acked} and failed {failed} are not the {count} that were asked"
    );
    Ok(())
}

fn ascending(marks: &[(&str, u64)]) -> CheckResult {
    for two in marks.windows(2) {
        let ((before, first), (after, second)) = (two[0], two[1]);
        hold!(
            first <= second,
            "mark {after} ({second}) is before {before} ({first})"
        );
    }
    Ok(())
}

fn positive(name: &str, value: f64) -> CheckResult {
    hold!(value >= 0.0, "{name} is {value}");
    Ok(())
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

const KEY_BYTES: u64 = 8;
/// What reading a pipe and a busy machine may add, and how far two clocks may drift.
const WALL_SLACK_US: f64 = 5_000.0;
const WALL_SHARE: f64 = 0.01;
/// The system counts two kinds of processor time in steps of 10 ms.
const CPU_SLACK_US: f64 = 20_000.0;
const CPU_SHARE: f64 = 0.15;
/// Two readings of one clock, rounded.
const ROUNDING_US: f64 = 2.0;

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
