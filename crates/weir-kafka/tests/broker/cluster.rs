//! Three brokers in three racks: truncated logs, followers. One broker: quotas.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, MetadataRequest, MetadataResponse,
    TopicName,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use weir_kafka::{Admin, KafkaIngest, ReaderKind, StartFrom};
use weir_lab::{Lab, LabOptions};

use crate::support::{
    CopiedRecord, TEST_TIMEOUT, TestBroker, broker, numbered, poll_until, read, unique,
    until_ready, values,
};
use crate::wire;

/// The cluster, for one test at a time. All its brokers run again when it is dropped.
pub(crate) struct Cluster {
    /// `None` after it was returned.
    lab: Option<Lab>,
    stopped: Vec<i32>,
}

/// Brokers that no test uses.
struct IdleCluster {
    lab: Option<Lab>,
    is_used: bool,
}

static IDLE: Mutex<IdleCluster> = Mutex::new(IdleCluster {
    lab: None,
    is_used: false,
});
static RETURNED: Condvar = Condvar::new();

/// Returns the cluster when no other test uses it. It ends with this process.
pub(crate) fn cluster() -> Cluster {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = RETURNED.wait_timeout_while(idle, 5 * TEST_TIMEOUT, |idle| idle.is_used);
    let (mut idle, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    assert!(!timeout.timed_out(), "another test keeps the cluster");
    let lab = idle.lab.take().unwrap_or_else(start);
    idle.is_used = true;
    Cluster {
        lab: Some(lab),
        stopped: Vec::new(),
    }
}

fn start() -> Lab {
    let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    let options = LabOptions {
        brokers: 3,
        heap_mb: 384,
        ready_timeout: 2 * TEST_TIMEOUT,
        properties: vec![
            property("replica.selector.class", selector),
            // A stopped broker is noticed sooner.
            property("broker.heartbeat.interval.ms", "500"),
            property("broker.session.timeout.ms", "3000"),
        ],
        ..LabOptions::default()
    };
    let lab = Lab::up(&options, &mut |_| (), &AtomicBool::new(false));
    lab.expect("brokers start")
}

impl Cluster {
    fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("in use")
    }

    fn lab_mut(&mut self) -> &mut Lab {
        self.lab.as_mut().expect("in use")
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.lab().bootstrap()
    }

    pub(crate) fn stop(&mut self, node: i32) {
        self.lab_mut().stop_broker(node).expect("stops");
        self.stopped.push(node);
    }

    fn start(&mut self, node: i32) {
        let started = self.lab_mut().start_broker(node, &AtomicBool::new(false));
        started.expect("starts");
        self.stopped.retain(|it| *it != node);
    }

    fn broker(&self) -> TestBroker {
        TestBroker {
            bootstrap: self.bootstrap(),
            reader: ReaderKind::Lean,
        }
    }

    /// Creates a topic with one partition, and returns its name, leader and a follower.
    fn topic(&self, replicas: i32, config: &[(&str, &str)]) -> (String, i32, i32) {
        let topic = unique("cluster");
        let admin = Admin::connect(&self.broker().kafka(), TEST_TIMEOUT).expect("connected");
        admin
            .create_topic(&topic, 1, replicas, config)
            .expect("created");
        let found = self.await_partition(&topic, |it| it.leader_id.0 > 0);
        let leader = found.leader_id.0;
        let follower = found.replica_nodes.iter().find(|node| node.0 != leader);
        (topic, leader, follower.expect("a follower").0)
    }

    /// Waits for a state of partition 0, as a running broker reports it.
    fn await_partition(
        &self,
        topic: &str,
        is_wanted: impl Fn(&MetadataResponsePartition) -> bool,
    ) -> MetadataResponsePartition {
        const VERSION: i16 = 8;
        let name = TopicName(StrBytes::from_string(topic.to_owned()));
        let named = MetadataRequestTopic::default().with_name(Some(name));
        let request = MetadataRequest::default().with_topics(Some(vec![named]));
        let mut brokers = self.lab().brokers().iter();
        let running = brokers.find(|it| it.pid != 0).expect("a running broker");
        let address = format!("127.0.0.1:{}", running.port);
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let mut body = wire::exchange(&address, VERSION, &request);
            let response = MetadataResponse::decode(&mut body, VERSION).expect("decodes");
            let partition = response.topics[0].partitions.first().cloned();
            if let Some(partition) = partition.clone().filter(&is_wanted) {
                return partition;
            }
            assert!(Instant::now() < deadline, "{partition:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut lab) = self.lab.take() else {
            return;
        };
        // A cluster that is not complete ends here; the next test starts another one.
        let never = AtomicBool::new(false);
        let mut stopped = self.stopped.iter();
        let is_complete = stopped.all(|node| lab.start_broker(*node, &never).is_ok());
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.is_used = false;
        idle.lab = is_complete.then_some(lab);
        RETURNED.notify_one();
    }
}

fn offsets(records: &[CopiedRecord]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

fn pause(source: &mut KafkaIngest) {
    source.reader().pause(&[]).expect("paused");
}

/// A broker that lacks records becomes leader and writes more than were lost. A reader that did not
/// notice would skip the first ones.
#[test]
fn reading_continues_at_common_log_after_unclean_election() {
    let mut cluster = cluster();
    let broker = cluster.broker();
    let config = [
        ("min.insync.replicas", "1"),
        ("unclean.leader.election.enable", "true"),
    ];
    let (topic, leader, follower) = cluster.topic(2, &config);
    let mut source = broker.ingest(&[&topic], StartFrom::Latest);
    let mut paused = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut source);
    until_ready(&mut paused);
    let kept = numbered("kept", 10);
    broker.producer().store(&topic, 0, &kept);

    cluster.stop(follower);
    cluster.await_partition(&topic, |it| it.isr_nodes.len() == 1);
    let lost = numbered("lost", 10);
    broker.producer().store(&topic, 0, &lost);
    let all = [kept, lost].concat();
    assert_eq!(values(&read(&mut source, 20)), all);
    assert_eq!(values(&read(&mut paused, 20)), all);
    pause(&mut paused);
    let mut unread = broker.ingest(&[&topic], StartFrom::Latest);
    until_ready(&mut unread);

    cluster.stop(leader);
    cluster.start(follower);
    cluster.await_partition(&topic, |it| it.leader_id.0 == follower);
    let new = numbered("new", 25);
    broker.producer().store(&topic, 0, &new);
    paused.reader().resume().expect("resumed");
    for mut source in [source, paused, unread] {
        let seen = read(&mut source, 25);
        assert_eq!(
            (values(&seen), offsets(&seen)),
            (new.clone(), (10..35).collect())
        );
        let status = source.status();
        assert_eq!((status.truncations, status.resets), (1, 1));
    }
    cluster.start(leader);
}

#[test]
fn follower_in_the_same_rack_is_read_until_it_stops() {
    let mut cluster = cluster();
    let broker = cluster.broker();
    let (topic, leader, follower) = cluster.topic(3, &[("min.insync.replicas", "1")]);
    let kafka = broker.kafka();
    let near = |node: i32| {
        kafka
            .clone()
            .with_property("client.rack", format!("rack-{node}"))
    };
    let mut source = broker.ingest_with(near(follower), &[&topic], StartFrom::Latest);
    let mut other = broker.ingest_with(near(leader), &[&topic], StartFrom::Latest);
    until_ready(&mut source);
    until_ready(&mut other);
    broker.producer().store(&topic, 0, &numbered("one", 10));
    let mut seen = read(&mut source, 10);
    poll_until(&mut source, &mut seen, "follower", |source, _| {
        source.status().on_followers == 1
    });
    broker.producer().store(&topic, 0, &numbered("two", 10));
    poll_until(&mut source, &mut seen, "records", |_, seen| {
        seen.len() == 20
    });
    assert_eq!(source.status().on_followers, 1, "read from the follower");
    assert_eq!(read(&mut other, 20).len(), 20);
    assert_eq!(other.status().on_followers, 0, "its leader is in its rack");

    cluster.stop(follower);
    let stopped = Instant::now();
    broker.producer().store(&topic, 0, &numbered("three", 10));
    poll_until(&mut source, &mut seen, "records", |_, seen| {
        seen.len() == 30
    });
    assert!(
        stopped.elapsed() < FALLBACK_LIMIT,
        "{:?}",
        stopped.elapsed()
    );
    poll_until(&mut source, &mut seen, "fallback", |source, _| {
        source.status().on_followers == 0
    });
    let all = ["one", "two", "three"].map(|prefix| numbered(prefix, 10));
    assert_eq!(values(&seen), all.concat());
    assert_eq!(source.status().resets, 0);
}

/// Limits how fast a client id may read from each broker.
fn set_quota(bootstrap: &str, client_id: &str, bytes_per_s: f64) {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let entity = EntityData::default()
        .with_entity_type(text("client-id"))
        .with_entity_name(Some(text(client_id)));
    let limit = OpData::default()
        .with_key(text("consumer_byte_rate"))
        .with_value(bytes_per_s);
    let entry = EntryData::default()
        .with_entity(vec![entity])
        .with_ops(vec![limit]);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    let mut body = wire::exchange(bootstrap, 0, &request);
    let response = AlterClientQuotasResponse::decode(&mut body, 0).expect("decodes");
    assert_eq!(response.entries[0].error_code, 0);
}

/// The broker measures the rate over ten seconds and allows ten times the quota at once. It knows
/// the quota some time after the controller.
#[test]
fn pauses_for_a_quota_are_counted_and_lose_no_records() {
    let broker = broker().read_with(ReaderKind::Lean);
    let topic = broker.topic("quota", 1);
    let client_id = unique("throttled");
    set_quota(&broker.bootstrap, &client_id, 250_000.0);
    let kafka = broker.kafka().with_property("client.id", client_id);
    let start = Instant::now();
    let mut source = broker.ingest_with(kafka, &[&topic], StartFrom::Earliest);
    let mut seen = Vec::new();
    while source.status().throttle_time <= Duration::from_millis(100) {
        assert!(start.elapsed() < TEST_TIMEOUT, "{:?}", source.status());
        let records = vec!["x".repeat(10_000); 320];
        broker.producer().store(&topic, 0, &records);
        let stored = seen.len() + records.len();
        poll_until(&mut source, &mut seen, "records", |_, seen| {
            seen.len() == stored
        });
    }
    let elapsed = start.elapsed();
    let expected = 0..i64::try_from(seen.len()).unwrap();
    assert_eq!(offsets(&seen), expected.collect::<Vec<_>>());
    let status = source.status();
    assert!(status.throttled > 0, "{status:?}");
    assert!(
        status.throttle_time <= elapsed,
        "{status:?}: not all pauses were kept in {elapsed:?}"
    );
}

/// Maximum time until records are read again after a follower has stopped.
const FALLBACK_LIMIT: Duration = Duration::from_secs(10);
