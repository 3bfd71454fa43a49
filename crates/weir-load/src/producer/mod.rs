//! Load producer: an open-loop schedule, one librdkafka client, one thread.
//!
//! Logical producers share the client: record `i` of the schedule belongs to producer `i mod P`.

mod meter;
mod options;
mod record_args;
mod record_header;
mod sender;
mod tracker;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use options::ProducerOptions;
pub use record_args::RecordArgs;
pub use record_header::RecordHeader;
pub use weir_kafka::Acks;
use weir_kafka::{KafkaSettings, Producer};

use crate::clock::Clock;
use crate::error::Result;
use crate::local_time::LocalTime;
use crate::payload::PayloadGenerator;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{ProduceSummary, Summary, WorkerRole};
use options::ProducerNumbers;
use tracker::{AckQueue, ProduceAck};

/// Connects, reports ready, waits for the start command and follows the schedule. Returns the final
/// summary.
///
/// # Errors
/// [`LoadError`](crate::error::LoadError) if the producer did not start; `link` gets no event about
/// it.
pub fn run(options: &ProducerOptions, link: &CoordinatorChannel) -> Result<ProduceSummary> {
    let numbers = ProducerNumbers::new(options)?;
    link.events.hello(WorkerRole::Produce);
    let kafka = options.kafka.settings()?;
    // Before the topic is created, because not every schema has values of the size.
    let payloads = PayloadGenerator::new(&options.payload_spec(&kafka)?, LocalTime::system())?;
    numbers.check_keys(payloads.names().len())?;
    let brokers = topic::ensure(&kafka, &options.topic, options.create_topic)?;
    let clock = Clock::start();
    let acks = AckQueue::default();
    let (producer, partitions) = start_client((options, &kafka), clock, &acks)?;
    link.events.ready(brokers, None);
    let summary = match link.wait_for_start() {
        Some(schedule) => {
            let target = sender::ProduceTarget {
                producer: &producer,
                acks: &acks,
                clock,
                partitions: options.partitions_by_name(&kafka).then_some(partitions),
            };
            sender::ScheduledSender::new(options, numbers, schedule, target, payloads, link).run()
        }
        None => ProduceSummary::default(),
    };
    link.events.finish(Summary::Produce(summary.clone()));
    Ok(summary)
}

fn start_client(
    (options, kafka): (&ProducerOptions, &KafkaSettings),
    clock: Clock,
    acks: &AckQueue,
) -> Result<(Producer, usize)> {
    let sink = Arc::clone(acks);
    let on_delivery = move |delivery: weir_kafka::DeliveryReport| {
        let ack = ProduceAck {
            token: delivery.token as usize,
            at_unix_ns: clock.now_unix_ns(),
            error: delivery.result.err().map(|error| error.to_string()),
        };
        let mut acks = sink.lock().unwrap_or_else(PoisonError::into_inner);
        acks.push(ack);
    };
    let producer = Producer::start(&options.client_config(kafka), Box::new(on_delivery))?;
    // Waits for the topic's leaders, so that the first record is not late.
    let partitions = producer.partitions(&options.topic, CONNECT_TIMEOUT)?;
    Ok((producer, partitions))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
