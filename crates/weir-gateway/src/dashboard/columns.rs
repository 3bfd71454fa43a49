//! The columns of a sample.

/// Derivation of a column from a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnSource {
    /// The current value.
    Now,
    /// The increase per second.
    PerSecond,
}

use ColumnSource::{Now, PerSecond};

/// Columns from shard metrics: column, derivation, metric.
pub(super) const SHARDS: &[(&str, ColumnSource, &str)] = &[
    ("sessions", Now, "weir_gateway_sessions"),
    (
        "sessions.ws_streaming",
        Now,
        "weir_gateway_websocket_streams",
    ),
    ("sessions.http_streaming", Now, "weir_gateway_http_streams"),
    ("sessions.ws_polling", Now, "weir_gateway_websocket_polls"),
    ("sessions.http_polling", Now, "weir_gateway_http_polls"),
    ("sessions.unbound", Now, "weir_gateway_unbound_sessions"),
    ("connections", Now, "weir_gateway_connections"),
    ("subscriptions", Now, "weir_gateway_subscriptions"),
    ("items", Now, "weir_gateway_items"),
    ("lagging", Now, "weir_gateway_lagging_sessions"),
    ("created", PerSecond, "weir_gateway_sessions_created"),
    ("refused", PerSecond, "weir_gateway_sessions_refused"),
    (
        "requests_refused",
        PerSecond,
        "weir_gateway_requests_refused",
    ),
    ("updates", PerSecond, "weir_gateway_updates_sent"),
    ("conflated", PerSecond, "weir_gateway_updates_conflated"),
    ("dropped", PerSecond, "weir_gateway_updates_dropped"),
    ("lost", PerSecond, "weir_gateway_updates_lost"),
    ("unchanged", PerSecond, "weir_gateway_updates_unchanged"),
    ("slow_ended", PerSecond, "weir_gateway_slow_sessions_closed"),
    ("bytes_in", PerSecond, "weir_gateway_received_bytes"),
    ("bytes_out", PerSecond, "weir_gateway_sent_bytes"),
    ("writes", PerSecond, "weir_gateway_writes"),
    ("blocked_writes", PerSecond, "weir_gateway_blocked_writes"),
    ("handshakes", PerSecond, "weir_gateway_tls_handshakes"),
    ("handshakes_failed", PerSecond, "weir_gateway_tls_failures"),
];

/// Columns from metrics of Kafka connections, summed over the connections.
pub(super) const CONNECTIONS: &[(&str, ColumnSource, &str)] = &[
    ("records", PerSecond, "weir_gateway_kafka_records"),
    ("record_bytes", PerSecond, "weir_gateway_kafka_record_bytes"),
    (
        "records_failed",
        PerSecond,
        "weir_gateway_kafka_extraction_failures",
    ),
    ("kafka_errors", PerSecond, "weir_gateway_kafka_errors"),
    (
        "shard_waits",
        PerSecond,
        "weir_gateway_shard_inbox_full_waits",
    ),
];

/// The metric with one column per Kafka connection, `lag.NAME`.
pub(super) const LAG: &str = "weir_gateway_kafka_lag_records";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricSources;

    #[test]
    fn every_column_has_a_metric() {
        for (column, _, metric) in SHARDS {
            assert!(MetricSources::knows(metric)[0], "{column}: {metric}");
        }
        for (column, _, metric) in CONNECTIONS.iter().chain(&[("lag", Now, LAG)]) {
            assert!(MetricSources::knows(metric)[1], "{column}: {metric}");
        }
    }
}
