//! Comparison of client libraries: the measurements of each repetition of each library. All
//! statistics are computed from these.

use schemars::JsonSchema;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

/// Comparison of client libraries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Libraries {
    /// `fair`, `legacy` or `default-settings`.
    pub profile: String,
    /// Drivers in the requested order. The first is the reference for ratios.
    pub drivers: Vec<LibraryDriver>,
    /// Planned cells, in the order in which they ran.
    pub cells: Vec<LibraryCell>,
    /// Samples by cell, repetition and driver, in the order in which they ran. Also in
    /// `libraries.jsonl.gz` in the run directory, one per line.
    #[serde(serialize_with = "one_per_line")]
    #[schemars(with = "Vec<LibrarySample>")]
    pub samples: Vec<LibrarySample>,
    /// File in the run directory with the complete distributions of the samples. The distributions
    /// in `samples` then have only the pairs of the median, the 99th percentile and the maximum.
    /// `null` if `samples` has the complete distributions.
    #[serde(default)]
    pub distributions_file: Option<String>,
    /// `true` for an A/A test (`--aa-test`): all drivers use the same library, so no difference is
    /// expected.
    pub aa_test: bool,
}

/// One driver with its own description.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LibraryDriver {
    /// Short name, unique in the run: `java`, `librdkafka`, `franz-go`, `confluent-kafka`,
    /// `aiokafka`, `kafkajs`.
    pub name: String,
    /// Name of the library.
    pub library: String,
    /// Version of the library.
    pub library_version: String,
    /// Binding between library and driver; empty if there is none.
    pub binding: String,
    /// Runtime of the driver.
    pub runtime: String,
    /// Capabilities of the driver (`docs/drivers.md`).
    pub capabilities: Vec<String>,
    /// Settings with requested and effective values, as reported by the driver.
    pub settings: Vec<LibrarySetting>,
    /// Number of warm-up rounds until the CPU cost was stable, or of all rounds if it was not.
    pub warm_up_rounds: u32,
    /// `true` if the CPU cost of the last two warm-up rounds was similar.
    pub warm_up_settled: bool,
    /// Reason why the driver did not start or was removed (missing toolchain, crash, timeout,
    /// impossible result); otherwise `null`.
    pub failed: Option<String>,
    /// `true` for a library of the built-in plan that the command did not name. If it cannot run on
    /// this machine, the run is complete without it.
    #[serde(default)]
    pub optional: bool,
}

impl LibraryDriver {
    /// Returns its name, and its library with the version.
    pub fn version(&self) -> (String, String) {
        let library = format!("{} {}", self.library, self.library_version);
        (self.name.clone(), library)
    }

    /// Returns `true` if it was not required and never started.
    pub fn is_not_run(&self) -> bool {
        self.optional && self.library.is_empty()
    }

    /// Returns `true` if the CPU cost was stable after the warm-up, or no warm-up was requested.
    pub fn is_warm_up_complete(&self) -> bool {
        self.warm_up_rounds == 0 || self.warm_up_settled
    }
}

/// One setting of one driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LibrarySetting {
    /// Name in `docs/drivers.md`, followed by the operation in brackets if operations differ.
    pub name: String,
    /// Requested value; `null` for the library's default.
    pub requested: Option<String>,
    /// Effective value.
    pub effective: Option<String>,
    /// `true` if the library has such a setting.
    pub supported: bool,
}

/// One cell of the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LibraryCell {
    /// Unique name, for example `produce.warm/1000x10000`, `consume.group/100x100` or
    /// `roundtrip.open/1000@5000`.
    pub name: String,
    /// `produce`, `consume` or `roundtrip`.
    pub operation: String,
    /// Produce: `cold`, `metadata`, `warm`, or `legacy` in the legacy profile (each driver starts
    /// like the original program). Consume: `group` or `assign`. Roundtrip: `burst` or `open`.
    pub mode: String,
    /// Size of each record value, in bytes.
    pub value_bytes: u64,
    /// Records per repetition.
    pub records: u64,
    /// Target rate of an open loop, in records per second; otherwise `null`.
    pub rate_per_s: Option<f64>,
    /// Planned number of repetitions.
    pub repetitions: u32,
    /// Reason if the cell was not measured (disk, capability, time); otherwise `null`.
    pub skipped: Option<String>,
}

/// Measurements of one driver in one repetition of a cell. Times are in microseconds.
/// `docs/drivers.md` defines the marks `t0`, `s0`, `r1` and so on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LibrarySample {
    /// Name of the cell.
    pub cell: String,
    /// Name of the driver.
    pub driver: String,
    /// Repetition number, from 0.
    pub repetition: u32,
    /// Position of the driver in this repetition, from 0.
    pub turn: u32,
    /// Time since the start of the run, in seconds.
    pub offset_s: f64,
    /// Reasons why the sample is invalid; empty if it is valid.
    pub invalid: Vec<String>,
    /// Remarks on a valid sample, for example that an open loop was not sustained.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Fraction of the machine's CPU time used by processes other than the broker, the drivers and
    /// this program, including other guests of the host. Covers at least half a second and ends
    /// with this repetition. `null` if the broker's process is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processes_share: Option<f64>,
    /// `true` if `other_processes_share` is above 0.10.
    pub noisy: bool,
    /// Produce and roundtrip: time from `t0` to `t1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_us: Option<f64>,
    /// Produce and roundtrip: time from `t0` to `t2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_us: Option<f64>,
    /// Produce in the legacy profile: time spent creating records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_us: Option<f64>,
    /// Produce in the legacy profile: time spent in send calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_calls_us: Option<f64>,
    /// Consume and copy: time from `s0` to `s1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_us: Option<f64>,
    /// Consume and copy: time from `s1` to `s2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<f64>,
    /// Consume: time from `s2` to `s3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_us: Option<f64>,
    /// Consume: time from `s1` to `s3`; in the legacy profile, from `s1` to `s4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_us: Option<f64>,
    /// Consume in the legacy profile: time from `s3` to `s4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_us: Option<f64>,
    /// Copy: time from `s2` to `t2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_us: Option<f64>,
    /// Roundtrip: time from `t0` to `r1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roundtrip_us: Option<f64>,
    /// Roundtrip with an open loop: records sent per second of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub achieved_per_s: Option<f64>,
    /// Roundtrip: time from the due time (burst: creation time) to receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
    /// Roundtrip with an open loop: time of the send call minus due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Distribution>,
    /// CPU time of the driver process between its first and last mark.
    pub cpu_us: f64,
    /// Consume and copy: CPU time from `s2` to the last mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_cpu_us: Option<f64>,
    /// Number of calls from the driver's runtime into a Java VM, if the driver reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jni_calls: Option<u64>,
    /// Bytes on the loopback interface during the whole command, in both directions and with the
    /// headers of TCP and IP: connecting, metadata and primers included. `null` if the broker is on
    /// another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_bytes: Option<u64>,
    /// Number of records delivered or read.
    pub records: u64,
    /// Total size of their keys and values, in bytes.
    pub bytes: u64,
    /// Number of records that were not delivered correctly.
    pub failed: u64,
    /// Maximum resident memory of the process during the repetition, in KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_kb: Option<u64>,
    /// Maximum observed number of threads of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Managed heap after the repetition, in KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heap_kb: Option<u64>,
}

/// Distribution as sent by a driver (`docs/drivers.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Sum of the values, in microseconds.
    pub sum_us: u64,
    /// Minimum, in microseconds; 0 without values.
    pub min_us: u64,
    /// Maximum, in microseconds; 0 without values.
    pub max_us: u64,
    /// Pairs of value in microseconds and count, in ascending order.
    pub pairs: Vec<(u64, u64)>,
}

impl Distribution {
    /// Returns the smallest value that at least `percent` of the values do not exceed; `None`
    /// without values.
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        let wanted = (self.values() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.pairs.iter().find_map(|(value, count)| {
            // Counts come from drivers, so they may be arbitrary.
            seen = seen.saturating_add(*count);
            (seen >= wanted).then_some(*value)
        })
    }

    /// Returns the mean; `None` without values.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us as f64 / self.count as f64)
    }
}

/// Serializes each sample without line breaks, so that an indented file has one line for each.
fn one_per_line<S: Serializer>(
    samples: &[LibrarySample],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let lines = samples.iter().map(serde_json::value::to_raw_value);
    let lines: Result<Vec<_>, _> = lines.collect();
    lines.map_err(S::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_the_pairs() {
        let distribution = Distribution {
            count: 100,
            sum_us: 99 * 10 + 5000,
            min_us: 10,
            max_us: 5000,
            pairs: vec![(10, 99), (5000, 1)],
        };
        assert_eq!(distribution.percentile_us(50.0), Some(10));
        assert_eq!(distribution.percentile_us(99.0), Some(10));
        assert_eq!(distribution.percentile_us(99.9), Some(5000));
        assert_eq!(distribution.mean_us(), Some(59.9));
        assert_eq!(Distribution::default().percentile_us(50.0), None);
        assert_eq!(Distribution::default().mean_us(), None);
    }

    #[test]
    fn sample_round_trips_through_one_json_line() {
        let sample = LibrarySample {
            cell: "consume.group/100x100".to_owned(),
            driver: "java".to_owned(),
            other_processes_share: Some(0.25),
            noisy: true,
            latency: Some(Distribution {
                pairs: vec![(3, 4)],
                ..Distribution::default()
            }),
            ..LibrarySample::default()
        };
        let line = serde_json::to_string(&sample).unwrap();
        assert!(!line.contains('\n'));
        let read: LibrarySample = serde_json::from_str(&line).unwrap();
        assert_eq!(read, sample);
    }
}
