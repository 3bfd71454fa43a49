//! Reading a burst.

use crate::{AssignmentMode, Consume, ConsumeMarks, Consumed};

use super::CommandOutcome;
use super::deadline::Deadline;
use super::reader::{DriverConsumer, ReadStep, ReceivedRecord};
use super::session::DriverSession;
use super::usage::ClockMark;
use super::values::value;

/// Reads a burst with a new consumer.
pub(super) fn consume(
    session: &DriverSession,
    asked: &Consume,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Consumed> {
    let clock = session.clock();
    let expected = match asked.verify {
        true => Some(value(asked.seed, asked.len)?),
        false => None,
    };
    let joins = asked.via == AssignmentMode::Group;
    let mut reader = DriverConsumer::start(session.configured()?, &asked.topic, joins, clock)?;
    let s0 = clock.mark();
    match asked.via {
        AssignmentMode::Group => reader.subscribe()?,
        AssignmentMode::Assign => reader.assign(0)?,
    }
    let assigned_ns = clock.now_ns();
    let mut tally = ConsumeTotals::default();
    let mut s2 = s0;
    let mut wait = reader.go_on(timeout, 0, asked.count)?;
    while tally.got < asked.count {
        match reader.turn(wait)? {
            ReadStep::Record(record) => {
                if tally.got == 0 {
                    s2 = clock.mark();
                }
                tally.add(&record, asked.len, expected.as_deref());
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => wait = reader.go_on(timeout, tally.got, asked.count)?,
        }
    }
    let s3 = if asked.count == 0 { s0 } else { clock.mark() };
    let s4 = match asked.commit {
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
    Ok(tally.told(
        marks(s0, s1, s2, s3, s4),
        s3.cpu_us_since(s0),
        s3.cpu_us_since(s2),
    ))
}

fn marks(s0: ClockMark, s1: u64, s2: ClockMark, s3: ClockMark, s4: Option<u64>) -> ConsumeMarks {
    ConsumeMarks {
        s0: s0.ns,
        // Of no records all marks are one.
        s1: s1.clamp(s0.ns, s2.ns.max(s0.ns)),
        s2: s2.ns,
        s3: s3.ns,
        s4,
    }
}

/// What was read.
#[derive(Debug, Default)]
struct ConsumeTotals {
    got: u64,
    bytes: u64,
    bad: u64,
}

impl ConsumeTotals {
    fn add(&mut self, record: &ReceivedRecord<'_>, len: u64, expected: Option<&[u8]>) {
        let value = record.value();
        let is_right = record.number == i64::try_from(self.got).ok()
            && value.len() as u64 == len
            && expected.is_none_or(|expected| expected == value);
        self.bad += u64::from(!is_right);
        self.bytes += record.bytes();
        self.got += 1;
    }

    fn told(self, marks: ConsumeMarks, cpu_us: f64, drain_cpu_us: f64) -> Consumed {
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
