//! Maps the protocol's settings to librdkafka properties, and reads their effective values.

use crate::{ClientSettings, Configure, Configured};
use rdkafka::config::{ClientConfig, NativeClientConfig};
use serde_json::{Number, Value};

use super::error::{CommandError, CommandOutcome};
use super::sender::DriverProducer;
use super::usage::DriverClock;

/// Configuration of the clients.
#[derive(Debug, Clone)]
pub(super) struct ClientConfigs {
    producer: ClientConfig,
    consumer: ClientConfig,
}

/// Clients that have a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientScope {
    Producer,
    Consumer,
    Both,
}

/// Format of a value in the protocol and in librdkafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueFormat {
    Number,
    /// Number of bytes, in librdkafka in KiB.
    Kibi,
    /// Number, of which 0 means the given maximum of librdkafka.
    OrMost(u64),
    /// Number, of which -1 is `all`.
    Acks,
    Boolean,
    Text,
}

/// Setting of the protocol and its librdkafka property.
struct SettingMapping {
    name: &'static str,
    scope: ClientScope,
    property: &'static str,
    format: ValueFormat,
}

/// Creates client configurations from settings, and reads the effective values from the library.
pub(super) fn configure(command: &Configure) -> CommandOutcome<(ClientConfigs, Configured)> {
    let mut clients = ClientConfigs {
        producer: base(&command.bootstrap),
        consumer: base(&command.bootstrap),
    };
    clients.consumer.set("auto.offset.reset", "earliest");
    let mut response = Configured::default();
    for (name, value) in &command.settings {
        let Some(mapping) = MAPPINGS.iter().find(|it| it.name == name) else {
            response.unsupported.push(name.clone());
            response.effective.insert(name.clone(), Value::Null);
            continue;
        };
        let text = mapping
            .format
            .write(value)
            .ok_or_else(|| invalid_value(name, value))?;
        if mapping.scope != ClientScope::Consumer {
            clients.producer.set(mapping.property, &text);
        }
        if mapping.scope != ClientScope::Producer {
            clients.consumer.set(mapping.property, &text);
        }
    }
    read_back(&clients, &mut response.effective)?;
    Ok((clients, response))
}

/// Adds the effective values of all settings that the library reports.
fn read_back(clients: &ClientConfigs, effective: &mut ClientSettings) -> CommandOutcome<()> {
    let failed = CommandError::kafka("settings");
    let producer = clients.producer.create_native_config().map_err(&failed)?;
    let consumer = clients.consumer.create_native_config().map_err(&failed)?;
    for mapping in &MAPPINGS {
        let config: &NativeClientConfig = match mapping.scope {
            ClientScope::Consumer => &consumer,
            ClientScope::Producer | ClientScope::Both => &producer,
        };
        // Topic properties are missing unless they were set.
        let Ok(text) = config.get(mapping.property) else {
            continue;
        };
        if let Some(value) = mapping.format.read(&text) {
            effective.insert(mapping.name.to_owned(), value);
        }
    }
    Ok(())
}

fn base(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("client.id", "weir-driver");
    config
}

fn invalid_value(name: &str, value: &Value) -> CommandError {
    CommandError::Setting {
        name: name.to_owned(),
        value: value.to_string(),
        reason: "invalid value for this setting".to_owned(),
    }
}

impl ValueFormat {
    /// Formats a value for librdkafka.
    fn write(self, value: &Value) -> Option<String> {
        match self {
            Self::Number => value.as_f64().map(|_| value.to_string()),
            Self::Acks => value.as_i64().map(|acks| acks.to_string()),
            Self::Kibi => value.as_u64().map(|bytes| bytes.div_ceil(KIBI).to_string()),
            Self::OrMost(most) => match value.as_u64()? {
                0 => Some(most.to_string()),
                number => Some(number.to_string()),
            },
            Self::Boolean => value.as_bool().map(|it| it.to_string()),
            Self::Text => value.as_str().map(str::to_owned),
        }
    }

    /// Parses a value of librdkafka.
    fn read(self, text: &str) -> Option<Value> {
        let number = |text: &str| {
            let whole = text.parse::<i64>().ok().map(Value::from);
            let fraction = || Number::from_f64(text.parse().ok()?).map(Value::from);
            whole.or_else(fraction)
        };
        match self {
            Self::Acks if text == "all" => Some(Value::from(-1)),
            Self::Number | Self::OrMost(_) | Self::Acks => number(text),
            Self::Kibi => text
                .parse::<u64>()
                .ok()
                .map(|kibi| Value::from(kibi.saturating_mul(KIBI))),
            Self::Boolean => text.parse::<bool>().ok().map(Value::from),
            Self::Text => Some(Value::from(text)),
        }
    }
}

impl ClientConfigs {
    /// Creates a producer.
    pub(super) fn sender(&self, clock: DriverClock) -> CommandOutcome<DriverProducer> {
        DriverProducer::start(&self.producer, clock)
    }

    /// Returns the configuration of a consumer; outside a group, auto-commit is disabled.
    pub(super) fn consumer(&self, group: &str, joins: bool) -> ClientConfig {
        let mut config = self.consumer.clone();
        config.set("group.id", group);
        if !joins {
            config.set("enable.auto.commit", "false");
        }
        config
    }
}

const KIBI: u64 = 1024;

const fn mapping(
    name: &'static str,
    scope: ClientScope,
    property: &'static str,
    format: ValueFormat,
) -> SettingMapping {
    SettingMapping {
        name,
        scope,
        property,
        format,
    }
}

const MAPPINGS: [SettingMapping; 19] = [
    mapping("acks", ClientScope::Producer, "acks", ValueFormat::Acks),
    mapping(
        "linger_ms",
        ClientScope::Producer,
        "queue.buffering.max.ms",
        ValueFormat::Number,
    ),
    mapping(
        "batch_bytes",
        ClientScope::Producer,
        "batch.size",
        ValueFormat::Number,
    ),
    mapping(
        "batch_records",
        ClientScope::Producer,
        "batch.num.messages",
        ValueFormat::OrMost(1_000_000),
    ),
    mapping(
        "max_in_flight",
        ClientScope::Producer,
        "max.in.flight.requests.per.connection",
        ValueFormat::Number,
    ),
    mapping(
        "retries",
        ClientScope::Producer,
        "message.send.max.retries",
        ValueFormat::Number,
    ),
    mapping(
        "idempotence",
        ClientScope::Producer,
        "enable.idempotence",
        ValueFormat::Boolean,
    ),
    mapping(
        "compression",
        ClientScope::Producer,
        "compression.codec",
        ValueFormat::Text,
    ),
    mapping(
        "queue_bytes",
        ClientScope::Producer,
        "queue.buffering.max.kbytes",
        ValueFormat::Kibi,
    ),
    mapping(
        "queue_records",
        ClientScope::Producer,
        "queue.buffering.max.messages",
        ValueFormat::Number,
    ),
    mapping(
        "max_request_bytes",
        ClientScope::Both,
        "message.max.bytes",
        ValueFormat::Number,
    ),
    mapping(
        "send_buffer_bytes",
        ClientScope::Both,
        "socket.send.buffer.bytes",
        ValueFormat::Number,
    ),
    mapping(
        "receive_buffer_bytes",
        ClientScope::Both,
        "socket.receive.buffer.bytes",
        ValueFormat::Number,
    ),
    mapping(
        "fetch_min_bytes",
        ClientScope::Consumer,
        "fetch.min.bytes",
        ValueFormat::Number,
    ),
    mapping(
        "fetch_wait_ms",
        ClientScope::Consumer,
        "fetch.wait.max.ms",
        ValueFormat::Number,
    ),
    mapping(
        "fetch_partition_bytes",
        ClientScope::Consumer,
        "fetch.message.max.bytes",
        ValueFormat::Number,
    ),
    mapping(
        "check_crcs",
        ClientScope::Consumer,
        "check.crcs",
        ValueFormat::Boolean,
    ),
    mapping(
        "auto_commit",
        ClientScope::Consumer,
        "enable.auto.commit",
        ValueFormat::Boolean,
    ),
    mapping(
        "auto_commit_ms",
        ClientScope::Consumer,
        "auto.commit.interval.ms",
        ValueFormat::Number,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(settings: Value) -> Configure {
        Configure {
            bootstrap: "127.0.0.1:1".to_owned(),
            profile: "p".to_owned(),
            settings: serde_json::from_value(settings).expect("an object"),
        }
    }

    #[test]
    fn settings_are_read_back() {
        let settings = json!({
            "acks": -1, "linger_ms": 0.5, "batch_bytes": 1000, "batch_records": 0,
            "max_in_flight": 5,
            "retries": 0, "idempotence": false, "compression": "none", "queue_bytes": 1_048_577,
            "queue_records": 0, "max_request_bytes": 1_048_576, "send_buffer_bytes": 0,
            "receive_buffer_bytes": 0, "fetch_min_bytes": 1, "fetch_wait_ms": 500,
            "fetch_partition_bytes": 1_048_576, "check_crcs": true, "auto_commit": false,
            "auto_commit_ms": 1000, "quota": 3,
        });
        let (_, response) = configure(&request(settings.clone())).expect("valid settings");
        assert_eq!(response.unsupported, ["quota"]);
        for (name, value) in settings.as_object().expect("an object") {
            let expected = match name.as_str() {
                "batch_records" => json!(1_000_000),
                "queue_bytes" => json!(1_049_600),
                "quota" => Value::Null,
                _ => value.clone(),
            };
            assert_eq!(response.effective.get(name), Some(&expected), "{name}");
        }
    }

    #[test]
    fn defaults_are_reported() {
        let (_, response) = configure(&request(json!({}))).expect("valid settings");
        assert!(response.unsupported.is_empty());
        assert_eq!(response.effective["linger_ms"], 5);
        assert_eq!(response.effective["check_crcs"], false);
    }

    #[test]
    fn invalid_values_are_rejected_by_name() {
        for (settings, expected) in [
            (json!({"acks": "many"}), "acks \"many\""),
            (json!({"check_crcs": 1}), "check_crcs 1"),
            (json!({"batch_bytes": -1}), "batch.size"),
            (json!({"compression": "middle-out"}), "middle-out"),
        ] {
            let error = configure(&request(settings))
                .expect_err(expected)
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
