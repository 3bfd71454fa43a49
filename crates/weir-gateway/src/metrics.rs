//! Counters of shards and connections, and their Prometheus format (docs/metrics.md).
//!
//! Hot paths increment plain integers. Each shard publishes them once per loop iteration into its
//! own atomics, and a scrape sums them. No label contains an item name, because the number of items
//! is unbounded.

mod scrape;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_net::server::IoCounters;
use weir_net::watchdog::Heartbeat;

use crate::connection::KafkaConnection;
use crate::counters::UNKNOWN;
use crate::latency::DeliveryAges;
use crate::shard::{CompressionCounters, DiffCounters, RowTableCounters};

pub(crate) use self::scrape::{MetricSources, registry};

/// Counters of one shard.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShardCounters {
    pub(crate) sessions: u64,
    pub(crate) connections: u64,
    /// Sessions by transport: WebSocket and HTTP streams, WebSocket and HTTP polls.
    pub(crate) by_transport: [u64; 4],
    pub(crate) subscriptions: u64,
    pub(crate) items: u64,
    pub(crate) sessions_created: u64,
    pub(crate) sessions_rebound: u64,
    pub(crate) sessions_refused: u64,
    pub(crate) requests_refused: u64,
    pub(crate) updates_out: u64,
    pub(crate) conflated: u64,
    pub(crate) unchanged: u64,
    pub(crate) dropped: u64,
    pub(crate) lost: u64,
    pub(crate) too_long: u64,
    pub(crate) rows: RowTableCounters,
    pub(crate) lagging: u64,
    pub(crate) slow_ended: u64,
    pub(crate) unbound: u64,
    pub(crate) streams_lost: u64,
    pub(crate) sessions_expired: u64,
    pub(crate) recoveries: u64,
    pub(crate) recoveries_refused: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) diffs: DiffCounters,
    pub(crate) compression: CompressionCounters,
    pub(crate) io: IoCounters,
}

#[derive(Debug, Clone, Copy)]
enum MetricKind {
    Gauge,
    Counter,
}

/// One shard metric: name (counters get the suffix `_total` when written), kind, help text, and
/// value.
struct ShardMetric(
    &'static str,
    MetricKind,
    &'static str,
    fn(&ShardCounters) -> u64,
);

const SHARD_METRICS: [ShardMetric; 51] = {
    use MetricKind::{Counter, Gauge};
    [
        ShardMetric("weir_gateway_sessions", Gauge, "Open sessions.", |c| {
            c.sessions
        }),
        ShardMetric(
            "weir_gateway_websocket_streams",
            Gauge,
            "Sessions with a WebSocket stream.",
            |c| c.by_transport[0],
        ),
        ShardMetric(
            "weir_gateway_http_streams",
            Gauge,
            "Sessions with an HTTP stream.",
            |c| c.by_transport[1],
        ),
        ShardMetric(
            "weir_gateway_websocket_polls",
            Gauge,
            "Sessions with a waiting WebSocket poll.",
            |c| c.by_transport[2],
        ),
        ShardMetric(
            "weir_gateway_http_polls",
            Gauge,
            "Sessions with a waiting HTTP poll.",
            |c| c.by_transport[3],
        ),
        ShardMetric(
            "weir_gateway_connections",
            Gauge,
            "Open client connections.",
            |c| c.connections,
        ),
        ShardMetric(
            "weir_gateway_subscriptions",
            Gauge,
            "Active subscriptions.",
            |c| c.subscriptions,
        ),
        ShardMetric(
            "weir_gateway_items",
            Gauge,
            "Subscribed items, counted once per shard that has subscribers.",
            |c| c.items,
        ),
        ShardMetric(
            "weir_gateway_sessions_created",
            Counter,
            "Sessions created.",
            |c| c.sessions_created,
        ),
        ShardMetric(
            "weir_gateway_sessions_rebound",
            Counter,
            "Sessions bound to another stream connection.",
            |c| c.sessions_rebound,
        ),
        ShardMetric(
            "weir_gateway_sessions_refused",
            Counter,
            "Sessions refused.",
            |c| c.sessions_refused,
        ),
        ShardMetric(
            "weir_gateway_requests_refused",
            Counter,
            "Requests refused with REQERR, ERROR or CONERR because of their content.",
            |c| c.requests_refused,
        ),
        ShardMetric(
            "weir_gateway_updates_sent",
            Counter,
            "Updates queued for clients.",
            |c| c.updates_out,
        ),
        ShardMetric(
            "weir_gateway_updates_conflated",
            Counter,
            "Updates replaced by newer ones because the client lagged or has limits.",
            |c| c.conflated,
        ),
        ShardMetric(
            "weir_gateway_updates_dropped",
            Counter,
            "Oldest updates of mode DISTINCT dropped because the client lagged or has limits.",
            |c| c.dropped,
        ),
        ShardMetric(
            "weir_gateway_updates_lost",
            Counter,
            "Updates lost in modes that forbid it, reported to the client with OV.",
            |c| c.lost,
        ),
        ShardMetric(
            "weir_gateway_updates_too_long",
            Counter,
            "Updates too long for their client, reported with OV instead.",
            |c| c.too_long,
        ),
        ShardMetric(
            "weir_gateway_command_rows",
            Gauge,
            "Rows stored for mode COMMAND.",
            |c| c.rows.stored,
        ),
        ShardMetric(
            "weir_gateway_command_rows_not_stored",
            Counter,
            "Updates of rows that were not stored because their item had reached command_rows.",
            |c| c.rows.not_stored,
        ),
        ShardMetric(
            "weir_gateway_command_records_rejected",
            Counter,
            "Records of mode COMMAND skipped: no key, no command, or a deletion of an unknown key.",
            |c| c.rows.rejected,
        ),
        ShardMetric(
            "weir_gateway_updates_unchanged",
            Counter,
            "Updates of mode MERGE not sent because they changed none of the subscribed fields.",
            |c| c.unchanged,
        ),
        ShardMetric(
            "weir_gateway_lagging_sessions",
            Gauge,
            "Sessions with queued updates, because the client lags or has limits.",
            |c| c.lagging,
        ),
        ShardMetric(
            "weir_gateway_slow_sessions_closed",
            Counter,
            "Sessions ended because their client did not read.",
            |c| c.slow_ended,
        ),
        ShardMetric(
            "weir_gateway_unbound_sessions",
            Gauge,
            "Sessions without a stream connection.",
            |c| c.unbound,
        ),
        ShardMetric(
            "weir_gateway_streams_lost",
            Counter,
            "Stream connections that ended without LOOP or END.",
            |c| c.streams_lost,
        ),
        ShardMetric(
            "weir_gateway_sessions_expired",
            Counter,
            "Sessions that were not rebound in time.",
            |c| c.sessions_expired,
        ),
        ShardMetric(
            "weir_gateway_recoveries",
            Counter,
            "Sessions recovered after a lost connection.",
            |c| c.recoveries,
        ),
        ShardMetric(
            "weir_gateway_recoveries_failed",
            Counter,
            "Recoveries that failed because the missing notifications were no longer stored.",
            |c| c.recoveries_refused,
        ),
        ShardMetric(
            "weir_gateway_recovery_bytes",
            Gauge,
            "Bytes of data notifications stored for recovery.",
            |c| c.journal_bytes,
        ),
        ShardMetric(
            "weir_gateway_diffs_json_patch",
            Counter,
            "Values encoded as JSON Patch, once per shared frame.",
            |c| c.diffs.json_patch,
        ),
        ShardMetric(
            "weir_gateway_diffs_tlcp_diff",
            Counter,
            "Values encoded as TLCP-diff, once per shared frame.",
            |c| c.diffs.tlcp_diff,
        ),
        ShardMetric(
            "weir_gateway_diffs_not_smaller",
            Counter,
            "Values compared but sent in full, because no diff was exact and clearly shorter.",
            |c| c.diffs.not_smaller,
        ),
        ShardMetric(
            "weir_gateway_diffs_over_budget",
            Counter,
            "Values sent in full because the diff budget was used up.",
            |c| c.diffs.over_budget,
        ),
        ShardMetric(
            "weir_gateway_compressed_messages",
            Counter,
            "Messages compressed, once per shared message.",
            |c| c.compression.messages,
        ),
        ShardMetric(
            "weir_gateway_compression_input_bytes",
            Counter,
            "Bytes of these messages before compression.",
            |c| c.compression.bytes_before,
        ),
        ShardMetric(
            "weir_gateway_compression_output_bytes",
            Counter,
            "Bytes of these messages after compression.",
            |c| c.compression.bytes_after,
        ),
        ShardMetric(
            "weir_gateway_compression_not_smaller",
            Counter,
            "Messages compressed but sent uncompressed, because they did not shrink.",
            |c| c.compression.not_smaller,
        ),
        ShardMetric(
            "weir_gateway_compression_over_budget",
            Counter,
            "Messages sent uncompressed because the compression budget was used up.",
            |c| c.compression.over_budget,
        ),
        ShardMetric(
            "weir_gateway_compressed_sent",
            Counter,
            "Compressed messages queued for clients.",
            |c| c.compression.sent,
        ),
        ShardMetric(
            "weir_gateway_compressed_received",
            Counter,
            "Compressed messages received from clients.",
            |c| c.io.inflated,
        ),
        ShardMetric(
            "weir_gateway_compression_negotiated",
            Counter,
            "WebSockets that negotiated compression.",
            |c| c.io.deflate_negotiated,
        ),
        ShardMetric(
            "weir_gateway_connections_accepted",
            Counter,
            "Client connections accepted.",
            |c| c.io.accepted,
        ),
        ShardMetric(
            "weir_gateway_connections_rejected",
            Counter,
            "Client connections rejected: limit reached or no file descriptors left.",
            |c| c.io.rejected,
        ),
        ShardMetric(
            "weir_gateway_received_bytes",
            Counter,
            "Bytes read from clients.",
            |c| c.io.bytes_in,
        ),
        ShardMetric(
            "weir_gateway_sent_bytes",
            Counter,
            "Bytes written to clients.",
            |c| c.io.bytes_out,
        ),
        ShardMetric(
            "weir_gateway_writes",
            Counter,
            "Write calls on client sockets.",
            |c| c.io.writes,
        ),
        ShardMetric(
            "weir_gateway_blocked_writes",
            Counter,
            "Flushes that left unsent bytes because the client's socket was full.",
            |c| c.io.blocked,
        ),
        ShardMetric(
            "weir_gateway_queue_full",
            Counter,
            "Updates that found a client's queue full and were queued as values.",
            |c| c.io.overflows,
        ),
        ShardMetric(
            "weir_gateway_oversized_requests",
            Counter,
            "Connections closed because a request or message exceeded its limit.",
            |c| c.io.oversized,
        ),
        ShardMetric(
            "weir_gateway_tls_handshakes",
            Counter,
            "TLS handshakes completed.",
            |c| c.io.tls_handshakes,
        ),
        ShardMetric(
            "weir_gateway_tls_failures",
            Counter,
            "TLS connections that ended before the handshake completed.",
            |c| c.io.tls_failures,
        ),
    ]
};

/// The published counters of one shard.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    values: [AtomicU64; SHARD_METRICS.len()],
    pub(crate) latency: DeliveryAges,
    /// Progress of the shard, for the watchdog.
    pub(crate) heartbeat: Arc<Heartbeat>,
}

impl ShardMetrics {
    pub(crate) fn new(heartbeat: Heartbeat) -> Self {
        Self {
            heartbeat: Arc::new(heartbeat),
            values: [const { AtomicU64::new(0) }; SHARD_METRICS.len()],
            latency: DeliveryAges::new(),
        }
    }

    pub(crate) fn publish(&self, counters: &ShardCounters) {
        for (value, metric) in self.values.iter().zip(&SHARD_METRICS) {
            value.store((metric.3)(counters), Ordering::Relaxed);
        }
    }
}

/// One metric of a Kafka connection.
struct ConnectionMetric(
    &'static str,
    MetricKind,
    &'static str,
    fn(&KafkaConnection) -> u64,
);

const CONNECTION_METRICS: [ConnectionMetric; 21] = {
    use MetricKind::{Counter, Gauge};
    fn load(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
    [
        ConnectionMetric(
            "weir_gateway_connection_ready",
            Gauge,
            "1 if records arrive.",
            |c| u64::from(c.state.ready()),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_records",
            Counter,
            "Records read.",
            |c| c.total(|w| &w.records),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_record_bytes",
            Counter,
            "Value bytes of records read.",
            |c| c.total(|w| &w.record_bytes),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_unrouted_records",
            Counter,
            "Records of items without subscribers.",
            |c| c.total(|w| &w.unrouted),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_extraction_failures",
            Counter,
            "Records skipped because extraction failed.",
            |c| c.total(|w| &w.failed),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_decode_failures",
            Counter,
            "Failed records whose key or value is not of its type.",
            |c| c.total(|w| &w.undecodable),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_invalid_item_names",
            Counter,
            "Template expansions that no client can name, such as one with a comma in a value.",
            |c| c.total(|w| &w.unnameable),
        ),
        ConnectionMetric(
            "weir_gateway_late_subscriptions",
            Counter,
            "Subscriptions to items within 60 s after reading resumed from stored offsets.",
            |c| c.late.subscriptions(),
        ),
        ConnectionMetric(
            "weir_gateway_late_records",
            Counter,
            "Records of their items that were read before these subscriptions.",
            |c| c.total(|w| &w.late_records),
        ),
        ConnectionMetric(
            "weir_gateway_updates_posted",
            Counter,
            "Updates posted to shards.",
            |c| c.total(|w| &w.updates),
        ),
        ConnectionMetric(
            "weir_gateway_shard_inbox_full_waits",
            Counter,
            "Waits of 100 ms for a shard with a full inbox.",
            |c| c.total(|w| &w.shard_waits),
        ),
        ConnectionMetric(
            "weir_gateway_updates_undelivered",
            Counter,
            "Updates that a stalled shard did not accept before the gateway ended.",
            |c| c.total(|w| &w.undelivered),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_errors",
            Counter,
            "Errors reported by the Kafka client.",
            |c| load(&c.state.source_errors),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_offset_resets",
            Counter,
            "Offset resets of partitions.",
            |c| load(&c.state.resets),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_commits",
            Counter,
            "Confirmed offset commits.",
            |c| load(&c.state.commits),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_commit_errors",
            Counter,
            "Failed offset commits.",
            |c| load(&c.state.commit_errors),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_lag_records",
            Gauge,
            "Records not read yet; absent if unknown.",
            |c| load(&c.state.lag),
        ),
        ConnectionMetric(
            "weir_gateway_routed_items",
            Gauge,
            "Items with subscribers.",
            |c| load(&c.workers[0].counters.items),
        ),
        ConnectionMetric(
            "weir_gateway_last_values",
            Gauge,
            "Items with a stored last record, with or without subscribers.",
            |c| c.total(|w| &w.last_values),
        ),
        ConnectionMetric(
            "weir_gateway_last_value_bytes",
            Gauge,
            "Memory of these records, including overhead.",
            |c| c.total(|w| &w.last_value_bytes),
        ),
        ConnectionMetric(
            "weir_gateway_last_values_evicted",
            Counter,
            "Items whose last record was evicted because memory_bytes was reached.",
            |c| c.total(|w| &w.last_values_evicted),
        ),
    ]
};
