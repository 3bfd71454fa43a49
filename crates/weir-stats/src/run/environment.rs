//! The environment of a run: machine, clocks, settings and published references.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hardware and system of one machine. Omits the host name because reports are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// CPU model as reported by the kernel.
    pub cpu_model: String,
    /// Number of logical CPUs available to this process.
    pub cpu_cores: u64,
    /// Main memory, or the control group limit if it is lower, in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution and its version.
    pub os: String,
    /// Other system properties that affect measurements, under the system's names: frequency
    /// governor, clock source, kernel parameters, limits, load before the run.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Placement of one role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// `broker`, `gateway`, `floor`, `clients`, `consume` or `produce`.
    pub role: String,
    /// Label of the host; `this machine` if there is only one.
    pub host: String,
    /// Number of processes.
    pub processes: u64,
    /// One-line description; empty if the role name is sufficient.
    #[serde(default)]
    pub description: String,
}

/// Method of comparing timestamps from different processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// Comparison method.
    pub mode: ClockMode,
    /// Maximum difference between two clocks, in nanoseconds.
    pub bound_ns: u64,
}

/// Methods of comparing timestamps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// One clock, which all processes read.
    #[default]
    SameHost,
    /// One process that sends and receives.
    Echo,
    /// An offset estimated over the control connection.
    OffsetEstimate,
    /// Clocks disciplined by NTP or PTP, with the bound reported by the daemon.
    Disciplined,
}

/// Resolved settings of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingGroup {
    /// `producer`, `topic`, `consumer`, `gateway`, `workload` ...
    pub part: String,
    /// Settings in reading order.
    pub settings: Vec<Setting>,
}

/// One setting. The name includes the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Name as spelled by the part.
    pub name: String,
    /// Value as text.
    pub value: String,
}

impl SettingGroup {
    /// Creates a group without settings.
    pub fn new(part: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            settings: Vec::new(),
        }
    }

    /// Adds one setting.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.settings.push(Setting {
            name: name.into(),
            value: value.to_string(),
        });
        self
    }
}

/// Results published elsewhere, shown next to those of the run and labelled as other hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceFigures {
    /// Publisher and publication.
    pub source: String,
    /// Hardware of the published measurements.
    pub hardware: String,
    /// Differences from this run, in one sentence.
    pub note: String,
    /// Published results.
    pub rows: Vec<ReferenceRow>,
}

/// One published cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceRow {
    /// Name of the series in the publication.
    pub series: String,
    /// Corresponding architecture of the run, if any.
    pub architecture: Option<String>,
    /// Corresponding variant of the run, if any.
    pub variant: Option<String>,
    /// Number of clients.
    pub clients: u64,
    /// Further coordinates of the load point, under the names used in cells.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// Further published metrics. Each name includes its unit.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Mean latency, in milliseconds; `null` if not given or not sustained.
    pub latency_mean_ms: Option<u64>,
    /// Standard deviation of the latency, in milliseconds.
    pub latency_stddev_ms: Option<u64>,
    /// Total throughput to all clients, in bit/s.
    pub throughput_bit_per_s: Option<u64>,
    /// `false` if the publication marks the level as not sustained.
    pub sustained: bool,
}
