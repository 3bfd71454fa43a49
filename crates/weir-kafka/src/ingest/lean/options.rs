//! Options of the lean reader, from properties under librdkafka's names.

use std::time::Duration;

use super::super::config::IngestConfig;
use super::super::error::SourceError;

/// Options of fetching, with the defaults of the other reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeanOptions {
    pub(super) client_id: String,
    /// Rack of this client; brokers may let it read from a follower in the same rack.
    pub(super) rack: String,
    /// Only committed records are read.
    pub(super) committed_only: bool,
    /// Maximum time that a broker waits for `fetch_bytes_min`.
    pub(super) fetch_wait: Duration,
    pub(super) fetch_bytes_min: i32,
    /// Maximum bytes of a response. A larger first batch is returned whole.
    pub(super) fetch_bytes_max: i32,
    /// Maximum bytes of one partition in a response.
    pub(super) partition_bytes_max: i32,
    /// Maximum bytes of a response with its headers; a larger one ends the connection.
    pub(super) response_bytes_max: usize,
    /// Maximum bytes of responses that wait for the caller; then no more is fetched.
    pub(super) queue_bytes_max: usize,
    /// Compare the checksum of each batch.
    pub(super) checks_crc: bool,
    /// First and longest pause before a new connection.
    pub(super) reconnect_backoff: (Duration, Duration),
    /// Pause after an error of a partition.
    pub(super) error_backoff: Duration,
    pub(super) connect_timeout: Duration,
    /// Maximum time until a response, in addition to the time that the broker may wait.
    pub(super) request_timeout: Duration,
}

impl Default for LeanOptions {
    fn default() -> Self {
        Self {
            client_id: String::new(),
            rack: String::new(),
            committed_only: false,
            fetch_wait: Duration::from_millis(100),
            fetch_bytes_min: 1,
            fetch_bytes_max: 1 << 20,
            partition_bytes_max: 1 << 20,
            response_bytes_max: 100 << 20,
            queue_bytes_max: 32 << 20,
            checks_crc: false,
            reconnect_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            error_backoff: Duration::from_millis(100),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(15),
        }
    }
}

impl LeanOptions {
    /// Reads the client properties of `config`; the last value of a property counts.
    ///
    /// # Errors
    /// A property that only librdkafka has, or an invalid value.
    pub(super) fn read(config: &IngestConfig) -> Result<Self, SourceError> {
        let mut options = Self {
            client_id: config.client_id.clone(),
            ..Self::default()
        };
        for (name, value) in &config.kafka.properties {
            options.set(name, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SourceError> {
        let millis = |range| number(name, value, range).map(Duration::from_millis);
        let bytes = |least| number(name, value, (least, BYTES_MAX));
        match name {
            "client.id" => self.client_id = short_text(name, value)?,
            "client.rack" => self.rack = short_text(name, value)?,
            "isolation.level" => {
                self.committed_only = one_of(name, value, ["read_uncommitted", "read_committed"])?;
            }
            "check.crcs" => self.checks_crc = one_of(name, value, ["false", "true"])?,
            "fetch.wait.max.ms" => self.fetch_wait = millis((0, 300_000))?,
            "fetch.error.backoff.ms" => self.error_backoff = millis((0, 300_000))?,
            "fetch.min.bytes" => self.fetch_bytes_min = bytes(0)? as i32,
            "fetch.max.bytes" => self.fetch_bytes_max = bytes(1)? as i32,
            "max.partition.fetch.bytes" | "fetch.message.max.bytes" => {
                self.partition_bytes_max = bytes(1)? as i32;
            }
            "receive.message.max.bytes" => self.response_bytes_max = bytes(1000)? as usize,
            "queued.max.messages.kbytes" => {
                self.queue_bytes_max = number(name, value, (1, BYTES_MAX / 1024))? as usize * 1024;
            }
            "reconnect.backoff.ms" => self.reconnect_backoff.0 = millis((0, 3_600_000))?,
            "reconnect.backoff.max.ms" => self.reconnect_backoff.1 = millis((0, 3_600_000))?,
            "socket.timeout.ms" => self.request_timeout = millis((10, 300_000))?,
            "socket.connection.setup.timeout.ms" => {
                self.connect_timeout = millis((1, 300_000))?;
            }
            _ => {
                let (name, value) = (name.to_owned(), value.to_owned());
                return Err(SourceError::NotLean { name, value });
            }
        }
        Ok(())
    }
}

fn invalid(name: &str, value: &str, expected: String) -> SourceError {
    SourceError::Value {
        name: name.to_owned(),
        value: value.to_owned(),
        expected,
    }
}

fn number(name: &str, value: &str, (least, most): (u64, u64)) -> Result<u64, SourceError> {
    let number = value.trim().parse().ok();
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        invalid(
            name,
            value,
            format!("a whole number from {least} to {most}"),
        )
    })
}

fn short_text(name: &str, value: &str) -> Result<String, SourceError> {
    match value.len() <= TEXT_BYTES_MAX {
        true => Ok(value.to_owned()),
        false => Err(invalid(
            name,
            value,
            format!("at most {TEXT_BYTES_MAX} bytes"),
        )),
    }
}

/// Returns `true` for the second value.
fn one_of(name: &str, value: &str, [off, on]: [&str; 2]) -> Result<bool, SourceError> {
    match value.trim().to_ascii_lowercase() {
        given if given == off => Ok(false),
        given if given == on => Ok(true),
        _ => Err(invalid(name, value, format!("{off} or {on}"))),
    }
}

const BYTES_MAX: u64 = 1 << 30;
const TEXT_BYTES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::KafkaSettings;

    fn read(name: &str, value: &str) -> Result<LeanOptions, SourceError> {
        let kafka = KafkaSettings::plaintext("a:1").with_property(name, value);
        LeanOptions::read(&IngestConfig {
            kafka,
            ..IngestConfig::default()
        })
    }

    #[test]
    fn properties_replace_defaults() {
        assert_eq!(
            read("client.rack", "r").map(|it| it.rack),
            Ok("r".to_owned())
        );
        let committed = read("isolation.level", "READ_COMMITTED");
        assert_eq!(committed.map(|it| it.committed_only), Ok(true));
        let queue = read("queued.max.messages.kbytes", "7");
        assert_eq!(queue.map(|it| it.queue_bytes_max), Ok(7 << 10));
        let wait = read("fetch.wait.max.ms", "9");
        assert_eq!(wait.map(|it| it.fetch_wait), Ok(Duration::from_millis(9)));
    }

    #[test]
    fn other_properties_and_invalid_values_are_rejected() {
        for (name, value, expected) in [
            (
                "queued.min.messages",
                "1",
                "property \"queued.min.messages\" = \"1\": the lean reader does not have it; \
                 remove it, or read with librdkafka",
            ),
            (
                "fetch.min.bytes",
                "many",
                "property \"fetch.min.bytes\" = \"many\": use a whole number from 0 to 1073741824",
            ),
            (
                "isolation.level",
                "none",
                "property \"isolation.level\" = \"none\": use read_uncommitted or read_committed",
            ),
        ] {
            let error = read(name, value).expect_err(name);
            assert_eq!(error.to_string(), expected);
        }
    }
}
