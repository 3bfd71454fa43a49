//! Executes `consume`.

use super::deadline::{CommandOutcome, Deadline};
use super::reader::{DriverConsumer, ReadStep};
use super::session::DriverSession;
use super::values::value;
use crate::{AssignmentMode, Consume, ConsumeMarks, Consumed};

pub(super) fn consume(
    session: &DriverSession,
    command: &Consume,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Consumed> {
    let clock = session.clock;
    let (len, count) = (command.burst.len, command.burst.count);
    let expected = match command.verify {
        true => Some(value(command.burst.seed, len)?),
        false => None,
    };
    let joins = command.via == AssignmentMode::Group;
    let mut reader = DriverConsumer::start(session, &command.burst.topic, joins)?;
    let s0 = clock.mark();
    reader.begin(command.via)?;
    let assigned_ns = clock.now_ns();
    let mut result = Consumed::default();
    let mut s2 = s0;
    let mut wait = reader.check_time(timeout, 0, count)?;
    while result.got < count {
        match reader.poll(wait)? {
            ReadStep::Record(record) => {
                if result.got == 0 {
                    s2 = clock.mark();
                }
                let is_correct = record.is_expected(result.got, len)
                    && expected.as_deref().is_none_or(|it| it == record.value());
                result.bad += u64::from(!is_correct);
                result.bytes += record.bytes();
                result.got += 1;
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => wait = reader.check_time(timeout, result.got, count)?,
        }
    }
    let s3 = if count == 0 { s0 } else { clock.mark() };
    let mut s4 = None;
    if command.commit {
        reader.commit()?;
        s4 = Some(clock.now_ns());
    }
    let s1 = if joins {
        reader.assigned_ns()
    } else {
        assigned_ns
    };
    result.marks = ConsumeMarks {
        s0: s0.ns,
        // Without records, all marks are equal.
        s1: s1.clamp(s0.ns, s2.ns.max(s0.ns)),
        s2: s2.ns,
        s3: s3.ns,
        s4,
    };
    result.cpu_us = s3.cpu_us_since(s0);
    result.drain_cpu_us = s3.cpu_us_since(s2);
    Ok(result)
}
