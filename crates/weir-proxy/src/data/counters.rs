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

pub(crate) const METRICS: [LoopMetric; 31] = {
    use MetricKind::{Counter, Gauge};
    [
        LoopMetric(
            "weir_proxy_connections",
            Gauge,
            "Open client connections.",
            |c| c.connections,
        ),
        LoopMetric(
            "weir_proxy_broker_connections",
            Gauge,
            "Open connections to brokers.",
            |c| c.broker_connections,
        ),
        LoopMetric(
            "weir_proxy_connections_accepted",
            Counter,
            "Client connections accepted.",
            |c| c.accepted,
        ),
        LoopMetric(
            "weir_proxy_connections_rejected",
            Counter,
            "Client connections closed at once: limit reached, or no file descriptors left.",
            |c| c.rejected,
        ),
        LoopMetric(
            "weir_proxy_requests",
            Counter,
            "Requests from clients.",
            |c| c.requests,
        ),
        LoopMetric(
            "weir_proxy_responses",
            Counter,
            "Responses from brokers.",
            |c| c.responses,
        ),
        LoopMetric(
            "weir_proxy_responses_rewritten",
            Counter,
            "Responses whose addresses or versions were rewritten.",
            |c| c.rewritten,
        ),
        LoopMetric(
            "weir_proxy_request_bytes",
            Counter,
            "Bytes read from clients.",
            |c| c.request_bytes,
        ),
        LoopMetric(
            "weir_proxy_response_bytes",
            Counter,
            "Bytes read from brokers.",
            |c| c.response_bytes,
        ),
        LoopMetric(
            "weir_proxy_spliced_bytes",
            Counter,
            "Of these, bytes spliced inside the kernel without being copied.",
            |c| c.spliced_bytes,
        ),
        LoopMetric("weir_proxy_reads", Counter, "Read calls on sockets.", |c| {
            c.reads
        }),
        LoopMetric(
            "weir_proxy_writes",
            Counter,
            "Write calls on sockets.",
            |c| c.writes,
        ),
        LoopMetric(
            "weir_proxy_blocked_writes",
            Counter,
            "Writes that left unsent bytes: the other side was not read until they were sent.",
            |c| c.blocked,
        ),
        LoopMetric(
            "weir_proxy_client_errors",
            Counter,
            "Connections closed because of what the client sent.",
            |c| c.client_errors,
        ),
        LoopMetric(
            "weir_proxy_broker_errors",
            Counter,
            "Connections closed because of what the broker sent.",
            |c| c.broker_errors,
        ),
        LoopMetric(
            "weir_proxy_tls_failures",
            Counter,
            "TLS failures, downstream or upstream.",
            |c| c.tls_failures,
        ),
        LoopMetric(
            "weir_proxy_connect_failures",
            Counter,
            "Client connections closed because no broker could be reached.",
            |c| c.connect_failures,
        ),
        LoopMetric(
            "weir_proxy_timeouts",
            Counter,
            "Connections closed because they were idle or made no progress.",
            |c| c.timeouts,
        ),
        LoopMetric(
            "weir_proxy_silent_broker",
            Counter,
            "Client connections closed because their broker had stopped responding.",
            |c| c.silent_broker,
        ),
        LoopMetric(
            "weir_proxy_buffered_bytes",
            Gauge,
            "Bytes buffered for connections; about a second old.",
            |c| c.buffered_bytes,
        ),
        LoopMetric(
            "weir_proxy_loop_iterations",
            Counter,
            "Iterations of event loops.",
            |c| c.iterations,
        ),
        LoopMetric(
            "weir_proxy_filter_batches",
            Counter,
            "Record batches that filters read.",
            |c| c.filters.batches,
        ),
        LoopMetric(
            "weir_proxy_filter_batches_edited",
            Counter,
            "Of these, changed in place.",
            |c| c.filters.batches_edited,
        ),
        LoopMetric(
            "weir_proxy_filter_batches_rebuilt",
            Counter,
            "Of these, rebuilt.",
            |c| c.filters.batches_rebuilt,
        ),
        LoopMetric(
            "weir_proxy_filter_records",
            Counter,
            "Records that filters read.",
            |c| c.filters.records,
        ),
        LoopMetric(
            "weir_proxy_filter_undecodable_values",
            Counter,
            "Values that a filter could not decode.",
            |c| c.filters.values_undecodable,
        ),
        LoopMetric(
            "weir_proxy_filter_rejected_partitions",
            Counter,
            "Partitions of produce requests that filters rejected.",
            |c| c.filters.partitions_rejected,
        ),
        LoopMetric(
            "weir_proxy_filter_withheld_partitions",
            Counter,
            "Partitions of fetch responses withheld because they could not be decoded.",
            |c| c.filters.partitions_withheld,
        ),
        LoopMetric(
            "weir_proxy_filter_cut",
            Counter,
            "Partitions of fetch responses that end early; the consumer fetches the rest next.",
            |c| c.filters.partitions_cut,
        ),
        LoopMetric(
            "weir_proxy_filter_limited",
            Counter,
            "Partitions rejected, withheld or cut because a limit on filter work was reached.",
            |c| c.filters.limited,
        ),
        LoopMetric(
            "weir_proxy_filter_tasks",
            Counter,
            "Frames whose filter work was handed to the filter threads.",
            |c| c.filter_tasks,
        ),
    ]
};

/// The published counters of one loop.
#[derive(Debug, Default)]
pub(crate) struct LoopMetrics {
    values: [AtomicU64; METRICS.len()],
}

impl LoopMetrics {
    /// Publishes the counters. Called only by the loop itself.
    pub(crate) fn publish(&self, counters: &LoopCounters) {
        for (value, metric) in self.values.iter().zip(&METRICS) {
            value.store(metric.3(counters), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }
}
