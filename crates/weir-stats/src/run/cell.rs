//! One cell: one architecture at one level, one repetition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{GeneratorCost, LatencySummary, MachineUsage, NoisySpan, StageMean, Steadiness};

/// From the due instant to receipt: the headline.
pub const STAGE_RESPONSE: &str = "response";
/// From the actual send to receipt.
pub const STAGE_SERVICE: &str = "service";
/// From the due instant to the actual send: the generator's own lateness.
pub const STAGE_SCHEDULE_LAG: &str = "schedule_lag";
/// From the send to the broker's acknowledgement.
pub const STAGE_PUBLISH_ACK: &str = "publish_ack";
/// From the broker's time stamp, in the middle of its millisecond, to receipt.
pub const STAGE_STORED_TO_CLIENT: &str = "stored_to_client";

/// What one repetition of one architecture at one level measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `groups`, `standalone`, `gateway` or `floor`.
    pub architecture: String,
    /// What tells it from other cells of the architecture, for example `threads-4`.
    #[serde(default)]
    pub variant: Option<String>,
    /// Number of clients.
    pub clients: u64,
    /// Further coordinates of a grid; each name carries its unit: `rate_per_s`, `size_bytes`.
    #[serde(default)]
    pub parameters: BTreeMap<String, f64>,
    /// From 1.
    pub repetition: u64,
    /// Whether the figures count.
    pub status: CellStatus,
    /// When it began, from the start of the run.
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
    /// Latency by stage, [`STAGE_RESPONSE`] first of all.
    #[serde(default)]
    pub latency: BTreeMap<String, LatencySummary>,
    /// Means of the parts of the way, which add up to that of the response; empty when they are not known.
    #[serde(default)]
    pub stages: Vec<StageMean>,
    /// What arrived, counted per client and summed.
    pub delivery: Option<DeliveryTotals>,
    /// How alike the clients fared.
    pub fairness: Option<Fairness>,
    /// Further figures; each name carries its unit, and `_per_s` is better when higher.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Cost of every role, the instrument's included.
    #[serde(default)]
    pub roles: Vec<RoleUsage>,
    /// The machine as a whole.
    #[serde(default)]
    pub machine: Option<MachineUsage>,
    /// What the load generator itself cost, and how late it was.
    #[serde(default)]
    pub generator: Option<GeneratorCost>,
    /// When the load had settled, found from the series.
    #[serde(default)]
    pub steadiness: Option<Steadiness>,
    /// Parts of the window that something disturbed.
    #[serde(default)]
    pub noisy: Vec<NoisySpan>,
    /// The unmodified SDK client beside the simulated ones.
    pub probe: Option<SdkProbe>,
    /// One point a second.
    #[serde(default)]
    pub series: Vec<SeriesPoint>,
    /// The role that limited this cell, if one did.
    pub saturated_role: Option<String>,
    /// What shows it, with the figure: a thread that had no time left, or a machine that was full.
    #[serde(default)]
    pub saturated_why: Option<String>,
    /// Why the system under test did not keep up at this level; `None` if it did.
    #[serde(default)]
    pub not_sustained: Option<String>,
    /// Raw interval log of this cell, relative to the run folder.
    pub hlog_file: Option<String>,
    /// Remarks for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Cell {
    /// Short name, fit for a file: `gateway-10000-1`, `gateway-threads_4-10000-rate_per_s_50-1`.
    pub fn id(&self) -> String {
        let mut parts = vec![file_name(&self.architecture)];
        parts.extend(self.variant.as_deref().map(file_name));
        parts.push(self.clients.to_string());
        let parameters = self.parameters.iter();
        parts.extend(parameters.map(|(name, value)| file_name(&format!("{name}_{value}"))));
        parts.push(self.repetition.to_string());
        parts.join("-")
    }

    /// What its repetitions share: the architecture, and the variant if there is one.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} {variant}", self.architecture),
            None => self.architecture.clone(),
        }
    }

    /// True when the figures show the system under test.
    pub fn is_valid(&self) -> bool {
        self.status == CellStatus::Valid
    }

    /// True when the figures count and the system under test kept up.
    pub fn is_sustained(&self) -> bool {
        self.is_valid() && self.not_sustained.is_none()
    }

    /// The headline latency.
    pub fn response(&self) -> Option<&LatencySummary> {
        self.latency.get(STAGE_RESPONSE)
    }

    /// Usage of one role.
    pub fn role(&self, role: &str) -> Option<&RoleUsage> {
        self.roles.iter().find(|usage| usage.role == role)
    }

    /// Usage of the part that delivers to the clients: the gateway or the floor, else the broker.
    pub fn delivering_role(&self) -> Option<&RoleUsage> {
        self.role("gateway")
            .or_else(|| self.role("floor"))
            .or_else(|| self.role("broker"))
    }
}

/// Letters and digits stay; anything else that could end up in a path does not.
fn file_name(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

/// Whether a cell's figures count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CellStatus {
    /// They do; loss or lateness of the system under test is a result.
    #[default]
    Valid,
    /// The instrument failed.
    Invalid {
        /// Each with the figure and the limit.
        reasons: Vec<String>,
    },
    /// Not run.
    Skipped {
        /// Why not.
        reason: String,
    },
}

/// Deliveries due in the window, summed over all clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeliveryTotals {
    /// Deliveries that had to happen.
    pub expected: u64,
    /// Deliveries that happened, duplicates left out.
    pub delivered: u64,
    /// Of these, those of records that their client wanted: a plain consumer of one key receives every
    /// record of the topic. `None`: all.
    #[serde(default)]
    pub wanted: Option<u64>,
    /// Never arrived.
    pub lost: u64,
    /// Arrived more than once, counted beyond the first.
    pub duplicated: u64,
    /// Arrived after a later record of the same key and producer.
    pub reordered: u64,
    /// Left out on purpose because a later state replaced them.
    pub conflated: u64,
    /// Could not be checked, for want of a sequence number.
    pub unchecked: u64,
    /// Deliveries per second of the window.
    pub delivered_per_s: Option<f64>,
    /// Bytes read by all clients in the window.
    pub received_bytes: u64,
    /// The same as a rate.
    pub received_mbit_per_s: Option<f64>,
    /// Connections that ended unasked.
    pub disconnects: u64,
    /// Errors told by clients, by text.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
}

impl DeliveryTotals {
    /// Returns the number of deliveries that clients wanted; costs are stated per such delivery.
    pub fn wanted(&self) -> u64 {
        self.wanted.unwrap_or(self.delivered)
    }

    /// Returns the unwanted deliveries for each wanted one; `None` where all were wanted.
    pub fn unwanted_per_wanted(&self) -> Option<f64> {
        let wanted = self.wanted.filter(|wanted| *wanted > 0)?;
        let unwanted = self.delivered.checked_sub(wanted).filter(|it| *it > 0)?;
        Some(unwanted as f64 / wanted as f64)
    }

    /// Returns the bytes of unwanted deliveries for each wanted one, taking deliveries to be equally large.
    pub fn unwanted_bytes_per_wanted(&self) -> Option<f64> {
        let bytes = self.received_bytes as f64 / self.delivered as f64;
        Some(self.unwanted_per_wanted()? * bytes)
    }
}

/// Distribution over clients of each client's own p99 response, and of its deliveries.
///
/// Per-client figures come from coarse histograms (12 %); they compare clients with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Clients that received enough to have a p99.
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

/// What one role used during the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// `broker`, `gateway`, `floor`, `clients`, `consume`, `produce`.
    pub role: String,
    /// Number of processes summed here.
    pub processes: u64,
    /// Processor time in the window, user and system.
    pub cpu_us_total: u64,
    /// The part of it in the kernel.
    #[serde(default)]
    pub cpu_system_us: Option<u64>,
    /// The same as cores busy on average.
    pub cpu_cores_mean: Option<f64>,
    /// The same per wanted delivery.
    pub cpu_us_per_delivered: Option<f64>,
    /// Resident memory before the clients connected.
    pub rss_start_bytes: Option<u64>,
    /// Largest resident memory in the window.
    pub rss_max_bytes: Option<u64>,
    /// Largest resident memory that is no file: heap and stacks.
    #[serde(default)]
    pub rss_anon_max_bytes: Option<u64>,
    /// Growth of resident memory per client; kernel buffers are not in it.
    pub user_memory_per_client_bytes: Option<f64>,
    /// Most threads in the window.
    pub threads_max: Option<u64>,
    /// Name of the thread that worked most.
    #[serde(default)]
    pub busiest_thread: Option<String>,
    /// Share of one core that it had.
    #[serde(default)]
    pub busiest_thread_cores: Option<f64>,
    /// Context switches by waiting.
    pub context_switches_voluntary: Option<u64>,
    /// Context switches by preemption.
    pub context_switches_involuntary: Option<u64>,
    /// Bytes read from disks.
    #[serde(default)]
    pub disk_read_bytes: Option<u64>,
    /// Bytes written to disks, or to be written there.
    #[serde(default)]
    pub disk_written_bytes: Option<u64>,
    /// Bytes received.
    pub network_rx_bytes: Option<u64>,
    /// Bytes sent.
    pub network_tx_bytes: Option<u64>,
    /// How network bytes were measured, e.g. `counted by the process`.
    #[serde(default)]
    pub network_source: String,
}

/// An unmodified SDK client that ran beside the simulated ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SdkProbe {
    /// Package name.
    pub sdk: String,
    /// Its version.
    pub version: String,
    /// Updates received in the window.
    pub updates: u64,
    /// Never arrived.
    pub lost: u64,
    /// Arrived more than once.
    pub duplicated: u64,
    /// Its own response latency.
    pub latency: Option<LatencySummary>,
    /// Connection states it went through, in order.
    #[serde(default)]
    pub status_changes: Vec<String>,
    /// Connected by streaming, received updates, lost none.
    pub ok: bool,
}

/// One second of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// End of this second, from the start of the measured window; negative during warm-up.
    pub t_s: f64,
    /// Records due per second.
    pub offered_per_s: Option<f64>,
    /// Records acknowledged per second.
    pub achieved_per_s: Option<f64>,
    /// Deliveries per second.
    pub delivered_per_s: Option<f64>,
    /// Median response of this second.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response of this second.
    pub p99_us: Option<f64>,
    /// 99th percentile of the generator's lateness.
    pub lag_p99_us: Option<f64>,
    /// Cores busy, by role.
    #[serde(default)]
    pub cpu_cores: BTreeMap<String, f64>,
    /// Deliveries due but not yet made, as far as known.
    pub backlog: Option<u64>,
}
