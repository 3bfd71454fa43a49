//! Builds librdkafka settings: ours first, then the user's properties, except those we own.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use thiserror::Error;

/// A property that cannot be passed on to librdkafka.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PropertyError {
    /// The key is decided by this crate because its guarantees depend on it.
    #[error("property \"{key}\" = \"{value}\" cannot be set: this client decides it; remove it")]
    Owned {
        /// Property name as given.
        key: String,
        /// Value as given.
        value: String,
    },
}

/// Starts from what every client here shares.
pub(crate) fn base(bootstrap_servers: &str, client_id: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap_servers)
        .set("client.id", client_id)
        .set("socket.nagle.disable", "true")
        // A restarted broker should be found within a second, not within the default ten.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.connection.setup.timeout.ms", "5000")
        .set_log_level(RDKafkaLogLevel::Info);
    config
}

/// Adds the user's properties over `config`; refuses the keys in `owned`.
pub(crate) fn apply(
    config: &mut ClientConfig,
    properties: &[(String, String)],
    owned: &[&str],
) -> Result<(), PropertyError> {
    for (key, value) in properties {
        if owned.contains(&key.as_str()) {
            return Err(PropertyError::Owned {
                key: key.clone(),
                value: value.clone(),
            });
        }
        config.set(key, value);
    }
    Ok(())
}

/// Hands one librdkafka log line to `tracing`. A lost broker is "degraded", not "operator must
/// act", so librdkafka's error level becomes a warning.
pub(crate) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            tracing::warn!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::debug!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Debug => tracing::trace!(target: "librdkafka", facility, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_properties_win_over_defaults_but_not_over_owned_keys() {
        let mut config = base("localhost:9092", "t");
        let own = ["enable.auto.commit"];
        let user = [("reconnect.backoff.ms".to_owned(), "7".to_owned())];
        assert_eq!(apply(&mut config, &user, &own), Ok(()));
        assert_eq!(config.get("reconnect.backoff.ms"), Some("7"));

        let refused = [("enable.auto.commit".to_owned(), "true".to_owned())];
        let error = apply(&mut config, &refused, &own).expect_err("owned key");
        assert_eq!(
            error.to_string(),
            "property \"enable.auto.commit\" = \"true\" cannot be set: this client decides it; \
             remove it"
        );
    }
}
