//! Configuration of a run.

use std::net::IpAddr;
use std::time::Duration;

use weir_security::KafkaSettings;

use super::error::LeanError;

/// Configuration of [`run`](super::run).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeanConfig {
    /// Cluster to read from.
    pub kafka: KafkaSettings,
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
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            members: 1,
            commit_interval: Duration::from_secs(1),
            heartbeat_interval: Duration::from_secs(3),
            session_timeout: Duration::from_secs(45),
        }
    }

    pub(super) fn group_of(&self, consumer: usize) -> String {
        format!("{}{}", self.prefix, consumer / self.members.max(1))
    }
}

impl LeanConfig {
    /// Returns `true` if only records of committed transactions, and of none, are read: with the
    /// property `isolation.level=read_committed`.
    pub(super) fn committed_only(&self) -> Result<bool, LeanError> {
        let key = "isolation.level";
        match self.kafka.property(key) {
            None | Some("read_uncommitted") => Ok(false),
            Some("read_committed") => Ok(true),
            Some(other) => Err(LeanError::Config {
                key,
                value: other.to_owned(),
                remedy: "use read_uncommitted or read_committed",
            }),
        }
    }

    /// Returns an error for the first invalid value.
    pub(super) fn check(&self) -> Result<(), LeanError> {
        let topic_fits = (1..=249).contains(&self.topic.len());
        require(topic_fits, "topic", &self.topic, "use 1 to 249 characters")?;
        let (id, fits) = (&self.client_id, self.client_id.len() <= 1000);
        require(fits, "client_id", id, "use at most 1000 characters")?;
        let (rate, positive) = (self.connect_rate_per_s, "must be at least 1");
        require(rate > 0, "connect_rate_per_s", &rate, positive)?;
        let bytes = self.fetch_max_bytes;
        require(bytes > 0, "fetch_max_bytes", &bytes, positive)?;
        let least = self.max_wait_ms.min(self.min_bytes);
        require(
            least >= 0,
            "max_wait_ms or min_bytes",
            &least,
            "must not be negative",
        )?;
        let Some(groups) = &self.groups else {
            return Ok(());
        };
        let prefix_fits = (1..=200).contains(&groups.prefix.len());
        require(
            prefix_fits,
            "groups.prefix",
            &groups.prefix,
            "use 1 to 200 characters",
        )?;
        require(groups.members > 0, "groups.members", &0, positive)?;
        let key = "groups.commit_interval or heartbeat_interval";
        let (timeout, heartbeat) = (groups.session_timeout, groups.heartbeat_interval);
        let shortest = groups.commit_interval.min(heartbeat);
        require(!shortest.is_zero(), key, &0, "must not be zero")?;
        let timeout_ms = format!("{} ms", timeout.as_millis());
        let remedy = "must be longer than heartbeat_interval";
        require(
            timeout > heartbeat,
            "groups.session_timeout",
            &timeout_ms,
            remedy,
        )
    }
}

fn require(
    valid: bool,
    key: &'static str,
    value: &dyn ToString,
    remedy: &'static str,
) -> Result<(), LeanError> {
    let value = value.to_string();
    match valid {
        true => Ok(()),
        false => Err(LeanError::Config { key, value, remedy }),
    }
}

impl Default for LeanConfig {
    fn default() -> Self {
        Self {
            kafka: KafkaSettings::plaintext("localhost:9092"),
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
