//! Broker addresses, and the mapping from brokers to ports of the proxy.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use serde::Deserialize;
use weir_net::log::Truncated;

/// A text that is not an address.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\": write HOST:PORT")]
pub struct HostPortError(String);

/// A broker address as configured or as advertised by the broker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct HostPort {
    /// Host name or IP address. An IPv6 address has no brackets.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// Creates an address from host and port.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Parses `host:port`. An IPv6 address must be in brackets.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let plain = |host: &str| !host.is_empty() && host.len() <= 255 && !host.contains(':');
        let host = match bracketed {
            Some(inner) => inner.parse::<IpAddr>().ok().map(|_| inner),
            None => Some(host).filter(|host| plain(host)),
        };
        let host = host.filter(|host| !host.contains(char::is_whitespace));
        Some(Self::new(host?, port?))
    }

    /// Returns `true` if this is the address `host`:`port`.
    pub fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && &*self.host == host
    }

    /// Returns the addresses of the host; none if the name cannot be resolved. May block.
    pub(crate) fn resolve(&self) -> Vec<SocketAddr> {
        if let Some(address) = self.numeric() {
            return vec![address];
        }
        match (&*self.host, self.port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                // The health probe warns, once for each host.
                tracing::debug!(host = %Truncated(self), %error, "host name not found");
                Vec::new()
            }
        }
    }

    /// Returns the socket address if the host is an IP address.
    pub fn numeric(&self) -> Option<SocketAddr> {
        let ip = self.host.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }
}

impl TryFrom<String> for HostPort {
    type Error = HostPortError;

    fn try_from(text: String) -> Result<Self, HostPortError> {
        Self::parse(&text).ok_or(HostPortError(text))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The mapping from node ids to proxy ports: the first port plus the node id, modulo the number of
/// ports. Every proxy with the same configuration has the same mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerPorts {
    /// Any free ports.
    Free,
    /// A range of ports.
    Range {
        /// Port of node id 0.
        first: u16,
        /// Number of ports.
        count: u16,
        /// Advertised port of node id 0. Differs from `first` if ports are translated between proxy
        /// and clients.
        advertised_first: u16,
    },
}

impl BrokerPorts {
    /// Returns the port of a broker, or 0 for any free port.
    pub fn of(self, id: i32) -> u16 {
        match self {
            Self::Free => 0,
            // Less than `count`; `first + count` was checked.
            Self::Range { first, count, .. } => first + id.rem_euclid(i32::from(count)) as u16,
        }
    }

    /// Returns the port that clients see for a proxy port.
    pub fn advertised(self, port: u16) -> u16 {
        match self {
            Self::Free => port,
            Self::Range {
                first,
                advertised_first,
                ..
            } => advertised_first + port.saturating_sub(first),
        }
    }
}

impl fmt::Display for BrokerPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("any free ones"),
            Self::Range { first, count, .. } => write!(f, "{first}-{}", first + (count - 1)),
        }
    }
}
