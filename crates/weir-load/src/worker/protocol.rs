//! What a coordinator and a load worker say to each other: one JSON object per line.
//!
//! The same messages travel over a child's stdin and stdout and, for remote workers, over a socket.
//! This module owns their shape only; reading and writing lines is in the parent module.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::delivery::DeliverySummary;

/// What a coordinator asks of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
pub enum WorkerCommand {
    /// Begin at the given instant and measure inside the given window. Once more: the window has moved, and the
    /// schedule goes on.
    Start(Schedule),
    /// The records due in the window that the broker acknowledged; what clients settle against.
    Ledger {
        /// One entry per key and producer.
        entries: Vec<LedgerEntry>,
    },
    /// End in order and send the final summary. End of input means the same.
    Stop,
}

/// When a worker begins, measures and ends; all instants are unix nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Producers: the due instant of record 0. Others: from when they may count.
    pub start_unix_ns: u64,
    /// First due instant inside the measured window.
    pub measure_from_unix_ns: u64,
    /// First due instant after the measured window.
    pub measure_until_unix_ns: u64,
    /// When the worker ends by itself; producers send nothing due at or after it.
    pub stop_unix_ns: u64,
}

impl Schedule {
    /// Whether a record due at `due_unix_ns` belongs to the measured window.
    pub fn in_window(&self, due_unix_ns: u64) -> bool {
        (self.measure_from_unix_ns..self.measure_until_unix_ns).contains(&due_unix_ns)
    }
}

/// The records of one key and producer that were due in the window and acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Record key; empty for records without a key.
    pub key: String,
    /// Producer index.
    pub producer: u32,
    /// First acknowledged sequence number of the window.
    pub first_seq: u64,
    /// Last acknowledged sequence number of the window.
    pub last_seq: u64,
    /// Numbers between first and last that failed or were never acknowledged, ascending: nobody
    /// can be asked to deliver them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u64>,
    /// Due instant of `last_seq`, in unix nanoseconds; 0 when not known.
    #[serde(default)]
    pub last_due_unix_ns: u64,
}

/// What a worker reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The first line of every worker.
    Hello {
        /// What the worker does.
        role: WorkerRole,
        /// Version of the program.
        version: String,
        /// Process id, for resource sampling.
        pid: u32,
    },
    /// Everything is connected; the worker waits for `start`.
    Ready {
        /// Connections or sessions that are up.
        connections: u64,
        /// The port listened on, when the worker is a server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// Sent each second.
    Progress(WorkerProgress),
    /// The latencies of one interval of the measured window (a delta, not a running total).
    Interval(LatencyInterval),
    /// The published programs' text report, if it was asked for.
    Report {
        /// Several lines, as they are to be printed.
        text: String,
    },
    /// The last line of a worker that ended in order.
    Final {
        /// The result.
        summary: Summary,
    },
    /// The worker failed; it exits with the matching code.
    Error {
        /// What went wrong and the remedy, in one line.
        message: String,
    },
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerRole {
    /// Writes records.
    Produce,
    /// TLCP clients.
    Clients,
    /// Plain Kafka consumers.
    Consume,
    /// The floor server.
    Floor,
    /// Plain sockets that read what the floor sends.
    FloorClients,
}

impl WorkerRole {
    /// The name used in commands, events and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Clients => "clients",
            Self::Consume => "consume",
            Self::Floor => "floor",
            Self::FloorClients => "floor_clients",
        }
    }
}

/// How far a worker is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerProgress {
    /// When this was true, in unix nanoseconds.
    pub unix_ns: u64,
    /// Running totals by name.
    pub counters: BTreeMap<String, u64>,
    /// Median of the last second in microseconds: response time, or schedule lag for producers; `None`
    /// without a sample.
    pub p50_us: Option<u64>,
    /// 99th percentile of the last second in microseconds.
    pub p99_us: Option<u64>,
}

/// Latencies of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyInterval {
    /// Begin of the interval, in unix nanoseconds.
    pub from_unix_ns: u64,
    /// End of the interval, in unix nanoseconds.
    pub until_unix_ns: u64,
    /// What was measured.
    pub tag: LatencyTag,
    /// HdrHistogram V2 in base64; values in nanoseconds.
    pub histogram: String,
}

/// Which latency a histogram holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyTag {
    /// From the due instant to the arrival: the headline.
    Response,
    /// From the actual send to the arrival.
    Service,
    /// From the due instant to the actual send.
    ScheduleLag,
    /// From the actual send to the broker's acknowledgement.
    PublishAck,
    /// From the due instant to that acknowledgement.
    Acknowledged,
    /// From the broker's time stamp, in the middle of its millisecond, to the arrival.
    StoredToClient,
    /// From the due instant of the state a client had to the arrival of the update that replaced it
    /// and skipped records in between: how old a conflated state had become.
    StateAge,
}

impl LatencyTag {
    /// The name used in events and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::ScheduleLag => "schedule_lag",
            Self::PublishAck => "publish_ack",
            Self::Acknowledged => "acknowledged",
            Self::StoredToClient => "stored_to_client",
            Self::StateAge => "state_age",
        }
    }
}

/// The result of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Summary {
    /// Of `produce`.
    Produce(ProduceSummary),
    /// Of every worker that receives: clients, consumers, floor clients.
    Delivery(DeliverySummary),
    /// Of `floor`.
    Floor(FloorSummary),
    /// Of a consumer that reads a topic from its begin.
    Scan(ScanSummary),
}

/// What a producer did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceSummary {
    /// Target rate in thousandths of a record per second.
    pub target_rate_millis: u64,
    /// From the first due instant to the last send, in nanoseconds.
    pub elapsed_ns: u64,
    /// Records that came due.
    pub due: u64,
    /// Records handed to the Kafka library.
    pub sent: u64,
    /// Records the broker acknowledged.
    pub acked: u64,
    /// Records that failed for good.
    pub failed: u64,
    /// Records without an answer when the producer ended.
    pub unacknowledged: u64,
    /// Records due in the window.
    pub due_in_window: u64,
    /// Records due in the window that were acknowledged.
    pub acked_in_window: u64,
    /// Value and key bytes handed to the Kafka library.
    pub bytes_sent: u64,
    /// Bytes written to brokers' sockets, compressed and with all that surrounds them, up to a second
    /// before the end.
    #[serde(default)]
    pub wire_bytes_sent: u64,
    /// Times a full send queue delayed a record; shows as lateness, never as loss.
    pub queue_full: u64,
    /// Schedule lag over the window (over everything without a window), in nanoseconds.
    pub schedule_lag: Quantiles,
    /// Send to acknowledgement over the same records, in nanoseconds.
    pub publish_ack: Quantiles,
    /// Failed sends by reason.
    pub errors: BTreeMap<String, u64>,
    /// What clients settle their deliveries against.
    pub ledger: Vec<LedgerEntry>,
}

/// A few quantiles of one histogram, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    #[serde(default)]
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
}

/// What a consumer did that read a topic from its begin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// When it began, in unix nanoseconds.
    pub started_unix_ns: u64,
    /// From there until it had its partitions and knew where they begin.
    pub rebalance_ns: u64,
    /// From the begin to the last message.
    pub elapsed_ns: u64,
    /// Messages read.
    pub messages: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes read from brokers' sockets.
    pub wire_bytes_received: u64,
    /// Fetch answers read.
    pub fetches: u64,
    /// Errors by text.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
}

/// What the floor server did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorSummary {
    /// Records read from Kafka.
    pub records_read: u64,
    /// Frames written, one per record and socket.
    pub frames_sent: u64,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Sockets accepted.
    pub accepted: u64,
    /// Most sockets at one time.
    pub sockets_max: u64,
    /// Sockets closed because a write would have blocked.
    pub closed_would_block: u64,
    /// Sockets that ended for another reason.
    pub closed_other: u64,
}
