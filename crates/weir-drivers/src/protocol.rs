//! Messages between this program and a driver: `docs/drivers.md` as types, for both sides.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_stats::run::Distribution;

use super::error::{DriverFailure, SHOWN_MAX, truncated};

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;

/// All capabilities of drivers.
pub const CAPABILITIES: [&str; 11] = [
    "produce.cold",
    "produce.metadata",
    "produce.warm",
    "consume.group",
    "consume.assign",
    "copy.group",
    "copy.assign",
    "roundtrip.burst",
    "roundtrip.open",
    "steady.produce",
    "steady.consume",
];

/// Settings by name.
pub type ClientSettings = BTreeMap<String, Value>;

#[derive(Debug, Serialize)]
pub(super) struct RequestLine<'a, R> {
    pub(super) id: u64,
    pub(super) timeout_ms: u64,
    pub(super) op: &'static str,
    #[serde(flatten)]
    pub(super) request: &'a R,
}

/// Line that a driver receives. Its `id` is read before, for the response to an invalid line.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct ReceivedLine {
    /// The default is for manual tests of a driver.
    #[serde(default = "timeout_ms")]
    pub(super) timeout_ms: u64,
    #[serde(flatten)]
    pub(super) command: DriverCommand,
}

fn timeout_ms() -> u64 {
    60_000
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(super) enum DriverCommand {
    Hello(Hello),
    Configure(Configure),
    WarmUp(WarmUp),
    Produce(ProduceCommand),
    Consume(Consume),
    Copy(CopyTopic),
    RoundTrip(RoundTrip),
    Steady(Steady),
    Gc,
    Stats,
    Bye,
}

/// Fields of `hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
}

/// Fields of `configure`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configure {
    /// Comma-separated `host:port` list.
    pub bootstrap: String,
    /// Name for the driver's log.
    pub profile: String,
    /// File with encryption, login and other client properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_file: Option<PathBuf>,
    /// Settings that differ from the library's default.
    pub settings: ClientSettings,
}

/// Records of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Topic to write to or to read.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Seed of the value.
    pub seed: u64,
}

/// Fields of `warmup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WarmUp(pub Burst);

/// Fields of `produce`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceCommand {
    /// Records to write.
    #[serde(flatten)]
    pub burst: Burst,
    /// Required state of the producer.
    pub state: ProducerState,
    /// Also return the times spent creating and sending records.
    pub per_record: bool,
}

/// State of a producer at the start of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProducerState {
    /// Not created.
    Cold,
    /// Created; has the topic's metadata.
    Metadata,
    /// Has delivered a record to the topic.
    Warm,
}

impl ProducerState {
    /// Returns the capability that a driver needs for it.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Cold => "produce.cold",
            Self::Metadata => "produce.metadata",
            Self::Warm => "produce.warm",
        }
    }
}

/// Fields of `consume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consume {
    /// Records to read, with the expected size of their values.
    #[serde(flatten)]
    pub burst: Burst,
    /// Way to get the partition.
    pub via: AssignmentMode,
    /// Compare values.
    pub verify: bool,
    /// Commit the position at the end.
    pub commit: bool,
}

/// Way in which a consumer gets its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentMode {
    /// As the only member of a new consumer group.
    Group,
    /// By direct assignment, from offset 0.
    Assign,
}

impl AssignmentMode {
    /// Returns the capability that a driver needs to consume in this way.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Group => "consume.group",
            Self::Assign => "consume.assign",
        }
    }

    /// Returns the capability that a driver needs to copy a topic that it reads in this way.
    pub fn copy_capability(self) -> &'static str {
        match self {
            Self::Group => "copy.group",
            Self::Assign => "copy.assign",
        }
    }
}

/// Fields of `copy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyTopic {
    /// Records to read, with the expected size of their values.
    #[serde(flatten)]
    pub burst: Burst,
    /// Topic to write to.
    pub to: String,
    /// Way to get the partition that is read.
    pub via: AssignmentMode,
}

/// Fields of `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Records; the topic is empty.
    #[serde(flatten)]
    pub burst: Burst,
    /// Records per second; 0: as fast as possible.
    pub rate: f64,
}

/// Fields of `steady`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Topic to write to or read.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Seed of the value.
    pub seed: u64,
    /// Producer or consumer.
    pub role: TopicEnd,
    /// Records per second, for a producer.
    pub rate: f64,
    /// Duration in seconds.
    pub seconds: u64,
}

/// End of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopicEnd {
    /// Producer.
    Produce,
    /// Consumer.
    Consume,
}

/// Description that a driver returns of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DriverHello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the library.
    pub library: String,
    /// Version of the library.
    pub library_version: String,
    /// Layer between the library and the driver, or empty.
    #[serde(default)]
    pub binding: String,
    /// Runtime of the driver.
    pub runtime: String,
    /// Capabilities, out of [`CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// Response to `configure`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Configured {
    /// Effective settings: all requested ones, and others that the library can report.
    pub effective: ClientSettings,
    /// Requested settings that the library does not have.
    #[serde(default)]
    pub unsupported: Vec<String>,
    /// The properties of the client file are used.
    #[serde(default)]
    pub client_file: bool,
}

/// Response to `warmup`: CPU times in microseconds per record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// CPU time of producing.
    pub produce_cpu_us_per_record: f64,
    /// CPU time of consuming.
    pub consume_cpu_us_per_record: f64,
}

/// Delivery of the records that a command sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delivered {
    /// Number of acknowledged records.
    pub acked: u64,
    /// Number of failed records.
    pub failed: u64,
    /// Some of the errors.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// Response to `produce`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produced {
    /// Times in nanoseconds of the driver's clock.
    pub marks: ProduceMarks,
    /// CPU time from the first mark to the last delivery report, in microseconds.
    pub cpu_us: f64,
    /// Delivery of the records.
    #[serde(flatten)]
    pub delivered: Delivered,
    /// Time spent creating records, in microseconds.
    #[serde(default)]
    pub create_us: Option<f64>,
    /// Time spent in send calls, in microseconds.
    #[serde(default)]
    pub send_us: Option<f64>,
    /// Number of calls from the driver's runtime into a Java VM, of a library that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jni_calls: Option<u64>,
}

/// Times of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceMarks {
    /// Before the first send, or before the producer is created.
    pub t0: u64,
    /// After the last send.
    pub t1: u64,
    /// At the last delivery report.
    pub t2: u64,
}

/// Response to `consume`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Consumed {
    /// Times in nanoseconds of the driver's clock.
    pub marks: ConsumeMarks,
    /// CPU time from s0 to s3, in microseconds.
    pub cpu_us: f64,
    /// CPU time from s2 to s3, in microseconds.
    pub drain_cpu_us: f64,
    /// Number of received records, without primers.
    pub got: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Number of records with wrong contents.
    pub bad: u64,
    /// Number of calls from the driver's runtime into a Java VM, of a library that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jni_calls: Option<u64>,
}

/// Times of reading a burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumeMarks {
    /// Before subscribing or assigning.
    pub s0: u64,
    /// At the assignment.
    pub s1: u64,
    /// At the first record.
    pub s2: u64,
    /// At the last record.
    pub s3: u64,
    /// After the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s4: Option<u64>,
}

/// Response to `copy`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// Times in nanoseconds of the driver's clock.
    pub marks: CopyMarks,
    /// CPU time from s0 to the last mark, in microseconds.
    pub cpu_us: f64,
    /// CPU time from s2 to the last mark, in microseconds.
    pub copy_cpu_us: f64,
    /// Number of received records, without primers.
    pub got: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Number of received records with wrong contents.
    pub bad: u64,
    /// Delivery of the copies.
    #[serde(flatten)]
    pub delivered: Delivered,
    /// Number of calls from the driver's runtime into a Java VM, of a library that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jni_calls: Option<u64>,
}

/// Times of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyMarks {
    /// Before subscribing or assigning.
    pub s0: u64,
    /// At the assignment.
    pub s1: u64,
    /// At the first record.
    pub s2: u64,
    /// After the last send.
    pub t1: u64,
    /// At the last delivery report.
    pub t2: u64,
}

/// Response to `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTripped {
    /// Times in nanoseconds of the driver's clock.
    pub marks: RoundTripMarks,
    /// CPU time from the first to the last mark, in microseconds.
    pub cpu_us: f64,
    /// Delivery of the records.
    #[serde(flatten)]
    pub delivered: Delivered,
    /// Number of received records, without primers.
    pub got: u64,
    /// Receipt minus due time.
    pub latency: Distribution,
    /// Call of send minus due time.
    pub pacing: Distribution,
    /// Number of calls from the driver's runtime into a Java VM, of a library that counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jni_calls: Option<u64>,
}

/// Times of a roundtrip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTripMarks {
    /// At the receipt of the primer.
    pub t0: u64,
    /// After the last send.
    pub t1: u64,
    /// At the last delivery report.
    pub t2: u64,
    /// At the last received record.
    pub r1: u64,
}

/// One second of `steady`, reported when it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadySecond {
    /// Number of the second, from 0.
    pub second: u64,
    /// Number of records in this second.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// CPU time in this second, in microseconds.
    pub cpu_us: f64,
}

/// Response to `steady`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyDone {
    /// Number of records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Number of failed records.
    #[serde(default)]
    pub failed: u64,
    /// CPU time in microseconds.
    pub cpu_us: f64,
    /// Delivery report minus due time; for a producer.
    #[serde(default)]
    pub latency: Option<Distribution>,
    /// Call of send minus due time; for a producer.
    #[serde(default)]
    pub pacing: Option<Distribution>,
}

/// Response to `stats`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Resident memory in KiB.
    pub rss_kb: u64,
    /// Number of threads.
    pub threads: u64,
    /// Size of the managed heap in KiB, if there is one.
    #[serde(default)]
    pub heap_kb: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum DriverLine {
    Second(SteadySecond),
    Response(Value),
    Failed(String),
}

/// Parses a line of a driver that executes command `id`.
pub(super) fn parse_line(line: &[u8], id: u64) -> Result<DriverLine, DriverFailure> {
    let invalid = |problem: String| DriverFailure::invalid_line(&format!("{problem}: "), line);
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| invalid(format!("not JSON ({})", shown(&error))))?;
    let Some(object) = value.as_object() else {
        return Err(invalid("not a JSON object".to_owned()));
    };
    match object.get("id") {
        None => return Err(invalid("a line without an id".to_owned())),
        Some(found) if found.as_u64() != Some(id) => {
            let found = shown(found);
            return Err(invalid(format!("a response to {found}, expected {id}")));
        }
        Some(_) => {}
    }
    match (
        object.get("event"),
        object.get("ok").and_then(Value::as_bool),
    ) {
        (Some(event), _) if event == "second" => serde_json::from_value(value)
            .map(DriverLine::Second)
            .map_err(|error| invalid(format!("an invalid event ({})", shown(&error)))),
        (Some(_), _) => Err(invalid("an unknown event".to_owned())),
        (None, Some(true)) => Ok(DriverLine::Response(value)),
        (None, Some(false)) => {
            let text = object.get("error").and_then(Value::as_str);
            let text = text.unwrap_or("no reason given").chars();
            Ok(DriverLine::Failed(text.take(SHOWN_MAX).collect()))
        }
        (None, None) => Err(invalid("neither a response nor an event".to_owned())),
    }
}

pub(super) fn parse_response<T: DeserializeOwned>(response: Value) -> Result<T, DriverFailure> {
    let parsed = serde_json::from_value(response);
    parsed.map_err(|error| {
        DriverFailure::invalid_line("invalid response: ", error.to_string().as_bytes())
    })
}

/// Returns the start of a text that may quote a driver's output.
fn shown(text: &impl ToString) -> String {
    truncated(text.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Bye, DriverRequest, Gc, GetStats};
    use proptest::prelude::*;
    use serde_json::json;

    fn sent<R: DriverRequest>(request: &R) -> Value {
        let line = RequestLine {
            id: 7,
            timeout_ms: 1000,
            op: R::OP,
            request,
        };
        serde_json::to_value(line).unwrap()
    }

    fn burst() -> Burst {
        Burst {
            topic: "t".to_owned(),
            len: 10,
            count: 3,
            seed: 1,
        }
    }

    #[test]
    fn commands_match_the_documentation() {
        assert_eq!(
            sent(&Hello { protocol: 1 }),
            json!({"id": 7, "timeout_ms": 1000, "op": "hello", "protocol": 1})
        );
        let produce = ProduceCommand {
            burst: burst(),
            state: ProducerState::Warm,
            per_record: false,
        };
        assert_eq!(
            sent(&produce),
            json!({"id": 7, "timeout_ms": 1000, "op": "produce", "topic": "t", "len": 10,
                   "count": 3, "seed": 1, "state": "warm", "per_record": false})
        );
        assert_eq!(
            sent(&WarmUp(burst())),
            json!({"id": 7, "timeout_ms": 1000, "op": "warmup", "topic": "t", "len": 10,
                   "count": 3, "seed": 1})
        );
        let copy = CopyTopic {
            burst: burst(),
            to: "t2".to_owned(),
            via: AssignmentMode::Assign,
        };
        assert_eq!(
            sent(&copy),
            json!({"id": 7, "timeout_ms": 1000, "op": "copy", "topic": "t", "len": 10,
                   "count": 3, "seed": 1, "to": "t2", "via": "assign"})
        );
        for (sent, name, command) in [
            (sent(&Gc {}), "gc", DriverCommand::Gc),
            (sent(&GetStats {}), "stats", DriverCommand::Stats),
            (sent(&Bye {}), "bye", DriverCommand::Bye),
            (sent(&produce), "produce", DriverCommand::Produce(produce)),
            (sent(&copy), "copy", DriverCommand::Copy(copy)),
            (
                sent(&WarmUp(burst())),
                "warmup",
                DriverCommand::WarmUp(WarmUp(burst())),
            ),
        ] {
            assert_eq!(sent["op"], name);
            let received: ReceivedLine = serde_json::from_value(sent).unwrap();
            assert_eq!(received.command, command);
            assert_eq!(received.timeout_ms, 1000);
        }
    }

    #[test]
    fn invalid_lines_have_a_reason() {
        for (line, expected) in [
            ("hello", "not JSON"),
            ("[1]", "not a JSON object"),
            (r#"{"ok":true}"#, "a line without an id"),
            (
                r#"{"id":null,"ok":false,"error":"no JSON"}"#,
                "a response to null",
            ),
            (r#"{"id":6,"ok":true}"#, "a response to 6, expected 7"),
            (r#"{"id":-7,"ok":true}"#, "a response to -7"),
            (r#"{"id":7}"#, "neither a response nor an event"),
            (r#"{"id":7,"event":"minute"}"#, "an unknown event"),
            (
                r#"{"id":7,"event":"second"}"#,
                "an invalid event (missing field",
            ),
        ] {
            let error = parse_line(line.as_bytes(), 7).unwrap_err().to_string();
            let (_, problem) = error.split_once("and was killed: ").unwrap();
            assert!(problem.starts_with(expected), "{line}: {error}");
        }
        let failed = parse_line(br#"{"id":7,"ok":false,"error":"no such topic"}"#, 7).unwrap();
        assert_eq!(failed, DriverLine::Failed("no such topic".to_owned()));
        let long = format!("\"{}\"", "x".repeat(10_000));
        let error = parse_line(long.as_bytes(), 7).unwrap_err().to_string();
        assert!(error.chars().count() < 300, "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_lines_never_panic(
            line in proptest::collection::vec(any::<u8>(), 0..300),
            id in any::<u64>(),
        ) {
            let _ = parse_line(&line, id);
        }

        #[test]
        fn arbitrary_responses_never_panic(
            line in "\\{\"id\":7,\"(ok|event|error)\":(true|false|\"second\"|1e999|-1),?\
                      (\"[a-z_]{1,8}\":[0-9.e-]{1,9})?\\}",
        ) {
            if let Ok(DriverLine::Response(value)) = parse_line(line.as_bytes(), 7) {
                let _ = serde_json::from_value::<Produced>(value.clone());
                let _ = serde_json::from_value::<Consumed>(value.clone());
                let _ = serde_json::from_value::<Copied>(value.clone());
                let _ = serde_json::from_value::<RoundTripped>(value.clone());
                let _ = serde_json::from_value::<Configured>(value);
            }
        }

        #[test]
        fn events_survive_a_round_trip(
                second in 0..1_000_u64,
                records in any::<u32>(),
                bytes in any::<u32>(),
                cpu in 0..10_000_000_u32,
            ) {
            let sent = SteadySecond {
                second, records: records.into(), bytes: bytes.into(), cpu_us: f64::from(cpu),
            };
            let mut line = serde_json::to_value(&sent).unwrap();
            line["id"] = json!(7);
            line["event"] = json!("second");
            let read = parse_line(line.to_string().as_bytes(), 7);
            prop_assert_eq!(read.ok(), Some(DriverLine::Second(sent)));
        }
    }
}
