//! What an event loop counts; published once a turn, summed at a scrape (docs/metrics.md).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::filter::FilterCounts;

/// What one loop counts, or has at the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoopCounters {
    pub(crate) connections: u64,
    pub(crate) broker_connections: u64,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) requests: u64,
    pub(crate) answers: u64,
    pub(crate) rewritten: u64,
    pub(crate) request_bytes: u64,
    pub(crate) answer_bytes: u64,
    pub(crate) passed_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) blocked: u64,
    pub(crate) client_errors: u64,
    pub(crate) broker_errors: u64,
    pub(crate) tls_failures: u64,
    pub(crate) connect_failures: u64,
    pub(crate) timeouts: u64,
    pub(crate) silent_broker: u64,
    pub(crate) held_bytes: u64,
    pub(crate) turns: u64,
    /// Frames handed to the threads for filters.
    pub(crate) filter_tasks: u64,
    pub(crate) filters: FilterCounts,
}

/// Gauge or counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Gauge,
    Counter,
}

/// A metric of loops: name (a counter's gets the suffix `_total` when written), kind, meaning, value.
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
            "weir_proxy_accepted",
            Counter,
            "Client connections accepted.",
            |c| c.accepted,
        ),
        LoopMetric(
            "weir_proxy_not_accepted",
            Counter,
            "Client connections closed at once: a limit was reached, or no descriptors left.",
            |c| c.refused,
        ),
        LoopMetric(
            "weir_proxy_requests",
            Counter,
            "Requests of clients.",
            |c| c.requests,
        ),
        LoopMetric("weir_proxy_answers", Counter, "Answers of brokers.", |c| {
            c.answers
        }),
        LoopMetric(
            "weir_proxy_answers_rewritten",
            Counter,
            "Answers whose addresses or versions were replaced.",
            |c| c.rewritten,
        ),
        LoopMetric(
            "weir_proxy_request_bytes",
            Counter,
            "Bytes read from clients.",
            |c| c.request_bytes,
        ),
        LoopMetric(
            "weir_proxy_answer_bytes",
            Counter,
            "Bytes read from brokers.",
            |c| c.answer_bytes,
        ),
        LoopMetric(
            "weir_proxy_passed_bytes",
            Counter,
            "Of these, bytes that passed inside the kernel.",
            |c| c.passed_bytes,
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
            "Writes that left a rest: the other side was not read until it had gone.",
            |c| c.blocked,
        ),
        LoopMetric(
            "weir_proxy_client_errors",
            Counter,
            "Connections closed for what the client sent.",
            |c| c.client_errors,
        ),
        LoopMetric(
            "weir_proxy_broker_errors",
            Counter,
            "Connections closed for what the broker sent.",
            |c| c.broker_errors,
        ),
        LoopMetric(
            "weir_proxy_tls_failures",
            Counter,
            "TLS that failed, either side.",
            |c| c.tls_failures,
        ),
        LoopMetric(
            "weir_proxy_connect_failures",
            Counter,
            "Client connections closed since no broker could be reached.",
            |c| c.connect_failures,
        ),
        LoopMetric(
            "weir_proxy_timeouts",
            Counter,
            "Connections closed for being idle or not getting on.",
            |c| c.timeouts,
        ),
        LoopMetric(
            "weir_proxy_silent_broker",
            Counter,
            "Client connections closed since their broker had stopped answering.",
            |c| c.silent_broker,
        ),
        LoopMetric(
            "weir_proxy_held_bytes",
            Gauge,
            "Bytes held for connections, about a second old.",
            |c| c.held_bytes,
        ),
        LoopMetric("weir_proxy_turns", Counter, "Turns of event loops.", |c| {
            c.turns
        }),
        LoopMetric(
            "weir_proxy_filter_batches",
            Counter,
            "Batches whose records filters read.",
            |c| c.filters.batches,
        ),
        LoopMetric(
            "weir_proxy_filter_batches_edited",
            Counter,
            "Of these, changed where they lay.",
            |c| c.filters.batches_edited,
        ),
        LoopMetric(
            "weir_proxy_filter_batches_rebuilt",
            Counter,
            "Of these, written anew.",
            |c| c.filters.batches_rebuilt,
        ),
        LoopMetric(
            "weir_proxy_filter_records",
            Counter,
            "Records that filters read.",
            |c| c.filters.records,
        ),
        LoopMetric(
            "weir_proxy_filter_unreadable",
            Counter,
            "Values that a filter could not read.",
            |c| c.filters.values_unreadable,
        ),
        LoopMetric(
            "weir_proxy_filter_refused",
            Counter,
            "Partitions of produce requests that filters refused.",
            |c| c.filters.partitions_refused,
        ),
        LoopMetric(
            "weir_proxy_filter_withheld",
            Counter,
            "Partitions of fetch answers withheld, since they could not be opened.",
            |c| c.filters.partitions_withheld,
        ),
        LoopMetric(
            "weir_proxy_filter_cut",
            Counter,
            "Partitions of fetch answers that end early: the consumer fetches the rest next.",
            |c| c.filters.partitions_cut,
        ),
        LoopMetric(
            "weir_proxy_filter_limited",
            Counter,
            "Partitions refused, withheld or cut since a limit on filter work was reached.",
            |c| c.filters.limited,
        ),
        LoopMetric(
            "weir_proxy_filter_tasks",
            Counter,
            "Frames whose filter work was left to the filter threads.",
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
    /// Makes the counters of the loop visible; only the loop itself does so.
    pub(crate) fn publish(&self, counters: &LoopCounters) {
        for (value, metric) in self.values.iter().zip(&METRICS) {
            value.store(metric.3(counters), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.values[index].load(Ordering::Relaxed)
    }
}
