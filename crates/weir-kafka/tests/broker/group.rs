//! Members of groups: they join, share, commit, leave, and what the dead had goes to the living.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{oneshot, watch};
use weir_kafka::lean::{self, LeanConfig, LeanError, LeanGroups, LeanRecord, LeanReport, LeanSink};

use crate::support::{TEST_TIMEOUT, TestBroker, broker, lab, numbered, unique};

/// What consumers on another thread tell.
enum ConsumerEvent {
    Ready,
    Failed(String),
    Record(usize, String),
}

struct EventSink(mpsc::Sender<ConsumerEvent>);

impl EventSink {
    fn tell(&self, told: ConsumerEvent) {
        // A test that has seen enough no longer listens.
        let _ = self.0.send(told);
    }
}

impl LeanSink for EventSink {
    fn on_ready(&mut self, _: usize) {
        self.tell(ConsumerEvent::Ready);
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
        self.tell(ConsumerEvent::Record(consumer, value));
    }

    fn on_error(&mut self, _: usize, error: &LeanError) {
        self.tell(ConsumerEvent::Failed(error.to_string()));
    }

    fn on_bytes(&mut self, _: usize, _: usize) {}
}

/// Consumers on a thread of their own.
struct TestConsumers {
    told: Receiver<ConsumerEvent>,
    stop: watch::Sender<bool>,
    kill: oneshot::Sender<()>,
    thread: JoinHandle<Option<LeanReport>>,
    ready: usize,
    errors: Vec<String>,
    /// Values by consumer.
    seen: BTreeMap<usize, Vec<String>>,
}

impl TestConsumers {
    fn start(config: LeanConfig) -> Self {
        let (teller, told) = mpsc::channel();
        let (stop, stopped) = watch::channel(false);
        let (kill, killed) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("runtime");
            runtime.block_on(async {
                tokio::select! {
                    report = lean::run(config, EventSink(teller), stopped) => Some(report.expect("ran")),
                    // The sockets close without a word, as those of a killed process.
                    Ok(()) = killed => None,
                }
            })
        });
        Self {
            told,
            stop,
            kill,
            thread,
            ready: 0,
            errors: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Takes what is told until `done`.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !done(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left) {
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
        self.until("ready", |crowd| crowd.ready == consumers);
    }

    fn counts(&self) -> Vec<usize> {
        self.seen.values().map(Vec::len).collect()
    }

    fn records(&self) -> usize {
        self.counts().iter().sum()
    }

    fn stop(self) -> LeanReport {
        self.stop.send_replace(true);
        self.thread.join().expect("no panic").expect("not killed")
    }

    fn kill(self) {
        self.kill.send(()).expect("it runs");
        assert_eq!(self.thread.join().expect("no panic"), None);
    }
}

fn config(broker: &TestBroker, topic: &str, consumers: usize, groups: LeanGroups) -> LeanConfig {
    LeanConfig {
        bootstrap_servers: broker.bootstrap.clone(),
        topic: topic.to_owned(),
        consumers,
        groups: Some(groups),
        ..LeanConfig::default()
    }
}

/// A client of another make, to ask how the broker sees a group.
fn other_client(broker: &TestBroker, group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", &broker.bootstrap)
        .set("group.id", group)
        .create()
        .expect("settings work")
}

/// Waits until the group has committed these offsets, partition 0 first.
fn until_committed(broker: &TestBroker, group: &str, topic: &str, expected: &[i64]) {
    let client = other_client(broker, group);
    let mut asked = TopicPartitionList::new();
    let partitions = i32::try_from(expected.len()).expect("few");
    asked.add_partition_range(topic, 0, partitions - 1);
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let found = client
            .committed_offsets(asked.clone(), TEST_TIMEOUT)
            .expect("an answer");
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
        std::thread::yield_now();
    }
}

/// State and number of members of a group, as the broker lists it.
fn listed(broker: &TestBroker, group: &str) -> (String, usize) {
    let client = other_client(broker, group);
    let list = client
        .fetch_group_list(Some(group), TEST_TIMEOUT)
        .expect("an answer");
    let found = list
        .groups()
        .iter()
        .find(|it| it.name() == group)
        .expect("listed");
    assert_eq!(
        (found.protocol_type(), found.protocol()),
        ("consumer", "range")
    );
    (found.state().to_owned(), found.members().len())
}

#[test]
fn two_hundred_groups_join_commit_and_leave() {
    const GROUPS: usize = 220;
    let broker = broker();
    let topic = broker.topic("groups", 2);
    let sender = broker.producer();
    sender.store(&topic, 0, &numbered("old", 5));
    let prefix = unique("crowd");
    let mut crowd = TestConsumers::start(config(&broker, &topic, GROUPS, LeanGroups::new(&prefix)));
    crowd.until_ready(GROUPS);
    let group = |index: usize| format!("{prefix}{index}");
    for index in [0, 1, 117, GROUPS - 1] {
        assert_eq!(listed(&broker, &group(index)), ("Stable".to_owned(), 1));
    }
    sender.store(&topic, 0, &numbered("a", 20));
    sender.store(&topic, 1, &numbered("b", 10));
    crowd.until("records", |crowd| crowd.records() >= GROUPS * 30);
    for index in [0, 5, 200] {
        until_committed(&broker, &group(index), &topic, &[25, 10]);
    }
    assert!(
        crowd.counts().iter().all(|count| *count == 30),
        "{:?}",
        crowd.counts()
    );
    let report = crowd.stop();
    assert_eq!((report.ready, report.errors), (GROUPS, 0));
    assert_eq!(report.assignments, GROUPS as u64);
    for index in [0, 117] {
        let client = other_client(&broker, &group(index));
        let list = client
            .fetch_group_list(Some(&group(index)), TEST_TIMEOUT)
            .expect("an answer");
        assert_eq!(list.groups()[0].members().len(), 0);
        assert_eq!(list.groups()[0].state(), "Empty");
    }
}

#[test]
fn a_group_goes_on_where_it_left() {
    let broker = broker();
    let topic = broker.topic("group-resume", 1);
    let sender = broker.producer();
    let groups = LeanGroups {
        // Only leaving commits.
        commit_every: Duration::from_secs(3600),
        ..LeanGroups::new(&unique("resume"))
    };
    let mut first = TestConsumers::start(config(&broker, &topic, 1, groups.clone()));
    first.until_ready(1);
    sender.store(&topic, 0, &numbered("a", 7));
    first.until("records", |crowd| crowd.records() == 7);
    first.stop();
    sender.store(&topic, 0, &numbered("missed", 3));
    let mut second = TestConsumers::start(config(&broker, &topic, 1, groups));
    second.until_ready(1);
    sender.store(&topic, 0, &numbered("b", 2));
    second.until("records", |crowd| crowd.records() == 5);
    assert_eq!(
        second.seen[&0],
        ["missed0", "missed1", "missed2", "b0", "b1"]
    );
    second.stop();
}

#[test]
fn members_of_a_group_share_its_partitions() {
    let broker = broker();
    let topic = broker.topic("group-share", 5);
    let sender = broker.producer();
    let groups = LeanGroups {
        members: 2,
        heartbeat_every: Duration::from_millis(100),
        ..LeanGroups::new(&unique("share"))
    };
    let group = groups.prefix.clone() + "0";
    let mut crowd = TestConsumers::start(config(&broker, &topic, 2, groups));
    crowd.until_ready(2);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while listed(&broker, &group) != ("Stable".to_owned(), 2) {
        assert!(Instant::now() < deadline, "{:?}", listed(&broker, &group));
    }
    for partition in 0..5 {
        sender.store(&topic, partition, &numbered(&format!("{partition}-"), 10));
    }
    crowd.until("records", |crowd| crowd.records() >= 50);
    until_committed(&broker, &group, &topic, &[10; 5]);
    let mut counts = crowd.counts();
    counts.sort_unstable();
    assert_eq!(counts, [20, 30]);
    let mut all: Vec<_> = crowd.seen.values().flatten().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 50);
    crowd.stop();
}

#[test]
fn what_a_killed_member_had_goes_to_the_living() {
    let broker = broker();
    let topic = broker.topic("group-kill", 4);
    let sender = broker.producer();
    let groups = LeanGroups {
        members: 2,
        commit_every: Duration::from_millis(50),
        heartbeat_every: Duration::from_millis(100),
        // The least that a broker allows by default.
        session_timeout: Duration::from_secs(6),
        ..LeanGroups::new(&unique("kill"))
    };
    let group = groups.prefix.clone() + "0";
    let mut living = TestConsumers::start(config(&broker, &topic, 1, groups.clone()));
    living.until_ready(1);
    let mut dying = TestConsumers::start(config(&broker, &topic, 1, groups));
    dying.until_ready(1);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while listed(&broker, &group) != ("Stable".to_owned(), 2) {
        assert!(Instant::now() < deadline, "{:?}", listed(&broker, &group));
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
    dying.until("records", |crowd| crowd.records() == 10);
    until_committed(&broker, &group, &topic, &[5; 4]);
    dying.kill();
    store("after");
    living.until("records", |crowd| crowd.records() >= 30);
    let after = living.seen[&0]
        .iter()
        .filter(|value| value.starts_with("after"));
    assert_eq!(after.count(), 20);
    assert_eq!(living.records(), 30, "nothing twice: it was committed");
    assert!(living.stop().assignments >= 3);
}

#[test]
fn groups_follow_their_coordinators() {
    // Coordinators are spread over the brokers by the hash of the group's name.
    const GROUPS: usize = 12;
    let mut lab = lab(3);
    let broker = TestBroker {
        bootstrap: lab.bootstrap(),
    };
    let topic = unique("group-moved");
    let replicated = [("min.insync.replicas", "1")];
    broker
        .admin()
        .create_topic(&topic, 1, 3, &replicated)
        .expect("created");
    let sender = broker.producer();
    let groups = LeanGroups {
        heartbeat_every: Duration::from_millis(200),
        ..LeanGroups::new(&unique("moved"))
    };
    let prefix = groups.prefix.clone();
    let mut crowd = TestConsumers::start(config(&broker, &topic, GROUPS, groups));
    crowd.until_ready(GROUPS);
    sender.store(&topic, 0, &numbered("before", 5));
    crowd.until("records", |crowd| crowd.records() >= GROUPS * 5);
    lab.stop_broker(1).expect("stops");
    sender.store(&topic, 0, &numbered("after", 5));
    crowd.until("records", |crowd| crowd.records() >= GROUPS * 10);
    for index in 0..GROUPS {
        until_committed(&broker, &format!("{prefix}{index}"), &topic, &[10]);
    }
    assert!(
        crowd.counts().iter().all(|count| *count == 10),
        "{:?}",
        crowd.counts()
    );
    let report = crowd.stop();
    // One link each, and at most two connections until the coordinator is found.
    assert!(report.connections > 3 * GROUPS as u64, "{report:?}");
    drop(lab);
}
