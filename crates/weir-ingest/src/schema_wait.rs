//! Partitions that wait for a schema. Each is held at its first record with an unknown schema id,
//! while all others are read on.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::registry::{LookupCounters, Lookups};
use weir_kafka::{KafkaReader, LentRecord, SourceError};
use weir_mapping::{KnownSchemas, RecordView, SchemaId};

use crate::connection::KafkaConnection;
use crate::counters::{SchemaCounters, add};
use crate::schemas::registry_id;

/// Wait for records while a partition waits for a schema, so that it resumes soon.
pub(crate) const POLL_TIMEOUT: Duration = Duration::from_millis(10);

/// Waiting partitions of a connection.
pub(crate) struct SchemaWaits {
    lookups: Lookups,
    known: KnownSchemas,
    held: Vec<HeldPartition>,
}

#[derive(Debug)]
struct HeldPartition {
    topic: Box<str>,
    partition: i32,
    id: SchemaId,
    since: Instant,
}

impl HeldPartition {
    fn is_of(&self, record: &LentRecord<'_>) -> bool {
        self.partition == record.partition() && *self.topic == *record.topic()
    }
}

impl SchemaWaits {
    /// Starts lookups, if the connection needs registered schemas.
    pub(crate) fn start(connection: &KafkaConnection) -> Result<Option<Self>, SourceError> {
        let registry = connection.registry.as_ref();
        let registry = registry.filter(|_| connection.config.mapping.needs_registry());
        let Some(registry) = registry else {
            return Ok(None);
        };
        let lookups = registry.start(connection.config.schemas());
        let lookups = lookups.map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })?;
        Ok(Some(Self {
            lookups,
            known: KnownSchemas::default(),
            held: Vec::new(),
        }))
    }

    /// Returns `true` if a partition waits.
    pub(crate) fn is_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Reads partitions on whose schemas were found or given up.
    pub(crate) fn release(
        &mut self,
        connection: &KafkaConnection,
        reader: &mut KafkaReader<'_>,
    ) -> Result<(), SourceError> {
        let (table, counters) = (connection.config.schemas(), &connection.schemas);
        let mut index = 0;
        while let Some(held) = self.held.get(index) {
            if table.get(&held.id).is_none() {
                // The failure may have been forgotten before it was seen here.
                self.lookups.request(&registry_id(&held.id));
                index += 1;
                continue;
            }
            let held = self.held.swap_remove(index);
            reader.release(&held.topic, held.partition)?;
            let waited = held.since.elapsed();
            add(&counters.wait_us, waited.as_micros() as u64);
            tracing::info!(
                connection = %connection.config.name, topic = &*held.topic,
                partition = held.partition, schema = %held.id,
                waited_ms = waited.as_millis() as u64, "partition resumed"
            );
        }
        self.publish(counters);
        Ok(())
    }

    /// Removes the records from `batch` that have to wait, and holds their partitions.
    pub(crate) fn hold(
        &mut self,
        connection: &KafkaConnection,
        reader: &mut KafkaReader<'_>,
        batch: &mut Vec<LentRecord<'_>>,
    ) -> Result<(), SourceError> {
        let mut new = Vec::new();
        batch.retain(|record| {
            if self.held.iter().any(|held| held.is_of(record)) {
                return false;
            }
            let Some(id) = self.missing(connection, record) else {
                return true;
            };
            new.push(record.offset());
            self.held.push(HeldPartition {
                topic: record.topic().into(),
                partition: record.partition(),
                id,
                since: Instant::now(),
            });
            false
        });
        let first = self.held.len() - new.len();
        for (held, offset) in self.held[first..].iter().zip(new) {
            self.lookups.request(&registry_id(&held.id));
            reader.hold(&held.topic, held.partition, offset)?;
            add(&connection.schemas.waits, 1);
            tracing::info!(
                connection = %connection.config.name, topic = &*held.topic,
                partition = held.partition, offset, schema = %held.id,
                "partition waits for a schema"
            );
        }
        Ok(())
    }

    /// Returns the first schema of a record that has not been looked up.
    fn missing(
        &mut self,
        connection: &KafkaConnection,
        record: &LentRecord<'_>,
    ) -> Option<SchemaId> {
        // The worker counts skipped headers.
        let record = record.record(&mut 0);
        let view = RecordView {
            topic: record.topic,
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key,
            value: record.value,
            headers: &record.headers,
        };
        connection
            .config
            .mapping
            .missing_schema(&view, &mut self.known)
    }

    fn publish(&self, counters: &SchemaCounters) {
        let LookupCounters {
            requests,
            failures,
            unknown_ids,
            from_files,
        } = self.lookups.counters();
        for (from, to) in [
            (requests, &counters.requests),
            (failures, &counters.failures),
            (unknown_ids, &counters.unknown_ids),
            (from_files, &counters.from_files),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let waiting = self.held.len() as u64;
        counters.waiting.store(waiting, Ordering::Relaxed);
    }
}
