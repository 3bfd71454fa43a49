//! Counters and current values, each with its metric (docs/metrics.md). A loop publishes its own
//! once per iteration; a scrape sums them.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_filters::FilterCounts;
use weir_net::admin::MetricRow;
use weir_net::counters;

counters! {
    /// Values of one event loop.
    pub(crate) struct LoopCounters
    connections "weir_proxy_connections" Gauge "Open client connections."
    broker_connections "weir_proxy_broker_connections" Gauge "Open connections to brokers."
    accepted "weir_proxy_connections_accepted" Counter "Client connections accepted."
    rejected "weir_proxy_connections_rejected" Counter
        "Client connections closed at once: limit reached, load balancer not trusted, or no file \
         descriptors left."
    requests "weir_proxy_requests" Counter "Requests from clients."
    responses "weir_proxy_responses" Counter "Responses from brokers."
    rewritten "weir_proxy_responses_rewritten" Counter
        "Responses whose addresses or versions were rewritten."
    request_bytes "weir_proxy_request_bytes" Counter "Bytes read from clients."
    response_bytes "weir_proxy_response_bytes" Counter "Bytes read from brokers."
    spliced_bytes "weir_proxy_spliced_bytes" Counter
        "Of these, bytes spliced inside the kernel without being copied."
    reads "weir_proxy_reads" Counter "Read calls on sockets."
    writes "weir_proxy_writes" Counter "Write calls on sockets."
    blocked "weir_proxy_blocked_writes" Counter
        "Writes that left unsent bytes: the other side was not read until they were sent."
    client_errors "weir_proxy_client_errors" Counter
        "Connections closed because of what the client sent."
    broker_errors "weir_proxy_broker_errors" Counter
        "Connections closed because of what the broker sent."
    tls_failures "weir_proxy_tls_failures" Counter "TLS failures, downstream or upstream."
    proxy_headers "weir_proxy_proxy_headers" Counter "PROXY headers accepted."
    proxy_headers_rejected "weir_proxy_proxy_headers_rejected" Counter
        "Connections closed because they did not begin with a valid PROXY header."
    names_rejected "weir_proxy_server_names_rejected" Counter
        "TLS handshakes rejected because no cluster has the server name."
    connect_failures "weir_proxy_connect_failures" Counter
        "Client connections closed because no broker could be reached."
    timeouts "weir_proxy_timeouts" Counter
        "Connections closed because they were idle or made no progress."
    silent_broker "weir_proxy_silent_broker" Counter
        "Client connections closed because their broker had stopped responding."
    reload_closed "weir_proxy_reload_closed" Counter
        "Client connections that ended because a reload had changed or removed their cluster."
    buffered_bytes "weir_proxy_buffered_bytes" Gauge
        "Bytes buffered for connections; about a second old."
    iterations "weir_proxy_loop_iterations" Counter "Iterations of event loops."
    filter_tasks "weir_proxy_filter_tasks" Counter
        "Frames whose filter work was handed to the filter threads."
}

counters! {
    /// Values of the whole proxy.
    pub(crate) struct ProxyValues
    generation "weir_proxy_generation" Gauge
        "Number of the configuration in use: 1 at startup, each reload adds 1."
    clusters_ready "weir_proxy_clusters_ready" Gauge "Clusters that responded to the last probe."
    brokers "weir_proxy_brokers" Gauge "Brokers that have a port on the proxy."
    claimed_bytes "weir_proxy_buffer_claimed_bytes" Gauge
        "Bytes of memory claimed for buffered frames."
    memory_waiting "weir_proxy_buffer_waiting" Gauge "Frames that wait for memory."
    memory_waits "weir_proxy_buffer_waits" Counter "Frames that had to wait for memory."
    filter_waiting "weir_proxy_filter_waiting" Gauge "Frames that wait for a filter thread."
    filter_cpu_ms "weir_proxy_filter_cpu_milliseconds" Counter "CPU time of filter threads."
}

counters! {
    /// Values of certificate files.
    pub(crate) struct TlsValues
    reloads "weir_proxy_tls_reloads" Counter "Reloads of the files of a tls or upstream_tls table."
    failures "weir_proxy_tls_reload_failures" Counter
        "Failed reloads; the previous certificates stayed in use."
    expiry_unix_s "weir_proxy_tls_certificate_expiry_timestamp_seconds" Gauge
        "Earliest expiry of the certificates presented to clients, in seconds since 1970; 0 if \
         unknown."
}

#[derive(Debug, Default)]
pub(crate) struct LoopMetrics {
    counters: [AtomicU64; LoopCounters::METRICS.len()],
    filters: [AtomicU64; FilterCounts::METRICS.len()],
}

impl LoopMetrics {
    /// Publishes the values of the loop. Called only by the loop itself.
    pub(crate) fn publish(&self, counters: &LoopCounters) {
        store(&self.counters, &counters.values());
    }

    /// Publishes the counters of filter work. Called only by the loop itself.
    pub(crate) fn publish_filters(&self, counts: &FilterCounts) {
        store(&self.filters, &counts.values());
    }

    /// Returns the metrics of all values, in their order.
    pub(crate) fn metrics() -> impl Iterator<Item = &'static MetricRow> {
        LoopCounters::METRICS.iter().chain(FilterCounts::METRICS)
    }

    /// Returns all published values, in the order of their metrics.
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
        let values = self.counters.iter().chain(&self.filters);
        values.map(|published| published.load(Ordering::Relaxed))
    }
}

/// Stores each value. Lengths known to the compiler make this one load and store per value; a
/// chain of iterators costs six times as much in every iteration of the loop.
#[inline]
fn store<const N: usize>(published: &[AtomicU64; N], values: &[u64; N]) {
    for (published, value) in published.iter().zip(values) {
        published.store(*value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_have_the_order_of_metrics() {
        let metrics = LoopMetrics::default();
        metrics.publish(&LoopCounters {
            connections: 1,
            filter_tasks: 2,
            ..LoopCounters::default()
        });
        metrics.publish_filters(&FilterCounts {
            batches: 3,
            limited: 4,
            ..FilterCounts::default()
        });
        let value = |name: &str| {
            let mut rows = LoopMetrics::metrics().zip(metrics.values());
            rows.find(|(row, _)| row.0 == name).map(|(_, value)| value)
        };
        assert_eq!(value("weir_proxy_connections"), Some(1));
        assert_eq!(value("weir_proxy_filter_tasks"), Some(2));
        assert_eq!(value("weir_proxy_filter_batches"), Some(3));
        assert_eq!(value("weir_proxy_filter_limited"), Some(4));
        assert_eq!(metrics.values().count(), LoopMetrics::metrics().count());
    }
}
