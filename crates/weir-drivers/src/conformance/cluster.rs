//! Topics of the checks: created, filled and read back without the driver.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_kafka::{
    Admin, DeliveryReport, IngestConfig, KafkaIngest, KafkaSettings, Producer, ProducerConfig,
    StartFrom,
};

use super::outcome::ConformanceError;

/// Cluster on which drivers are checked. It may be used by several sessions at a time.
#[derive(Debug)]
pub struct CheckCluster {
    pub(super) bootstrap: String,
    pub(super) client_file: Option<PathBuf>,
    kafka: KafkaSettings,
    admin: Mutex<Admin>,
    topics: Mutex<Vec<String>>,
    number: AtomicU32,
}

/// Key and value.
pub(super) type Pair = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A record in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl Stored {
    /// Returns the key as a number, if it is one.
    pub(super) fn number(&self) -> Option<i64> {
        let bytes = self.key.as_deref()?.try_into().ok()?;
        Some(i64::from_be_bytes(bytes))
    }

    pub(super) fn is_primer(&self) -> bool {
        self.key.as_deref() == Some(&[0xff; 8]) && self.value.as_deref() == Some(&[0])
    }
}

impl CheckCluster {
    /// Connects to a cluster. `client_file` has the properties for drivers, if there are any.
    ///
    /// # Errors
    /// No broker responds, or it refuses the connection.
    pub fn connect(
        kafka: KafkaSettings,
        client_file: Option<PathBuf>,
    ) -> Result<Self, ConformanceError> {
        let admin = Admin::connect(&kafka, IO_TIMEOUT)?;
        Ok(Self {
            bootstrap: kafka.bootstrap_servers.clone(),
            client_file,
            kafka,
            admin: Mutex::new(admin),
            topics: Mutex::new(Vec::new()),
            number: AtomicU32::new(0),
        })
    }

    /// Creates a topic with one partition.
    pub(super) fn topic(&self, driver: &str, purpose: &str) -> Result<String, ConformanceError> {
        let name = self.missing_topic(driver, purpose);
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        admin.create_topic(&name, 1, 1, &[])?;
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.push(name.clone());
        Ok(name)
    }

    /// Returns a unique name without creating a topic.
    pub(super) fn missing_topic(&self, driver: &str, purpose: &str) -> String {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        format!("weir-check-{process}-{driver}-{purpose}-{number}")
    }

    /// Deletes all topics of the checks.
    ///
    /// # Errors
    /// The cluster does not respond.
    pub fn delete_topics(&self) -> Result<(), ConformanceError> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(admin.delete_topics(&std::mem::take(&mut *topics))?)
    }

    /// Writes the given records.
    pub(super) fn write(&self, topic: &str, records: &[Pair]) -> Result<(), ConformanceError> {
        let config = ProducerConfig {
            kafka: self.kafka.clone(),
            ..ProducerConfig::default()
        };
        let failures = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&failures);
        let on_delivery = move |delivery: DeliveryReport| {
            if let Err(error) = delivery.result {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push(error.to_string());
            }
        };
        let producer = Producer::start(&config, Box::new(on_delivery))?;
        for (key, value) in records {
            let key = key.as_deref();
            producer.send(topic, Some(0), key, value.as_deref(), &[], None, 0)?;
        }
        let not_stored = |reason| ConformanceError::NotStored(topic.to_owned(), reason);
        match producer.flush(IO_TIMEOUT) {
            0 => {}
            left => return Err(not_stored(format!("{left} without a delivery report"))),
        }
        let failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures
            .first()
            .map_or(Ok(()), |error| Err(not_stored(error.clone())))
    }

    /// Returns all records of a topic. Writes a last record to detect the end.
    pub(super) fn read(&self, topic: &str) -> Result<Vec<Stored>, ConformanceError> {
        let end = b"the end of this topic".to_vec();
        self.write(topic, &[(Some(end.clone()), Some(Vec::new()))])?;
        let mut source = KafkaIngest::start(&IngestConfig {
            kafka: self.kafka.clone(),
            client_id: "weir-check".to_owned(),
            topics: vec![topic.to_owned()],
            from: StartFrom::Earliest,
            ..IngestConfig::default()
        })?;
        let mut reader = source.reader();
        let deadline = Instant::now() + IO_TIMEOUT;
        let mut found = Vec::new();
        while Instant::now() < deadline {
            let mut batch = Vec::new();
            reader.poll(POLL, BATCH_RECORDS, &mut batch)?;
            for lent in &batch {
                let record = lent.without_headers();
                if record.key == Some(&end[..]) {
                    return Ok(found);
                }
                found.push(Stored {
                    offset: record.offset,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                });
            }
        }
        let count = found.len();
        Err(ConformanceError::Incomplete(
            topic.to_owned(),
            count,
            IO_TIMEOUT,
        ))
    }
}

/// Returns the value that drivers generate from a seed, with SplitMix64.
pub(super) fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let numbers = std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    });
    numbers.flat_map(u64::to_le_bytes).take(len).collect()
}

pub(super) fn key(number: i64) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

/// Timeout for requests to the cluster, and for records that are expected.
const IO_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
const BATCH_RECORDS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_the_documentation() {
        let documented = [0xc1, 0x5c, 0x02, 0x89, 0xec, 0x2d, 0x0a, 0x91, 0x67, 0xec];
        assert_eq!(value(1, 10), documented);
        assert_eq!(key(-1), Some(vec![0xff; 8]));
    }

    #[test]
    fn primers_and_numbers_are_recognized() {
        let stored = |key: Option<Vec<u8>>, value: &[u8]| Stored {
            offset: 0,
            key,
            value: Some(value.to_vec()),
        };
        assert!(stored(key(-1), &[0]).is_primer());
        assert!(!stored(key(-1), &[1]).is_primer());
        assert_eq!(stored(key(7), &[]).number(), Some(7));
        assert_eq!(stored(Some(vec![1]), &[]).number(), None);
    }
}
