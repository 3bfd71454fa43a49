//! `proxy.toml`, or the two options that do without it, as a checked configuration.

mod raw;
mod tls;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use weir_net::tls::{ClientTls, TlsAcceptor};
use weir_net::watchdog::WatchdogConfig;

use crate::error::ProxyError;
use crate::filter::{FilterChain, FilterLimits};
use crate::tls::TlsFiles;
use crate::wire::FrameLimits;

pub use self::raw::CliOverrides;

/// A checked configuration.
#[derive(Debug)]
pub struct ProxyConfig {
    /// Virtual clusters; each has listeners of its own.
    pub clusters: Vec<ClusterConfig>,
    /// Where `/metrics`, `/health` and `/connections` are served; loopback unless a token is set.
    pub admin: SocketAddr,
    /// What a request to the admin port must carry as bearer token.
    pub admin_token: Option<String>,
    /// Names that a request to the admin port may give as its host, beside IP addresses and localhost.
    pub admin_hosts: Vec<String>,
    /// The certificate of the admin port; absent: no TLS there.
    pub admin_tls: Option<Arc<TlsAcceptor>>,
    /// How long event loops may be stuck.
    pub watchdog: WatchdogConfig,
    /// Event loops; default one per core.
    pub loops: usize,
    /// Threads for filter work that is too much for an event loop, default 2.
    pub filter_threads: usize,
    /// Milliseconds that requests under way have to be answered at shutdown.
    pub drain_ms: u64,
    /// Whether large bodies that no filter sees pass inside the kernel, default true; else they are copied.
    pub splice: bool,
    /// What peers may cost.
    pub limits: ProxyLimits,
    /// Files with certificates and keys, which are read again when they change.
    pub tls_files: Vec<TlsFiles>,
}

/// One virtual cluster.
#[derive(Debug)]
pub struct ClusterConfig {
    /// Its name in metrics and messages.
    pub name: String,
    /// Brokers to begin with.
    pub upstream: Vec<HostPort>,
    /// Where clients begin.
    pub listen: SocketAddr,
    /// Ports that stand for brokers.
    pub broker_ports: BrokerPorts,
    /// Host that clients are told.
    pub advertised_host: String,
    /// Brokers whose ports are open from the start and stay so.
    pub brokers: Vec<(i32, HostPort)>,
    /// What sees records on their way, in order.
    pub filters: Arc<FilterChain>,
    /// TLS with clients.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// TLS with brokers.
    pub upstream_tls: Option<ClientTls>,
}

/// A broker's address as configured or advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Host name or IP address, an IPv6 one without brackets.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
}

impl HostPort {
    /// From its parts.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Reads `host:port`; an IPv6 address stands in brackets.
    ///
    /// # Errors
    /// Another text, with the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\": write HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let plain = |host: &str| !host.is_empty() && host.len() <= 255 && !host.contains(':');
        let host = match bracketed {
            Some(inner) => inner.parse::<IpAddr>().ok().map(|_| inner),
            None => Some(host).filter(|host| plain(host)),
        };
        match (host, port) {
            (Some(host), Some(port)) if !host.contains(char::is_whitespace) => {
                Ok(Self::new(host, port))
            }
            _ => Err(wrong()),
        }
    }

    /// Whether it is the address of these parts.
    #[must_use]
    pub fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && &*self.host == host
    }

    /// The address, if it needs no look-up.
    #[must_use]
    pub fn numeric(&self) -> Option<SocketAddr> {
        let ip = self.host.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, self.port))
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

/// Which port stands for which broker: the first one plus the broker's number, around the end if
/// there are fewer ports than numbers. So every proxy with the same configuration has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerPorts {
    /// Any free ones.
    Free,
    /// From `first` on.
    Range {
        /// Port of broker 0.
        first: u16,
        /// How many.
        count: u16,
        /// What clients are told instead of `first`, where ports are mapped on the way.
        advertised_first: u16,
    },
}

impl BrokerPorts {
    /// The port of a broker; 0 for any.
    #[must_use]
    pub fn of(self, id: i32) -> u16 {
        match self {
            Self::Free => 0,
            // Less than `count`, which was checked to fit behind `first`.
            Self::Range { first, count, .. } => first + id.rem_euclid(i32::from(count)) as u16,
        }
    }

    /// What clients are told for a port.
    #[must_use]
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

/// What peers may cost; every one has a metric that shows it at work.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxyLimits {
    /// Client connections of the whole proxy, default 10,000; each has one to a broker.
    pub connections: usize,
    /// Client connections of one address, default 0: no limit of their own.
    pub connections_per_address: usize,
    /// Bytes of one request, default 100 MiB, as brokers have it.
    pub request_bytes: usize,
    /// Bytes of a frame that is held whole, since something in it may change, default 100 MiB.
    pub held_bytes: usize,
    /// Bytes claimed for frames that are held whole, over all connections: twice the size of each.
    /// Connections that find them used up wait. Default 256 MiB, or twice `held_bytes` if that is
    /// more.
    pub buffered_bytes: Option<usize>,
    /// Bytes that one filtered batch may unpack to or grow to, default 32 MiB.
    pub batch_bytes: usize,
    /// Bytes that all batches of one filtered frame may unpack to or grow to, default 256 MiB.
    pub filter_bytes: usize,
    /// Records of one filtered frame, default 1,000,000.
    pub filter_records: usize,
    /// Milliseconds of CPU time for one filtered frame, default 2,000.
    pub filter_ms: u64,
    /// Requests of one connection without an answer, default 1,000; further ones are not read.
    pub in_flight: usize,
    /// Milliseconds for TLS and for the beginning of the first request to come, default 10,000.
    pub handshake_ms: u64,
    /// Milliseconds in which a request that has come in part must get on, default 30,000. While
    /// others wait for memory, also how long a frame may hold some.
    pub frame_ms: u64,
    /// Milliseconds to reach a broker, default 10,000.
    pub connect_ms: u64,
    /// Milliseconds after which connections that wait for a broker are closed if the broker does not
    /// answer the proxy's own questions either, default 10,000.
    pub response_ms: u64,
    /// Milliseconds without a byte after which a connection is closed, default 660,000: brokers
    /// close after ten minutes, and they should be first. 0: never.
    pub idle_ms: u64,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        let filters = FilterLimits::default();
        Self {
            connections: 10_000,
            connections_per_address: 0,
            request_bytes: 100 << 20,
            held_bytes: 100 << 20,
            buffered_bytes: None,
            batch_bytes: filters.batch_bytes,
            filter_bytes: filters.frame_bytes,
            filter_records: filters.frame_records,
            filter_ms: filters.frame_cpu.as_millis() as u64,
            in_flight: 1_000,
            handshake_ms: 10_000,
            frame_ms: 30_000,
            connect_ms: 10_000,
            response_ms: 10_000,
            idle_ms: 660_000,
        }
    }
}

impl ProxyLimits {
    /// Returns the bytes for frames that are held whole.
    #[must_use]
    pub fn buffered(&self) -> usize {
        let least = self.held_bytes.saturating_mul(2);
        self.buffered_bytes
            .unwrap_or_else(|| least.max(BUFFERED_BYTES))
    }

    pub(crate) fn filters(&self) -> FilterLimits {
        FilterLimits {
            batch_bytes: self.batch_bytes,
            frame_bytes: self.filter_bytes,
            frame_records: self.filter_records,
            frame_cpu: Duration::from_millis(self.filter_ms),
        }
    }

    pub(crate) fn frames(&self) -> FrameLimits {
        FrameLimits {
            request_bytes: self.request_bytes,
            held_bytes: self.held_bytes,
            in_flight: self.in_flight,
        }
    }
}

impl ProxyConfig {
    /// Reads the file, if there is one, and checks the whole.
    ///
    /// # Errors
    /// The first mistake, with file, key, value and remedy.
    pub fn load(file: Option<&Path>, overrides: &CliOverrides) -> Result<Self, ProxyError> {
        raw::load(file, overrides)
    }
}

const BUFFERED_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests;
