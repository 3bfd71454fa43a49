//! One cell: one architecture at one level, one repetition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{GeneratorCost, LatencySummary, MachineUsage, NoisySpan, StageMean, Steadiness};

/// Response time: from due time to receipt; the headline latency.
pub const STAGE_RESPONSE: &str = "response";
/// Service time: from send to receipt.
pub const STAGE_SERVICE: &str = "service";
/// Schedule lag: from due time to send.
pub const STAGE_SCHEDULE_LAG: &str = "schedule_lag";
/// From send to the broker's acknowledgement.
pub const STAGE_PUBLISH_ACK: &str = "publish_ack";
/// From the broker's timestamp, at the middle of its millisecond, to receipt.
pub const STAGE_STORED_TO_CLIENT: &str = "stored_to_client";

/// Measurements of one repetition of one architecture at one level.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `groups`, `standalone`, `gateway` or `floor`.
    pub architecture: String,
    /// Variant that distinguishes cells of the architecture, for example `threads-4`.
    #[serde(default)]
    pub variant: Option<String>,
    /// Number of clients.
    pub clients: u64,
    /// Further coordinates of a grid; each name includes its unit: `rate_per_s`, `size_bytes`.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// Repetition number from 1.
    pub repetition: u64,
    /// Validity of the measurements.
    pub status: CellStatus,
    /// Start time, from the start of the run.
    #[serde(default)]
    pub started_s: Option<f64>,
    /// Time before the measured window.
    pub warm_up_s: f64,
    /// Length of the measured window, by due time.
    pub hold_s: f64,
    /// Records due per second.
    pub offered_records_per_s: f64,
    /// Records acknowledged per second of the window.
    pub achieved_records_per_s: Option<f64>,
    /// Mean size of a record's key, value and headers.
    pub record_bytes_mean: Option<f64>,
    /// Latency by stage, most importantly [`STAGE_RESPONSE`].
    #[serde(default)]
    pub latency: BTreeMap<String, LatencySummary>,
    /// Mean latency of the stages of the data path, whose sum is the mean response time; empty if
    /// unknown.
    #[serde(default)]
    pub stages: Vec<StageMean>,
    /// Deliveries, counted per client and summed.
    pub delivery: Option<DeliveryTotals>,
    /// Distribution of latency and deliveries over the clients.
    pub fairness: Option<Fairness>,
    /// Further metrics. Each name includes its unit; higher is better for `_per_s`.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Resource usage of every role, including those of the benchmarking tool.
    #[serde(default)]
    pub roles: Vec<RoleUsage>,
    /// Resource usage of the whole machine.
    #[serde(default)]
    pub machine: Option<MachineUsage>,
    /// Cost and schedule lag of the load generator.
    #[serde(default)]
    pub generator: Option<GeneratorCost>,
    /// Steady state, detected from the series.
    #[serde(default)]
    pub steadiness: Option<Steadiness>,
    /// Disturbed parts of the window.
    #[serde(default)]
    pub noisy: Vec<NoisySpan>,
    /// Unmodified SDK client that runs next to the simulated ones.
    pub probe: Option<SdkProbe>,
    /// One point per second.
    #[serde(default)]
    pub series: Vec<SeriesPoint>,
    /// Saturated role, which limited this cell; `None` if there was none.
    pub saturated_role: Option<String>,
    /// Evidence of saturation, with its value: a thread without spare CPU time, or a fully used
    /// machine.
    #[serde(default)]
    pub saturation_reason: Option<String>,
    /// Reason why the system under test did not sustain this level; `None` if it did.
    #[serde(default)]
    pub not_sustained: Option<String>,
    /// Raw interval log of this cell, relative to the run directory.
    pub hlog_file: Option<String>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Cell {
    /// Returns a short name for files: `gateway-10000-1`,
    /// `gateway-threads_4-10000-rate_per_s_50-1`.
    pub fn id(&self) -> String {
        let mut parts = vec![file_name(&self.architecture)];
        parts.extend(self.variant.as_deref().map(file_name));
        parts.push(self.clients.to_string());
        let parameters = self.parameters.iter();
        parts.extend(parameters.map(|(name, value)| file_name(&format!("{name}_{value}"))));
        parts.push(self.repetition.to_string());
        parts.join("-")
    }

    /// Returns the name that repetitions share: the architecture, and the variant if there is one.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} {variant}", self.architecture),
            None => self.architecture.clone(),
        }
    }

    /// Returns `true` if the metrics describe the system under test.
    pub fn is_valid(&self) -> bool {
        self.status == CellStatus::Valid
    }

    /// Returns `true` if the cell is valid and the system under test sustained the load.
    pub fn is_sustained(&self) -> bool {
        self.is_valid() && self.not_sustained.is_none()
    }

    /// Returns the headline latency.
    pub fn response(&self) -> Option<&LatencySummary> {
        self.latency.get(STAGE_RESPONSE)
    }

    /// Returns the usage of one role.
    pub fn role(&self, role: &str) -> Option<&RoleUsage> {
        self.roles.iter().find(|usage| usage.role == role)
    }

    /// Returns the usage of the role that delivers to the clients: the gateway or the floor,
    /// otherwise the broker.
    pub fn delivering_role(&self) -> Option<&RoleUsage> {
        self.role("gateway")
            .or_else(|| self.role("floor"))
            .or_else(|| self.role("broker"))
    }
}

/// Replaces everything except letters and digits, because the name becomes part of a path.
fn file_name(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

/// The validity of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CellStatus {
    /// Valid measurements. Loss and lag of the system under test are results.
    #[default]
    Valid,
    /// A failure of the benchmarking tool.
    Invalid {
        /// Reasons, each with value and limit.
        reasons: Vec<String>,
    },
    /// A cell that was not run.
    Skipped {
        /// Reason.
        reason: String,
    },
}

/// Deliveries due in the window, summed over all clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeliveryTotals {
    /// Expected deliveries.
    pub expected: u64,
    /// Actual deliveries without duplicates.
    pub delivered: u64,
    /// Of these, records that the client wanted: a plain consumer of one key receives every record
    /// of the topic. `None`: all.
    #[serde(default)]
    pub wanted: Option<u64>,
    /// Deliveries that never arrived.
    pub lost: u64,
    /// Repeated deliveries, not counting the first.
    pub duplicated: u64,
    /// Deliveries after a later record of the same key and producer.
    pub reordered: u64,
    /// Updates replaced by a newer one on purpose.
    pub conflated: u64,
    /// Deliveries without a sequence number, which cannot be checked.
    pub unchecked: u64,
    /// Deliveries per second of the window.
    pub delivered_per_s: Option<f64>,
    /// Bytes read by all clients in the window.
    pub received_bytes: u64,
    /// Rate of received bytes.
    pub received_mbit_per_s: Option<f64>,
    /// Connections that ended unexpectedly.
    pub disconnects: u64,
    /// Errors reported by clients, by text.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
}

impl DeliveryTotals {
    /// Returns the number of deliveries that clients wanted. Costs refer to such deliveries.
    pub fn wanted(&self) -> u64 {
        self.wanted.unwrap_or(self.delivered)
    }

    /// Returns the number of unwanted deliveries per wanted one, or `None` if all were wanted.
    pub fn unwanted_per_wanted(&self) -> Option<f64> {
        let wanted = self.wanted.filter(|wanted| *wanted > 0)?;
        let unwanted = self.delivered.checked_sub(wanted).filter(|it| *it > 0)?;
        Some(unwanted as f64 / wanted as f64)
    }

    /// Returns the bytes of unwanted deliveries per wanted one, assuming deliveries of equal size.
    pub fn unwanted_bytes_per_wanted(&self) -> Option<f64> {
        let bytes = self.received_bytes as f64 / self.delivered as f64;
        Some(self.unwanted_per_wanted()? * bytes)
    }
}

/// Distribution over clients of each client's p99 response time, and of its deliveries.
///
/// Per-client values come from coarse histograms (12 %), for comparing clients with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Clients with enough deliveries for a p99.
    pub clients: u64,
    /// Best client.
    pub client_p99_min_us: Option<f64>,
    /// Median client.
    pub client_p99_p50_us: Option<f64>,
    /// Client at the 90th percentile.
    pub client_p99_p90_us: Option<f64>,
    /// Worst client.
    pub client_p99_max_us: Option<f64>,
    /// Fewest deliveries to one client.
    pub deliveries_min: u64,
    /// Most deliveries to one client.
    pub deliveries_max: u64,
}

/// Resource usage of one role in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// `broker`, `gateway`, `floor`, `clients`, `consume`, `produce`.
    pub role: String,
    /// Number of processes summed.
    pub processes: u64,
    /// CPU time in the window.
    pub cpu_us_total: u64,
    /// Part of it in the kernel.
    #[serde(default)]
    pub cpu_system_us: Option<u64>,
    /// CPU time as the average number of busy cores.
    pub cpu_cores_mean: Option<f64>,
    /// CPU time per wanted delivery.
    pub cpu_us_per_delivered: Option<f64>,
    /// Resident memory before the clients connected.
    pub rss_start_bytes: Option<u64>,
    /// Maximum resident memory in the window.
    pub rss_max_bytes: Option<u64>,
    /// Maximum anonymous resident memory: heap and stacks.
    #[serde(default)]
    pub rss_anon_max_bytes: Option<u64>,
    /// Growth of resident memory per client, without kernel buffers.
    pub user_memory_per_client_bytes: Option<f64>,
    /// Maximum number of threads in the window.
    pub threads_max: Option<u64>,
    /// Name of the thread with the most CPU time.
    #[serde(default)]
    pub busiest_thread: Option<String>,
    /// CPU time of this thread as a share of one core.
    #[serde(default)]
    pub busiest_thread_cores: Option<f64>,
    /// Voluntary context switches.
    pub context_switches_voluntary: Option<u64>,
    /// Involuntary context switches.
    pub context_switches_involuntary: Option<u64>,
    /// Bytes read from disks.
    #[serde(default)]
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks or queued for writing.
    #[serde(default)]
    pub disk_written_bytes: Option<u64>,
    /// Bytes received.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent.
    pub network_tx_bytes: Option<u64>,
    /// Measurement method of network bytes, for example `counted by the process`.
    #[serde(default)]
    pub network_source: String,
}

/// An unmodified SDK client that ran next to the simulated ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkProbe {
    /// Package name.
    pub sdk: String,
    /// Package version.
    pub version: String,
    /// Updates received in the window.
    pub updates: u64,
    /// Updates that never arrived.
    pub lost: u64,
    /// Updates that arrived more than once.
    pub duplicated: u64,
    /// Response time of this client.
    pub latency: Option<LatencySummary>,
    /// Connection states in order.
    #[serde(default)]
    pub status_changes: Vec<String>,
    /// The client connected by streaming, received updates and lost none.
    pub ok: bool,
}

/// One second of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// End of the second, from the start of the measured window; negative during warm-up.
    pub t_s: f64,
    /// Records due per second.
    pub offered_per_s: Option<f64>,
    /// Records acknowledged per second.
    pub achieved_per_s: Option<f64>,
    /// Deliveries per second.
    pub delivered_per_s: Option<f64>,
    /// Median response time of this second.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time of this second.
    pub p99_us: Option<f64>,
    /// 99th percentile of the schedule lag.
    pub lag_p99_us: Option<f64>,
    /// Busy cores by role.
    #[serde(default)]
    pub cpu_cores: BTreeMap<String, f64>,
    /// Deliveries due but not made, as far as known.
    pub backlog: Option<u64>,
}
