//! Messages between this program and a driver: `docs/drivers.md` as types, for both sides.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;

/// All capabilities of drivers.
pub const CAPABILITIES: [&str; 9] = [
    "produce.cold",
    "produce.metadata",
    "produce.warm",
    "consume.group",
    "consume.assign",
    "roundtrip.burst",
    "roundtrip.open",
    "steady.produce",
    "steady.consume",
];

/// Settings by name.
pub type ClientSettings = BTreeMap<String, Value>;

/// Line to a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverRequestLine {
    /// Number that pairs command and response.
    pub id: u64,
    /// Time without a response after which the driver is killed, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Command.
    #[serde(flatten)]
    pub command: DriverCommand,
}

/// Returns the default timeout, for manual tests of a driver.
fn timeout_ms() -> u64 {
    60_000
}

/// Command to a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum DriverCommand {
    /// Describe the driver.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Set the settings of clients created from now on.
    Configure(Configure),
    /// Produce and consume; return only the CPU time.
    WarmUp(WarmUp),
    /// Produce a burst.
    Produce(ProduceCommand),
    /// Consume a burst.
    Consume(Consume),
    /// Produce and consume at the same time; return latencies.
    RoundTrip(RoundTrip),
    /// Produce or consume for some time.
    Steady(Steady),
    /// Collect garbage.
    Gc,
    /// Return memory and threads.
    Stats,
    /// Close the clients and exit.
    Bye,
}

impl DriverCommand {
    /// Returns the name in the protocol.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Configure(_) => "configure",
            Self::WarmUp(_) => "warmup",
            Self::Produce(_) => "produce",
            Self::Consume(_) => "consume",
            Self::RoundTrip(_) => "roundtrip",
            Self::Steady(_) => "steady",
            Self::Gc => "gc",
            Self::Stats => "stats",
            Self::Bye => "bye",
        }
    }
}

/// Fields of `configure`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configure {
    /// Comma-separated `host:port` list.
    pub bootstrap: String,
    /// Name for the driver's log.
    pub profile: String,
    /// Settings that differ from the library's default.
    pub settings: ClientSettings,
}

/// Fields of `warmup`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Topic to write to and read from.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Seed of the value.
    pub seed: u64,
}

/// Fields of `produce`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProduceCommand {
    /// Topic to write to.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Seed of the value.
    pub seed: u64,
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

/// Fields of `consume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// Topic to read.
    pub topic: String,
    /// Expected bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Seed of the value.
    pub seed: u64,
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

/// Fields of `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Empty topic.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Records per second; 0: as fast as possible.
    pub rate: f64,
    /// Seed of the value.
    pub seed: u64,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

/// Response to `warmup`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// CPU time of producing, in microseconds per record.
    pub produce_cpu_us_per_record: f64,
    /// CPU time of consuming, in microseconds per record.
    pub consume_cpu_us_per_record: f64,
}

/// Response to `produce`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produced {
    /// Times in nanoseconds of the driver's clock.
    pub marks: ProduceMarks,
    /// CPU time from the first mark to the last delivery report, in microseconds.
    pub cpu_us: f64,
    /// Number of acknowledged records.
    pub acked: u64,
    /// Number of failed records.
    pub failed: u64,
    /// Some of the errors.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Time spent creating records, in microseconds.
    #[serde(default)]
    pub create_us: Option<f64>,
    /// Time spent in send calls, in microseconds.
    #[serde(default)]
    pub send_us: Option<f64>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

/// Times of reading a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Response to `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTripped {
    /// Times in nanoseconds of the driver's clock.
    pub marks: RoundTripMarks,
    /// CPU time from the first to the last mark, in microseconds.
    pub cpu_us: f64,
    /// Number of acknowledged records.
    pub acked: u64,
    /// Number of failed records.
    pub failed: u64,
    /// Some of the errors.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Number of received records, without primers.
    pub got: u64,
    /// Receipt minus due time.
    pub latency: ReportedDistribution,
    /// Call of send minus due time.
    pub pacing: ReportedDistribution,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub latency: Option<ReportedDistribution>,
    /// Call of send minus due time; for a producer.
    #[serde(default)]
    pub pacing: Option<ReportedDistribution>,
}

/// Response to `stats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Resident memory in KiB.
    pub rss_kb: u64,
    /// Number of threads.
    pub threads: u64,
    /// Size of the managed heap in KiB, if there is one.
    #[serde(default)]
    pub heap_kb: Option<u64>,
}

/// Response without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyResponse {}

/// Distribution of durations in whole microseconds; from 1,000 on with three significant digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedDistribution {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum_us: u64,
    /// Minimum, 0 without values.
    pub min_us: u64,
    /// Maximum, 0 without values.
    pub max_us: u64,
    /// Pairs of value and count, ascending.
    pub pairs: Vec<(u64, u64)>,
}

/// Parsed line of a driver.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DriverLine {
    /// A second of `steady`.
    Second(SteadySecond),
    /// Response with its fields, or with an error.
    Response(Result<Value, String>),
}

/// Parses a line of a driver that executes command `id`. The error describes an invalid line.
pub(super) fn parse_line(line: &[u8], id: u64) -> Result<DriverLine, String> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("not JSON ({}): {}", shown(&error), cut(line)))?;
    let Some(object) = value.as_object() else {
        return Err(format!("not a JSON object: {}", cut(line)));
    };
    match object.get("id") {
        Some(found) if found.as_u64() == Some(id) => {}
        Some(found) => {
            return Err(format!(
                "a response to {}, expected {id}: {}",
                shown(found),
                cut(line)
            ));
        }
        None => return Err(format!("a line without an id: {}", cut(line))),
    }
    if let Some(event) = object.get("event") {
        if event.as_str() != Some("second") {
            return Err(format!("an unknown event: {}", cut(line)));
        }
        return serde_json::from_value(value)
            .map(DriverLine::Second)
            .map_err(|error| format!("an invalid event ({}): {}", shown(&error), cut(line)));
    }
    match object.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok(DriverLine::Response(Ok(value))),
        Some(false) => {
            let text = object.get("error").and_then(Value::as_str);
            let text: String = text
                .unwrap_or("no reason given")
                .chars()
                .take(SHOWN_MAX)
                .collect();
            Ok(DriverLine::Response(Err(text)))
        }
        None => Err(format!("neither a response nor an event: {}", cut(line))),
    }
}

/// Parses the fields of a response. The error describes invalid fields.
pub(super) fn parse_response<T: DeserializeOwned>(response: Value) -> Result<T, String> {
    serde_json::from_value(response).map_err(|error| format!("invalid response: {}", shown(&error)))
}

/// Returns the start of a text that may quote a driver's output.
fn shown(text: &impl ToString) -> String {
    cut(text.to_string().as_bytes())
}

/// Returns the start of a line, for messages.
pub(super) fn cut(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_MAX)]);
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < line.len() && text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Maximum number of characters quoted from a driver's output.
const SHOWN_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn commands_match_the_documentation() {
        let request = |command| DriverRequestLine {
            id: 7,
            timeout_ms: 1000,
            command,
        };
        let hello = serde_json::to_value(request(DriverCommand::Hello { protocol: 1 })).unwrap();
        assert_eq!(
            hello,
            json!({"id": 7, "timeout_ms": 1000, "op": "hello", "protocol": 1})
        );
        let produce = DriverCommand::Produce(ProduceCommand {
            topic: "t".to_owned(),
            len: 10,
            count: 3,
            seed: 1,
            state: ProducerState::Warm,
            per_record: false,
        });
        let produce = serde_json::to_value(request(produce)).unwrap();
        assert_eq!(
            produce,
            json!({"id": 7, "timeout_ms": 1000, "op": "produce", "topic": "t", "len": 10,
                   "count": 3, "seed": 1, "state": "warm", "per_record": false})
        );
        for (command, name) in [
            (DriverCommand::Gc, "gc"),
            (DriverCommand::Stats, "stats"),
            (DriverCommand::Bye, "bye"),
        ] {
            let sent = serde_json::to_value(request(command.clone())).unwrap();
            assert_eq!(sent["op"], name);
            assert_eq!(command.name(), name);
            let back: DriverRequestLine = serde_json::from_value(sent).unwrap();
            assert_eq!(back, request(command));
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
            let error = parse_line(line.as_bytes(), 7).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        let failed = parse_line(br#"{"id":7,"ok":false,"error":"no such topic"}"#, 7).unwrap();
        assert_eq!(
            failed,
            DriverLine::Response(Err("no such topic".to_owned()))
        );
        let long = format!("\"{}\"", "x".repeat(10_000));
        let error = parse_line(long.as_bytes(), 7).unwrap_err();
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
            if let Ok(DriverLine::Response(Ok(value))) = parse_line(line.as_bytes(), 7) {
                let _ = serde_json::from_value::<Produced>(value.clone());
                let _ = serde_json::from_value::<Consumed>(value.clone());
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
            prop_assert_eq!(read, Ok(DriverLine::Second(sent)));
        }
    }
}
