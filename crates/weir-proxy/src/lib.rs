//! A proxy for Kafka's protocol: clients connect here instead of to the brokers, and notice nothing
//! but the filters that were asked for.
//!
//! Frames that nobody wants to see pass unopened. Addresses of brokers in answers are replaced by
//! the proxy's own.

mod admin;
pub mod config;
mod data;
mod directory;
pub mod error;
pub mod filter;
mod health;
mod metrics;
mod place_cache;
mod probe;
mod proxy;
mod resolve;
mod tls;
pub mod versions;
pub mod wire;

pub use config::{Overrides, ProxyConfig};
pub use data::ConnectionRow;
pub use directory::BrokerRow;
pub use error::ProxyError;
pub use proxy::Proxy;
pub use tls::TlsFiles;
