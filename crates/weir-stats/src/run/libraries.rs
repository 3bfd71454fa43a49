//! Comparison of client libraries: the measurements of each repetition of each library. All
//! statistics are computed from these.

use serde::{Deserialize, Serialize};

/// A comparison of client libraries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Libraries {
    /// `fair`, `legacy` or `default-settings`.
    pub profile: String,
    /// Drivers in the requested order; the first is the reference of ratios.
    pub drivers: Vec<LibraryDriver>,
    /// Cells in the order in which they ran.
    pub cells: Vec<LibraryCell>,
    /// Samples by cell, repetition and driver, in the order in which they ran; also in
    /// `libraries.jsonl` in the run directory, one per line.
    pub samples: Vec<LibrarySample>,
    /// A/A test: all drivers use the same library, so no difference is expected.
    pub aa_test: bool,
}

/// One driver with its own description.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LibraryDriver {
    /// Short name, unique in the run: `java`, `librdkafka`, `franz-go`, `confluent-kafka`,
    /// `aiokafka`, `kafkajs`.
    pub name: String,
    /// Library.
    pub library: String,
    /// Version of the library.
    pub library_version: String,
    /// Binding between library and driver; empty if there is none.
    pub binding: String,
    /// Runtime.
    pub runtime: String,
    /// Capabilities (`docs/drivers.md`).
    pub capabilities: Vec<String>,
    /// Settings with requested and effective values, as reported by the driver.
    pub settings: Vec<LibrarySetting>,
    /// Warm-up rounds until the CPU cost was stable, or all rounds if it was not.
    pub warm_up_rounds: u32,
    /// The CPU cost of the last two rounds was similar.
    pub warm_up_settled: bool,
    /// Reason for missing or aborted measurements: missing toolchain, crash, timeout or impossible
    /// results; `None` if there were none.
    pub failed: Option<String>,
}

impl LibraryDriver {
    /// Returns its name, and its library with the version.
    pub fn version(&self) -> (String, String) {
        let library = format!("{} {}", self.library, self.library_version);
        (self.name.clone(), library)
    }

    /// Returns `true` if the CPU cost was stable after the warm-up, or no warm-up was requested.
    pub fn is_warm_up_complete(&self) -> bool {
        self.warm_up_rounds == 0 || self.warm_up_settled
    }
}

/// One setting of one driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibrarySetting {
    /// Name in `docs/drivers.md`, with the operation in brackets if operations differ.
    pub name: String,
    /// Requested value; `None` for the library's default.
    pub requested: Option<String>,
    /// Effective value.
    pub effective: Option<String>,
    /// The library has such a setting.
    pub supported: bool,
}

/// One cell of the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryCell {
    /// Unique name, e.g. `produce.warm/1000x10000`, `consume.group/100x100`,
    /// `roundtrip.open/1000@5000`.
    pub name: String,
    /// `produce`, `consume` or `roundtrip`.
    pub operation: String,
    /// Produce: `cold`, `metadata`, `warm`, and `legacy` in the legacy profile (each driver starts
    /// like the original program). Consume: `group`, `assign`. Roundtrip: `burst`, `open`.
    pub mode: String,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Records of each repetition.
    pub records: u64,
    /// Target rate of an open loop.
    pub rate_per_s: Option<f64>,
    /// Planned repetitions.
    pub repetitions: u32,
    /// Reason if it was not measured: disk, capability or time.
    pub skipped: Option<String>,
}

/// Measurements of one driver in one repetition of a cell. Times in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LibrarySample {
    /// Name of the cell.
    pub cell: String,
    /// Name of the driver.
    pub driver: String,
    /// Repetition number from 0.
    pub repetition: u32,
    /// Position of the driver in this repetition, from 0.
    pub turn: u32,
    /// Seconds since the start of the run.
    pub offset_s: f64,
    /// Reasons why the sample is invalid; empty if it is valid.
    pub invalid: Vec<String>,
    /// Remarks on a valid sample, for example that an open loop was not sustained.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Share of the machine's CPU time used by processes other than the broker, the drivers and
    /// this program (including another guest of the host), over at least half a second that ended
    /// with this repetition; `None` if the broker's process is unknown.
    pub other_processes_share: Option<f64>,
    /// The share of other processes is above 0.10.
    pub noisy: bool,
    /// produce: t1-t0. roundtrip: also.
    pub send_us: Option<f64>,
    /// produce: t2-t0. roundtrip: also.
    pub delivered_us: Option<f64>,
    /// produce in the legacy profile: time for creating records.
    pub create_us: Option<f64>,
    /// produce in the legacy profile: time in send calls.
    #[serde(default)]
    pub send_calls_us: Option<f64>,
    /// consume: s1-s0.
    pub join_us: Option<f64>,
    /// consume: s2-s1.
    pub first_us: Option<f64>,
    /// consume: s3-s2.
    pub drain_us: Option<f64>,
    /// consume: s3-s1, in the legacy profile s4-s1.
    pub legacy_us: Option<f64>,
    /// consume in the legacy profile: s4-s3.
    pub commit_us: Option<f64>,
    /// roundtrip: r1-t0.
    pub roundtrip_us: Option<f64>,
    /// roundtrip with an open loop: records sent per second of the schedule.
    #[serde(default)]
    pub achieved_per_s: Option<f64>,
    /// roundtrip: from the due time (burst: creation time) to receipt.
    pub latency: Option<Distribution>,
    /// roundtrip with an open loop: time of the send call minus due time.
    pub pacing: Option<Distribution>,
    /// CPU time of the driver's process between its first and last mark.
    pub cpu_us: f64,
    /// consume: CPU time between s2 and s3.
    pub drain_cpu_us: Option<f64>,
    /// Records delivered or read.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records that were not delivered correctly.
    pub failed: u64,
    /// Maximum resident memory of the process during the repetition.
    pub peak_rss_kb: Option<u64>,
    /// Maximum observed number of threads of the process.
    pub threads: Option<u64>,
    /// Managed heap after the repetition.
    pub heap_kb: Option<u64>,
}

/// A distribution as sent by drivers (`docs/drivers.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum_us: u64,
    /// Minimum; 0 without values.
    pub min_us: u64,
    /// Maximum; 0 without values.
    pub max_us: u64,
    /// Pairs of value in microseconds and count, ascending.
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
