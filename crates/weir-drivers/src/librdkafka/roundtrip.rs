//! Producer and consumer at once, each record timed from when it was due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::{ReportedDistribution, RoundTrip, RoundTripMarks, RoundTripped};

use super::CommandOutcome;
use super::deadline::Deadline;
use super::error::CommandError;
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
    asked: &RoundTrip,
    timeout: &Deadline<'_>,
) -> CommandOutcome<RoundTripped> {
    let value = value(asked.seed, asked.len)?;
    let pacer = match asked.rate {
        0.0 => None,
        rate => Some(Pacer::new(Rate::per_second(rate)?)),
    };
    let clock = session.clock();
    let clients = session.configured()?;
    let sender = clients.sender(clock)?;
    sender.know(&asked.topic, timeout)?;
    let mut reader = DriverConsumer::start(clients, &asked.topic, false, clock)?;
    reader.assign(reader.end_offset(timeout)?)?;
    sender.send_primer(&asked.topic, timeout)?;
    wait_for_primer(&mut reader, timeout)?;
    let t0 = clock.mark();
    let wanted = AtomicU64::new(asked.count);
    let (sent, received) = thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&mut reader, &wanted, t0, clock, timeout));
        let sending = Sending {
            asked,
            value: &value,
            pacer,
            clock,
        };
        let sent = sending.run(&sender, t0.ns, timeout);
        // What has failed will not come.
        let coming = sent.as_ref().map_or(0, |sent| sent.reported.acked);
        wanted.store(coming, Ordering::Release);
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
        let wait = reader.go_on(timeout, 0, 1)?;
        if let ReadStep::Primer = reader.turn(wait)? {
            return Ok(());
        }
    }
}

/// What the consumer's end found.
struct ReceivedRecords {
    last: ClockMark,
    got: u64,
    latency: ReportedDistribution,
}

fn receive(
    reader: &mut DriverConsumer,
    wanted: &AtomicU64,
    t0: ClockMark,
    clock: DriverClock,
    timeout: &Deadline<'_>,
) -> CommandOutcome<ReceivedRecords> {
    let mut latency = DriverHistogram::default();
    let (mut got, mut last) = (0, t0);
    let mut wait = reader.go_on(timeout, 0, wanted.load(Ordering::Acquire))?;
    while got < wanted.load(Ordering::Acquire) {
        match reader.turn(wait)? {
            ReadStep::Record(record) => {
                let now = clock.now_ns();
                // One with another key was written by somebody else.
                let Some(due) = record.number.filter(|due| *due >= 0) else {
                    continue;
                };
                latency.record_ns(now as i64 - due);
                got += 1;
                if got == wanted.load(Ordering::Acquire) {
                    last = clock.mark();
                }
            }
            ReadStep::Primer => {}
            ReadStep::Nothing => {
                wait = reader.go_on(timeout, got, wanted.load(Ordering::Acquire))?;
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

/// What the producer's end does.
struct Sending<'a> {
    asked: &'a RoundTrip,
    value: &'a [u8],
    pacer: Option<Pacer>,
    clock: DriverClock,
}

struct Sent {
    t1: u64,
    reported: super::sender::Reported,
    pacing: ReportedDistribution,
}

impl Sending<'_> {
    fn run(
        &self,
        sender: &DriverProducer,
        t0_ns: u64,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<Sent> {
        sender.begin(self.asked.count, false);
        let mut pacing = DriverHistogram::default();
        for index in 0..self.asked.count {
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
            sender.send(&self.asked.topic, &key, self.value, due_ns, timeout)?;
        }
        let t1 = self.clock.now_ns();
        Ok(Sent {
            t1,
            reported: sender.finish(timeout)?,
            pacing: pacing.distribution(),
        })
    }
}

/// Sleeps until the clock reads `due_ns`; what it reads then.
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
