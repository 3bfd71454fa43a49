//! The configuration, read from `proxy.toml` or from command-line options, and checked.

mod address;
mod model;
mod origin;
mod raw;
mod tls;

pub use self::address::{BrokerPorts, HostPort};
pub use self::model::{ClusterConfig, ProxyConfig, ProxyLimits};
pub use self::origin::{CliOverrides, ConfigOrigin};

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
