//! The counters of an event loop. A loop publishes them once per iteration; a scrape sums them
//! (docs/metrics.md).

use std::sync::atomic::{AtomicU64, Ordering};

use weir_net::admin::MetricKind;

use crate::filter::FilterCounts;

/// Counters and current values of one loop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoopCounters {
    pub(crate) connections: u64,
    pub(crate) broker_connections: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) rewritten: u64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) spliced_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) blocked: u64,
    pub(crate) client_errors: u64,
    pub(crate) broker_errors: u64,
    pub(crate) tls_failures: u64,
    pub(crate) connect_failures: u64,
    pub(crate) timeouts: u64,
    pub(crate) silent_broker: u64,
    pub(crate) buffered_bytes: u64,
    pub(crate) iterations: u64,
    /// Frames handed to the filter threads.
    pub(crate) filter_tasks: u64,
    pub(crate) filters: FilterCounts,
}

/// A metric of event loops: name (a counter's name gets the suffix `_total`), kind, help text and
/// value.
pub(crate) struct LoopMetric(
    pub(crate) &'static str,
    pub(crate) MetricKind,
    pub(crate) &'static str,
    fn(&LoopCounters) -> u64,
);

macro_rules! metrics {
    ($($name:literal $kind:ident $($field:ident).+ $help:literal)*) => {
        &[$(LoopMetric($name, MetricKind::$kind, $help, |c| c.$($field).+)),*]
    };
}

pub(crate) const METRICS: &[LoopMetric] = metrics! {
    "weir_proxy_connections" Gauge connections "Open client connections."
    "weir_proxy_broker_connections" Gauge broker_connections "Open connections to brokers."
    "weir_proxy_connections_accepted" Counter accepted "Client connections accepted."
    "weir_proxy_connections_rejected" Counter rejected
        "Client connections closed at once: limit reached, or no file descriptors left."
    "weir_proxy_requests" Counter requests "Requests from clients."
    "weir_proxy_responses" Counter responses "Responses from brokers."
    "weir_proxy_responses_rewritten" Counter rewritten
        "Responses whose addresses or versions were rewritten."
    "weir_proxy_request_bytes" Counter request_bytes "Bytes read from clients."
    "weir_proxy_response_bytes" Counter response_bytes "Bytes read from brokers."
    "weir_proxy_spliced_bytes" Counter spliced_bytes
        "Of these, bytes spliced inside the kernel without being copied."
    "weir_proxy_reads" Counter reads "Read calls on sockets."
    "weir_proxy_writes" Counter writes "Write calls on sockets."
    "weir_proxy_blocked_writes" Counter blocked
        "Writes that left unsent bytes: the other side was not read until they were sent."
    "weir_proxy_client_errors" Counter client_errors
        "Connections closed because of what the client sent."
    "weir_proxy_broker_errors" Counter broker_errors
        "Connections closed because of what the broker sent."
    "weir_proxy_tls_failures" Counter tls_failures "TLS failures, downstream or upstream."
    "weir_proxy_connect_failures" Counter connect_failures
        "Client connections closed because no broker could be reached."
    "weir_proxy_timeouts" Counter timeouts
        "Connections closed because they were idle or made no progress."
    "weir_proxy_silent_broker" Counter silent_broker
        "Client connections closed because their broker had stopped responding."
    "weir_proxy_buffered_bytes" Gauge buffered_bytes
        "Bytes buffered for connections; about a second old."
    "weir_proxy_loop_iterations" Counter iterations "Iterations of event loops."
    "weir_proxy_filter_batches" Counter filters.batches "Record batches that filters read."
    "weir_proxy_filter_batches_edited" Counter filters.batches_edited "Of these, changed in place."
    "weir_proxy_filter_batches_rebuilt" Counter filters.batches_rebuilt "Of these, rebuilt."
    "weir_proxy_filter_records" Counter filters.records "Records that filters read."
    "weir_proxy_filter_undecodable_values" Counter filters.values_undecodable
        "Values that a filter could not decode."
    "weir_proxy_filter_rejected_partitions" Counter filters.partitions_rejected
        "Partitions of produce requests that filters rejected."
    "weir_proxy_filter_withheld_partitions" Counter filters.partitions_withheld
        "Partitions of fetch responses withheld because they could not be decoded."
    "weir_proxy_filter_cut" Counter filters.partitions_cut
        "Partitions of fetch responses that end early; the consumer fetches the rest next."
    "weir_proxy_filter_limited" Counter filters.limited
        "Partitions rejected, withheld or cut because a limit on filter work was reached."
    "weir_proxy_filter_tasks" Counter filter_tasks
        "Frames whose filter work was handed to the filter threads."
};

/// The published counters of one loop.
#[derive(Debug, Default)]
pub(crate) struct LoopMetrics {
    values: [AtomicU64; METRICS.len()],
}

impl LoopMetrics {
    /// Publishes the counters. Called only by the loop itself.
    pub(crate) fn publish(&self, counters: &LoopCounters) {
        for (value, metric) in self.values.iter().zip(METRICS) {
            value.store(metric.3(counters), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }
}
