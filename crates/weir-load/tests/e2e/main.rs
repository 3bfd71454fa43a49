//! Tests producer, consumers and baseline server with a real broker: that of `WEIR_E2E_BOOTSTRAP`,
//! else one that the tests start.

mod records;
mod shapes;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_kafka::{Admin, KafkaSettings};
use weir_lab::{Lab, LabOptions};
use weir_load::clients::DiffChoice;
use weir_load::clock::Clock;
use weir_load::consumer::{self, ConsumerClient, ConsumerOptions, LeanGroups};
use weir_load::error::ErrorClass;
use weir_load::floor::{self, FloorOptions};
use weir_load::kafka::KafkaArgs;
use weir_load::pacer::Rate;
use weir_load::payload::PayloadKind;
use weir_load::producer::{self, ProducerOptions};
use weir_load::stamp::Stamp;
use weir_load::topic::NewTopicArgs;
use weir_load::worker::protocol::{
    LatencyTag, ProduceSummary, Schedule, Summary, WorkerCommand, WorkerEvent,
};
use weir_load::worker::{CoordinatorChannel, EventSender};
use weir_stats::Histogram;

/// Limit of every wait; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const MS: u64 = 1_000_000;

fn bootstrap() -> &'static str {
    static LAB: OnceLock<(String, Option<Mutex<Lab>>)> = OnceLock::new();
    let (bootstrap, _) = LAB.get_or_init(|| match std::env::var("WEIR_E2E_BOOTSTRAP") {
        Ok(bootstrap) => (bootstrap, None),
        Err(_) => {
            let options = LabOptions {
                heap_mb: 384,
                ..LabOptions::default()
            };
            let lab = Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("a broker");
            (lab.bootstrap(), Some(Mutex::new(lab)))
        }
    });
    bootstrap
}

fn cluster() -> KafkaSettings {
    KafkaSettings::plaintext(bootstrap())
}

/// Creates a topic for one test.
fn topic(partitions: i32) -> String {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let number = TOPICS.fetch_add(1, Ordering::Relaxed);
    let topic = format!("load-test-{}-{number}", std::process::id());
    let admin = Admin::connect(&cluster(), TEST_TIMEOUT).expect("broker connection");
    admin
        .create_topic(&topic, partitions, 1, &[])
        .expect("created topic");
    topic
}

/// Worker in a thread of this process.
struct TestWorker<T> {
    commands: SyncSender<WorkerCommand>,
    events: Receiver<WorkerEvent>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> TestWorker<T> {
    fn start(work: impl FnOnce(&CoordinatorChannel) -> T + Send + 'static) -> Self {
        let (commands, receiver) = mpsc::sync_channel(16);
        let (sender, events) = mpsc::channel();
        let link = CoordinatorChannel {
            commands: receiver,
            events: EventSender::new(WorkerLines(sender)),
        };
        Self {
            commands,
            events,
            thread: std::thread::spawn(move || work(&link)),
        }
    }

    fn command(&self, command: WorkerCommand) {
        self.commands.send(command).expect("sent command");
    }

    /// Waits for `ready`; returns its connections and port.
    fn ready(&self) -> (u64, Option<u16>) {
        loop {
            let event = self.events.recv_timeout(TEST_TIMEOUT).expect("ready event");
            if let WorkerEvent::Ready { connections, port } = event {
                return (connections, port);
            }
        }
    }

    /// Waits for progress of a consumer. Returns the number of its records.
    fn updates(&self) -> u64 {
        loop {
            let event = self
                .events
                .recv_timeout(TEST_TIMEOUT)
                .expect("progress event");
            if let WorkerEvent::Progress(progress) = event {
                return progress.counters.get("updates").copied().unwrap_or(0);
            }
        }
    }

    /// Returns all events up to the end, and the result.
    fn finish(self) -> (Vec<WorkerEvent>, T) {
        let mut events = Vec::new();
        let deadline = Instant::now() + 2 * TEST_TIMEOUT;
        loop {
            assert!(
                Instant::now() < deadline,
                "worker continues: {:?}",
                events.last()
            );
            match self.events.recv_timeout(TEST_TIMEOUT) {
                Ok(event) => events.push(event),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    panic!("worker did not end; last event {:?}", events.last())
                }
            }
        }
        (events, self.thread.join().expect("joined thread"))
    }
}

struct WorkerLines(mpsc::Sender<WorkerEvent>);

impl Write for WorkerLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The test may have dropped the receiver.
        let _ = self.0.send(serde_json::from_slice(line)?);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options(topic: &str, rate: f64) -> ProducerOptions {
    ProducerOptions {
        kafka: KafkaArgs::of_servers(bootstrap()),
        topic: topic.to_owned(),
        rate: Some(Rate::per_second(rate).expect("a rate")),
        producers: 4,
        size: Some(100),
        drain: TEST_TIMEOUT,
        ..ProducerOptions::default()
    }
}

/// Returns a schedule whose measured window starts now and has no end; `count` ends the run.
fn immediate_schedule() -> Schedule {
    let now = Clock::start().now_unix_ns();
    Schedule {
        start_unix_ns: now,
        measure_from_unix_ns: now,
        measure_until_unix_ns: u64::MAX,
        stop_unix_ns: u64::MAX,
    }
}

fn produce(options: ProducerOptions, schedule: Schedule) -> (Vec<WorkerEvent>, ProduceSummary) {
    let worker = TestWorker::start(move |link| producer::run(&options, link));
    worker.ready();
    worker.command(WorkerCommand::Start(schedule));
    let (events, result) = worker.finish();
    (events, result.expect("summary"))
}

/// Compares the lean consumers with librdkafka: both receive all acknowledged records once, in
/// order.
#[test]
fn librdkafka_and_lean_consumers_agree() {
    let topic = topic(3);
    let both = [ConsumerClient::Lean, ConsumerClient::Librdkafka].map(|client| {
        let consumer_options = ConsumerOptions {
            client,
            ..ConsumerOptions::new(&cluster(), &topic, 3)
        };
        TestWorker::start(move |link| consumer::run(&consumer_options, link))
    });
    for consumers in &both {
        assert_eq!(consumers.ready(), (3, None));
        consumers.command(WorkerCommand::Start(immediate_schedule()));
    }
    let (_, produced) = produce(
        ProducerOptions {
            count: Some(500),
            ..options(&topic, 2_000.0)
        },
        immediate_schedule(),
    );
    for consumers in both {
        consumers.command(WorkerCommand::Ledger {
            entries: produced.ledger.clone(),
        });
        let (_, summary) = consumers.finish();
        let summary = summary.expect("summary");
        assert_eq!(summary.counts.deliveries_in_window, 1_500);
        assert_eq!(
            (
                summary.counts.lost,
                summary.counts.duplicated,
                summary.counts.reordered,
                summary.counts.unchecked
            ),
            (0, 0, 0, 0)
        );
        assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    }
}

/// Returns the number of values in all interval histograms with the tag.
fn interval_count(events: &[WorkerEvent], tag: LatencyTag) -> u64 {
    let intervals = events.iter().filter_map(|event| match event {
        WorkerEvent::Interval(interval) if interval.tag == tag => Some(interval),
        _ => None,
    });
    let histograms =
        intervals.map(|interval| Histogram::from_base64(&interval.histogram).expect("a histogram"));
    histograms.map(|histogram| histogram.count()).sum()
}

#[test]
fn fifty_consumers_receive_all_acknowledged_records() {
    let topic = topic(3);
    let consumer_options = ConsumerOptions::new(&cluster(), &topic, 50);
    let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    assert_eq!(consumers.ready(), (50, None));

    let start_unix_ns = Clock::start().now_unix_ns() + 50 * MS;
    let schedule = Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns + 200 * MS,
        measure_until_unix_ns: start_unix_ns + 1_200 * MS,
        stop_unix_ns: start_unix_ns + 1_300 * MS,
    };
    consumers.command(WorkerCommand::Start(Schedule {
        stop_unix_ns: u64::MAX,
        ..schedule
    }));
    let (produced_events, produced) = produce(options(&topic, 200.0), schedule);
    assert_eq!(
        (produced.due, produced.sent, produced.acked),
        (260, 260, 260)
    );
    assert_eq!(
        (produced.due_in_window, produced.acked_in_window),
        (200, 200)
    );
    assert_eq!(produced.schedule_lag.count, 200);
    assert_eq!(
        interval_count(&produced_events, LatencyTag::ScheduleLag),
        200
    );
    assert_eq!(
        interval_count(&produced_events, LatencyTag::PublishAck),
        200
    );

    // The consumers end on their own when all records of the ledger have arrived.
    consumers.command(WorkerCommand::Ledger {
        entries: produced.ledger.clone(),
    });
    let (events, summary) = consumers.finish();
    let summary = summary.expect("summary");
    assert!(summary.settled);
    assert_eq!((summary.clients, summary.disconnects), (50, 0));
    assert_eq!(
        (
            summary.counts.lost,
            summary.counts.duplicated,
            summary.counts.reordered
        ),
        (0, 0, 0)
    );
    assert_eq!(
        (summary.counts.unchecked, summary.latency_resolution_ns),
        (0, 1)
    );
    assert_eq!(summary.counts.deliveries_in_window, 50 * 200);
    assert_eq!(summary.client_deliveries.min(), Some(200));
    assert_eq!(summary.client_deliveries.max(), Some(200));
    assert_eq!(summary.client_p99_us.clients(), 50);
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert_eq!(interval_count(&events, LatencyTag::Response), 50 * 200);
    let last = events.last();
    assert!(
        matches!(
            last,
            Some(WorkerEvent::Final { summary: Summary::Delivery(sent) }) if *sent == summary
        ),
        "{last:?}"
    );
}

#[test]
fn every_group_receives_all_records() {
    for (clients, members) in [(40, 1), (6, 2)] {
        let topic = topic(3);
        let consumer_options = ConsumerOptions {
            groups: Some(LeanGroups {
                members,
                ..LeanGroups::new(&format!("{topic}-group-"))
            }),
            published_report: Some(Duration::from_secs(60)),
            ..ConsumerOptions::new(&cluster(), &topic, clients)
        };
        let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
        assert_eq!(consumers.ready().0, clients as u64);
        consumers.command(WorkerCommand::Start(immediate_schedule()));
        let options = ProducerOptions {
            count: Some(150),
            ..options(&topic, 300.0)
        };
        let (_, produced) = produce(options, immediate_schedule());
        consumers.command(WorkerCommand::Ledger {
            entries: produced.ledger,
        });
        let (events, summary) = consumers.finish();
        let summary = summary.expect("summary");
        let groups = (clients / members) as u64;
        assert_eq!(
            (summary.clients, summary.counts.lost),
            (groups, 0),
            "{summary:?}"
        );
        assert!(
            summary.counts.deliveries_in_window >= groups * 150,
            "{summary:?}"
        );
        assert!(summary.group_assignments >= clients as u64, "{summary:?}");
        // Each group commits its offsets at the end.
        assert!(summary.group_commits >= groups, "{summary:?}");
        let report = events.iter().find_map(|event| match event {
            WorkerEvent::Report { text } => Some(text.as_str()),
            _ => None,
        });
        let samples = format!("Number of samples: {}\n", summary.counts.updates_total);
        assert!(
            report.is_some_and(|text| text.contains(&samples)),
            "{report:?}"
        );
    }
}

#[test]
fn marked_records_are_timed_among_background() {
    let topic = topic(4);
    let consumer_options = ConsumerOptions {
        latency_from: "json:timestamp".parse().expect("a source"),
        marked_only: true,
        ..ConsumerOptions::new(&cluster(), &topic, 3)
    };
    let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    consumers.ready();
    consumers.command(WorkerCommand::Start(immediate_schedule()));
    let mut ledger = Vec::new();
    for (first_producer, marked, count) in [(100, false, 100), (0, true, 20)] {
        let options = ProducerOptions {
            kind: PayloadKind::JsonExtended,
            first_producer,
            mark: marked,
            count: Some(count),
            ..options(&topic, 500.0)
        };
        let (_, produced) = produce(options, immediate_schedule());
        assert_eq!(produced.acked, count);
        assert!(
            produced
                .ledger
                .iter()
                .all(|it| it.producer >= first_producer)
        );
        ledger.extend(produced.ledger);
    }
    consumers.command(WorkerCommand::Ledger { entries: ledger });
    let (events, summary) = consumers.finish();
    let summary = summary.expect("summary");
    assert_eq!(summary.counts.deliveries_in_window, 3 * 120);
    assert_eq!(
        (
            summary.counts.lost,
            summary.counts.duplicated,
            summary.counts.unchecked
        ),
        (0, 0, 0)
    );
    assert_eq!(interval_count(&events, LatencyTag::Response), 3 * 20);
    assert_eq!(summary.latency_resolution_ns, MS);
}

#[test]
fn deliveries_with_json_keys_are_checked_by_name() {
    let topic = topic(2);
    let consumer_options = ConsumerOptions::new(&cluster(), &topic, 2);
    let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    consumers.ready();
    consumers.command(WorkerCommand::Start(immediate_schedule()));
    let options = ProducerOptions {
        kind: PayloadKind::JsonKeyX,
        count: Some(200),
        producers: 1,
        keys: Some(1),
        ..options(&topic, 1_000.0)
    };
    let (_, produced) = produce(options, immediate_schedule());
    assert_eq!(produced.ledger[0].key, "James");
    consumers.command(WorkerCommand::Ledger {
        entries: produced.ledger,
    });
    let (_, summary) = consumers.finish();
    let summary = summary.expect("summary");
    // The key differs for every record, but all records of a name are in one partition.
    assert_eq!(
        (
            summary.counts.lost,
            summary.counts.duplicated,
            summary.counts.unchecked
        ),
        (0, 0, 0)
    );
    assert_eq!(summary.counts.deliveries_in_window, 2 * 200);
}

#[test]
fn records_before_a_consumer_starts_are_lost() {
    let topic = topic(1);
    let (_, produced) = produce(
        ProducerOptions {
            count: Some(10),
            kind: PayloadKind::Base,
            ..options(&topic, 1_000.0)
        },
        immediate_schedule(),
    );
    assert_eq!(produced.acked, 10);
    // Consumers read from the end, so they do not receive these records.
    let consumer_options = ConsumerOptions::new(&cluster(), &topic, 2);
    let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    consumers.ready();
    consumers.command(WorkerCommand::Ledger {
        entries: produced.ledger,
    });
    consumers.command(WorkerCommand::Stop);
    let (_, summary) = consumers.finish();
    let summary = summary.expect("summary");
    assert_eq!(
        (summary.counts.lost, summary.counts.deliveries_in_window),
        (20, 0)
    );
}

/// Minimal client of the baseline server, with its current values.
struct FloorClient(TcpStream, [String; 6]);

impl FloorClient {
    fn connect(port: u16, key: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut socket = TcpStream::connect(address).expect("the floor listens");
        socket
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        socket
            .write_all(format!("{key}\n").as_bytes())
            .expect("written");
        let mut response = [0; 3];
        socket.read_exact(&mut response).expect("an response");
        assert_eq!(&response, b"OK\n");
        Self(socket, Default::default())
    }

    /// Returns the text of the next frame: FIN and text opcode, no mask, length in one or three
    /// bytes.
    fn line(&mut self) -> String {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        assert_eq!(head[0], 0x81);
        let length = match head[1] {
            126 => {
                let mut long = [0; 2];
                self.0.read_exact(&mut long).expect("a length");
                usize::from(u16::from_be_bytes(long))
            }
            short => usize::from(short),
        };
        let mut text = vec![0; length];
        self.0.read_exact(&mut text).expect("a payload");
        String::from_utf8(text).expect("UTF-8")
    }

    /// Returns key and stamp of the next update.
    fn update(&mut self) -> (String, Stamp) {
        let line = self.line();
        let values = line
            .strip_prefix("U,1,1,")
            .and_then(|rest| rest.strip_suffix("\r\n"));
        let mut at = 0;
        for token in values.expect("an update").split('|') {
            match token.strip_prefix('^') {
                Some(unchanged) => at += unchanged.parse::<usize>().expect("a number"),
                None if token.is_empty() => at += 1,
                None => {
                    self.1[at] = token.to_owned();
                    at += 1;
                }
            }
        }
        assert_eq!(at, 6, "{line}");
        let [key, value, _timestamp, partition, _offset, stamp] = &self.1;
        assert!(value.contains("-pid-") && partition == "0", "{line}");
        let stamp = Stamp::parse_text(stamp.as_bytes()).expect("a stamp");
        (key.to_owned(), stamp)
    }
}

#[test]
fn floor_writes_records_to_sockets_of_their_key() {
    let topic = topic(1);
    let floor_options = FloorOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        kafka: KafkaArgs::of_servers(bootstrap()),
        topic: topic.clone(),
        diffs: DiffChoice::NONE,
        fields: ["key", "value", "ts", "partition", "offset", "weir"]
            .map(str::to_owned)
            .into(),
    };
    let floor = TestWorker::start(move |link| floor::run(&floor_options, link));
    let port = floor.ready().1.expect("a port");
    let mut apples = [(); 2].map(|()| FloorClient::connect(port, "Apple"));
    let mut all = FloorClient::connect(port, "*");
    let _nothing = FloorClient::connect(port, "Jackfruit");

    let (_, produced) = produce(
        ProducerOptions {
            keys: Some(2),
            count: Some(100),
            size: Some(300),
            text_stamp: true,
            ..options(&topic, 2_000.0)
        },
        immediate_schedule(),
    );
    assert_eq!(produced.acked, 100);
    let records = |key: &str| -> u64 {
        let entries = produced.ledger.iter().filter(|entry| entry.key == key);
        entries
            .map(|entry| entry.last_seq - entry.first_seq + 1)
            .sum()
    };
    assert_eq!(records("Apple") + records("Banana"), 100);
    for client in &mut apples {
        let mut next = [0; 4];
        for _ in 0..records("Apple") {
            let (key, stamp) = client.update();
            let next = &mut next[stamp.producer as usize];
            assert_eq!((key.as_str(), stamp.seq), ("Apple", *next));
            *next += 1;
        }
    }
    (0..100).for_each(|_| drop(all.update()));

    floor.command(WorkerCommand::Stop);
    let (_, summary) = floor.finish();
    let summary = summary.expect("summary");
    assert_eq!((summary.records_read, summary.accepted), (100, 4));
    assert_eq!(summary.frames_sent, 100 + 2 * records("Apple"));
    assert_eq!((summary.closed_would_block, summary.closed_other), (0, 0));
}

#[test]
fn full_queue_delays_records_without_loss() {
    let topic = topic(1);
    let mut kafka = KafkaArgs::of_servers(bootstrap());
    let queue = ("queue.buffering.max.messages".to_owned(), "10".to_owned());
    kafka.client.kafka_properties = vec![queue];
    let (_, produced) = produce(
        ProducerOptions {
            count: Some(60),
            // The queue of ten records is sent only after this delay.
            linger: Duration::from_millis(50),
            kafka,
            ..options(&topic, 10_000.0)
        },
        immediate_schedule(),
    );
    assert!(produced.queue_full > 0);
    assert_eq!(
        (produced.sent, produced.acked, produced.failed),
        (60, 60, 0)
    );
    assert!(
        produced.schedule_lag.max_ns >= 40 * MS,
        "{:?}",
        produced.schedule_lag
    );
    assert!(produced.ledger.iter().all(|entry| entry.missing.is_empty()));
}

#[test]
fn rejected_records_are_not_in_the_ledger() {
    let topic = topic(1);
    let (_, produced) = produce(
        ProducerOptions {
            count: Some(3),
            size: Some(2_000_000),
            ..options(&topic, 100.0)
        },
        immediate_schedule(),
    );
    assert_eq!((produced.due, produced.failed, produced.acked), (3, 3, 0));
    assert_eq!(produced.errors.values().sum::<u64>(), 3);
    assert!(produced.ledger.is_empty());
}

#[test]
fn missing_topic_is_an_error_or_created() {
    let topic = format!("load-test-{}-absent", std::process::id());
    let absent = options(&topic, 10.0);
    let worker = TestWorker::start(move |link| producer::run(&absent, link));
    let error = worker.finish().1.expect_err("no topic");
    assert_eq!(error.class(), ErrorClass::Target);
    assert!(error.to_string().contains("--create-topic"), "{error}");
    let consumer_options = ConsumerOptions::new(&cluster(), &topic, 1);
    let worker = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    assert!(worker.finish().1.is_err());

    let creating = ProducerOptions {
        new_topic: NewTopicArgs {
            create_topic: Some(2),
            ..NewTopicArgs::default()
        },
        ..options(&topic, 10.0)
    };
    let worker = TestWorker::start(move |link| producer::run(&creating, link));
    worker.ready();
    let admin = Admin::connect(&cluster(), TEST_TIMEOUT).expect("broker connection");
    assert_eq!(admin.partitions(&topic), Ok(Some(2)));
    // Stopped before the start, the producer shuts down cleanly.
    worker.command(WorkerCommand::Stop);
    let (_, summary) = worker.finish();
    assert_eq!(summary.expect("summary"), ProduceSummary::default());
}
