//! Kafka for Weir: `ingest` and `produce` over librdkafka behind narrow types, `admin` for topics,
//! `peek` for a look at one record, `wire` and `records` as pure byte work, `lean` for thousands
//! of consumers in one thread.
//!
//! This crate knows records, partitions and offsets; it knows nothing of items, filters or
//! scenarios.

pub mod admin;
#[doc(hidden)]
pub mod fuzz;
pub mod ingest;
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
    RecordSource, SourceError, SourceStatus, StartFrom, TopicStatus,
};
pub use produce::{Acks, DeliveryReport, Producer, ProducerConfig, ProducerError, SendError};
pub use properties::PropertyError;
pub use record::{HeaderList, Record};

/// Version of the Kafka library that is linked in.
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}
