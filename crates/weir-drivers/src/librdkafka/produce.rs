//! Bursts of records.

use std::time::{Duration, Instant};

use crate::{ProduceCommand, ProduceMarks, Produced, ProducerState};
use rdkafka::producer::BaseRecord;

use super::CommandOutcome;
use super::deadline::Deadline;
use super::sender::DriverProducer;
use super::session::DriverSession;
use super::usage::{ClockMark, DriverClock};
use super::values::{key, value};

/// Produces a burst with a producer of the state asked for.
pub(super) fn produce(
    session: &mut DriverSession,
    asked: &ProduceCommand,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Produced> {
    let value = value(asked.seed, asked.len)?;
    let clock = session.clock();
    let burst = Burst {
        asked,
        value: &value,
        clock,
    };
    match asked.state {
        ProducerState::Warm => session.with_kept(&asked.topic, timeout, |sender| {
            burst.run(sender, clock.mark(), timeout)
        }),
        ProducerState::Metadata => {
            let sender = session.configured()?.sender(clock)?;
            sender.know(&asked.topic, timeout)?;
            burst.run(&sender, clock.mark(), timeout)
        }
        ProducerState::Cold => {
            let configured = session.configured()?;
            let t0 = clock.mark();
            let sender = configured.sender(clock)?;
            burst.run(&sender, t0, timeout)
        }
    }
}

/// Records to be sent.
struct Burst<'a> {
    asked: &'a ProduceCommand,
    value: &'a [u8],
    clock: DriverClock,
}

/// Time spent in the two parts of sending.
#[derive(Debug, Default)]
struct Spent {
    create: Duration,
    send: Duration,
}

impl Burst<'_> {
    fn run(
        &self,
        sender: &DriverProducer,
        t0: ClockMark,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<Produced> {
        sender.begin(self.asked.count, false);
        let spent = if self.asked.per_record {
            Some(self.send_timed(sender, timeout)?)
        } else {
            self.send(sender, timeout)?;
            None
        };
        let t1 = self.clock.now_ns();
        let reported = sender.finish(timeout)?;
        let micros = |part: fn(&Spent) -> Duration| {
            spent.as_ref().map(|spent| part(spent).as_secs_f64() * 1e6)
        };
        Ok(Produced {
            marks: ProduceMarks {
                t0: t0.ns,
                t1,
                t2: reported.last.ns,
            },
            cpu_us: reported.last.cpu_us_since(t0),
            acked: reported.acked,
            failed: reported.failed,
            errors: reported.errors,
            create_us: micros(|spent| spent.create),
            send_us: micros(|spent| spent.send),
        })
    }

    fn send(&self, sender: &DriverProducer, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        let topic = &self.asked.topic;
        for ordinal in 0..self.asked.count {
            sender.send(topic, &key(ordinal as i64), self.value, 0, timeout)?;
        }
        Ok(())
    }

    fn send_timed(&self, sender: &DriverProducer, timeout: &Deadline<'_>) -> CommandOutcome<Spent> {
        let mut spent = Spent::default();
        let mut before = Instant::now();
        for ordinal in 0..self.asked.count {
            let key = key(ordinal as i64);
            let record = BaseRecord::with_opaque_to(&self.asked.topic, 0);
            let record = record.partition(0).key(&key[..]).payload(self.value);
            let made = Instant::now();
            sender.hand_over(record, timeout)?;
            let sent = Instant::now();
            spent.create += made - before;
            spent.send += sent - made;
            before = sent;
        }
        Ok(spent)
    }
}
