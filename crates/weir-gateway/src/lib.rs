//! The gateway turns records of Kafka topics into updates of items and sends them to the subscribed
//! sessions.
//!
//! Threads: one per shard (an event loop with its own clients), one or more per Kafka connection
//! (`weir-ingest`), one for administration. They share no mutable data: ingest threads post updates
//! to the interested shards, and shards send their interests to the ingest threads.

mod adapter;
mod admin;
mod admission;
mod bounds;
pub mod compression;
pub mod config;
mod config_files;
mod dashboard;
pub mod diffs;
mod error;
mod exposure;
mod gateway;
mod latency;
mod lightstreamer_conf;
mod limits;
mod listeners;
mod memory_watch;
mod messages;
mod metrics;
mod operators;
mod overload;
mod session_handles;
mod shard;
mod shared_revocations;
mod simulator;
pub mod tls;
mod trace;
mod try_page;

pub use config::{GatewayConfig, GatewayLimits};
pub use error::GatewayError;
pub use gateway::Gateway;
pub use listeners::client_addresses;
pub use messages::{MessageConfig, MessageLimits};
pub use weir_ingest::{ClientProperties, Cluster, schemas};
