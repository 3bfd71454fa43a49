//! A proxy for Kafka's protocol: clients connect here instead of to the brokers, and notice nothing
//! but the filters that were asked for.
//!
//! Frames that nobody wants to see pass unopened. Addresses of brokers in answers are replaced by
//! the proxy's own.

mod address_cache;
mod admin;
mod broker_registry;
pub mod config;
mod data;
pub mod error;
pub mod filter;
mod health;
mod metrics;
mod probe;
mod proxy;
mod resolve;
mod tls;
pub mod versions;
pub mod wire;

pub use broker_registry::BrokerInfo;
pub use config::{CliOverrides, ProxyConfig};
pub use data::ConnectionInfo;
pub use error::ProxyError;
pub use proxy::Proxy;
pub use tls::TlsFiles;
