//! Where and with what a run took place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Hardware and system of one machine. The host name is left out: reports are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model as the kernel names it.
    pub cpu_model: String,
    /// Logical processors this process may use.
    pub cpu_cores: u64,
    /// Main memory, or the limit of the control group where that is lower.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution and its version.
    pub os: String,
    /// What else of the system bears on figures, as the system names it: frequency governor, clock
    /// source, kernel parameters, limits, load before the run.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Where one role ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `broker`, `gateway`, `floor`, `clients`, `consume`, `produce`.
    pub role: String,
    /// Label of the host; `this machine` when there is only one.
    pub host: String,
    /// Number of processes.
    pub processes: u64,
    /// What runs there, one line; empty when the role says it.
    #[serde(default)]
    pub description: String,
}

/// How instants taken by different processes were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// Method.
    pub mode: ClockMode,
    /// Two clocks differ by at most this.
    pub bound_ns: u64,
}

/// Methods of comparing instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    /// All processes read one machine's clock.
    SameHost,
    /// Sent and received by the same process.
    Echo,
    /// Offset estimated over the control connection.
    OffsetEstimate,
    /// Disciplined by NTP or PTP; the bound is the daemon's.
    Disciplined,
}

/// Settings of one part, fully resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingGroup {
    /// `producer`, `topic`, `consumer`, `gateway`, `workload` ...
    pub part: String,
    /// In the order they should be read.
    pub settings: Vec<Setting>,
}

/// One setting; the name carries the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name as the part spells it.
    pub name: String,
    /// Value as text.
    pub value: String,
}

impl SettingGroup {
    /// A group without settings.
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

/// Figures published elsewhere, shown beside ours and labelled as other hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReferenceFigures {
    /// Who published them, and where.
    pub source: String,
    /// The hardware they were measured on.
    pub hardware: String,
    /// What differs from this run, one sentence.
    pub note: String,
    /// The figures.
    pub rows: Vec<ReferenceRow>,
}

/// One published cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReferenceRow {
    /// Name of the series as published.
    pub series: String,
    /// Our architecture it corresponds to, if any.
    #[serde(default)]
    pub architecture: Option<String>,
    /// Our variant it corresponds to, if any.
    #[serde(default)]
    pub variant: Option<String>,
    /// Number of clients.
    pub clients: u64,
    /// Further coordinates of its cell, under the names that cells have them.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// Further published figures; each name carries its unit.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Mean latency; `None` when not given or not sustained.
    pub latency_mean_ms: Option<u64>,
    /// Standard deviation of latency.
    pub latency_stddev_ms: Option<u64>,
    /// Bandwidth to all clients together, in bit/s.
    #[serde(default)]
    pub throughput_bit_per_s: Option<u64>,
    /// False when the publication marks the level as not sustained.
    pub sustained: bool,
}
