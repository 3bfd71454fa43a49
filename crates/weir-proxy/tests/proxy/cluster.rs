//! Three brokers that come and go while records flow: nothing is lost, nothing comes twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::support::*;

const PARTITIONS: i32 = 3;

#[test]
fn brokers_come_and_go_and_every_record_arrives_once() {
    let mut lab = lab(3);
    let never = AtomicBool::new(false);
    // The third comes later, as a new one would.
    lab.stop_broker(3).expect("stops");
    let proxy = proxy_to(&lab.bootstrap(), "");
    await_that("the cluster to answer", || proxy.get().ready());
    let ports = || proxy.get().brokers("default").len();
    await_that("two brokers", || ports() >= 2);
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "moving", PARTITIONS, 2);

    let stop = AtomicBool::new(false);
    let (sent, seen) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&bootstrap, &topic, &stop));
        let reader = scope.spawn(|| collect(&bootstrap, &topic, &stop));
        // Each step under way while records flow.
        lab.start_broker(3, &never).expect("comes");
        await_that("a port for the new broker", || ports() == 3);
        lab.stop_broker(1).expect("goes");
        lab.start_broker(1, &never).expect("comes back");
        stop.store(true, Ordering::Relaxed);
        (
            writer.join().expect("writes"),
            reader.join().expect("reads"),
        )
    });
    assert!(sent > 500, "{sent} records were no load");
    let mut numbers: Vec<u64> = seen;
    numbers.sort_unstable();
    assert_eq!(numbers.len() as u64, sent, "as many as were acknowledged");
    assert!(numbers.iter().copied().eq(0..sent), "each of them once");
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
}

/// Writes numbers until told to stop; how many are stored.
fn write(bootstrap: &str, topic: &str, stop: &AtomicBool) -> u64 {
    let mut settings = settings(bootstrap);
    settings
        .set("enable.idempotence", "true")
        .set("linger.ms", "2")
        .set("delivery.timeout.ms", "120000");
    let producer: BaseProducer = settings.create().expect("settings work");
    let mut sent = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let payload = sent.to_string();
        let key = (sent % 100).to_string();
        let record = BaseRecord::to(topic).key(&key).payload(&payload);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
        sent += 1;
        producer.poll(Duration::from_millis(2));
    }
    producer
        .flush(Duration::from_secs(120))
        .expect("all stored");
    sent
}

/// Reads numbers until told to stop and nothing more comes.
fn collect(bootstrap: &str, topic: &str, stop: &AtomicBool) -> Vec<u64> {
    let mut settings = settings(bootstrap);
    settings
        .set("group.id", "none")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = settings.create().expect("settings work");
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        all.add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&all).expect("assigned");
    let mut numbers = Vec::new();
    let mut quiet = 0;
    // Two seconds without a record after the writer has stopped.
    while quiet < 20 {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                quiet = 0;
                let text = std::str::from_utf8(message.payload().unwrap_or_default());
                numbers.push(text.expect("a number").parse().expect("a number"));
            }
            // Connections come and go.
            Some(Err(_)) => {}
            None if stop.load(Ordering::Relaxed) => quiet += 1,
            None => {}
        }
    }
    numbers
}
