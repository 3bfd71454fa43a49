//! Consumer group members: they join, share partitions, commit and leave; partitions of a killed
//! member are reassigned.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{oneshot, watch};
use weir_kafka::lean::{
    self, LeanCommand, LeanConfig, LeanError, LeanGroups, LeanRecord, LeanReport, LeanSink,
};

use crate::support::{TEST_TIMEOUT, TestBroker, broker, lab, numbered, unique};

/// Events of consumers on another thread.
enum ConsumerEvent {
    Ready,
    Failed(String),
    Record(usize, String),
}

struct EventSink(mpsc::Sender<ConsumerEvent>);

impl EventSink {
    fn send(&self, event: ConsumerEvent) {
        // The test may have stopped receiving.
        let _ = self.0.send(event);
    }
}

impl LeanSink for EventSink {
    fn on_ready(&mut self, _: usize) {
        self.send(ConsumerEvent::Ready);
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
        self.send(ConsumerEvent::Record(consumer, value));
    }

    fn on_error(&mut self, _: usize, error: &LeanError) {
        self.send(ConsumerEvent::Failed(error.to_string()));
    }

    fn on_bytes(&mut self, _: usize, _: usize) {}
}

/// Consumers on a separate thread.
struct TestConsumers {
    events: Receiver<ConsumerEvent>,
    stop: watch::Sender<LeanCommand>,
    kill: oneshot::Sender<()>,
    thread: JoinHandle<Option<LeanReport>>,
    ready: usize,
    errors: Vec<String>,
    /// Values by consumer.
    seen: BTreeMap<usize, Vec<String>>,
}

impl TestConsumers {
    fn start(config: LeanConfig) -> Self {
        let (sender, events) = mpsc::channel();
        let (stop, stopped) = watch::channel(LeanCommand::Read);
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("runtime");
            runtime.block_on(async {
                tokio::select! {
                    report = lean::run(config, EventSink(sender), stopped) => {
                        Some(report.expect("ran"))
                    }
                    // The sockets are closed without LeaveGroup requests, as after a kill.
                    Ok(()) = killed => None,
                }
            })
        });
        Self {
            events,
            stop,
            kill,
            thread,
            ready: 0,
            errors: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Receives events until `done` returns `true`.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(ConsumerEvent::Ready) => self.ready += 1,
                Ok(ConsumerEvent::Failed(error)) => self.errors.push(error),
                Ok(ConsumerEvent::Record(consumer, value)) => {
                    self.seen.entry(consumer).or_default().push(value);
                }
                Err(_) => {
                    let (ready, counts, errors) = (self.ready, self.counts(), &self.errors);
                    panic!("no {what}: {ready} ready, {counts:?}, {errors:?}");
                }
            }
        }
    }

    fn until_ready(&mut self, consumers: usize) {
        self.until("ready", |test| test.ready == consumers);
    }

    fn counts(&self) -> Vec<usize> {
        self.seen.values().map(Vec::len).collect()
    }

    fn records(&self) -> usize {
        self.counts().iter().sum()
    }

    fn stop(self) -> LeanReport {
        self.stop.send_replace(LeanCommand::Stop);
        self.thread.join().expect("no panic").expect("not killed")
    }

    fn kill(self) {
        self.kill.send(()).expect("consumers are running");
        assert_eq!(self.thread.join().expect("no panic"), None);
    }
}

fn config(broker: &TestBroker, topic: &str, consumers: usize, groups: LeanGroups) -> LeanConfig {
    LeanConfig {
        kafka: broker.kafka(),
        topic: topic.to_owned(),
        consumers,
        groups: Some(groups),
        ..LeanConfig::default()
    }
}

/// Creates a consumer of another client library, to query the broker about a group.
fn other_client(broker: &TestBroker, group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", &broker.bootstrap)
        .set("group.id", group)
        .create()
        .expect("valid configuration")
}

/// Waits until the group has committed these offsets, in the order of partitions.
fn until_committed(broker: &TestBroker, group: &str, topic: &str, expected: &[i64]) {
    let client = other_client(broker, group);
    let mut partition_list = TopicPartitionList::new();
    let partitions = i32::try_from(expected.len()).expect("few");
    partition_list.add_partition_range(topic, 0, partitions - 1);
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let found = client
            .committed_offsets(partition_list.clone(), TEST_TIMEOUT)
            .expect("response");
        let offsets = found.elements().into_iter().map(|it| it.offset());
        let offsets: Vec<_> = offsets.collect();
        if offsets.iter().eq(expected
            .iter()
            .map(|it| Offset::Offset(*it))
            .collect::<Vec<_>>()
            .iter())
        {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{group}: {offsets:?}, not {expected:?}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns state and number of members of a group, as reported by the broker.
fn group_state(broker: &TestBroker, group: &str) -> (String, usize) {
    let client = other_client(broker, group);
    let list = client
        .fetch_group_list(Some(group), TEST_TIMEOUT)
        .expect("response");
    let found = list
        .groups()
        .iter()
        .find(|it| it.name() == group)
        .expect("group_state");
    assert_eq!(
        (found.protocol_type(), found.protocol()),
        ("consumer", "range")
    );
    (found.state().to_owned(), found.members().len())
}

#[test]
fn many_groups_join_commit_and_leave() {
    const GROUPS: usize = 220;
    let broker = broker();
    let topic = broker.topic("groups", 2);
    let sender = broker.producer();
    sender.store(&topic, 0, &numbered("old", 5));
    let prefix = unique("consumers");
    let mut consumers =
        TestConsumers::start(config(&broker, &topic, GROUPS, LeanGroups::new(&prefix)));
    consumers.until_ready(GROUPS);
    let group = |index: usize| format!("{prefix}{index}");
    for index in [0, 1, 117, GROUPS - 1] {
        assert_eq!(
            group_state(&broker, &group(index)),
            ("Stable".to_owned(), 1)
        );
    }
    sender.store(&topic, 0, &numbered("a", 20));
    sender.store(&topic, 1, &numbered("b", 10));
    consumers.until("records", |consumers| consumers.records() >= GROUPS * 30);
    for index in [0, 5, 200] {
        until_committed(&broker, &group(index), &topic, &[25, 10]);
    }
    assert!(
        consumers.counts().iter().all(|count| *count == 30),
        "{:?}",
        consumers.counts()
    );
    let report = consumers.stop();
    assert_eq!((report.ready, report.errors), (GROUPS, 0));
    assert_eq!(report.assignments, GROUPS as u64);
    for index in [0, 117] {
        let client = other_client(&broker, &group(index));
        let list = client
            .fetch_group_list(Some(&group(index)), TEST_TIMEOUT)
            .expect("response");
        assert_eq!(list.groups()[0].members().len(), 0);
        assert_eq!(list.groups()[0].state(), "Empty");
    }
}

#[test]
fn group_resumes_at_committed_offset() {
    let broker = broker();
    let topic = broker.topic("group-resume", 1);
    let sender = broker.producer();
    let groups = LeanGroups {
        // Members commit only when they leave.
        commit_interval: Duration::from_secs(3600),
        ..LeanGroups::new(&unique("resume"))
    };
    let mut first = TestConsumers::start(config(&broker, &topic, 1, groups.clone()));
    first.until_ready(1);
    sender.store(&topic, 0, &numbered("a", 7));
    first.until("records", |consumers| consumers.records() == 7);
    first.stop();
    sender.store(&topic, 0, &numbered("missed", 3));
    let mut second = TestConsumers::start(config(&broker, &topic, 1, groups));
    second.until_ready(1);
    sender.store(&topic, 0, &numbered("b", 2));
    second.until("records", |consumers| consumers.records() == 5);
    assert_eq!(
        second.seen[&0],
        ["missed0", "missed1", "missed2", "b0", "b1"]
    );
    second.stop();
}

#[test]
fn members_share_the_partitions_of_a_group() {
    let broker = broker();
    let topic = broker.topic("group-share", 5);
    let sender = broker.producer();
    let groups = LeanGroups {
        members: 2,
        heartbeat_interval: Duration::from_millis(100),
        ..LeanGroups::new(&unique("share"))
    };
    let group = groups.prefix.clone() + "0";
    let mut consumers = TestConsumers::start(config(&broker, &topic, 2, groups));
    consumers.until_ready(2);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while group_state(&broker, &group) != ("Stable".to_owned(), 2) {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            group_state(&broker, &group)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    for partition in 0..5 {
        sender.store(&topic, partition, &numbered(&format!("{partition}-"), 10));
    }
    consumers.until("records", |consumers| consumers.records() >= 50);
    until_committed(&broker, &group, &topic, &[10; 5]);
    let mut counts = consumers.counts();
    counts.sort_unstable();
    assert_eq!(counts, [20, 30]);
    let mut all: Vec<_> = consumers.seen.values().flatten().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 50);
    consumers.stop();
}

#[test]
fn partitions_of_killed_member_are_reassigned() {
    let broker = broker();
    let topic = broker.topic("group-kill", 4);
    let sender = broker.producer();
    let groups = LeanGroups {
        members: 2,
        commit_interval: Duration::from_millis(50),
        heartbeat_interval: Duration::from_millis(100),
        // Minimum that brokers allow by default.
        session_timeout: Duration::from_secs(6),
        ..LeanGroups::new(&unique("kill"))
    };
    let group = groups.prefix.clone() + "0";
    let mut survivor = TestConsumers::start(config(&broker, &topic, 1, groups.clone()));
    survivor.until_ready(1);
    let mut killed_member = TestConsumers::start(config(&broker, &topic, 1, groups));
    killed_member.until_ready(1);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while group_state(&broker, &group) != ("Stable".to_owned(), 2) {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            group_state(&broker, &group)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let store = |name: &str| {
        for partition in 0..4 {
            sender.store(
                &topic,
                partition,
                &numbered(&format!("{name}{partition}-"), 5),
            );
        }
    };
    store("before");
    killed_member.until("records", |consumers| consumers.records() == 10);
    until_committed(&broker, &group, &topic, &[5; 4]);
    killed_member.kill();
    store("after");
    survivor.until("records", |consumers| consumers.records() >= 30);
    let after = survivor.seen[&0]
        .iter()
        .filter(|value| value.starts_with("after"));
    assert_eq!(after.count(), 20);
    assert_eq!(
        survivor.records(),
        30,
        "committed records are not delivered again"
    );
    assert!(survivor.stop().assignments >= 3);
}

#[test]
fn groups_follow_moved_coordinators() {
    // Groups are assigned to coordinators by the hash of their ids.
    const GROUPS: usize = 12;
    let mut lab = lab(3);
    let broker = TestBroker {
        bootstrap: lab.bootstrap(),
        reader: Default::default(),
    };
    let topic = unique("group-moved");
    let replicated = [("min.insync.replicas", "1")];
    broker
        .admin()
        .create_topic(&topic, 1, 3, &replicated)
        .expect("created");
    let sender = broker.producer();
    let groups = LeanGroups {
        heartbeat_interval: Duration::from_millis(200),
        ..LeanGroups::new(&unique("moved"))
    };
    let prefix = groups.prefix.clone();
    let mut consumers = TestConsumers::start(config(&broker, &topic, GROUPS, groups));
    consumers.until_ready(GROUPS);
    sender.store(&topic, 0, &numbered("before", 5));
    consumers.until("records", |consumers| consumers.records() >= GROUPS * 5);
    lab.stop_broker(1).expect("stops");
    sender.store(&topic, 0, &numbered("after", 5));
    consumers.until("records", |consumers| consumers.records() >= GROUPS * 10);
    for index in 0..GROUPS {
        until_committed(&broker, &format!("{prefix}{index}"), &topic, &[10]);
    }
    assert!(
        consumers.counts().iter().all(|count| *count == 10),
        "{:?}",
        consumers.counts()
    );
    let report = consumers.stop();
    // One fetcher connection each, and at most two connections to find the coordinator.
    assert!(report.connections > 3 * GROUPS as u64, "{report:?}");
    drop(lab);
}
