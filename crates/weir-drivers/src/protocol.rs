//! What is said between this program and a driver: `docs/drivers.md` as types, both directions.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;

/// Everything that a driver may be able to do.
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

/// Names of settings with their values.
pub type ClientSettings = BTreeMap<String, Value>;

/// One line to a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverRequestLine {
    /// Comes back with the answer.
    pub id: u64,
    /// When the driver is killed unless it has answered.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// What is to be done.
    #[serde(flatten)]
    pub command: DriverCommand,
}

/// For those who try a driver by hand.
fn timeout_ms() -> u64 {
    60_000
}

/// What a driver is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum DriverCommand {
    /// Say what it is.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
    },
    /// Clients made from now on have these settings.
    Configure(Configure),
    /// Produce and consume, and tell only the cost.
    WarmUp(WarmUp),
    /// Produce a burst.
    Produce(ProduceCommand),
    /// Consume a burst.
    Consume(Consume),
    /// Produce and consume at once, and tell latencies.
    RoundTrip(RoundTrip),
    /// Produce or consume for a time.
    Steady(Steady),
    /// Collect garbage.
    Gc,
    /// Tell memory and threads.
    Stats,
    /// Close the clients and end.
    Bye,
}

impl DriverCommand {
    /// Its name in the protocol.
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
    /// A name, for the driver's log.
    pub profile: String,
    /// Those that are not to stay at the library's default.
    pub settings: ClientSettings,
}

/// Fields of `warmup`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Where to.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Of the value.
    pub seed: u64,
}

/// Fields of `produce`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProduceCommand {
    /// Where to.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Of the value.
    pub seed: u64,
    /// What the producer has done before.
    pub state: ProducerState,
    /// Whether the time spent making and sending each record is told.
    pub per_record: bool,
}

/// What a producer has done when the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProducerState {
    /// Nothing: it is not made.
    Cold,
    /// It knows the topic.
    Metadata,
    /// It has delivered a record to the topic.
    Warm,
}

/// Fields of `consume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// Where from.
    pub topic: String,
    /// Bytes that each value should have.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Of the value.
    pub seed: u64,
    /// How it gets its partition.
    pub via: AssignmentMode,
    /// Whether values are compared.
    pub verify: bool,
    /// Whether the position is stored afterwards.
    pub commit: bool,
}

/// How a consumer gets its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentMode {
    /// As the only member of a new group.
    Group,
    /// By itself, from offset 0.
    Assign,
}

/// Fields of `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// An empty one.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Number of records.
    pub count: u64,
    /// Records per second; 0: as fast as they can be sent.
    pub rate: f64,
    /// Of the value.
    pub seed: u64,
}

/// Fields of `steady`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Where to or from.
    pub topic: String,
    /// Bytes of each value.
    pub len: u64,
    /// Of the value.
    pub seed: u64,
    /// Which end.
    pub role: TopicEnd,
    /// Records per second, of a producer.
    pub rate: f64,
    /// How long.
    pub seconds: u64,
}

/// An end of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopicEnd {
    /// Writes.
    Produce,
    /// Reads.
    Consume,
}

/// What a driver says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverHello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Name of the library.
    pub library: String,
    /// Its version.
    pub library_version: String,
    /// What stands between the library and the driver, or nothing.
    #[serde(default)]
    pub binding: String,
    /// What runs it.
    pub runtime: String,
    /// Out of [`CAPABILITIES`].
    pub capabilities: Vec<String>,
}

/// Answer to `configure`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Configured {
    /// What settings are now: all that were asked for, and others that the library can tell.
    pub effective: ClientSettings,
    /// Those asked for that the library does not have.
    #[serde(default)]
    pub unsupported: Vec<String>,
}

/// Answer to `warmup`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// Microseconds of processor time.
    pub produce_cpu_us_per_record: f64,
    /// Microseconds of processor time.
    pub consume_cpu_us_per_record: f64,
}

/// Answer to `produce`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produced {
    /// Nanoseconds of the driver's clock.
    pub marks: ProduceMarks,
    /// Microseconds of processor time, first mark to last delivery report.
    pub cpu_us: f64,
    /// Records that the broker has.
    pub acked: u64,
    /// Records that were given up.
    pub failed: u64,
    /// Why, some of them.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Microseconds spent making messages.
    #[serde(default)]
    pub create_us: Option<f64>,
    /// Microseconds spent in send calls.
    #[serde(default)]
    pub send_us: Option<f64>,
}

/// Instants of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceMarks {
    /// Before the first send, or before the producer was made.
    pub t0: u64,
    /// After the last send.
    pub t1: u64,
    /// Last delivery report.
    pub t2: u64,
}

/// Answer to `consume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consumed {
    /// Nanoseconds of the driver's clock.
    pub marks: ConsumeMarks,
    /// Microseconds of processor time, s0 to s3.
    pub cpu_us: f64,
    /// Microseconds of processor time, s2 to s3.
    pub drain_cpu_us: f64,
    /// Records handed over, primers left out.
    pub got: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Those that were not as they should be.
    pub bad: u64,
}

/// Instants of reading a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumeMarks {
    /// Before it subscribed.
    pub s0: u64,
    /// When it had its partition.
    pub s1: u64,
    /// First record.
    pub s2: u64,
    /// Last record.
    pub s3: u64,
    /// After the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s4: Option<u64>,
}

/// Answer to `roundtrip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTripped {
    /// Nanoseconds of the driver's clock.
    pub marks: RoundTripMarks,
    /// Microseconds of processor time, first to last mark.
    pub cpu_us: f64,
    /// Records that the broker has.
    pub acked: u64,
    /// Records that were given up.
    pub failed: u64,
    /// Why, some of them.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Records handed over, primers left out.
    pub got: u64,
    /// Receipt minus due instant.
    pub latency: ReportedDistribution,
    /// Call of send minus due instant.
    pub pacing: ReportedDistribution,
}

/// Instants of a roundtrip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTripMarks {
    /// When the primer had arrived.
    pub t0: u64,
    /// After the last send.
    pub t1: u64,
    /// Last delivery report.
    pub t2: u64,
    /// Last record received.
    pub r1: u64,
}

/// One second of `steady`, told as it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadySecond {
    /// From 0.
    pub second: u64,
    /// Records in this second.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Microseconds of processor time in this second.
    pub cpu_us: f64,
}

/// Answer to `steady`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyDone {
    /// All records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records that were given up.
    #[serde(default)]
    pub failed: u64,
    /// Microseconds of processor time.
    pub cpu_us: f64,
    /// Delivery report minus due instant; of a producer.
    #[serde(default)]
    pub latency: Option<ReportedDistribution>,
    /// Call of send minus due instant; of a producer.
    #[serde(default)]
    pub pacing: Option<ReportedDistribution>,
}

/// Answer to `stats`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Resident memory.
    pub rss_kb: u64,
    /// Threads.
    pub threads: u64,
    /// The managed heap, where there is one.
    #[serde(default)]
    pub heap_kb: Option<u64>,
}

/// An answer without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// Durations in whole microseconds; from 1,000 on with three significant digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedDistribution {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_us: u64,
    /// The smallest, 0 if there is none.
    pub min_us: u64,
    /// The largest, 0 if there is none.
    pub max_us: u64,
    /// Value and how often, ascending.
    pub pairs: Vec<(u64, u64)>,
}

/// What a line of a driver is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DriverLine {
    /// A second of `steady`.
    Second(SteadySecond),
    /// The end of a command, with all its fields or what went wrong.
    Answer(Result<Value, String>),
}

/// Reads a line of a driver that is at command `id`; an error says what is wrong with the line.
pub(super) fn parse_line(line: &[u8], id: u64) -> Result<DriverLine, String> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("no JSON ({}): {}", shown(&error), cut(line)))?;
    let Some(object) = value.as_object() else {
        return Err(format!("no JSON object: {}", cut(line)));
    };
    match object.get("id") {
        Some(found) if found.as_u64() == Some(id) => {}
        Some(found) => {
            return Err(format!(
                "an answer to {}, asked was {id}: {}",
                shown(found),
                cut(line)
            ));
        }
        None => return Err(format!("without an id: {}", cut(line))),
    }
    if let Some(event) = object.get("event") {
        if event.as_str() != Some("second") {
            return Err(format!("an event that is not known: {}", cut(line)));
        }
        return serde_json::from_value(value)
            .map(DriverLine::Second)
            .map_err(|error| format!("an event with {}: {}", shown(&error), cut(line)));
    }
    match object.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok(DriverLine::Answer(Ok(value))),
        Some(false) => {
            let text = object.get("error").and_then(Value::as_str);
            let text: String = text
                .unwrap_or("no reason given")
                .chars()
                .take(SHOWN_MAX)
                .collect();
            Ok(DriverLine::Answer(Err(text)))
        }
        None => Err(format!("neither an answer nor an event: {}", cut(line))),
    }
}

/// The fields of an answer; an error says what is wrong with them.
pub(super) fn read_answer<T: DeserializeOwned>(answer: Value) -> Result<T, String> {
    serde_json::from_value(answer).map_err(|error| format!("its answer has {}", shown(&error)))
}

/// The beginning of a text that may quote what a driver said.
fn shown(text: &impl ToString) -> String {
    cut(text.to_string().as_bytes())
}

/// The beginning of a line, for people.
pub(super) fn cut(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_MAX)]);
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < line.len() && text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Characters of a foreign text that are shown.
const SHOWN_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn commands_are_as_the_document_has_them() {
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
    fn lines_that_are_no_answer_say_why() {
        for (line, expected) in [
            ("hello", "no JSON"),
            ("[1]", "no JSON object"),
            (r#"{"ok":true}"#, "without an id"),
            (
                r#"{"id":null,"ok":false,"error":"no JSON"}"#,
                "an answer to null",
            ),
            (r#"{"id":6,"ok":true}"#, "an answer to 6, asked was 7"),
            (r#"{"id":-7,"ok":true}"#, "an answer to -7"),
            (r#"{"id":7}"#, "neither an answer nor an event"),
            (r#"{"id":7,"event":"minute"}"#, "an event that is not known"),
            (
                r#"{"id":7,"event":"second"}"#,
                "an event with missing field",
            ),
        ] {
            let error = parse_line(line.as_bytes(), 7).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        let refused = parse_line(br#"{"id":7,"ok":false,"error":"no such topic"}"#, 7).unwrap();
        assert_eq!(refused, DriverLine::Answer(Err("no such topic".to_owned())));
        let long = format!("\"{}\"", "x".repeat(10_000));
        let error = parse_line(long.as_bytes(), 7).unwrap_err();
        assert!(error.chars().count() < 300, "{error}");
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in proptest::collection::vec(any::<u8>(), 0..300), id in any::<u64>()) {
            let _ = parse_line(&line, id);
        }

        #[test]
        fn no_answer_is_too_odd(
            line in "\\{\"id\":7,\"(ok|event|error)\":(true|false|\"second\"|1e999|-1),?(\"[a-z_]{1,8}\":[0-9.e-]{1,9})?\\}",
        ) {
            if let Ok(DriverLine::Answer(Ok(value))) = parse_line(line.as_bytes(), 7) {
                let _ = serde_json::from_value::<Produced>(value.clone());
                let _ = serde_json::from_value::<Consumed>(value.clone());
                let _ = serde_json::from_value::<RoundTripped>(value.clone());
                let _ = serde_json::from_value::<Configured>(value);
            }
        }

        #[test]
        fn events_survive_the_way_there_and_back(
            second in 0..1_000_u64, records in any::<u32>(), bytes in any::<u32>(), cpu in 0..10_000_000_u32,
        ) {
            let told = SteadySecond {
                second, records: records.into(), bytes: bytes.into(), cpu_us: f64::from(cpu),
            };
            let mut line = serde_json::to_value(&told).unwrap();
            line["id"] = json!(7);
            line["event"] = json!("second");
            let read = parse_line(line.to_string().as_bytes(), 7);
            prop_assert_eq!(read, Ok(DriverLine::Second(told)));
        }
    }
}
