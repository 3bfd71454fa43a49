//! Profiles: settings of the drivers, their start states and the order of the libraries.

use serde::Deserialize;
use serde_json::{Value, json};
use weir_drivers::{ClientSettings, ProducerState};

use crate::experiment::names::names;

/// Settings and rules of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// All settings that can be equal are equal.
    Fair,
    /// Setup of the published comparison, including its start-up effects.
    Legacy,
    /// Default settings of each library, except for the acknowledgements.
    DefaultSettings,
}

names!(pub Profile, "profile": Fair = "fair", Legacy = "legacy",
    DefaultSettings = "default-settings");

/// Operation that a cell measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriverOperation {
    Produce,
    Consume,
    /// Reads the records of one topic and writes them to another.
    Copy,
    RoundTrip,
}

names!(pub(super) DriverOperation, "operation": Produce = "produce", Consume = "consume",
    Copy = "copy", RoundTrip = "roundtrip");

/// Maximum values over all cells of a run, for the sizes of queues and requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Largest {
    pub(super) value_bytes: u64,
    pub(super) records: u64,
    /// Bytes of keys and values per repetition.
    pub(super) bytes: u64,
}

impl Profile {
    /// Returns the settings for an operation of a library, by the name in the driver's `hello`.
    /// Only the published comparison has different settings for producers and consumers, and for
    /// different libraries.
    pub(super) fn settings(
        self,
        library: &str,
        operation: DriverOperation,
        acks: i64,
        largest: Largest,
    ) -> ClientSettings {
        match self {
            Self::Fair => fair(acks, largest),
            Self::Legacy => legacy(library, operation, acks, largest),
            Self::DefaultSettings => settings(json!({"acks": acks})),
        }
    }

    /// Returns `true` if the producer of a legacy cell knows its topic before the clock starts. The
    /// published program fetched the topic's metadata before starting the clock with the Java
    /// client, and afterwards with librdkafka.
    pub(super) fn knows_metadata(library: &str) -> bool {
        is_java(library)
    }

    /// Returns the producer's start state in cells that leave it to the profile.
    pub(super) fn legacy_state(library: &str) -> ProducerState {
        match Self::knows_metadata(library) {
            true => ProducerState::Metadata,
            false => ProducerState::Cold,
        }
    }
}

fn settings(object: Value) -> ClientSettings {
    // Invariant: every object is a map of its members.
    serde_json::from_value(object).unwrap_or_default()
}

fn fair(acks: i64, largest: Largest) -> ClientSettings {
    let request_bytes = match largest.value_bytes {
        0..=1_000_000 => MIB,
        value_bytes => value_bytes + 48_576,
    };
    // A whole burst, including the overhead per record.
    let burst = largest
        .records
        .saturating_mul(RECORD_COST)
        .saturating_add(largest.bytes);
    settings(json!({
        "acks": acks, "linger_ms": 5, "batch_bytes": 1_000_000, "batch_records": 0,
        "max_in_flight": 5, "retries": 0, "idempotence": false, "compression": "none",
        "queue_bytes": burst.saturating_add(burst / 8).max(QUEUE_BYTES_MIN),
        "queue_records": largest.records.saturating_mul(2).max(QUEUE_RECORDS_MIN),
        "max_request_bytes": request_bytes, "send_buffer_bytes": 0, "receive_buffer_bytes": 0,
        "fetch_min_bytes": 1, "fetch_wait_ms": 500, "fetch_partition_bytes": request_bytes,
        "check_crcs": true, "auto_commit": false,
    }))
}

/// Returns the settings of the published programs, for the Java client and for others.
fn legacy(
    library: &str,
    operation: DriverOperation,
    acks: i64,
    largest: Largest,
) -> ClientSettings {
    let (is_java, mut all) = (is_java(library), ClientSettings::new());
    let mut add = |more| all.extend(settings(more));
    if operation != DriverOperation::Consume {
        add(json!({
            "acks": acks, "linger_ms": 100, "batch_bytes": 1_000_000, "max_in_flight": 1_000_000,
            "retries": 0,
        }));
        add(match is_java {
            true => json!({"idempotence": false, "queue_bytes": 128 * MIB}),
            // This also limits the batches.
            false => json!({"max_request_bytes": largest.value_bytes + 1000}),
        });
    }
    // librdkafka's consumer had its default settings.
    if operation != DriverOperation::Consume || is_java {
        add(json!({"send_buffer_bytes": 32 * MIB, "receive_buffer_bytes": 32 * MIB}));
    }
    if operation != DriverOperation::Produce {
        add(json!({"fetch_min_bytes": 100_000, "auto_commit": true, "auto_commit_ms": 1000}));
    }
    all
}

/// Returns `true` for the official Java client, whatever its driver and its binding are.
fn is_java(library: &str) -> bool {
    library == JAVA_LIBRARY
}

/// `library` in the `hello` of drivers of the official Java client.
const JAVA_LIBRARY: &str = "kafka-clients";

/// Size of every key.
pub(super) const KEY_BYTES: u64 = 8;
const MIB: u64 = 1 << 20;
const QUEUE_BYTES_MIN: u64 = 128 * MIB;
const QUEUE_RECORDS_MIN: u64 = 100_000;
/// Overhead of a queued record in bytes.
const RECORD_COST: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: Largest = Largest {
        value_bytes: 100_000,
        records: 10_000,
        bytes: 1_000_080_000,
    };

    #[test]
    fn fair_settings_are_equal_and_fit_the_burst() {
        let java = Profile::Fair.settings(JAVA_LIBRARY, DriverOperation::Produce, 1, LARGEST);
        let other = Profile::Fair.settings("franz-go", DriverOperation::Consume, 1, LARGEST);
        assert_eq!(java, other);
        for (name, value) in [
            ("acks", json!(1)),
            ("linger_ms", json!(5)),
            ("batch_bytes", json!(1_000_000)),
            ("batch_records", json!(0)),
            ("max_in_flight", json!(5)),
            ("retries", json!(0)),
            ("idempotence", json!(false)),
            ("compression", json!("none")),
            ("max_request_bytes", json!(1_048_576)),
            ("send_buffer_bytes", json!(0)),
            ("receive_buffer_bytes", json!(0)),
            ("fetch_min_bytes", json!(1)),
            ("fetch_wait_ms", json!(500)),
            ("fetch_partition_bytes", json!(1_048_576)),
            ("check_crcs", json!(true)),
            ("auto_commit", json!(false)),
        ] {
            assert_eq!(java[name], value, "{name}");
        }
        assert!(java["queue_bytes"].as_u64().unwrap() > LARGEST.bytes);
        assert!(java["queue_records"].as_u64().unwrap() > LARGEST.records);
        let large = Largest {
            value_bytes: 2_000_000,
            ..LARGEST
        };
        let raised = Profile::Fair.settings(JAVA_LIBRARY, DriverOperation::Produce, 1, large);
        assert!(raised["max_request_bytes"].as_u64().unwrap() > 2_000_000);
    }

    #[test]
    fn legacy_settings_match_the_published_programs() {
        let of = |library, operation| Profile::Legacy.settings(library, operation, 0, LARGEST);
        let (java, other) = (
            of(JAVA_LIBRARY, DriverOperation::Produce),
            of("librdkafka", DriverOperation::Produce),
        );
        for settings in [&java, &other] {
            assert_eq!(settings["acks"], 0);
            assert_eq!(settings["linger_ms"], 100);
            assert_eq!(settings["max_in_flight"], 1_000_000);
            assert_eq!(settings["send_buffer_bytes"], 32 << 20);
            assert!(!settings.contains_key("fetch_min_bytes"));
        }
        assert_eq!(java["queue_bytes"], 128 << 20);
        assert!(!java.contains_key("max_request_bytes"));
        assert!(!other.contains_key("queue_bytes") && !other.contains_key("idempotence"));
        assert_eq!(other["max_request_bytes"], 101_000);

        let (java, other) = (
            of(JAVA_LIBRARY, DriverOperation::Consume),
            of("librdkafka", DriverOperation::Consume),
        );
        for settings in [&java, &other] {
            assert_eq!(settings["fetch_min_bytes"], 100_000);
            assert_eq!(settings["auto_commit"], true);
            // Defaults, which differ between the libraries.
            assert!(!settings.contains_key("check_crcs") && !settings.contains_key("acks"));
        }
        assert_eq!(java["receive_buffer_bytes"], 32 << 20);
        assert!(!other.contains_key("receive_buffer_bytes"));
        assert_eq!(Profile::legacy_state(JAVA_LIBRARY), ProducerState::Metadata);
        // The name of the driver does not matter.
        assert_eq!(Profile::legacy_state("java"), ProducerState::Cold);
        assert_eq!(Profile::legacy_state("librdkafka"), ProducerState::Cold);
    }

    #[test]
    fn default_profile_sets_only_acks() {
        let settings =
            Profile::DefaultSettings.settings(JAVA_LIBRARY, DriverOperation::Produce, -1, LARGEST);
        assert_eq!(settings.len(), 1);
        assert_eq!(settings["acks"], -1);
        for &profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        assert!("loose".parse::<Profile>().is_err());
    }
}
