//! The shape of a plan file, as typed; [`Plan`](super::Plan) is what it means.

use std::time::Duration;

use serde::Deserialize;
use weir_stats::run::ReferenceRow;

use super::read::{duration, some_duration};
use super::{Architecture, ClientsPlan, SweepOverrides, SweepPlan, Threshold, Workload};

/// A plan file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) question: String,
    pub(super) full_scale: Option<String>,
    #[serde(default)]
    pub(super) architectures: Vec<Architecture>,
    #[serde(default)]
    pub(super) variants: Vec<VariantFile>,
    #[serde(default)]
    pub(super) levels: Vec<u64>,
    #[serde(default)]
    pub(super) rates_per_s: Vec<f64>,
    pub(super) sweep: Option<SweepPlan>,
    #[serde(default = "one")]
    pub(super) repetitions: u32,
    #[serde(default = "thousand")]
    pub(super) ramp_per_s: f64,
    #[serde(default, deserialize_with = "duration")]
    pub(super) preheat: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) warm_up: Duration,
    #[serde(default, deserialize_with = "duration")]
    pub(super) warm_up_max: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) hold: Duration,
    #[serde(deserialize_with = "duration")]
    pub(super) drain: Duration,
    pub(super) workload: Workload,
    #[serde(default)]
    pub(super) clients: ClientsPlan,
    #[serde(default)]
    pub(super) validity: Validity,
    #[serde(default)]
    pub(super) stop: StopRules,
    #[serde(default)]
    pub(super) quick: PlanOverrides,
    #[serde(default)]
    pub(super) demo: PlanOverrides,
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

fn thousand() -> f64 {
    1000.0
}

/// One way to set up the gateway, as typed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantFile {
    pub(super) name: String,
    pub(super) threads: Option<u32>,
    pub(super) adapters: Option<String>,
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
pub struct PlanOverrides {
    /// Architectures to run.
    pub architectures: Option<Vec<Architecture>>,
    /// Numbers of clients.
    pub levels: Option<Vec<u64>>,
    /// Times each cell runs.
    pub repetitions: Option<u32>,
    /// Records due per second of a grid.
    pub rates_per_s: Option<Vec<f64>>,
    /// Records due per second.
    pub rate_per_s: Option<f64>,
    /// Of a sweep.
    pub sweep: SweepOverrides,
    /// An existing topic in place of a new one for each cell.
    pub topic: Option<String>,
    /// The one key that all clients want.
    pub key: Option<String>,
    /// Load on a new broker before the first cell.
    #[serde(deserialize_with = "some_duration")]
    pub preheat: Option<Duration>,
    /// Time before the measured window, at least.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up: Option<Duration>,
    /// How long to wait for the load to settle.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up_max: Option<Duration>,
    /// Length of the measured window.
    #[serde(deserialize_with = "some_duration")]
    pub hold: Option<Duration>,
    /// Longest wait for late deliveries.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
}
