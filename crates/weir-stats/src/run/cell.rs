//! One cell: one architecture at one level, one repetition.

use std::collections::BTreeMap;

use schemars::JsonSchema;
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

/// Measurements of one repetition of one architecture at one load point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// `groups`, `standalone`, `gateway` or `floor`.
    pub architecture: String,
    /// Variant that distinguishes cells of the same architecture, for example `threads-4`.
    pub variant: Option<String>,
    /// Number of clients.
    pub clients: u64,
    /// Further coordinates of the load point. Each name includes its unit: `rate_per_s`,
    /// `size_bytes`.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// Repetition number, from 1.
    pub repetition: u64,
    /// Validity of the measurements.
    pub status: CellStatus,
    /// Start time, in seconds from the start of the run.
    pub started_s: Option<f64>,
    /// Length of the warm-up before the measured window, in seconds.
    pub warm_up_s: f64,
    /// Length of the measured window by due time, in seconds.
    pub hold_s: f64,
    /// Records due per second.
    pub offered_records_per_s: f64,
    /// Records acknowledged per second of the measured window.
    pub achieved_records_per_s: Option<f64>,
    /// Mean size of a record (key, value and headers), in bytes.
    pub record_bytes_mean: Option<f64>,
    /// Latency by stage. `response` is the headline latency.
    #[serde(default)]
    pub latency: BTreeMap<String, LatencySummary>,
    /// Mean latency of each stage of the data path; the sum is the mean response time. Empty if
    /// unknown.
    #[serde(default)]
    pub stages: Vec<StageMean>,
    /// Deliveries, counted per client and summed.
    pub delivery: Option<DeliveryTotals>,
    /// Distribution of latency and deliveries over the clients.
    pub fairness: Option<Fairness>,
    /// Further metrics. Each name includes its unit. Higher is better for names ending in `_per_s`.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Resource usage of every role, including those of the benchmarking tool.
    #[serde(default)]
    pub roles: Vec<RoleUsage>,
    /// Results of each process of a role that several machines share; empty if none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareResult>,
    /// Resource usage of the whole machine.
    pub machine: Option<MachineUsage>,
    /// Cost and schedule lag of the load generator.
    pub generator: Option<GeneratorCost>,
    /// Steady state, detected from the series.
    pub steadiness: Option<Steadiness>,
    /// Disturbed parts of the measured window.
    #[serde(default)]
    pub noisy: Vec<NoisySpan>,
    /// Unmodified SDK client that ran next to the simulated clients.
    pub probe: Option<SdkProbe>,
    /// Time series with one point per second.
    #[serde(default)]
    pub series: Vec<SeriesPoint>,
    /// Saturated role, which limited this cell; `null` if there was none.
    pub saturated_role: Option<String>,
    /// Evidence of saturation, with its value: a thread without spare CPU time, or a fully used
    /// machine.
    pub saturation_reason: Option<String>,
    /// Reason why the system under test did not sustain the load; `null` if it did.
    pub not_sustained: Option<String>,
    /// Path of the cell's raw interval log, relative to the run directory.
    pub hlog_file: Option<String>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Cell {
    /// Saturated role if processes outside the run used the machine.
    pub const OTHER_PROCESSES: &'static str = "other_processes";

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

impl Cell {
    /// Returns the sum of a value over all servers: the broker and what is between it and the
    /// clients. Returns `None` if a value is missing.
    pub fn of_servers(&self, pick: impl Fn(&RoleUsage) -> Option<f64>) -> Option<f64> {
        let servers = ["broker", "gateway", "proxy", "floor"];
        let roles = self.roles.iter();
        let usages = roles.filter(|usage| servers.contains(&usage.role.as_str()));
        let mut usages = usages.peekable();
        usages.peek()?;
        usages.map(pick).sum()
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Deliveries due in the measured window, summed over all clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryTotals {
    /// Expected deliveries.
    pub expected: u64,
    /// Actual deliveries, without duplicates.
    pub delivered: u64,
    /// Delivered records that the client needed; `null` if all were. A plain consumer of one key
    /// receives every record of the topic.
    pub wanted: Option<u64>,
    /// Expected deliveries that never arrived.
    pub lost: u64,
    /// Repeated deliveries, without the first of each.
    pub duplicated: u64,
    /// Deliveries that arrived after a later record of the same key and producer.
    pub reordered: u64,
    /// Updates intentionally replaced by a newer one.
    pub conflated: u64,
    /// Deliveries without a sequence number, which cannot be checked.
    pub unchecked: u64,
    /// Deliveries per second of the measured window.
    pub delivered_per_s: Option<f64>,
    /// Bytes read by all clients in the measured window.
    pub received_bytes: u64,
    /// Receive rate of all clients, in Mbit/s.
    pub received_mbit_per_s: Option<f64>,
    /// Connections that ended unexpectedly.
    pub disconnects: u64,
    /// Number of errors reported by clients, by error text.
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

/// Distribution over the clients of each client's p99 response time and number of deliveries.
/// Per-client percentiles are accurate to about 12 % and serve only to compare clients with each
/// other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Number of clients with enough deliveries for a p99.
    pub clients: u64,
    /// Minimum of the per-client p99 response times, in microseconds.
    pub client_p99_min_us: Option<f64>,
    /// Median of the per-client p99 response times, in microseconds.
    pub client_p99_p50_us: Option<f64>,
    /// 90th percentile of the per-client p99 response times, in microseconds.
    pub client_p99_p90_us: Option<f64>,
    /// Maximum of the per-client p99 response times, in microseconds.
    pub client_p99_max_us: Option<f64>,
    /// Fewest deliveries to one client.
    pub deliveries_min: u64,
    /// Most deliveries to one client.
    pub deliveries_max: u64,
}

/// Resource usage of one role in the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleUsage {
    /// `broker`, `gateway`, `floor`, `clients`, `consume` or `produce`.
    pub role: String,
    /// Number of processes in the sum.
    pub processes: u64,
    /// CPU time (user plus system), in microseconds.
    pub cpu_us_total: u64,
    /// System part of the CPU time, in microseconds.
    pub cpu_system_us: Option<u64>,
    /// Mean CPU cores.
    pub cpu_cores_mean: Option<f64>,
    /// CPU time per wanted delivery, in microseconds.
    pub cpu_us_per_delivered: Option<f64>,
    /// Resident memory before the clients connected, in bytes.
    pub rss_start_bytes: Option<u64>,
    /// Maximum resident memory, in bytes.
    pub rss_max_bytes: Option<u64>,
    /// Maximum anonymous resident memory (heap and stacks), in bytes.
    pub rss_anon_max_bytes: Option<u64>,
    /// Growth of resident memory per client in bytes, without kernel buffers.
    pub user_memory_per_client_bytes: Option<f64>,
    /// Maximum number of threads.
    pub threads_max: Option<u64>,
    /// Name of the thread with the most CPU time.
    pub busiest_thread: Option<String>,
    /// CPU time of this thread, as a fraction of one core.
    pub busiest_thread_cores: Option<f64>,
    /// Number of voluntary context switches.
    pub context_switches_voluntary: Option<u64>,
    /// Number of involuntary context switches.
    pub context_switches_involuntary: Option<u64>,
    /// Bytes read from disks.
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks or queued for writing.
    pub disk_written_bytes: Option<u64>,
    /// Bytes received.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent.
    pub network_tx_bytes: Option<u64>,
    /// Measurement method of the network bytes, for example `counted by the process`.
    #[serde(default)]
    pub network_source: String,
}

/// Result of one process of a role that several machines share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareResult {
    /// Name of the role, for example `clients`.
    pub role: String,
    /// Name of its machine.
    pub host: String,
    /// Number of its clients.
    pub clients: u64,
    /// Deliveries to them in the measured window, without repeated ones.
    pub delivered: u64,
    /// Deliveries that never arrived.
    pub lost: u64,
    /// Repeated deliveries.
    pub duplicated: u64,
    /// Deliveries after a later record of the same key.
    pub reordered: u64,
    /// Connections that ended early.
    pub disconnects: u64,
    /// Share of the window in which its event loop was busy.
    pub busy_share: Option<f64>,
    /// Mean CPU cores.
    pub cpu_cores_mean: Option<f64>,
    /// Maximum resident memory, in bytes.
    pub rss_max_bytes: Option<u64>,
    /// Response times of its clients.
    pub response: LatencySummary,
}

/// Unmodified SDK client that ran next to the simulated clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SdkProbe {
    /// Package name.
    pub sdk: String,
    /// Package version.
    pub version: String,
    /// Updates received in the measured window.
    pub updates: u64,
    /// Updates that never arrived.
    pub lost: u64,
    /// Updates that arrived more than once.
    pub duplicated: u64,
    /// Response time of this client.
    pub latency: Option<LatencySummary>,
    /// Connection states, in order.
    #[serde(default)]
    pub status_changes: Vec<String>,
    /// `true` if the client connected by streaming, received updates and lost none.
    pub ok: bool,
}

/// One second of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    /// End of the second, in seconds from the start of the measured window; negative during
    /// warm-up.
    pub t_s: f64,
    /// Records due per second.
    pub offered_per_s: Option<f64>,
    /// Records acknowledged per second.
    pub achieved_per_s: Option<f64>,
    /// Deliveries per second.
    pub delivered_per_s: Option<f64>,
    /// Median response time in this second, in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time in this second, in microseconds.
    pub p99_us: Option<f64>,
    /// 99th percentile of the schedule lag, in microseconds.
    pub lag_p99_us: Option<f64>,
    /// Busy CPU cores, by role.
    #[serde(default)]
    pub cpu_cores: BTreeMap<String, f64>,
    /// Number of deliveries due but not made, as far as known.
    pub backlog: Option<u64>,
}
