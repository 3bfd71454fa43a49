//! What tells how far a cell's figures can be trusted.

use serde::{Deserialize, Serialize};

/// The whole machine inside the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUsage {
    /// Share of all cores that was busy, whoever used them.
    pub busy_share: f64,
    /// Share that another guest of the host had.
    pub steal_share: f64,
    /// Cores busy for processes outside the run.
    pub others_cores: f64,
    /// Load average of the last minute, when the window ended.
    pub load_average_1m: Option<f64>,
    /// Context switches of everything.
    pub context_switches: Option<u64>,
    /// Bytes received on all interfaces, loopback included: protocol headers are in it.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent on all interfaces.
    pub network_tx_bytes: Option<u64>,
}

/// The instrument's own cost: producers and what receives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCost {
    /// Roles that are the instrument, for example `produce` and `clients`.
    pub roles: Vec<String>,
    /// Cores busy on average, all of them together.
    pub cpu_cores_mean: f64,
    /// The same as a share of the machine.
    pub machine_share: f64,
    /// Processor time of the producers for each record.
    pub cpu_us_per_record: Option<f64>,
    /// Processor time of the receivers for each delivery.
    pub cpu_us_per_delivered: Option<f64>,
    /// 99th percentile of how late records were sent.
    pub schedule_lag_p99_us: Option<f64>,
    /// 99.9th percentile of the same.
    pub schedule_lag_p999_us: Option<f64>,
}

/// Whether and when the response times had settled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Load before the figures no longer depended on its beginning.
    pub warm_up_s: f64,
    /// Whether that lay before the window, and the window shows no trend.
    pub is_steady: bool,
    /// Change of the median response over the window, as a share of its median.
    pub drift_share: Option<f64>,
    /// How it was found, for example `mser of the median response of each second`.
    pub method: String,
}

/// A disturbed part of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoisySpan {
    /// Begin, from the start of the window.
    pub from_s: f64,
    /// End.
    pub until_s: f64,
    /// What disturbed it, with the figure.
    pub why: String,
}
