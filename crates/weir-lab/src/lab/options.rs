//! Options of a lab.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{self, SecondListener};
use crate::error::{LabError, Result};
use crate::kafka;
use crate::registry::RegistrySecurity;
use crate::security::LabSecurity;

/// Options of a lab. The default is one broker on free ports in a temporary directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOptions {
    /// Number of nodes, from 1 to 3; each is broker and controller.
    pub brokers: u8,
    /// Release of Apache Kafka.
    pub kafka_version: String,
    /// Directory for configuration, logs and data.
    ///
    /// `None` means the per-user state directory if detached, otherwise a temporary directory that
    /// is removed with the lab.
    pub dir: Option<PathBuf>,
    /// First of [`Self::port_count`] ports: client ports, then controller ports, then others.
    /// `None` means free ports.
    pub port: Option<u16>,
    /// Address that brokers listen on and advertise to clients.
    pub host: Ipv4Addr,
    /// `true` if the brokers outlive this process.
    pub detached: bool,
    /// Maximum heap of each broker in MB.
    pub heap_mb: u32,
    /// Additional broker properties, which override those of the lab.
    pub properties: Vec<(String, String)>,
    /// How clients connect to the brokers.
    pub security: LabSecurity,
    /// `true` for further listeners of a secured lab: with an expired certificate, with one for
    /// another host, and for SASL without TLS. [`Lab::settings`](super::Lab::settings) uses them.
    pub test_listeners: bool,
    /// Lifetime of tokens from the token endpoint, rounded down to seconds.
    pub token_lifetime: Duration,
    /// Schema registry next to the brokers.
    pub registry: Option<RegistrySecurity>,
    /// A second listener per broker in node order, or none.
    ///
    /// Serves relays and proxies that do not rewrite addresses. The name of the listener is
    /// `SECOND`. Its protocol is that of the lab, unless the property
    /// `listener.security.protocol.map` sets another one.
    pub second_listeners: Vec<SecondListener>,
    /// Additional JVM arguments of each broker.
    pub jvm_arguments: Vec<String>,
    /// `true` if data is kept when the lab stops.
    pub keep_data: bool,
    /// Required free disk space in the directory of the lab.
    pub min_free_bytes: u64,
    /// `true` to record the classes of the broker again after a failed attempt, which is otherwise
    /// remembered.
    pub retry_classes: bool,
    /// Longest time until all brokers are ready, by default 180 s.
    ///
    /// A busy machine with two cores can take more than 60 s. The exit of a broker is detected
    /// immediately.
    pub ready_timeout: Duration,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            brokers: 1,
            kafka_version: crate::KAFKA_VERSION.to_owned(),
            dir: None,
            port: None,
            host: Ipv4Addr::LOCALHOST,
            detached: false,
            heap_mb: 1024,
            properties: Vec::new(),
            security: LabSecurity::Plaintext,
            test_listeners: false,
            token_lifetime: Duration::from_secs(3600),
            registry: None,
            second_listeners: Vec::new(),
            jvm_arguments: Vec::new(),
            keep_data: false,
            min_free_bytes: 1 << 30,
            retry_classes: false,
            ready_timeout: Duration::from_secs(180),
        }
    }
}

impl LabOptions {
    /// Returns the number of ports that a lab with these options uses.
    pub fn port_count(&self) -> u16 {
        let security = self.security;
        let mut per_broker = 2 + u16::from(security.uses_tls());
        if security.uses_tls() && self.test_listeners {
            per_broker += 2 + u16::from(security.uses_sasl());
        }
        let tokens = 2 * u16::from(security == LabSecurity::Oauth);
        let registry = self
            .registry
            .map_or(0, |it| 2 + 2 * u16::from(it.basic_auth));
        u16::from(self.brokers) * per_broker + tokens + registry
    }

    /// Returns `true` if certificates or passwords are needed.
    pub(super) fn needs_files(&self) -> bool {
        self.security.uses_tls() || self.registry.is_some_and(RegistrySecurity::needs_files)
    }

    /// Returns `true` if keys for tokens are needed.
    pub(super) fn needs_tokens(&self) -> bool {
        self.security == LabSecurity::Oauth || self.registry.is_some_and(|it| it.basic_auth)
    }
}

/// Options that are valid together.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValidOptions<'a>(&'a LabOptions);

impl Deref for ValidOptions<'_> {
    type Target = LabOptions;

    fn deref(&self) -> &LabOptions {
        self.0
    }
}

impl<'a> ValidOptions<'a> {
    pub(super) fn new(options: &'a LabOptions) -> Result<Self> {
        let invalid =
            |name, value: &dyn ToString, reason: &str| Err(LabError::option(name, value, reason));
        let brokers = options.brokers;
        if !(1..=3).contains(&brokers) {
            return invalid("brokers", &brokers, "must be 1, 2 or 3");
        }
        let second = options.second_listeners.len();
        if second != 0 && second != usize::from(brokers) {
            let reason = "must be one per broker, or none";
            return invalid("second listeners", &second, reason);
        }
        if options.heap_mb < HEAP_MB_MIN {
            return invalid("heap", &options.heap_mb, "must be at least 192 MB");
        }
        if options.host.is_unspecified() {
            let reason = "is not an address that clients can connect to";
            return invalid("host", &options.host, reason);
        }
        let count = options.port_count();
        let fits = |port: u16| port > 0 && port.checked_add(count - 1).is_some();
        if let Some(port) = options.port.filter(|port| !fits(*port)) {
            let reason = format!("must be the first of {count} ports, from 1 to 65535");
            return invalid("port", &port, &reason);
        }
        let dir = options.dir.as_ref().map(|dir| dir.to_string_lossy());
        // Kafka reads its data directories from a comma-separated list in a properties file.
        if let Some(dir) = dir.filter(|dir| dir.contains([',', '\\', '\n', '\t'])) {
            let reason = "must not contain a comma, backslash, tab or line break";
            return invalid("dir", &dir, reason);
        }
        config::check_extra(&options.properties)?;
        kafka::check_version(&options.kafka_version)?;
        Ok(Self(options))
    }
}

const HEAP_MB_MIN: u32 = 192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_rejected_by_name() {
        let base = LabOptions::default;
        ValidOptions::new(&base()).unwrap();
        let cases = [
            (
                LabOptions {
                    brokers: 4,
                    ..base()
                },
                "brokers \"4\"",
            ),
            (
                LabOptions {
                    brokers: 0,
                    ..base()
                },
                "brokers \"0\"",
            ),
            (
                LabOptions {
                    heap_mb: 64,
                    ..base()
                },
                "heap \"64\"",
            ),
            (
                LabOptions {
                    port: Some(65_535),
                    ..base()
                },
                "port \"65535\"",
            ),
            (
                LabOptions {
                    dir: Some("/a,b".into()),
                    ..base()
                },
                "dir \"/a,b\"",
            ),
            (
                LabOptions {
                    host: Ipv4Addr::UNSPECIFIED,
                    ..base()
                },
                "host \"0.0.0.0\"",
            ),
        ];
        for (options, expected) in cases {
            let text = ValidOptions::new(&options).unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
