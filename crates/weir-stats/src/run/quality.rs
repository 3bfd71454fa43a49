//! Information on the quality of a cell's measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resource usage of the whole machine in the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineUsage {
    /// Fraction of all CPU cores that was busy, for any process.
    pub busy_share: f64,
    /// Fraction of CPU time used by other guests of the host (steal time).
    pub steal_share: f64,
    /// Mean CPU cores of processes outside the run.
    pub other_processes_cores: f64,
    /// One-minute load average at the end of the measured window.
    pub load_average_1m: Option<f64>,
    /// Number of context switches of all processes.
    pub context_switches: Option<u64>,
    /// Bytes received on all interfaces, including loopback and protocol headers.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent on all interfaces, including loopback and protocol headers.
    pub network_tx_bytes: Option<u64>,
}

/// Cost of the benchmarking tool: producers and receivers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorCost {
    /// Roles of the benchmarking tool, for example `produce` and `clients`.
    pub roles: Vec<String>,
    /// Mean CPU cores of all these roles together.
    pub cpu_cores_mean: f64,
    /// Mean CPU cores of these roles, as a fraction of the machine's cores.
    pub machine_share: f64,
    /// CPU time of the producers per record, in microseconds.
    pub cpu_us_per_record: Option<f64>,
    /// CPU time of the receivers per delivery, in microseconds.
    pub cpu_us_per_delivered: Option<f64>,
    /// 99th percentile of the schedule lag, in microseconds.
    pub schedule_lag_p99_us: Option<f64>,
    /// 99.9th percentile of the schedule lag, in microseconds.
    pub schedule_lag_p999_us: Option<f64>,
}

/// Steady state of the response times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Time under load until the response times no longer depended on the start, in seconds.
    pub warm_up_s: f64,
    /// `true` if the steady state began before the measured window and the window shows no trend.
    pub is_steady: bool,
    /// Change of the median response time over the measured window, as a fraction of its median.
    pub drift_share: Option<f64>,
    /// Detection method, for example `mser of the median response of each second`.
    pub method: String,
}

/// Disturbed part of the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoisySpan {
    /// Start, in seconds from the start of the measured window.
    pub from_s: f64,
    /// End, in seconds from the start of the measured window.
    pub until_s: f64,
    /// Disturbance, with its value.
    pub reason: String,
}
