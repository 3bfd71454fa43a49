//! The configuration, read from `proxy.toml` or from command-line options, and checked.

mod address;
mod model;
mod name_conflicts;
mod origin;
mod proxy_protocol;
mod raw;
mod server_names;
mod tls;
mod written;

pub use self::address::{BrokerPorts, HostPort};
pub use self::model::{ClusterConfig, ProxyConfig, ProxyLimits};
pub use self::origin::{CliOverrides, ConfigOrigin};
pub use self::proxy_protocol::{ProxyProtocol, ProxyProtocolMode};
pub(crate) use self::server_names::NamedTarget;
pub use self::server_names::{BrokerNames, ServerNames};
pub(crate) use self::written::WrittenConfig;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
