//! What a lab is asked to be.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use crate::config;
use crate::error::LabError;
use crate::kafka;

/// Settings of a lab; the default is one broker on free ports in a temporary directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOptions {
    /// Nodes, each broker and controller: 1 to 3.
    pub brokers: u8,
    /// Release of Apache Kafka.
    pub kafka_version: String,
    /// Directory for configuration, logs and data. `None`: the per-user state directory when
    /// detached, otherwise a temporary one that goes with the lab.
    pub dir: Option<PathBuf>,
    /// First of `2 * brokers` ports: clients first, then controllers. `None`: free ones.
    pub port: Option<u16>,
    /// Address that brokers listen on and tell to clients.
    pub host: Ipv4Addr,
    /// Whether the brokers outlive this process.
    pub detached: bool,
    /// Largest heap of each broker.
    pub heap_mb: u32,
    /// Broker properties that go beyond the lab's own and win over them.
    pub properties: Vec<(String, String)>,
    /// A second listener for each broker, in their order, or for none: for what stands between
    /// clients and brokers without changing addresses. Its name is `SECOND`; the property
    /// `listener.security.protocol.map` says what it speaks, plain text if absent.
    pub second_listeners: Vec<SecondListener>,
    /// Arguments for each broker's JVM that go beyond the lab's own.
    pub jvm_arguments: Vec<String>,
    /// Whether data is kept when the lab stops.
    pub keep_data: bool,
    /// Room that must be free in the lab's directory at the start.
    pub min_free_bytes: u64,
    /// Time that the brokers get to answer, default 180 s: a busy machine with two cores has taken
    /// more than 60 s, and a broker that has died is noticed at once.
    pub ready_within: Duration,
}

/// A listener that tells clients of another port than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondListener {
    /// Where the broker listens.
    pub port: u16,
    /// Where clients are told to connect.
    pub advertised_port: u16,
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
            second_listeners: Vec::new(),
            jvm_arguments: Vec::new(),
            keep_data: false,
            min_free_bytes: 1 << 30,
            ready_within: Duration::from_secs(180),
        }
    }
}

impl LabOptions {
    /// Refuses values that cannot work.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let wrong = |name, value: &dyn ToString, reason: &str| {
            Err(LabError::Setting {
                name,
                value: value.to_string(),
                reason: reason.to_owned(),
            })
        };
        if !(1..=3).contains(&self.brokers) {
            return wrong("brokers", &self.brokers, "a lab has 1, 2 or 3");
        }
        let second = self.second_listeners.len();
        if second != 0 && second != usize::from(self.brokers) {
            return wrong("second listeners", &second, "one for each broker, or none");
        }
        if self.heap_mb < HEAP_MB_MIN {
            return wrong("heap", &self.heap_mb, "a broker needs 192 MB at least");
        }
        if self.host.is_unspecified() {
            return wrong("host", &self.host, "clients need an address they can reach");
        }
        let last = self
            .port
            .map(|port| port.checked_add(2 * u16::from(self.brokers) - 1));
        if self.port == Some(0) || last == Some(None) {
            let port = self.port.unwrap_or(0);
            return wrong(
                "port",
                &port,
                "two ports for each broker, counted from it, must exist",
            );
        }
        let dir = self.dir.as_ref().map(|dir| dir.to_string_lossy());
        // Kafka takes its data directory from a list with commas in a properties file.
        if let Some(dir) = dir.filter(|dir| dir.contains([',', '\\', '\n'])) {
            return wrong("dir", &dir, "no comma, backslash or line break, please");
        }
        config::check_extra(&self.properties)?;
        kafka::check_version(&self.kafka_version)
    }
}

const HEAP_MB_MIN: u32 = 192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_work_are_named() {
        let base = LabOptions::default;
        base().check().unwrap();
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
            let text = options.check().unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
