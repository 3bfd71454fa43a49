//! A proxy for the Kafka protocol. Clients connect to the proxy instead of the brokers.
//!
//! The proxy forwards frames without decoding them unless a filter needs their records. It replaces
//! broker addresses in responses with its own addresses.

mod address_cache;
mod admin;
mod api_counters;
mod broker_connection;
mod broker_login;
mod broker_registry;
mod certificates;
mod cluster_id;
pub mod config;
mod connection_counters;
mod counters;
mod dashboard;
mod data;
pub mod error;
mod health;
mod login;
mod metrics;
mod name_listeners;
mod principal_counters;
mod probe;
mod proxy;
mod reload;
mod request_traces;
mod resolve;
mod secret_file;
mod versions;
mod virtual_cluster;
#[cfg(not(fuzzing))]
mod wire;
#[cfg(fuzzing)]
pub mod wire;

pub use broker_registry::BrokerInfo;
pub use config::{CliOverrides, ProxyConfig};
pub use error::ProxyError;
pub use proxy::{Proxy, ProxyListeners};
pub use reload::{ChangeKind, ClusterChange, ReloadError, ReloadPreview, ReloadReport};
