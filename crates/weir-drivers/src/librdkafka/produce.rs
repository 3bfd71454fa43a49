//! Executes `produce`.

use std::time::{Duration, Instant};

use crate::{ProduceCommand, ProduceMarks, Produced, ProducerState};
use rdkafka::producer::BaseRecord;

use super::deadline::Deadline;
use super::error::CommandOutcome;
use super::sender::DriverProducer;
use super::session::DriverSession;
use super::usage::{ClockMark, DriverClock};
use super::values::{key, value};

/// Produces a burst with a producer in the requested state.
pub(super) fn produce(
    session: &mut DriverSession,
    command: &ProduceCommand,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Produced> {
    let value = value(command.seed, command.len)?;
    let clock = session.clock();
    let burst = Burst {
        command,
        value: &value,
        clock,
    };
    match command.state {
        ProducerState::Warm => session.with_warm_producer(&command.topic, timeout, |sender| {
            burst.run(sender, clock.mark(), timeout)
        }),
        ProducerState::Metadata => {
            let sender = session.configured()?.sender(clock)?;
            sender.load_metadata(&command.topic, timeout)?;
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

/// Burst of records.
struct Burst<'a> {
    command: &'a ProduceCommand,
    value: &'a [u8],
    clock: DriverClock,
}

/// Time times creating records and in send calls.
#[derive(Debug, Default)]
struct SendTimes {
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
        sender.start_command(self.command.count, false);
        let times = if self.command.per_record {
            Some(self.send_timed(sender, timeout)?)
        } else {
            self.send(sender, timeout)?;
            None
        };
        let t1 = self.clock.now_ns();
        let reported = sender.finish(timeout)?;
        let micros = |part: fn(&SendTimes) -> Duration| {
            times.as_ref().map(|times| part(times).as_secs_f64() * 1e6)
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
            create_us: micros(|times| times.create),
            send_us: micros(|times| times.send),
        })
    }

    fn send(&self, sender: &DriverProducer, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        let topic = &self.command.topic;
        for ordinal in 0..self.command.count {
            sender.send(topic, &key(ordinal as i64), self.value, 0, timeout)?;
        }
        Ok(())
    }

    fn send_timed(
        &self,
        sender: &DriverProducer,
        timeout: &Deadline<'_>,
    ) -> CommandOutcome<SendTimes> {
        let mut times = SendTimes::default();
        let mut before = Instant::now();
        for ordinal in 0..self.command.count {
            let key = key(ordinal as i64);
            let record = BaseRecord::with_opaque_to(&self.command.topic, 0);
            let record = record.partition(0).key(&key[..]).payload(self.value);
            let made = Instant::now();
            sender.hand_over(record, timeout)?;
            let sent = Instant::now();
            times.create += made - before;
            times.send += sent - made;
            before = sent;
        }
        Ok(times)
    }
}
