//! Three brokers that stop, start and change leadership while records flow. Every record arrives
//! exactly once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, ElectLeadersRequest,
    ListPartitionReassignmentsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use rustix::process::{Pid, Signal, kill_process};

use super::programs::takes_minutes;
use super::support::*;

const PARTITIONS: i32 = 3;
const PREFERRED_LEADER_NOT_AVAILABLE: i16 = 80;
const ELECTION_NOT_NEEDED: i16 = 84;

#[test]
fn broker_changes_lose_and_duplicate_nothing() {
    let mut lab = lab(3);
    let never = AtomicBool::new(false);
    // The third broker starts later, like one that is added to the cluster.
    lab.stop_broker(3).expect("stops");
    let proxy = proxy_to(&lab.bootstrap(), "");
    await_that("the cluster to respond", || proxy.get().is_ready());
    let ports = || proxy.get().brokers("default").len();
    await_that("two brokers", || ports() >= 2);
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "moving", PARTITIONS, 2);

    let stop = AtomicBool::new(false);
    let (sent, seen) = std::thread::scope(|scope| {
        let ends = StopOnDrop(&stop);
        let writer = scope.spawn(|| write(&bootstrap, &topic, &stop));
        let reader = scope.spawn(|| collect(&bootstrap, &topic, &stop));
        // Every step happens while records flow.
        lab.start_broker(3, &never).expect("starts");
        await_that("a port for the new broker", || ports() == 3);
        // The new broker leads all partitions, first as a replacement, then by election.
        move_to(&proxy, &topic, |partition| [3, 1 + partition % 2]);
        move_to(&proxy, &topic, |partition| [1 + partition % 2, 3]);
        move_to(&proxy, &topic, |partition| [3, 1 + partition % 2]);
        lab.stop_broker(1).expect("stops");
        lab.start_broker(1, &never).expect("starts again");
        drop(ends);
        (
            writer.join().expect("writes"),
            reader.join().expect("reads"),
        )
    });
    check(&proxy, sent, seen);
}

#[test]
fn rolling_restarts_and_killed_brokers_lose_and_duplicate_nothing() {
    if !takes_minutes("a rolling restart, and killed brokers, under load") {
        return;
    }
    let mut lab = lab(3);
    let never = AtomicBool::new(false);
    let proxy = proxy_to(&lab.bootstrap(), "");
    await_that("the cluster to respond", || proxy.get().is_ready());
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "rolling", PARTITIONS, 3);
    let client: BaseConsumer = client_config(&bootstrap)
        .create()
        .expect("valid configuration");
    let all_in_sync = || {
        await_that("all replicas to be in sync", || {
            let metadata = client.fetch_metadata(Some(&topic), TEST_TIMEOUT);
            let metadata = metadata.expect("a response");
            let mut partitions = metadata.topics()[0].partitions().iter();
            partitions.all(|one| one.isr().len() == 3)
        });
    };
    let stop = AtomicBool::new(false);
    let (sent, seen) = std::thread::scope(|scope| {
        let ends = StopOnDrop(&stop);
        let writer = scope.spawn(|| write(&bootstrap, &topic, &stop));
        let reader = scope.spawn(|| collect(&bootstrap, &topic, &stop));
        for is_killed in [false, true] {
            for index in 0..3 {
                let broker = lab.brokers()[index];
                if is_killed {
                    let pid = Pid::from_raw(broker.pid as i32).expect("a process id");
                    kill_process(pid, Signal::KILL).expect("a signal");
                }
                lab.stop_broker(broker.node_id).expect("stops");
                lab.start_broker(broker.node_id, &never).expect("starts");
                all_in_sync();
            }
        }
        drop(ends);
        (
            writer.join().expect("writes"),
            reader.join().expect("reads"),
        )
    });
    check(&proxy, sent, seen);
}

/// Checks that all records were seen once.
fn check(proxy: &TestProxy, sent: u64, mut seen: Vec<(u64, i32, i64)>) {
    assert!(sent > 500, "only {sent} records were sent");
    seen.sort_unstable();
    let twice: Vec<_> = seen.windows(2).filter(|two| two[0].0 == two[1].0).collect();
    assert!(
        twice.is_empty(),
        "duplicates (number, partition, offset): {twice:?}"
    );
    let numbers = seen.iter().map(|(number, ..)| *number);
    assert!(
        numbers.eq(0..sent),
        "every acknowledged record exactly once"
    );
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
}

/// Stops writer and reader, also when a step fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves all partitions to these replicas, led by the first of them. The requests go through the
/// proxy, like those of administrators.
fn move_to(proxy: &TestProxy, topic: &str, replicas: impl Fn(i32) -> [i32; 2]) {
    let name = TopicName(StrBytes::from_string(topic.to_owned()));
    let partitions = (0..PARTITIONS).map(|partition| {
        let replicas = replicas(partition).map(BrokerId).to_vec();
        ReassignablePartition::default()
            .with_partition_index(partition)
            .with_replicas(Some(replicas))
    });
    let moved = ReassignableTopic::default()
        .with_name(name.clone())
        .with_partitions(partitions.collect());
    let mut raw = Raw::connect(proxy.address);
    let reassign = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(30_000)
        .with_topics(vec![moved]);
    let response = raw.exchange(0, &reassign);
    let mut partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions);
    let fine = partitions.all(|one| one.error_code == 0);
    assert!(response.error_code == 0 && fine, "{response:?}");
    await_that("the replicas to be assigned", || {
        let list = ListPartitionReassignmentsRequest::default().with_timeout_ms(30_000);
        raw.exchange(0, &list).topics.is_empty()
    });
    let elected = TopicPartitions::default()
        .with_topic(name)
        .with_partitions((0..PARTITIONS).collect());
    let elect = ElectLeadersRequest::default()
        .with_timeout_ms(30_000)
        .with_topic_partitions(Some(vec![elected]));
    // A leader that fell behind for a moment is not available.
    await_that("an election", || {
        let response = raw.exchange(2, &elect);
        let results = response.replica_election_results.iter();
        let codes = results.flat_map(|topic| &topic.partition_result);
        let codes: Vec<i16> = codes.map(|one| one.error_code).collect();
        let expected = [0, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE];
        let fine = codes.iter().all(|code| expected.contains(code));
        assert!(response.error_code == 0 && fine, "{response:?}");
        !codes.contains(&PREFERRED_LEADER_NOT_AVAILABLE)
    });
    let client: BaseConsumer = client_config(&proxy.bootstrap())
        .create()
        .expect("valid configuration");
    await_that("the leaders", || {
        let metadata = client.fetch_metadata(Some(topic), TEST_TIMEOUT);
        let metadata = metadata.expect("a response");
        let partitions = metadata.topics()[0].partitions();
        partitions
            .iter()
            .all(|one| one.leader() == replicas(one.id())[0])
    });
}

/// Writes numbers until `stop` is set. Returns how many are stored. One request is in flight at a
/// time: with more, librdkafka stores some records twice when a leader changes, also without a
/// proxy.
fn write(bootstrap: &str, topic: &str, stop: &AtomicBool) -> u64 {
    let mut client_config = client_config(bootstrap);
    client_config
        .set("enable.idempotence", "true")
        .set("max.in.flight", "1")
        .set("linger.ms", "2")
        .set("delivery.timeout.ms", "120000");
    let producer: BaseProducer = client_config.create().expect("valid configuration");
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

/// Reads numbers until `stop` is set and no more records arrive.
fn collect(bootstrap: &str, topic: &str, stop: &AtomicBool) -> Vec<(u64, i32, i64)> {
    let mut client_config = client_config(bootstrap);
    client_config
        .set("group.id", "none")
        .set("enable.auto.commit", "false");
    let consumer: BaseConsumer = client_config.create().expect("valid configuration");
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
                let number = text.expect("a number").parse().expect("a number");
                numbers.push((number, message.partition(), message.offset()));
            }
            // Connections fail while brokers stop.
            Some(Err(_)) => {}
            None if stop.load(Ordering::Relaxed) => quiet += 1,
            None => {}
        }
    }
    numbers
}
