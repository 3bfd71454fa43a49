//! Messages between a coordinator and a load worker: one JSON object per line.
//!
//! A child process uses stdin and stdout, a remote worker a socket. This module defines the
//! messages; the parent module reads and writes lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use weir_stats::Histogram;

use crate::delivery::DeliverySummary;
use crate::error::ErrorClass;

/// Command from a coordinator to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
pub enum WorkerCommand {
    /// Start at the given time and measure within the given window. Sent again, it moves the
    /// window; the schedule continues.
    Start(Schedule),
    /// Acknowledged records that were due in the window; clients compare their deliveries with
    /// them.
    Ledger {
        /// One entry per key and producer.
        entries: Vec<LedgerEntry>,
    },
    /// Shut down cleanly and send the final summary. End of input has the same effect.
    Stop,
}

/// Start, measured window and end of a worker; all times are Unix nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Producers: due time of record 0. Others: earliest time that counts.
    pub start_unix_ns: u64,
    /// First due time in the measured window.
    pub measure_from_unix_ns: u64,
    /// First due time after the measured window.
    pub measure_until_unix_ns: u64,
    /// Time when the worker ends on its own; producers send no record due at or after it.
    pub stop_unix_ns: u64,
}

impl Schedule {
    /// Returns `true` if a record due at `due_unix_ns` is in the measured window.
    pub fn in_window(&self, due_unix_ns: u64) -> bool {
        (self.measure_from_unix_ns..self.measure_until_unix_ns).contains(&due_unix_ns)
    }
}

/// Acknowledged records of one key and producer that were due in the window.
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
    /// Numbers between first and last that failed or were never acknowledged, ascending. No client
    /// is expected to receive them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u64>,
    /// Due time of `last_seq` in Unix nanoseconds; 0 if unknown.
    #[serde(default)]
    pub last_due_unix_ns: u64,
}

/// Event from a worker to its coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// First line of every worker.
    Hello {
        /// Role of the worker.
        role: WorkerRole,
        /// Version of the program.
        version: String,
        /// Process id, for resource sampling.
        pid: u32,
    },
    /// All connections are open; the worker waits for `start`.
    Ready {
        /// Number of open connections or sessions.
        connections: u64,
        /// Listen port, if the worker is a server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// Sent each second.
    Progress(WorkerProgress),
    /// Latencies of one interval of the measured window (a delta, not a running total).
    Interval(LatencyInterval),
    /// Report in the form of the published programs, if requested.
    Report {
        /// Several lines of text to print.
        text: String,
    },
    /// Samples of that report since the last event, from an agent: its coordinator adds them up.
    ReportSamples(ReportSamples),
    /// Last line of a worker that shut down cleanly.
    Final {
        /// Result of the worker.
        summary: Summary,
    },
    /// The worker failed; it exits with the corresponding code.
    Error {
        /// Error and remedy in one line.
        message: String,
        /// Class of the error, if an agent sends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<ErrorClass>,
    },
}

/// Samples of the report in the form of the published programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportSamples {
    /// Whole milliseconds and number of samples, ascending.
    pub latencies_ms: Vec<(u64, u64)>,
    /// Number of samples below 0 ms.
    pub below: u64,
    /// Number of samples above the range of the report.
    pub above: u64,
}

/// Role of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkerRole {
    /// Producer.
    Produce,
    /// TLCP clients.
    Clients,
    /// Plain Kafka consumers.
    Consume,
    /// Baseline server.
    Floor,
    /// Plain sockets that receive frames of the baseline server.
    FloorClients,
}

impl WorkerRole {
    /// Returns the name used in commands, events and files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Progress of a worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerProgress {
    /// Time of the progress in Unix nanoseconds.
    pub unix_ns: u64,
    /// Running totals by name.
    pub counters: BTreeMap<String, u64>,
    /// Median of the last second in microseconds: response time, or schedule lag for producers;
    /// `None` without a sample.
    pub p50_us: Option<u64>,
    /// 99th percentile of the last second in microseconds.
    pub p99_us: Option<u64>,
    /// Values of the last second, as an HdrHistogram V2 in base64: from processes that run a share
    /// of the clients, so that percentiles of all shares are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<String>,
}

/// Counters of a progress that are no totals; those of several workers are merged by maximum.
pub const GAUGES: [&str; 2] = ["busy_permille", "turn_max_us"];

/// Latencies of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyInterval {
    /// Start of the interval in Unix nanoseconds.
    pub from_unix_ns: u64,
    /// End of the interval in Unix nanoseconds.
    pub until_unix_ns: u64,
    /// Measured quantity.
    pub tag: LatencyTag,
    /// HdrHistogram V2 in base64; values in nanoseconds.
    pub histogram: String,
}

/// Quantity measured by a histogram.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LatencyTag {
    /// From the due time to the arrival: response time, the main result.
    Response,
    /// From the send time to the arrival.
    Service,
    /// From the due time to the send time.
    ScheduleLag,
    /// From the send time to the broker's acknowledgement.
    PublishAck,
    /// From the due time to the acknowledgement.
    Acknowledged,
    /// From the broker's timestamp, plus half a millisecond, to the arrival.
    StoredToClient,
    /// Age of a client's state when a conflated update replaced it: from the due time of the state
    /// to the arrival of an update that skipped records.
    StateAge,
}

impl LatencyTag {
    /// Returns the name used in events and files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Final summary of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Summary {
    /// Summary of `produce`.
    Produce(ProduceSummary),
    /// Summary of a receiver: clients, consumers or floor clients.
    Delivery(DeliverySummary),
    /// Summary of `floor`.
    Floor(FloorSummary),
    /// Summary of a consumer that reads a topic from its start.
    Scan(ScanSummary),
}

/// Results of a producer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProduceSummary {
    /// Target rate in thousandths of a record per second.
    pub target_rate_millis: u64,
    /// Time from the first due time to the last send, in nanoseconds.
    pub elapsed_ns: u64,
    /// Number of records that became due.
    pub due: u64,
    /// Number of records passed to the Kafka library.
    pub sent: u64,
    /// Number of records that the broker acknowledged.
    pub acked: u64,
    /// Number of records that failed finally.
    pub failed: u64,
    /// Number of records without a delivery report when the producer ended.
    pub unacknowledged: u64,
    /// Number of records due in the window.
    pub due_in_window: u64,
    /// Number of acknowledged records due in the window.
    pub acked_in_window: u64,
    /// Bytes of keys and values passed to the Kafka library.
    pub bytes_sent: u64,
    /// Bytes written to brokers' sockets, compressed and with all protocol overhead, up to a second
    /// before the end.
    #[serde(default)]
    pub wire_bytes_sent: u64,
    /// Number of records delayed by a full send queue. The delay counts as schedule lag, never as
    /// loss.
    pub queue_full: u64,
    /// Schedule lag within the window (of all records without a window), in nanoseconds.
    pub schedule_lag: Quantiles,
    /// Time from send to acknowledgement of the same records, in nanoseconds.
    pub publish_ack: Quantiles,
    /// Transactions of the records; `None`: they were sent without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<TransactionSummary>,
    /// Failed sends by reason.
    pub errors: BTreeMap<String, u64>,
    /// Acknowledged records, with which clients compare their deliveries.
    pub ledger: Vec<LedgerEntry>,
}

impl ProduceSummary {
    /// Adds the results of another share. Percentiles become upper limits: the larger ones.
    pub fn merge(&mut self, other: &Self) {
        self.target_rate_millis = self.target_rate_millis.max(other.target_rate_millis);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.due += other.due;
        self.sent += other.sent;
        self.acked += other.acked;
        self.failed += other.failed;
        self.unacknowledged += other.unacknowledged;
        self.due_in_window += other.due_in_window;
        self.acked_in_window += other.acked_in_window;
        self.bytes_sent += other.bytes_sent;
        self.wire_bytes_sent += other.wire_bytes_sent;
        self.queue_full += other.queue_full;
        self.schedule_lag.merge(&other.schedule_lag);
        self.publish_ack.merge(&other.publish_ack);
        if let Some(other) = &other.transactions {
            let own = self.transactions.get_or_insert_default();
            own.committed += other.committed;
            own.failed += other.failed;
            own.commit.merge(&other.commit);
        }
        for (reason, count) in &other.errors {
            *self.errors.entry(reason.clone()).or_default() += count;
        }
        self.ledger.extend_from_slice(&other.ledger);
    }
}

/// Transactions of a producer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionSummary {
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of transactions that could not be begun or committed, which end the run. Their
    /// records do not count as failed, but consumers of committed records never receive them.
    pub failed: u64,
    /// Time that a commit took, in nanoseconds.
    pub commit: Quantiles,
}

/// Selected percentiles of one histogram, in nanoseconds.
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

impl Quantiles {
    /// Returns the percentiles of a histogram; zero without values.
    pub fn of(histogram: &Histogram) -> Self {
        let at = |percentile| histogram.percentile_ns(percentile).unwrap_or(0);
        Self {
            count: histogram.count(),
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            max_ns: histogram.max_ns().unwrap_or(0),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.p999_ns = self.p999_ns.max(other.p999_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Results of a consumer that read a topic from its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanSummary {
    /// Start in Unix nanoseconds.
    pub started_unix_ns: u64,
    /// Time from the start until the partitions and their start offsets were known.
    pub rebalance_ns: u64,
    /// Time from the start to the last message.
    pub elapsed_ns: u64,
    /// Number of messages read.
    pub messages: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes read from brokers' sockets.
    pub wire_bytes_received: u64,
    /// Number of fetch responses.
    pub fetches: u64,
    /// Errors by text.
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
}

/// Results of the baseline server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorSummary {
    /// Number of records read from Kafka.
    pub records_read: u64,
    /// Number of frames written, one per record and socket.
    pub frames_sent: u64,
    /// Bytes written.
    pub bytes_sent: u64,
    /// Number of accepted sockets.
    pub accepted: u64,
    /// Maximum number of open sockets.
    pub sockets_max: u64,
    /// Sockets closed because a write would have blocked.
    pub closed_would_block: u64,
    /// Sockets closed for another reason.
    pub closed_other: u64,
}
