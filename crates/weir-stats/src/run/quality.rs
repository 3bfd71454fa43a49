//! Information on the quality of a cell's measurements.

use serde::{Deserialize, Serialize};

/// The whole machine during the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineUsage {
    /// Share of all cores that was busy, for any process.
    pub busy_share: f64,
    /// Share that another guest of the host used.
    pub steal_share: f64,
    /// Cores busy for processes outside the run.
    pub other_processes_cores: f64,
    /// Load average of the last minute at the end of the window.
    pub load_average_1m: Option<f64>,
    /// Context switches of all processes.
    pub context_switches: Option<u64>,
    /// Bytes received on all interfaces including loopback, with protocol headers.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent on all interfaces.
    pub network_tx_bytes: Option<u64>,
}

/// The cost of the benchmarking tool: producers and receivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCost {
    /// Roles of the benchmarking tool, for example `produce` and `clients`.
    pub roles: Vec<String>,
    /// Average number of busy cores of all these roles.
    pub cpu_cores_mean: f64,
    /// Share of the machine's cores.
    pub machine_share: f64,
    /// CPU time of the producers per record.
    pub cpu_us_per_record: Option<f64>,
    /// CPU time of the receivers per delivery.
    pub cpu_us_per_delivered: Option<f64>,
    /// 99th percentile of the schedule lag.
    pub schedule_lag_p99_us: Option<f64>,
    /// 99.9th percentile of the schedule lag.
    pub schedule_lag_p999_us: Option<f64>,
}

/// The steady state of the response times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Time under load before the response times became independent of the start.
    pub warm_up_s: f64,
    /// Steady state began before the window, and the window shows no trend.
    pub is_steady: bool,
    /// Change of the median response time over the window, as a share of its median.
    pub drift_share: Option<f64>,
    /// Method of detection, for example `mser of the median response of each second`.
    pub method: String,
}

/// A disturbed part of the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoisySpan {
    /// Start, from the start of the window.
    pub from_s: f64,
    /// End.
    pub until_s: f64,
    /// Disturbance with its value.
    pub reason: String,
}
