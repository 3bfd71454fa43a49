//! The broker shared by all drivers, and topics that the test creates, fills and reads itself.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_drivers::CommandLimit;
use weir_kafka::{Admin, IngestConfig, KafkaIngest, Producer, ProducerConfig, StartFrom};

use crate::support::TestBroker;

/// The broker and its test data.
pub(crate) struct TestEnv<'a> {
    pub(crate) broker: &'a TestBroker,
    admin: Mutex<Admin>,
    topics: AtomicU32,
}

/// Key and value.
pub(crate) type Pair = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A record on the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Stored {
    /// Returns the key as a number.
    pub(crate) fn number(&self) -> i64 {
        let key = self.key.as_deref().expect("a key");
        i64::from_be_bytes(key.try_into().expect("eight bytes"))
    }

    pub(crate) fn is_primer(&self) -> bool {
        self.key.as_deref() == Some(&[0xff; 8]) && self.value.as_deref() == Some(&[0])
    }
}

impl<'a> TestEnv<'a> {
    pub(crate) fn new(broker: &'a TestBroker) -> Self {
        let admin = Admin::connect(&broker.bootstrap, TEST_TIMEOUT).expect("the broker answers");
        Self {
            broker,
            admin: Mutex::new(admin),
            topics: AtomicU32::new(0),
        }
    }

    /// Creates a topic with one partition.
    pub(crate) fn topic(&self, driver: &str, purpose: &str) -> String {
        let number = self.topics.fetch_add(1, Ordering::Relaxed);
        let name = format!("drivers-{}-{driver}-{purpose}-{number}", std::process::id());
        let admin = self.admin.lock().expect("no panic while it was held");
        admin.create_topic(&name, 1, 1, &[]).expect("a topic");
        name
    }

    /// Writes the given records.
    pub(crate) fn write(&self, topic: &str, records: &[Pair]) {
        let config = ProducerConfig {
            bootstrap_servers: self.broker.bootstrap.clone(),
            ..ProducerConfig::default()
        };
        let failures = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&failures);
        let on_delivery = move |delivery: weir_kafka::DeliveryReport| {
            if let Err(error) = delivery.result {
                kept.lock().expect("no panic while it was held").push(error);
            }
        };
        let producer = Producer::start(&config, Box::new(on_delivery)).expect("a producer");
        for (key, value) in records {
            let key = key.as_deref();
            let sent = producer.send(topic, Some(0), key, value.as_deref(), &[], None, 0);
            sent.expect("room");
        }
        assert_eq!(
            producer.flush(TEST_TIMEOUT),
            0,
            "records were not delivered"
        );
        let failures = failures.lock().expect("no panic while it was held");
        assert!(failures.is_empty(), "{failures:?}");
    }

    /// Returns all records of a topic. Writes a last record to detect the end.
    pub(crate) fn read(&self, topic: &str) -> Vec<Stored> {
        let end = b"the end of this topic".to_vec();
        self.write(topic, &[(Some(end.clone()), Some(Vec::new()))]);
        let mut source = KafkaIngest::start(&IngestConfig {
            bootstrap_servers: self.broker.bootstrap.clone(),
            client_id: "test".to_owned(),
            topics: vec![topic.to_owned()],
            from: StartFrom::Earliest,
            ..IngestConfig::default()
        })
        .expect("a consumer");
        let mut reader = source.reader();
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut found = Vec::new();
        loop {
            let mut batch = Vec::new();
            let polled = reader.poll(Duration::from_millis(200), 1000, &mut batch);
            polled.expect("the topic can be read");
            for lent in &batch {
                let record = lent.without_headers();
                if record.key == Some(&end[..]) {
                    return found;
                }
                found.push(Stored {
                    offset: record.offset,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                });
            }
            assert!(
                Instant::now() < deadline,
                "read only {} records",
                found.len()
            );
        }
    }
}

/// Returns the value that drivers generate from a seed, with SplitMix64.
pub(crate) fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let numbers = std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    });
    numbers.flat_map(u64::to_le_bytes).take(len).collect()
}

pub(crate) fn key(number: i64) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

/// Returns the CPU time of a process in hundredths of a second.
pub(crate) fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a name");
    let columns: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |column: usize| columns[column].parse::<u64>().expect("a number");
    number(11) + number(12)
}

static NEVER: AtomicBool = AtomicBool::new(false);
/// Timeout for expected records.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const LIMIT: CommandLimit<'static> = CommandLimit {
    timeout: Duration::from_secs(60),
    stop: &NEVER,
};
/// Timeout for records that do not exist. A driver reports it after four fifths of this time.
pub(crate) const SHORT: CommandLimit<'static> = CommandLimit {
    timeout: Duration::from_secs(5),
    stop: &NEVER,
};
