//! Builds librdkafka configurations: Weir's defaults, overridden by the user's properties, except
//! properties that Weir sets itself.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use thiserror::Error;

/// A property that the user cannot set, because guarantees of the client depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("property \"{key}\" = \"{value}\" cannot be set: the client sets it itself; remove it")]
pub struct PropertyError {
    key: String,
    value: String,
}

pub(crate) fn base(bootstrap_servers: &str, client_id: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap_servers)
        .set("client.id", client_id)
        .set("socket.nagle.disable", "true")
        // A restarted broker should be found within one second; the default is ten.
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.connection.setup.timeout.ms", "5000")
        .set_log_level(RDKafkaLogLevel::Info);
    config
}

/// Adds the user's properties to `config`; rejects the keys in `owned`.
pub(crate) fn apply(
    config: &mut ClientConfig,
    properties: &[(String, String)],
    owned: &[&str],
) -> Result<(), PropertyError> {
    for (key, value) in properties {
        if owned.contains(&key.as_str()) {
            return Err(PropertyError {
                key: key.clone(),
                value: value.clone(),
            });
        }
        config.set(key, value);
    }
    Ok(())
}

/// Logs a line of librdkafka. Its error level becomes a warning, because an unavailable broker does
/// not require an operator.
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
    fn user_properties_override_defaults_but_not_owned_keys() {
        let mut config = base("localhost:9092", "t");
        let own = ["enable.auto.commit"];
        let user = [("reconnect.backoff.ms".to_owned(), "7".to_owned())];
        assert_eq!(apply(&mut config, &user, &own), Ok(()));
        assert_eq!(config.get("reconnect.backoff.ms"), Some("7"));

        let rejected = [("enable.auto.commit".to_owned(), "true".to_owned())];
        let error = apply(&mut config, &rejected, &own).expect_err("owned key");
        assert_eq!(
            error.to_string(),
            "property \"enable.auto.commit\" = \"true\" cannot be set: the client sets it itself; \
             remove it"
        );
    }
}
