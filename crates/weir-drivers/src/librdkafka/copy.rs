//! Executes `copy`: reads the records of a topic and writes each to another one.

use super::deadline::{CommandOutcome, Deadline};
use super::reader::{DriverConsumer, ReadStep};
use super::sender::{DriverProducer, record};
use super::session::DriverSession;
use crate::{AssignmentMode, Copied, CopyMarks, CopyTopic};

/// Returns the times of the copy and the numbers of records read and delivered.
///
/// # Errors
/// The timeout passed or the driver was stopped, or librdkafka rejected a client or the topic that
/// is read.
pub(super) fn copy(
    session: &mut DriverSession,
    command: &CopyTopic,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Copied> {
    let joins = command.via == AssignmentMode::Group;
    let mut reader = DriverConsumer::start(session, &command.burst.topic, joins)?;
    session.with_warm_producer(&command.to, timeout, |sender| {
        pump(&mut reader, sender, command, timeout)
    })
}

/// Copies all records. The clock starts before the reader is assigned.
fn pump(
    reader: &mut DriverConsumer,
    sender: &DriverProducer,
    command: &CopyTopic,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Copied> {
    let clock = sender.clock();
    let (len, count) = (command.burst.len, command.burst.count);
    let s0 = clock.mark();
    reader.begin(command.via)?;
    let assigned_ns = clock.now_ns();
    sender.start_command(count, false);
    let mut result = Copied::default();
    let mut s2 = clock.mark();
    let mut wait = reader.check_time(timeout, 0, count)?;
    while result.got < count {
        match reader.poll(wait)? {
            ReadStep::Record(received) => {
                if result.got == 0 {
                    s2 = clock.mark();
                }
                result.bad += u64::from(!received.is_expected(result.got, len));
                result.bytes += received.bytes();
                result.got += 1;
                let copied = record(&command.to, received.key(), received.value(), 0);
                sender.send(copied, timeout)?;
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => wait = reader.check_time(timeout, result.got, count)?,
        }
    }
    let t1 = clock.now_ns();
    let (last, delivered, _) = sender.finish(timeout)?;
    let s1 = match command.via {
        AssignmentMode::Group => reader.assigned_ns(),
        AssignmentMode::Assign => assigned_ns,
    };
    result.marks = CopyMarks {
        s0: s0.ns,
        s1: s1.clamp(s0.ns, s2.ns),
        s2: s2.ns,
        t1,
        // Without records, there is no report after the start.
        t2: last.ns.max(s2.ns),
    };
    result.cpu_us = last.cpu_us_since(s0);
    result.copy_cpu_us = last.cpu_us_since(s2);
    result.delivered = delivered;
    Ok(result)
}
