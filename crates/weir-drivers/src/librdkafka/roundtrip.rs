//! Executes `roundtrip`: produces and consumes at the same time. Latencies count from due times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use weir_load::pacer::{Pacer, Rate};
use weir_stats::run::Distribution;

use super::clock::{ClockMark, DriverClock};
use super::deadline::{CommandError, CommandOutcome, Deadline};
use super::histogram::DriverHistogram;
use super::reader::{DriverConsumer, ReadStep};
use super::sender::{DriverProducer, Reported, record};
use super::session::DriverSession;
use super::values::{key, value};
use crate::{RoundTrip, RoundTripMarks, RoundTripped};

pub(super) fn roundtrip(
    session: &DriverSession,
    command: &RoundTrip,
    timeout: &Deadline<'_>,
) -> CommandOutcome<RoundTripped> {
    let topic = &command.burst.topic;
    let value = value(command.burst.seed, command.burst.len)?;
    let pacer = match command.rate {
        0.0 => None,
        rate => Some(Pacer::new(Rate::per_second(rate)?)),
    };
    let clock = session.clock;
    let sender = session.sender()?;
    sender.load_metadata(topic, timeout)?;
    let mut reader = DriverConsumer::start(session, topic, false)?;
    reader.assign(reader.end_offset(timeout)?)?;
    sender.send_primer(topic, timeout)?;
    loop {
        let wait = reader.check_time(timeout, 0, 1)?;
        if let ReadStep::Primer = reader.poll(wait)? {
            break;
        }
    }
    let t0 = clock.mark();
    let expected = AtomicU64::new(command.burst.count);
    let (sent, received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&mut reader, &expected, t0, clock, timeout));
        let sent = send(&sender, command, (&value, pacer), t0.ns, timeout);
        // Failed records will not arrive.
        let acked = sent.as_ref().map_or(0, |(_, _, reported)| reported.1.acked);
        expected.store(acked, Ordering::Release);
        (sent, receiving.join())
    });
    let (t1, pacing, (t2, delivered, _)) = sent?;
    let (r1, got, latency) = received.unwrap_or_else(|_| {
        let panicked = std::io::Error::other("the receiving thread panicked");
        Err(CommandError::Thread(panicked))
    })?;
    let last = if r1.ns > t2.ns { r1 } else { t2 };
    Ok(RoundTripped {
        jni_calls: None,
        marks: RoundTripMarks {
            t0: t0.ns,
            t1,
            t2: t2.ns,
            r1: r1.ns,
        },
        cpu_us: last.cpu_us_since(t0),
        delivered,
        got,
        latency,
        pacing,
    })
}

/// Returns the time of the last record, the number of records and their latencies.
fn receive(
    reader: &mut DriverConsumer,
    expected: &AtomicU64,
    t0: ClockMark,
    clock: DriverClock,
    timeout: &Deadline<'_>,
) -> CommandOutcome<(ClockMark, u64, Distribution)> {
    let mut latency = DriverHistogram::default();
    let (mut got, mut last) = (0, t0);
    let mut wait = reader.check_time(timeout, 0, expected.load(Ordering::Acquire))?;
    while got < expected.load(Ordering::Acquire) {
        match reader.poll(wait)? {
            ReadStep::Record(record) => {
                let now = clock.now_ns();
                // A record with another key has another origin.
                let Some(due) = record.number.filter(|due| *due >= 0) else {
                    continue;
                };
                latency.record_ns(now as i64 - due);
                got += 1;
                if got == expected.load(Ordering::Acquire) {
                    last = clock.mark();
                }
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => {
                wait = reader.check_time(timeout, got, expected.load(Ordering::Acquire))?;
            }
        }
    }
    if last == t0 && got > 0 {
        last = clock.mark();
    }
    Ok((last, got, latency.distribution()))
}

/// Returns the time after the last send, the delays of the sends and the delivery reports.
fn send(
    sender: &DriverProducer,
    command: &RoundTrip,
    (value, pacer): (&[u8], Option<Pacer>),
    t0_ns: u64,
    timeout: &Deadline<'_>,
) -> CommandOutcome<(u64, Distribution, Reported)> {
    let clock = sender.clock();
    sender.start_command(command.burst.count, false);
    let mut pacing = DriverHistogram::default();
    for index in 0..command.burst.count {
        let due_ns = match pacer {
            None => clock.now_ns(),
            Some(pacer) => {
                let due_ns = t0_ns + pacer.due_ns(index);
                let now = clock.wait_until(due_ns);
                pacing.record_ns(now as i64 - due_ns as i64);
                due_ns
            }
        };
        let key = key(due_ns as i64);
        sender.send(record(&command.burst.topic, &key, value, due_ns), timeout)?;
    }
    let t1 = clock.now_ns();
    Ok((t1, pacing.distribution(), sender.finish(timeout)?))
}
