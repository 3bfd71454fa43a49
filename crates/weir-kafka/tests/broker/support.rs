//! Broker, topics, waiting and collecting of records for the broker tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use weir_kafka::{
    Acks, Admin, DeliveryReport, IngestConfig, KafkaIngest, KafkaSettings, Producer,
    ProducerConfig, ReaderKind, Record, StartFrom,
};
use weir_lab::{Lab, LabOptions};

/// Timeout of every wait; only failing tests reach it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Broker under test.
pub(crate) struct TestBroker {
    pub(crate) bootstrap: String,
    /// Client that [`TestBroker::ingest`] uses.
    pub(crate) reader: ReaderKind,
}

/// Defines a test per client for each function of a [`ReaderKind`].
macro_rules! per_reader {
    ($($name:ident)*) => {
        mod with_librdkafka {
            $(#[test]
            fn $name() {
                super::$name(weir_kafka::ReaderKind::Librdkafka);
            })*
        }
        mod with_lean_client {
            $(#[test]
            fn $name() {
                super::$name(weir_kafka::ReaderKind::Lean);
            })*
        }
    };
}
pub(crate) use per_reader;

/// Returns the broker that all tests share. A broker started here ends with this process.
pub(crate) fn broker() -> TestBroker {
    static LAB: OnceLock<Lab> = OnceLock::new();
    let named = std::env::var("WEIR_E2E_BOOTSTRAP").ok();
    let bootstrap = named.unwrap_or_else(|| LAB.get_or_init(|| lab(1)).bootstrap());
    TestBroker {
        bootstrap,
        reader: ReaderKind::default(),
    }
}

/// Starts separate brokers for a test that stops and starts them.
pub(crate) fn lab(brokers: u8) -> Lab {
    let options = LabOptions {
        brokers,
        heap_mb: 384,
        ready_timeout: 2 * TEST_TIMEOUT,
        ..LabOptions::default()
    };
    Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("broker starts")
}

impl TestBroker {
    /// Selects the client that [`ingest`](Self::ingest) uses.
    pub(crate) fn read_with(self, reader: ReaderKind) -> Self {
        Self { reader, ..self }
    }

    pub(crate) fn kafka(&self) -> KafkaSettings {
        KafkaSettings::plaintext(&self.bootstrap)
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::connect(&self.kafka(), TEST_TIMEOUT).expect("broker responds")
    }

    /// Creates a topic that no other test uses.
    pub(crate) fn topic(&self, name: &str, partitions: i32) -> String {
        let topic = unique(name);
        self.admin()
            .create_topic(&topic, partitions, 1, &[])
            .expect("topic created");
        topic
    }

    pub(crate) fn ingest(&self, topics: &[&str], from: StartFrom) -> KafkaIngest {
        self.ingest_with(self.kafka(), topics, from)
    }

    pub(crate) fn ingest_with(
        &self,
        kafka: KafkaSettings,
        topics: &[&str],
        from: StartFrom,
    ) -> KafkaIngest {
        let config = IngestConfig {
            kafka,
            client_id: "test".to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            from,
            reader: self.reader,
            ..IngestConfig::default()
        };
        KafkaIngest::start(&config).expect("valid configuration")
    }

    pub(crate) fn producer(&self) -> TestProducer {
        self.producer_with("none", Acks::All)
    }

    pub(crate) fn producer_with(&self, compression: &str, acks: Acks) -> TestProducer {
        let config = ProducerConfig {
            kafka: self.kafka(),
            compression: compression.to_owned(),
            acks,
            // Fills compressed batches with more than one record.
            linger_ms: if compression == "none" { 0.0 } else { 20.0 },
            ..ProducerConfig::default()
        };
        let (sender, deliveries) = mpsc::channel();
        let report = move |delivery| {
            // The test may have ended.
            let _ = sender.send(delivery);
        };
        let producer = Producer::start(&config, Box::new(report)).expect("valid configuration");
        TestProducer {
            producer,
            deliveries,
        }
    }
}

/// A producer with its delivery reports.
pub(crate) struct TestProducer {
    pub(crate) producer: Producer,
    pub(crate) deliveries: mpsc::Receiver<DeliveryReport>,
}

impl TestProducer {
    /// Sends values in order to one partition and waits until all are stored.
    pub(crate) fn store(&self, topic: &str, partition: i32, values: &[String]) {
        for (token, value) in values.iter().enumerate() {
            self.producer
                .send(
                    topic,
                    Some(partition),
                    None,
                    Some(value.as_bytes()),
                    &[],
                    None,
                    token as u64,
                )
                .expect("queued");
        }
        assert_eq!(
            self.producer.flush(TEST_TIMEOUT),
            0,
            "records not acknowledged"
        );
        for _ in values {
            let delivery = self
                .deliveries
                .recv_timeout(TEST_TIMEOUT)
                .expect("reported");
            assert!(delivery.result.is_ok(), "{delivery:?}");
        }
    }
}

/// A copied record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopiedRecord {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl CopiedRecord {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

impl From<Record<'_>> for CopiedRecord {
    fn from(record: Record<'_>) -> Self {
        let header =
            |(name, value): &(&str, Option<&[u8]>)| ((*name).to_owned(), value.map(<[u8]>::to_vec));
        Self {
            topic: record.topic.to_owned(),
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.iter().map(header).collect(),
        }
    }
}

/// Polls until `source` is ready. Returns the records delivered until then.
pub(crate) fn until_ready(source: &mut KafkaIngest) -> Vec<CopiedRecord> {
    let mut seen = Vec::new();
    poll_until(source, &mut seen, "ready", |source, _| {
        source.status().ready
    });
    seen
}

/// Polls until `count` records were delivered.
pub(crate) fn read(source: &mut KafkaIngest, count: usize) -> Vec<CopiedRecord> {
    let mut seen = Vec::new();
    poll_until(source, &mut seen, "records", |_, seen| seen.len() >= count);
    seen
}

pub(crate) fn poll_until(
    source: &mut KafkaIngest,
    seen: &mut Vec<CopiedRecord>,
    what: &str,
    done: impl Fn(&mut KafkaIngest, &[CopiedRecord]) -> bool,
) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done(source, seen) {
        let status = source.status();
        assert!(
            Instant::now() < deadline,
            "no {what}: {} records, {status:?}",
            seen.len()
        );
        source
            .poll(Duration::from_millis(20), 1000, &mut |record| {
                seen.push(record.into());
            })
            .expect("poll succeeds");
    }
}

pub(crate) fn values(records: &[CopiedRecord]) -> Vec<String> {
    records.iter().map(CopiedRecord::text).collect()
}

pub(crate) fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}{index}")).collect()
}

pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let stamp = now.map_or(0, |now| now.as_millis());
    format!("{name}-{}-{stamp}-{number}", std::process::id())
}
