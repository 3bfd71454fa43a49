//! Executes `roundtrip`: produces and consumes at the same time. Latencies count from due times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::{ReportedDistribution, RoundTrip, RoundTripMarks, RoundTripped};

use super::deadline::Deadline;
use super::error::{CommandError, CommandOutcome};
use super::histogram::DriverHistogram;
use super::reader::{DriverConsumer, ReadStep};
use super::sender::DriverProducer;
use super::session::DriverSession;
use super::usage::{ClockMark, DriverClock};
use super::values::{key, value};
use weir_load::pacer::{Pacer, Rate};

/// Sends and receives `count` records.
pub(super) fn roundtrip(
    session: &DriverSession,
    command: &RoundTrip,
    timeout: &Deadline<'_>,
) -> CommandOutcome<RoundTripped> {
    let value = value(command.seed, command.len)?;
    let pacer = match command.rate {
        0.0 => None,
        rate => Some(Pacer::new(Rate::per_second(rate)?)),
    };
    let clock = session.clock();
    let clients = session.configured()?;
    let sender = clients.sender(clock)?;
    sender.load_metadata(&command.topic, timeout)?;
    let mut reader = DriverConsumer::start(clients, &command.topic, false, clock)?;
    reader.assign(reader.end_offset(timeout)?)?;
    sender.send_primer(&command.topic, timeout)?;
    wait_for_primer(&mut reader, timeout)?;
    let t0 = clock.mark();
    let expected = AtomicU64::new(command.count);
    let (sent, received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&mut reader, &expected, t0, clock, timeout));
        let sending = RoundTripProducer {
            command,
            value: &value,
            pacer,
            clock,
        };
        let sent = sending.run(&sender, t0.ns, timeout);
        // Failed records will not arrive.
        let acked = sent.as_ref().map_or(0, |sent| sent.reported.acked);
        expected.store(acked, Ordering::Release);
        (sent, receiving.join())
    });
    let sent = sent?;
    let received = received.unwrap_or_else(|_| {
        let panicked = std::io::Error::other("the receiving thread panicked");
        Err(CommandError::Thread(panicked))
    })?;
    let t2 = sent.reported.last;
    let last = if received.last.ns > t2.ns {
        received.last
    } else {
        t2
    };
    Ok(RoundTripped {
        marks: RoundTripMarks {
            t0: t0.ns,
            t1: sent.t1,
            t2: t2.ns,
            r1: received.last.ns,
        },
        cpu_us: last.cpu_us_since(t0),
        acked: sent.reported.acked,
        failed: sent.reported.failed,
        errors: sent.reported.errors,
        got: received.got,
        latency: received.latency,
        pacing: sent.pacing,
    })
}

fn wait_for_primer(reader: &mut DriverConsumer, timeout: &Deadline<'_>) -> CommandOutcome<()> {
    loop {
        let wait = reader.check_time(timeout, 0, 1)?;
        if let ReadStep::Primer = reader.poll(wait)? {
            return Ok(());
        }
    }
}

/// Results of the consumer.
struct ReceivedRecords {
    last: ClockMark,
    got: u64,
    latency: ReportedDistribution,
}

fn receive(
    reader: &mut DriverConsumer,
    expected: &AtomicU64,
    t0: ClockMark,
    clock: DriverClock,
    timeout: &Deadline<'_>,
) -> CommandOutcome<ReceivedRecords> {
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
    Ok(ReceivedRecords {
        last,
        got,
        latency: latency.distribution(),
    })
}

/// Producing part of a roundtrip.
struct RoundTripProducer<'a> {
    command: &'a RoundTrip,
    value: &'a [u8],
    pacer: Option<Pacer>,
    clock: DriverClock,
}

struct SentRecords {
    t1: u64,
    reported: super::sender::Reported,
    pacing: ReportedDistribution,
}

impl RoundTripProducer<'_> {
    fn run(
        &self,
        sender: &DriverProducer,
        t0_ns: u64,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<SentRecords> {
        sender.start_command(self.command.count, false);
        let mut pacing = DriverHistogram::default();
        for index in 0..self.command.count {
            let due_ns = match self.pacer {
                None => self.clock.now_ns(),
                Some(pacer) => {
                    let due_ns = t0_ns + pacer.due_ns(index);
                    let now = wait_until(self.clock, due_ns);
                    pacing.record_ns(now as i64 - due_ns as i64);
                    due_ns
                }
            };
            let key = key(due_ns as i64);
            sender.send(&self.command.topic, &key, self.value, due_ns, timeout)?;
        }
        let t1 = self.clock.now_ns();
        Ok(SentRecords {
            t1,
            reported: sender.finish(timeout)?,
            pacing: pacing.distribution(),
        })
    }
}

/// Sleeps until the clock reaches `due_ns`. Returns the time of the clock.
pub(super) fn wait_until(clock: DriverClock, due_ns: u64) -> u64 {
    loop {
        let now = clock.now_ns();
        if now >= due_ns {
            return now;
        }
        let due = clock.instant(due_ns);
        thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
    }
}
