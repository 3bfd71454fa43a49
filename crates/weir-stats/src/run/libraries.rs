//! Client libraries compared: what each repetition of each library measured. The statistics are made of these alone.

use serde::{Deserialize, Serialize};

/// All of a comparison of client libraries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Libraries {
    /// `fair`, `legacy` or `default-settings`.
    pub profile: String,
    /// The drivers in the order they were asked for; the first is the one that ratios refer to.
    pub drivers: Vec<LibraryDriver>,
    /// What was to be measured, in the order it ran.
    pub cells: Vec<LibraryCell>,
    /// One per cell, repetition and driver, in the order they ran; also `libraries.jsonl` in the run folder, line by line.
    pub samples: Vec<LibrarySample>,
    /// Whether the drivers are one library twice (`--null-test`): then no difference is the right answer.
    pub null_test: bool,
}

/// One driver, as it described itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryDriver {
    /// Short name, unique in the run: `java`, `librdkafka`, `franz-go`, `confluent-kafka`, `aiokafka`, `kafkajs`.
    pub name: String,
    /// The library.
    pub library: String,
    /// Its version.
    pub library_version: String,
    /// What stands between the library and the driver, if anything.
    pub binding: String,
    /// What it runs in.
    pub runtime: String,
    /// What it can do (`docs/drivers.md`).
    pub capabilities: Vec<String>,
    /// The settings asked for and what they are, as it echoed them.
    pub settings: Vec<LibrarySetting>,
    /// Rounds of warm-up until the cost settled, or how many there were when it did not.
    pub warm_up_rounds: u32,
    /// Whether the cost of the last two rounds was alike.
    pub warm_up_settled: bool,
    /// Why it took no part or was given up, if so: toolchain missing, crashed, hung, lied.
    pub failed: Option<String>,
}

impl LibraryDriver {
    /// Whether its cost settled, if it was warmed up: profiles without a warm-up want it cold.
    #[must_use]
    pub fn is_warm_as_asked(&self) -> bool {
        self.warm_up_rounds == 0 || self.warm_up_settled
    }
}

/// One setting of one driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibrarySetting {
    /// Its name in `docs/drivers.md`; with a work in brackets where works differ.
    pub name: String,
    /// What was asked for; absent when the library's default was to stay.
    pub asked: Option<String>,
    /// What it is.
    pub effective: Option<String>,
    /// Whether the library has such a setting.
    pub supported: bool,
}

/// One cell of the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibraryCell {
    /// Unique, e.g. `produce.warm/1000x10000`, `consume.group/100x100`, `roundtrip.open/1000@5000`.
    pub name: String,
    /// `produce`, `consume` or `roundtrip`.
    pub work: String,
    /// `cold`, `metadata`, `warm`, and of the legacy profile `legacy` (each driver's start as the original program had
    /// it); `group`, `assign`; `burst`, `open`.
    pub mode: String,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Records of each repetition.
    pub records: u64,
    /// Open loop only.
    pub rate_per_s: Option<f64>,
    /// Times it was to run.
    pub repetitions: u32,
    /// Why it was not measured, if so (disk, capability, time).
    pub skipped: Option<String>,
}

/// What one driver measured in one repetition of a cell. Times in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LibrarySample {
    /// Name of the cell.
    pub cell: String,
    /// Name of the driver.
    pub driver: String,
    /// From 0.
    pub repetition: u32,
    /// Which one it was in this repetition, from 0.
    pub place: u32,
    /// Seconds after the run's begin.
    pub at_s: f64,
    /// Why the figures do not count; empty when they do.
    pub invalid: Vec<String>,
    /// What is to be known of figures that do count: an open loop that was not held, for example.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Share of the machine's processor time that processes other than the broker, the drivers and this program took
    /// (another guest of the host included), over half a second or more that ended with this repetition; absent where the broker's process is not known.
    pub others_share: Option<f64>,
    /// `others_share` above 0.10.
    pub noisy: bool,
    /// produce: t1-t0. roundtrip: also.
    pub send_us: Option<f64>,
    /// produce: t2-t0. roundtrip: also.
    pub delivered_us: Option<f64>,
    /// produce in the legacy profile: time making messages.
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
    /// roundtrip in open loop: records sent a second, over the schedule.
    #[serde(default)]
    pub achieved_per_s: Option<f64>,
    /// roundtrip: from the instant due (burst: made) to receipt.
    pub latency: Option<Distribution>,
    /// roundtrip in open loop: call of send, less the instant due.
    pub pacing: Option<Distribution>,
    /// Processor time of the driver's process between its first and last mark.
    pub cpu_us: f64,
    /// consume: the part of it between s2 and s3.
    pub drain_cpu_us: Option<f64>,
    /// Records delivered, or read.
    pub records: u64,
    /// Their keys and values.
    pub bytes: u64,
    /// Records that were not delivered, or not as they should have been.
    pub failed: u64,
    /// Largest resident memory of the process during the repetition.
    pub peak_rss_kb: Option<u64>,
    /// Most threads of the process that were seen.
    pub threads: Option<u64>,
    /// Managed heap after the repetition.
    pub heap_kb: Option<u64>,
}

/// A distribution as drivers send it (`docs/drivers.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum_us: u64,
    /// Smallest; 0 without values.
    pub min_us: u64,
    /// Largest; 0 without values.
    pub max_us: u64,
    /// Value in microseconds and count, ascending.
    pub pairs: Vec<(u64, u64)>,
}

impl Distribution {
    /// The smallest value that `percent` of all are not above; `None` without values.
    pub fn percentile_us(&self, percent: f64) -> Option<u64> {
        // Counts come from drivers, so they may be anything.
        let counts = self.pairs.iter().map(|(_, count)| *count);
        let all = counts.fold(0_u64, u64::saturating_add);
        let wanted = (all as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.pairs.iter().find_map(|(value, count)| {
            seen = seen.saturating_add(*count);
            (seen >= wanted).then_some(*value)
        })
    }

    /// Mean; `None` without values.
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
    fn a_sample_is_one_line_of_json_and_back() {
        let sample = LibrarySample {
            cell: "consume.group/100x100".to_owned(),
            driver: "java".to_owned(),
            others_share: Some(0.25),
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
