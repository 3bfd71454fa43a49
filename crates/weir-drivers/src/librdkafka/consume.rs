//! Executes `consume`.

use crate::{AssignmentMode, Consume, ConsumeMarks, Consumed};

use super::deadline::Deadline;
use super::error::CommandOutcome;
use super::reader::{DriverConsumer, ReadStep, ReceivedRecord};
use super::session::DriverSession;
use super::usage::ClockMark;
use super::values::value;

/// Reads a burst with a new consumer.
pub(super) fn consume(
    session: &DriverSession,
    command: &Consume,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Consumed> {
    let clock = session.clock();
    let expected = match command.verify {
        true => Some(value(command.seed, command.len)?),
        false => None,
    };
    let joins = command.via == AssignmentMode::Group;
    let mut reader = DriverConsumer::start(session.configured()?, &command.topic, joins, clock)?;
    let s0 = clock.mark();
    match command.via {
        AssignmentMode::Group => reader.subscribe()?,
        AssignmentMode::Assign => reader.assign(0)?,
    }
    let assigned_ns = clock.now_ns();
    let mut totals = ConsumeTotals::default();
    let mut s2 = s0;
    let mut wait = reader.check_time(timeout, 0, command.count)?;
    while totals.got < command.count {
        match reader.poll(wait)? {
            ReadStep::Record(record) => {
                if totals.got == 0 {
                    s2 = clock.mark();
                }
                totals.add(&record, command.len, expected.as_deref());
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => wait = reader.check_time(timeout, totals.got, command.count)?,
        }
    }
    let s3 = if command.count == 0 { s0 } else { clock.mark() };
    let s4 = match command.commit {
        true => {
            reader.commit()?;
            Some(clock.now_ns())
        }
        false => None,
    };
    let s1 = if joins {
        reader.assigned_ns()
    } else {
        assigned_ns
    };
    Ok(totals.into_response(
        marks(s0, s1, s2, s3, s4),
        s3.cpu_us_since(s0),
        s3.cpu_us_since(s2),
    ))
}

fn marks(s0: ClockMark, s1: u64, s2: ClockMark, s3: ClockMark, s4: Option<u64>) -> ConsumeMarks {
    ConsumeMarks {
        s0: s0.ns,
        // Without records, all marks are equal.
        s1: s1.clamp(s0.ns, s2.ns.max(s0.ns)),
        s2: s2.ns,
        s3: s3.ns,
        s4,
    }
}

/// Totals of the records read.
#[derive(Debug, Default)]
struct ConsumeTotals {
    got: u64,
    bytes: u64,
    bad: u64,
}

impl ConsumeTotals {
    fn add(&mut self, record: &ReceivedRecord<'_>, len: u64, expected: Option<&[u8]>) {
        let value = record.value();
        let is_correct = record.number == i64::try_from(self.got).ok()
            && value.len() as u64 == len
            && expected.is_none_or(|expected| expected == value);
        self.bad += u64::from(!is_correct);
        self.bytes += record.bytes();
        self.got += 1;
    }

    fn into_response(self, marks: ConsumeMarks, cpu_us: f64, drain_cpu_us: f64) -> Consumed {
        Consumed {
            marks,
            cpu_us,
            drain_cpu_us,
            got: self.got,
            bytes: self.bytes,
            bad: self.bad,
        }
    }
}
