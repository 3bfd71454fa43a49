//! Kafka clients and codecs. `ingest` and `produce` wrap librdkafka, `admin` manages topics, `peek`
//! and `look_back` read single records, `lean` runs thousands of consumers in one thread, `wire`
//! and `records` encode and decode bytes without I/O.
//!
//! This crate handles records, partitions and offsets, but no items, filters or scenarios.

pub mod admin;
mod exchange;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod ingest;
#[cfg(feature = "lean")]
pub mod lean;
pub mod look_back;
pub mod peek;
pub mod produce;
mod properties;
mod record;
pub mod records;
pub mod wire;

pub use admin::{Admin, AdminError};
pub use ingest::{
    IngestConfig, KafkaIngest, KafkaReader, LentRecord, Offsets, PartitionLag, PauseScope,
    SourceError, SourceStatus, StartFrom, TopicStatus,
};
pub use produce::{Acks, DeliveryReport, Producer, ProducerConfig, ProducerError, SendError};
pub use properties::PropertyError;
pub use record::{HeaderList, Record};

/// Returns the version of the linked librdkafka.
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}
