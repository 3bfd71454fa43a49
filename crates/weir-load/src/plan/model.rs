//! The shape of a plan file, as typed; [`Plan`](super::Plan) is what it means.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use weir_stats::run::ReferenceRow;

use super::{Architecture, Clients, Threshold};
use crate::payload::Kind;
use crate::units::parse_duration;

/// A plan file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) question: String,
    pub(super) full_scale: Option<String>,
    pub(super) architectures: Vec<Architecture>,
    pub(super) levels: Vec<u64>,
    #[serde(default = "one")]
    pub(super) repetitions: u32,
    pub(super) ramp_per_s: f64,
    #[serde(default, deserialize_with = "duration")]
    pub(super) preheat: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) warm_up: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) hold: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) drain: Duration,
    pub(super) workload: Workload,
    #[serde(default)]
    pub(super) clients: Clients,
    #[serde(default)]
    pub(super) validity: Validity,
    #[serde(default)]
    pub(super) stop: StopRules,
    #[serde(default)]
    pub(super) quick: Overrides,
    #[serde(default)]
    pub(super) demo: Overrides,
    #[serde(default)]
    pub(super) thresholds: Vec<Threshold>,
    pub(super) reference: Option<Reference>,
}

/// Published figures: given row by row, or the name of a built-in scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) source: String,
    pub(super) hardware: String,
    pub(super) note: String,
    #[serde(default)]
    pub(super) published: String,
    /// The published series that the gateway's figures stand beside.
    #[serde(default = "lightstreamer")]
    pub(super) gateway_series: String,
    #[serde(default)]
    pub(super) rows: Vec<ReferenceRow>,
}

fn lightstreamer() -> String {
    "lightstreamer".to_owned()
}

fn one() -> u32 {
    1
}

/// What the producers write.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Kind of record, by the published generator's names.
    #[serde(deserialize_with = "kind")]
    pub kind: Kind,
    /// Records due per second, all producers together.
    pub rate_per_s: f64,
    /// Random characters in each value.
    pub size_bytes: u32,
    /// Producers that share the rate.
    pub producers: u32,
    /// Partitions of the topic.
    #[serde(default = "one")]
    pub partitions: u32,
    /// Seed of every random choice: keys, filler, and which client wants which key.
    #[serde(default)]
    pub seed: u64,
}

/// Limits of the instrument; beyond them a cell is invalid.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Validity {
    /// 99th percentile of how late the generator may be, in milliseconds. Default 20: a fifth of
    /// what a person notices.
    pub schedule_lag_p99_ms: f64,
    /// Busy share of the simulated clients' event loop. Default 0.9: above it arrivals wait for the
    /// instrument.
    pub clients_busy_share: f64,
}

impl Default for Validity {
    fn default() -> Self {
        Self {
            schedule_lag_p99_ms: 20.0,
            clients_busy_share: 0.9,
        }
    }
}

/// When an architecture's ladder ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopRules {
    /// Mean response above which the next level is skipped, in milliseconds. Default 1000.
    pub response_mean_ms: f64,
    /// Share of lost deliveries above which the next level is skipped. Default 0.01.
    pub lost_share: f64,
    /// File descriptors a process needs beside one per client. Default 512.
    pub descriptors_spare: u64,
}

impl Default for StopRules {
    fn default() -> Self {
        Self {
            response_mean_ms: 1000.0,
            lost_share: 0.01,
            descriptors_spare: 512,
        }
    }
}

/// Values that take the place of a plan's own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Architectures to run.
    pub architectures: Option<Vec<Architecture>>,
    /// Numbers of clients.
    pub levels: Option<Vec<u64>>,
    /// Times each cell runs.
    pub repetitions: Option<u32>,
    /// Records due per second.
    pub rate_per_s: Option<f64>,
    /// Load on a new broker before the first cell.
    #[serde(deserialize_with = "some_duration")]
    pub preheat: Option<Duration>,
    /// Time before the measured window.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up: Option<Duration>,
    /// Length of the measured window.
    #[serde(deserialize_with = "some_duration")]
    pub hold: Option<Duration>,
    /// Longest wait for late deliveries.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}
