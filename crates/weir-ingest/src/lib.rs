//! Reads the topics of Kafka connections and maps their records to updates of items, which it posts
//! to the interested shards.
//!
//! Each connection has a thread that polls, and maps the records itself or passes them to workers.
//! Shards send their interests to the workers, so the record path takes no lock.

mod class_name;
mod class_routes;
mod cluster;
mod commit_schedule;
mod connection;
mod counters;
mod ingest;
mod interest_inbox;
mod item_event;
mod item_records;
mod last_values;
mod late;
mod missed;
mod position_reports;
mod read_back;
mod read_back_queue;
mod read_positions;
mod record_classes;
mod refusal_log;
mod resume;
mod routing;
mod schema_wait;
pub mod schemas;
mod shard_senders;
mod skips;
mod snapshot;
mod stored_record;
mod topic_rates;
mod traces;
mod worker;
mod worker_pool;

pub use class_name::{ClassName, item_of};
pub use cluster::{ClientProperties, Cluster, KafkaTable, UnknownConnection};
pub use connection::{ConnectionState, KafkaConnection, LateWindow, SubscribedItems, WorkerHandle};
pub use counters::{SchemaCounters, UNKNOWN, WorkerCounters, add};
pub use ingest::{IdleRecords, Ingest};
pub use interest_inbox::InterestInbox;
pub use item_event::{ItemEvent, PositionedUpdate, TracedUpdate};
pub use item_records::{StoreConfig, StoredRecords};
pub use missed::{MissedRecord, ReadBackOutcome, ReadBackRequest, ReadBackResult, ResetReason};
pub use read_back_queue::{ReadBackLimits, ReadBackQueue};
pub use read_positions::ReadPositions;
pub use routing::{CachedValues, Route, RoutingTable, UpdateTarget};
pub use topic_rates::TopicReading;
