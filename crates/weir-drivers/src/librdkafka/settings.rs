//! Maps the protocol's settings to librdkafka properties, and reads their effective values.

use crate::{ClientFileContent, ClientSettings, Configure, Configured};
use rdkafka::config::{ClientConfig, NativeClientConfig};
use serde_json::Value;

use super::deadline::{CommandError, CommandOutcome};
use super::token::DriverToken;
use ClientScope::{Both, Consumer, Producer};
use ValueFormat::{Acks, Boolean, Kibi, Number, OrMost, Text};

#[derive(Debug, Clone)]
pub(super) struct ClientConfigs {
    pub(super) producer: ClientConfig,
    consumer: ClientConfig,
    pub(super) token: DriverToken,
}

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

/// Setting of the protocol, the clients that have it, and its librdkafka property.
struct SettingMapping(&'static str, ClientScope, &'static str, ValueFormat);

/// Creates client configurations from settings, and reads the effective values from the library.
pub(super) fn configure(command: &Configure) -> CommandOutcome<(ClientConfigs, Configured)> {
    let (base, token) = base(command)?;
    let mut clients = ClientConfigs {
        producer: base.clone(),
        consumer: base,
        token,
    };
    clients.consumer.set("auto.offset.reset", "earliest");
    let mut response = Configured {
        client_file: command.client_file.is_some(),
        ..Configured::default()
    };
    for (name, value) in &command.settings {
        let found = MAPPINGS.iter().find(|mapping| mapping.0 == name);
        let Some(SettingMapping(_, scope, property, format)) = found else {
            response.unsupported.push(name.clone());
            response.effective.insert(name.clone(), Value::Null);
            continue;
        };
        let text = format.write(value).ok_or_else(|| CommandError::Setting {
            name: name.clone(),
            value: value.clone(),
        })?;
        if *scope != Consumer {
            clients.producer.set(*property, &text);
        }
        if *scope != Producer {
            clients.consumer.set(*property, &text);
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
    for SettingMapping(name, scope, property, format) in MAPPINGS {
        let config: &NativeClientConfig = match scope {
            Consumer => &consumer,
            Producer | Both => &producer,
        };
        // Topic properties are missing unless they were set.
        let text = config.get(property).ok();
        if let Some(value) = text.and_then(|text| format.read(&text)) {
            effective.insert((*name).to_owned(), value);
        }
    }
    Ok(())
}

fn base(command: &Configure) -> CommandOutcome<(ClientConfig, DriverToken)> {
    let mut config = ClientConfig::new();
    let mut token = DriverToken::default();
    config.set("client.id", "weir-driver");
    if let Some(path) = &command.client_file {
        let content = ClientFileContent::read(path).map_err(CommandError::ClientFile)?;
        if let Some(path) = &content.token_file {
            token = DriverToken::read(path)?;
        }
        for (name, value) in content.properties {
            config.set(name, value);
        }
    }
    config.set("bootstrap.servers", &command.bootstrap);
    Ok((config, token))
}

impl ValueFormat {
    fn write(self, value: &Value) -> Option<String> {
        match self {
            Number => value.as_f64().map(|_| value.to_string()),
            Acks => value.as_i64().map(|acks| acks.to_string()),
            Kibi => value.as_u64().map(|bytes| bytes.div_ceil(KIBI).to_string()),
            OrMost(most) => match value.as_u64()? {
                0 => Some(most.to_string()),
                number => Some(number.to_string()),
            },
            Boolean => value.as_bool().map(|it| it.to_string()),
            Text => value.as_str().map(str::to_owned),
        }
    }

    fn read(self, text: &str) -> Option<Value> {
        let number = |text: &str| {
            let whole = text.parse::<i64>().ok().map(Value::from);
            let fraction = || serde_json::Number::from_f64(text.parse().ok()?).map(Value::from);
            whole.or_else(fraction)
        };
        match self {
            Acks if text == "all" => Some(Value::from(-1)),
            Number | OrMost(_) | Acks => number(text),
            Kibi => text
                .parse::<u64>()
                .ok()
                .map(|kibi| Value::from(kibi.saturating_mul(KIBI))),
            Boolean => text.parse::<bool>().ok().map(Value::from),
            Text => Some(Value::from(text)),
        }
    }
}

impl ClientConfigs {
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

macro_rules! mappings {
    ($($name:literal: $scope:ident $property:literal $format:expr;)*) => {
        &[$(SettingMapping($name, $scope, $property, $format)),*]
    };
}

const MAPPINGS: &[SettingMapping] = mappings! {
    "acks": Producer "acks" Acks;
    "linger_ms": Producer "queue.buffering.max.ms" Number;
    "batch_bytes": Producer "batch.size" Number;
    "batch_records": Producer "batch.num.messages" OrMost(1_000_000);
    "max_in_flight": Producer "max.in.flight.requests.per.connection" Number;
    "retries": Producer "message.send.max.retries" Number;
    "idempotence": Producer "enable.idempotence" Boolean;
    "compression": Producer "compression.codec" Text;
    "queue_bytes": Producer "queue.buffering.max.kbytes" Kibi;
    "queue_records": Producer "queue.buffering.max.messages" Number;
    "max_request_bytes": Both "message.max.bytes" Number;
    "send_buffer_bytes": Both "socket.send.buffer.bytes" Number;
    "receive_buffer_bytes": Both "socket.receive.buffer.bytes" Number;
    "fetch_min_bytes": Consumer "fetch.min.bytes" Number;
    "fetch_wait_ms": Consumer "fetch.wait.max.ms" Number;
    "fetch_partition_bytes": Consumer "fetch.message.max.bytes" Number;
    "check_crcs": Consumer "check.crcs" Boolean;
    "auto_commit": Consumer "enable.auto.commit" Boolean;
    "auto_commit_ms": Consumer "auto.commit.interval.ms" Number;
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(settings: Value) -> Configure {
        Configure {
            bootstrap: "127.0.0.1:1".to_owned(),
            client_file: None,
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
