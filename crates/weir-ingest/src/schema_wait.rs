//! Partitions that wait for a schema. Each is paused at its first record with an unknown schema id,
//! while all others are read on.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::registry::{LookupCounters, Lookups};
use weir_kafka::{BorrowedRecord, KafkaReader, SourceError};
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
    paused: Vec<PausedPartition>,
}

#[derive(Debug)]
struct PausedPartition {
    topic: Box<str>,
    partition: i32,
    id: SchemaId,
    since: Instant,
}

impl PausedPartition {
    fn is_of(&self, record: &BorrowedRecord<'_>) -> bool {
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
            paused: Vec::new(),
        }))
    }

    /// Returns `true` if a partition waits.
    pub(crate) fn is_any(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Resumes partitions whose schemas were found or given up.
    pub(crate) fn resume_found(
        &mut self,
        connection: &KafkaConnection,
        reader: &mut KafkaReader<'_>,
    ) -> Result<(), SourceError> {
        let (table, counters) = (connection.config.schemas(), &connection.schemas);
        let mut index = 0;
        while let Some(paused) = self.paused.get(index) {
            if table.get(&paused.id).is_none() {
                // The failure may have been forgotten before it was seen here.
                self.lookups.request(&registry_id(&paused.id));
                index += 1;
                continue;
            }
            let paused = self.paused.swap_remove(index);
            reader.resume_partition(&paused.topic, paused.partition)?;
            let waited = paused.since.elapsed();
            add(&counters.wait_us, waited.as_micros() as u64);
            tracing::info!(
                connection = %connection.config.name, topic = &*paused.topic,
                partition = paused.partition, schema = %paused.id,
                waited_ms = waited.as_millis() as u64, "partition resumed"
            );
        }
        self.publish(counters);
        Ok(())
    }

    /// Removes the records from `batch` that have to wait, and pauses their partitions.
    pub(crate) fn pause_missing(
        &mut self,
        connection: &KafkaConnection,
        reader: &mut KafkaReader<'_>,
        batch: &mut Vec<BorrowedRecord<'_>>,
    ) -> Result<(), SourceError> {
        let mut new = Vec::new();
        batch.retain(|record| {
            if self.paused.iter().any(|paused| paused.is_of(record)) {
                return false;
            }
            let Some(id) = self.missing(connection, record) else {
                return true;
            };
            new.push(record.offset());
            self.paused.push(PausedPartition {
                topic: record.topic().into(),
                partition: record.partition(),
                id,
                since: Instant::now(),
            });
            false
        });
        let first = self.paused.len() - new.len();
        for (paused, offset) in self.paused[first..].iter().zip(new) {
            self.lookups.request(&registry_id(&paused.id));
            reader.pause_partition(&paused.topic, paused.partition, offset)?;
            add(&connection.schemas.waits, 1);
            tracing::info!(
                connection = %connection.config.name, topic = &*paused.topic,
                partition = paused.partition, offset, schema = %paused.id,
                "partition waits for a schema"
            );
        }
        Ok(())
    }

    /// Returns the first schema of a record that has not been looked up.
    fn missing(
        &mut self,
        connection: &KafkaConnection,
        record: &BorrowedRecord<'_>,
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
        let waiting = self.paused.len() as u64;
        counters.waiting.store(waiting, Ordering::Relaxed);
    }
}
