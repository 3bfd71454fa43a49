//! Executes the command `produce`: sends a burst of records and waits until all are reported.

use std::time::{Duration, Instant};

use super::clock::ClockMark;
use super::deadline::{CommandOutcome, Deadline};
use super::sender::{DriverProducer, record};
use super::session::DriverSession;
use super::values::{key, value};
use crate::{ProduceCommand, ProduceMarks, Produced, ProducerState};

/// Returns the times of the burst and the numbers of delivered and failed records.
///
/// # Errors
/// The timeout passed or the driver was stopped, or librdkafka rejected the producer.
pub(super) fn produce(
    session: &mut DriverSession,
    command: &ProduceCommand,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Produced> {
    let topic = &command.burst.topic;
    let value = value(command.burst.seed, command.burst.len)?;
    let clock = session.clock;
    let send = |sender: &DriverProducer, t0| burst(sender, command, &value, t0, timeout);
    match command.state {
        ProducerState::Warm => {
            session.with_warm_producer(topic, timeout, |sender| send(sender, clock.mark()))
        }
        ProducerState::Metadata => {
            let sender = session.sender()?;
            sender.load_metadata(topic, timeout)?;
            send(&sender, clock.mark())
        }
        ProducerState::Cold => {
            let t0 = clock.mark();
            send(&session.sender()?, t0)
        }
    }
}

/// Sends the burst. `t0` is the time at which the command started to count.
fn burst(
    sender: &DriverProducer,
    command: &ProduceCommand,
    value: &[u8],
    t0: ClockMark,
    timeout: &Deadline<'_>,
) -> CommandOutcome<Produced> {
    let (topic, count) = (&command.burst.topic, command.burst.count);
    sender.start_command(count, false);
    // Time spent creating records, and in send calls.
    let mut times = command
        .per_record
        .then_some((Duration::ZERO, Duration::ZERO));
    let mut before = Instant::now();
    for ordinal in 0..count {
        let key = key(ordinal as i64);
        let record = record(topic, &key, value, 0);
        let Some((create, send)) = &mut times else {
            sender.send(record, timeout)?;
            continue;
        };
        let made = Instant::now();
        sender.send(record, timeout)?;
        let sent = Instant::now();
        *create += made - before;
        *send += sent - made;
        before = sent;
    }
    let t1 = sender.clock().now_ns();
    let (last, delivered, _) = sender.finish(timeout)?;
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Ok(Produced {
        jni_calls: None,
        marks: ProduceMarks {
            t0: t0.ns,
            t1,
            t2: last.ns,
        },
        cpu_us: last.cpu_us_since(t0),
        delivered,
        create_us: times.map(|(create, _)| micros(create)),
        send_us: times.map(|(_, send)| micros(send)),
    })
}
