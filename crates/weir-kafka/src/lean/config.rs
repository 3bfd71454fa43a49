//! Configuration of a run.

use std::net::IpAddr;
use std::time::Duration;

use super::error::LeanError;

/// Configuration of [`run`](super::run).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanConfig {
    /// Comma-separated `host:port` list; plain TCP only.
    pub bootstrap_servers: String,
    /// Topic that every consumer reads; it must exist.
    pub topic: String,
    /// Number of consumers.
    pub consumers: usize,
    /// Maximum time a broker waits for `min_bytes`, in milliseconds. Default 500.
    pub max_wait_ms: i32,
    /// Minimum number of bytes in a fetch response, unless `max_wait_ms` elapses. Default 1.
    pub min_bytes: i32,
    /// Start at the oldest record of partitions without a committed offset. Default: at the end.
    pub from_oldest: bool,
    /// Maximum bytes of one fetch response. Default 1 MiB.
    pub fetch_max_bytes: i32,
    /// Local addresses to connect from, used in rotation, because one address has about 28,000
    /// ports. If empty, the system chooses.
    pub source_addresses: Vec<IpAddr>,
    /// New connections per second, including reconnections. Default 1000.
    pub connect_rate_per_s: usize,
    /// Name shown in broker logs and quotas.
    pub client_id: String,
    /// Makes each consumer a group member. `None`: consumers are independent and commit nothing.
    pub groups: Option<LeanGroups>,
}

/// Distribution of consumers over groups: the first `members` consumers form the first group, and
/// so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanGroups {
    /// Prefix of group ids; the group number, counted from 0, follows.
    pub prefix: String,
    /// Consumers per group. Default 1: every consumer receives every record.
    pub members: usize,
    /// Time between commits. Default 1 s.
    pub commit_interval: Duration,
    /// Time between heartbeats. Default 3 s.
    pub heartbeat_interval: Duration,
    /// Time without a heartbeat after which the coordinator removes a member. Default 45 s, as in
    /// the Java client.
    pub session_timeout: Duration,
}

impl LeanGroups {
    /// Returns one group per consumer, with the Java client's heartbeat interval and session
    /// timeout.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            members: 1,
            commit_interval: Duration::from_secs(1),
            heartbeat_interval: Duration::from_secs(3),
            session_timeout: Duration::from_secs(45),
        }
    }

    fn check(&self) -> Result<(), LeanError> {
        let invalid = |key, value: String, remedy| Err(LeanError::Config { key, value, remedy });
        if self.prefix.is_empty() || self.prefix.len() > 200 {
            let remedy = "use 1 to 200 characters";
            return invalid("groups.prefix", self.prefix.clone(), remedy);
        }
        if self.members == 0 {
            return invalid("groups.members", "0".to_owned(), "must be at least 1");
        }
        if self.commit_interval.is_zero() || self.heartbeat_interval.is_zero() {
            let remedy = "must not be zero";
            return invalid(
                "groups.commit_interval or heartbeat_interval",
                "0".to_owned(),
                remedy,
            );
        }
        if self.session_timeout <= self.heartbeat_interval {
            let value = format!("{} ms", self.session_timeout.as_millis());
            return invalid(
                "groups.session_timeout",
                value,
                "must be longer than heartbeat_interval",
            );
        }
        Ok(())
    }

    pub(super) fn group_of(&self, consumer: usize) -> String {
        format!("{}{}", self.prefix, consumer / self.members.max(1))
    }
}

impl LeanConfig {
    pub(super) fn check(&self) -> Result<(), LeanError> {
        let invalid = |key, value: &dyn ToString, remedy| {
            let value = value.to_string();
            Err(LeanError::Config { key, value, remedy })
        };
        if self.topic.is_empty() || self.topic.len() > 249 {
            return invalid("topic", &self.topic, "use 1 to 249 characters");
        }
        if self.client_id.len() > 1000 {
            return invalid("client_id", &self.client_id, "use at most 1000 characters");
        }
        if self.connect_rate_per_s == 0 {
            return invalid("connect_rate_per_s", &0, "must be at least 1");
        }
        if self.fetch_max_bytes <= 0 {
            let value = self.fetch_max_bytes;
            return invalid("fetch_max_bytes", &value, "must be at least 1");
        }
        if self.max_wait_ms < 0 || self.min_bytes < 0 {
            let value = self.max_wait_ms.min(self.min_bytes);
            return invalid("max_wait_ms or min_bytes", &value, "must not be negative");
        }
        self.groups.as_ref().map_or(Ok(()), LeanGroups::check)
    }
}

impl Default for LeanConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: "localhost:9092".to_owned(),
            topic: String::new(),
            consumers: 1,
            max_wait_ms: 500,
            min_bytes: 1,
            from_oldest: false,
            fetch_max_bytes: 1 << 20,
            source_addresses: Vec::new(),
            connect_rate_per_s: 1000,
            client_id: "weir-lean".to_owned(),
            groups: None,
        }
    }
}
