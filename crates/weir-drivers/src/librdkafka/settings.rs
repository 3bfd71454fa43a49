//! Settings of the protocol as librdkafka's properties, and what they have become.

use crate::{ClientSettings, Configure, Configured};
use rdkafka::config::{ClientConfig, NativeClientConfig};
use serde_json::{Number, Value};

use super::CommandOutcome;
use super::error::CommandError;
use super::sender::DriverProducer;
use super::usage::DriverClock;

/// What clients are made with.
#[derive(Debug, Clone)]
pub(super) struct ClientConfigs {
    producer: ClientConfig,
    consumer: ClientConfig,
}

/// Which clients have a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientScope {
    Producer,
    Consumer,
    Both,
}

/// How values are written here and there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueFormat {
    Number,
    /// A number of bytes, to the library in KiB.
    Kibi,
    /// A number, where 0 stands for the largest that the library has.
    OrMost(u64),
    /// `all` is -1.
    Acks,
    Truth,
    Text,
}

/// A setting of the protocol, and the property it is.
struct SettingMapping {
    name: &'static str,
    side: ClientScope,
    property: &'static str,
    form: ValueFormat,
}

/// Turns settings into clients-to-be; what they are then is read back from the library.
pub(super) fn configure(asked: &Configure) -> CommandOutcome<(ClientConfigs, Configured)> {
    let mut clients = ClientConfigs {
        producer: base(&asked.bootstrap),
        consumer: base(&asked.bootstrap),
    };
    clients.consumer.set("auto.offset.reset", "earliest");
    let mut answer = Configured::default();
    for (name, value) in &asked.settings {
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            answer.unsupported.push(name.clone());
            answer.effective.insert(name.clone(), Value::Null);
            continue;
        };
        let text = row.form.write(value).ok_or_else(|| wrong(name, value))?;
        if row.side != ClientScope::Consumer {
            clients.producer.set(row.property, &text);
        }
        if row.side != ClientScope::Producer {
            clients.consumer.set(row.property, &text);
        }
    }
    read_back(&clients, &mut answer.effective)?;
    Ok((clients, answer))
}

/// Adds what all settings are that the library can tell.
fn read_back(clients: &ClientConfigs, effective: &mut ClientSettings) -> CommandOutcome<()> {
    let refused = CommandError::kafka("settings");
    let producer = clients.producer.create_native_config().map_err(&refused)?;
    let consumer = clients.consumer.create_native_config().map_err(&refused)?;
    for row in &ROWS {
        let side: &NativeClientConfig = match row.side {
            ClientScope::Consumer => &consumer,
            ClientScope::Producer | ClientScope::Both => &producer,
        };
        // A property of topics is not there before it is set.
        let Ok(text) = side.get(row.property) else {
            continue;
        };
        if let Some(value) = row.form.read(&text) {
            effective.insert(row.name.to_owned(), value);
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

fn wrong(name: &str, value: &Value) -> CommandError {
    CommandError::Setting {
        name: name.to_owned(),
        value: value.to_string(),
        reason: "not a value that this setting can have".to_owned(),
    }
}

impl ValueFormat {
    /// As the library wants it.
    fn write(self, value: &Value) -> Option<String> {
        match self {
            Self::Number => value.as_f64().map(|_| value.to_string()),
            Self::Acks => value.as_i64().map(|acks| acks.to_string()),
            Self::Kibi => value.as_u64().map(|bytes| bytes.div_ceil(KIBI).to_string()),
            Self::OrMost(most) => match value.as_u64()? {
                0 => Some(most.to_string()),
                number => Some(number.to_string()),
            },
            Self::Truth => value.as_bool().map(|truth| truth.to_string()),
            Self::Text => value.as_str().map(str::to_owned),
        }
    }

    /// As the protocol wants it.
    fn read(self, text: &str) -> Option<Value> {
        let number = |text: &str| {
            let whole = text.parse::<i64>().ok().map(Value::from);
            let broken = || Number::from_f64(text.parse().ok()?).map(Value::from);
            whole.or_else(broken)
        };
        match self {
            Self::Acks if text == "all" => Some(Value::from(-1)),
            Self::Number | Self::OrMost(_) | Self::Acks => number(text),
            Self::Kibi => text
                .parse::<u64>()
                .ok()
                .map(|kibi| Value::from(kibi.saturating_mul(KIBI))),
            Self::Truth => text.parse::<bool>().ok().map(Value::from),
            Self::Text => Some(Value::from(text)),
        }
    }
}

impl ClientConfigs {
    /// A new producer.
    pub(super) fn sender(&self, clock: DriverClock) -> CommandOutcome<DriverProducer> {
        DriverProducer::start(&self.producer, clock)
    }

    /// What a consumer is made with; one that joins no group does not commit by itself.
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

const fn row(
    name: &'static str,
    side: ClientScope,
    property: &'static str,
    form: ValueFormat,
) -> SettingMapping {
    SettingMapping {
        name,
        side,
        property,
        form,
    }
}

const ROWS: [SettingMapping; 19] = [
    row("acks", ClientScope::Producer, "acks", ValueFormat::Acks),
    row(
        "linger_ms",
        ClientScope::Producer,
        "queue.buffering.max.ms",
        ValueFormat::Number,
    ),
    row(
        "batch_bytes",
        ClientScope::Producer,
        "batch.size",
        ValueFormat::Number,
    ),
    row(
        "batch_records",
        ClientScope::Producer,
        "batch.num.messages",
        ValueFormat::OrMost(1_000_000),
    ),
    row(
        "max_in_flight",
        ClientScope::Producer,
        "max.in.flight.requests.per.connection",
        ValueFormat::Number,
    ),
    row(
        "retries",
        ClientScope::Producer,
        "message.send.max.retries",
        ValueFormat::Number,
    ),
    row(
        "idempotence",
        ClientScope::Producer,
        "enable.idempotence",
        ValueFormat::Truth,
    ),
    row(
        "compression",
        ClientScope::Producer,
        "compression.codec",
        ValueFormat::Text,
    ),
    row(
        "queue_bytes",
        ClientScope::Producer,
        "queue.buffering.max.kbytes",
        ValueFormat::Kibi,
    ),
    row(
        "queue_records",
        ClientScope::Producer,
        "queue.buffering.max.messages",
        ValueFormat::Number,
    ),
    row(
        "max_request_bytes",
        ClientScope::Both,
        "message.max.bytes",
        ValueFormat::Number,
    ),
    row(
        "send_buffer_bytes",
        ClientScope::Both,
        "socket.send.buffer.bytes",
        ValueFormat::Number,
    ),
    row(
        "receive_buffer_bytes",
        ClientScope::Both,
        "socket.receive.buffer.bytes",
        ValueFormat::Number,
    ),
    row(
        "fetch_min_bytes",
        ClientScope::Consumer,
        "fetch.min.bytes",
        ValueFormat::Number,
    ),
    row(
        "fetch_wait_ms",
        ClientScope::Consumer,
        "fetch.wait.max.ms",
        ValueFormat::Number,
    ),
    row(
        "fetch_partition_bytes",
        ClientScope::Consumer,
        "fetch.message.max.bytes",
        ValueFormat::Number,
    ),
    row(
        "check_crcs",
        ClientScope::Consumer,
        "check.crcs",
        ValueFormat::Truth,
    ),
    row(
        "auto_commit",
        ClientScope::Consumer,
        "enable.auto.commit",
        ValueFormat::Truth,
    ),
    row(
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

    fn asked(settings: Value) -> Configure {
        Configure {
            bootstrap: "127.0.0.1:1".to_owned(),
            profile: "p".to_owned(),
            settings: serde_json::from_value(settings).expect("an object"),
        }
    }

    #[test]
    fn settings_are_read_back() {
        let settings = json!({
            "acks": -1, "linger_ms": 0.5, "batch_bytes": 1000, "batch_records": 0, "max_in_flight": 5,
            "retries": 0, "idempotence": false, "compression": "none", "queue_bytes": 1_048_577,
            "queue_records": 0, "max_request_bytes": 1_048_576, "send_buffer_bytes": 0,
            "receive_buffer_bytes": 0, "fetch_min_bytes": 1, "fetch_wait_ms": 500,
            "fetch_partition_bytes": 1_048_576, "check_crcs": true, "auto_commit": false,
            "auto_commit_ms": 1000, "quota": 3,
        });
        let (_, answer) = configure(&asked(settings.clone())).expect("all are legal");
        assert_eq!(answer.unsupported, ["quota"]);
        for (name, value) in settings.as_object().expect("an object") {
            let expected = match name.as_str() {
                "batch_records" => json!(1_000_000),
                "queue_bytes" => json!(1_049_600),
                "quota" => Value::Null,
                _ => value.clone(),
            };
            assert_eq!(answer.effective.get(name), Some(&expected), "{name}");
        }
    }

    #[test]
    fn defaults_are_told_too() {
        let (_, answer) = configure(&asked(json!({}))).expect("nothing can be wrong");
        assert!(answer.unsupported.is_empty());
        assert_eq!(answer.effective["linger_ms"], 5);
        assert_eq!(answer.effective["check_crcs"], false);
    }

    #[test]
    fn what_the_library_does_not_take_is_refused_by_name() {
        for (settings, expected) in [
            (json!({"acks": "many"}), "acks \"many\""),
            (json!({"check_crcs": 1}), "check_crcs 1"),
            (json!({"batch_bytes": -1}), "batch.size"),
            (json!({"compression": "middle-out"}), "middle-out"),
        ] {
            let error = configure(&asked(settings)).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
