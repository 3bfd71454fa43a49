//! The content of a plan file as written; [`Plan`](super::Plan) is the checked form.

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
    pub(super) broker_warm_up: Duration,
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

/// Published figures: rows in the plan, or the name of a built-in scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) source: String,
    pub(super) hardware: String,
    pub(super) note: String,
    #[serde(default)]
    pub(super) published: String,
    /// Published series that is shown next to the gateway's figures.
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

/// Gateway variant as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantFile {
    pub(super) name: String,
    pub(super) threads: Option<u32>,
    pub(super) adapters: Option<String>,
}

/// Limits of the benchmarking tool. A cell beyond them is invalid.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Validity {
    /// Maximum p99 schedule lag in milliseconds. Default 20: a fifth of a delay that people notice.
    pub schedule_lag_p99_ms: f64,
    /// Maximum busy share of the event loop of the simulated clients. Default 0.9: above it,
    /// updates wait in the benchmarking tool.
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

/// Rules that end an architecture's ladder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopRules {
    /// Mean response time in milliseconds above which the next level is skipped. Default 1000.
    pub response_mean_ms: f64,
    /// Share of lost deliveries above which the next level is skipped. Default 0.01.
    pub lost_share: f64,
    /// File descriptors that a process needs in addition to one per client. Default 512.
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

/// Values that replace those of a plan.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanOverrides {
    /// Architectures to run.
    pub architectures: Option<Vec<Architecture>>,
    /// Numbers of clients.
    pub levels: Option<Vec<u64>>,
    /// Number of times each cell runs.
    pub repetitions: Option<u32>,
    /// Rates of a grid in records per second.
    pub rates_per_s: Option<Vec<f64>>,
    /// Rate in records per second.
    pub rate_per_s: Option<f64>,
    /// Values of the sweep.
    pub sweep: SweepOverrides,
    /// Existing topic to use instead of one new topic per cell.
    pub topic: Option<String>,
    /// Single key that all clients subscribe to.
    pub key: Option<String>,
    /// Duration of the load on a newly started broker before the first cell.
    #[serde(deserialize_with = "some_duration")]
    pub broker_warm_up: Option<Duration>,
    /// Minimum time before the measured window.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up: Option<Duration>,
    /// Maximum time to wait for the steady state.
    #[serde(deserialize_with = "some_duration")]
    pub warm_up_max: Option<Duration>,
    /// Length of the measured window.
    #[serde(deserialize_with = "some_duration")]
    pub hold: Option<Duration>,
    /// Maximum wait for late deliveries.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
}
