//! The gateway: records of Kafka topics become updates of items, and each session gets those it
//! has subscribed to.
//!
//! Threads: one per shard (an event loop with its own clients), one per Kafka connection (ingest
//! and mapping), one for administration. They share no data: an ingest thread posts updates to the
//! shards that asked for the item, a shard posts what it wants to the ingest thread.

mod admin;
mod admission;
pub mod compression;
pub mod config;
mod connection;
mod counters;
mod dashboard;
pub mod diffs;
mod error;
mod gateway;
mod ingest;
mod interest;
mod latency;
mod lightstreamer_conf;
mod listeners;
mod memory_watch;
mod metrics;
mod overload;
mod resolve;
mod routing;
mod shard;
pub mod tls;

pub use config::{GatewayConfig, GatewayLimits};
pub use error::GatewayError;
pub use gateway::Gateway;
pub use listeners::client_addresses;
