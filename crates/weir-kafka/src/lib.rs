//! Kafka clients. `ingest` reads topics with librdkafka or with Weir's own client, `produce` wraps
//! librdkafka, `admin` manages topics, `peek` and `look_back` read single records, `ranges` reads
//! parts of partitions again, `lean` runs thousands of consumers in one thread, `fetch` has the
//! states of a reader without I/O. Bytes are encoded and decoded by `weir-wire`.
//!
//! This crate handles records, partitions and offsets, but no items, filters or scenarios.

pub mod admin;
mod compacted;
mod connect_error;
mod exchange;
mod fetch;
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
pub mod ranges;
mod record;
mod refusals;
pub mod registry;
pub mod secure;
mod warning_pacer;

pub use admin::{Admin, AdminError};
pub use compacted::{TableChange, TableWriteError, TableWriter, follow_table};
pub use connect_error::ConnectError;
pub use ingest::{
    BorrowedRecord, IngestConfig, KafkaIngest, KafkaReader, Offsets, PartitionLag, PauseScope,
    ReaderChoice, ReaderKind, SelectedReader, SourceError, SourceStatus, StartFrom, TopicPattern,
    TopicPositions, TopicStatus,
};
pub use produce::{
    Acks, DeliveryError, DeliveryReport, Producer, ProducerConfig, ProducerError, SendError,
    TransactionError,
};
pub use properties::{PropertyError, librdkafka_security};
pub use record::{HeaderList, Record};
/// Every client of this crate takes these settings, so its users need no second crate for them. All
/// else of `weir-security` is used from there.
pub use weir_security::{KafkaSettings, SettingsError};

/// Returns the version of the linked librdkafka.
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}
