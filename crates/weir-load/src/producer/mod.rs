//! Load producer: an open-loop schedule, one librdkafka client, one thread.
//!
//! Logical producers share the client: of `P` producers, record `i` of the schedule belongs to
//! producer `p = i mod P`, and of `T` topics, producer `p` writes to topic `p mod T`.

mod meter;
mod options;
mod record_args;
mod record_header;
mod sender;
mod tracker;
mod transactions;

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
use sender::TargetTopic;
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
    let topics = topic::names(&options.topic, options.topics);
    let brokers = topic::ensure(&kafka, &topics, Some(&options.new_topic))?;
    let clock = Clock::start();
    let acks = AckQueue::default();
    let producer = start_client((options, &kafka), clock, &acks)?;
    // Waits for the leaders of the topics, so that the first record is not late.
    let topics = topics.into_iter().map(|name| {
        let partitions = producer.partitions(&name, CONNECT_TIMEOUT)?;
        Ok(TargetTopic { name, partitions })
    });
    let topics = topics.collect::<Result<Vec<_>>>()?;
    if options.transaction_duration.is_some() {
        producer.init_transactions(CONNECT_TIMEOUT)?;
    }
    link.events.ready(brokers, None);
    let summary = match link.wait_for_start() {
        Some(schedule) => {
            let target = sender::ProduceTarget {
                producer: &producer,
                acks: &acks,
                clock,
                topics,
                partitions_by_name: options.partitions_by_name(&kafka),
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
) -> Result<Producer> {
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
    let config = options.client_config(kafka);
    Ok(Producer::start(&config, Box::new(on_delivery))?)
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
