//! Counters of shards and connections, and their text form for Prometheus (docs/metrics.md).
//!
//! Hot paths add to plain numbers; each shard publishes them once a turn into atomics of its own,
//! and a scrape sums them. No label names an item: their number is not bounded.

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

/// What one shard counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShardCounters {
    pub(crate) sessions: u64,
    pub(crate) connections: u64,
    /// WebSocket and HTTP streams, WebSocket and HTTP polls.
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
    pub(crate) kept_bytes: u64,
    pub(crate) diffs: DiffCounters,
    pub(crate) compression: CompressionCounters,
    pub(crate) io: IoCounters,
}

#[derive(Debug, Clone, Copy)]
enum MetricKind {
    Gauge,
    Counter,
}

/// One metric of shards: name (a counter's gets the suffix `_total` when written), kind, meaning,
/// and where its value is.
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
            "Sessions that stream on a WebSocket.",
            |c| c.by_transport[0],
        ),
        ShardMetric(
            "weir_gateway_http_streams",
            Gauge,
            "Sessions that stream in an HTTP answer.",
            |c| c.by_transport[1],
        ),
        ShardMetric(
            "weir_gateway_websocket_polls",
            Gauge,
            "Sessions with a poll on a WebSocket that waits for data.",
            |c| c.by_transport[2],
        ),
        ShardMetric(
            "weir_gateway_http_polls",
            Gauge,
            "Sessions with an HTTP poll that waits for data.",
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
            "Sessions that went on with another stream.",
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
            "Requests answered with REQERR, ERROR or CONERR for their content.",
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
            "Updates that a newer one replaced because the client lagged or has limits.",
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
            "Updates that may not be left out and were, reported to the client with OV.",
            |c| c.lost,
        ),
        ShardMetric(
            "weir_gateway_updates_too_long",
            Counter,
            "Updates longer than their client reads, reported to it with OV instead.",
            |c| c.too_long,
        ),
        ShardMetric(
            "weir_gateway_command_rows",
            Gauge,
            "Rows kept for mode COMMAND.",
            |c| c.rows.keys,
        ),
        ShardMetric(
            "weir_gateway_command_rows_not_stored",
            Counter,
            "Updates of rows that were not kept because their item had as many as it may have.",
            |c| c.rows.left_out,
        ),
        ShardMetric(
            "weir_gateway_command_records_rejected",
            Counter,
            "Records of mode COMMAND left out: no key, no command, or a deletion of an unknown key.",
            |c| c.rows.refused,
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
            "Sessions for which something waits: until the client reads, or by their limits.",
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
            "Sessions without a stream, which wait for another.",
            |c| c.unbound,
        ),
        ShardMetric(
            "weir_gateway_streams_lost",
            Counter,
            "Streams that ended without LOOP or END.",
            |c| c.streams_lost,
        ),
        ShardMetric(
            "weir_gateway_sessions_expired",
            Counter,
            "Sessions that were not bound again in time.",
            |c| c.sessions_expired,
        ),
        ShardMetric(
            "weir_gateway_recoveries",
            Counter,
            "Sessions that went on where their client had lost them.",
            |c| c.recoveries,
        ),
        ShardMetric(
            "weir_gateway_recoveries_failed",
            Counter,
            "Recoveries refused because what the client had not got was not kept any more.",
            |c| c.recoveries_refused,
        ),
        ShardMetric(
            "weir_gateway_recovery_bytes",
            Gauge,
            "Bytes of data notifications kept for clients that lose their connection or have none.",
            |c| c.kept_bytes,
        ),
        ShardMetric(
            "weir_gateway_diffs_json_patch",
            Counter,
            "Values encoded as JSON Patch, once for all who share the frame.",
            |c| c.diffs.json_patch,
        ),
        ShardMetric(
            "weir_gateway_diffs_tlcp_diff",
            Counter,
            "Values encoded as TLCP-diff, once for all who share the frame.",
            |c| c.diffs.tlcp_diff,
        ),
        ShardMetric(
            "weir_gateway_diffs_not_smaller",
            Counter,
            "Values compared and sent whole: no diff was clearly shorter and exact.",
            |c| c.diffs.useless,
        ),
        ShardMetric(
            "weir_gateway_diffs_over_budget",
            Counter,
            "Values sent whole because the budget for comparing was spent.",
            |c| c.diffs.over_budget,
        ),
        ShardMetric(
            "weir_gateway_compressed_messages",
            Counter,
            "Messages compressed, once for all who share them.",
            |c| c.compression.messages,
        ),
        ShardMetric(
            "weir_gateway_compression_input_bytes",
            Counter,
            "Bytes of these messages before.",
            |c| c.compression.bytes_before,
        ),
        ShardMetric(
            "weir_gateway_compression_output_bytes",
            Counter,
            "Bytes of these messages after.",
            |c| c.compression.bytes_after,
        ),
        ShardMetric(
            "weir_gateway_compression_not_smaller",
            Counter,
            "Messages compressed in vain and sent as they are: they did not shrink.",
            |c| c.compression.useless,
        ),
        ShardMetric(
            "weir_gateway_compression_over_budget",
            Counter,
            "Messages sent as they are because the budget for compressing was spent.",
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
            "WebSockets opened that take compressed messages.",
            |c| c.io.deflate_agreed,
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
            "Client connections not accepted: limit reached or no descriptors left.",
            |c| c.io.refused,
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
            "Flushes that left a rest because the client's socket was full.",
            |c| c.io.blocked,
        ),
        ShardMetric(
            "weir_gateway_queue_full",
            Counter,
            "Updates that found a client's queue full.",
            |c| c.io.overflows,
        ),
        ShardMetric(
            "weir_gateway_oversized_requests",
            Counter,
            "Connections closed because a request or message was over its limit.",
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
            "TLS connections that ended before their handshake did.",
            |c| c.io.tls_failures,
        ),
    ]
};

/// One shard's published counters.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    values: [AtomicU64; SHARD_METRICS.len()],
    pub(crate) latency: DeliveryAges,
    /// Where the shard marks its progress.
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
            "Records of items nobody subscribes to.",
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
            "Records that were read before such a subscription to their item came.",
            |c| c.total(|w| &w.late_records),
        ),
        ConnectionMetric(
            "weir_gateway_updates_posted",
            Counter,
            "Updates handed to shards.",
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
            "Updates that a stuck shard did not take before the gateway ended.",
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
            "Times that offsets of a partition started anew.",
            |c| load(&c.state.resets),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_commits",
            Counter,
            "Commits of offsets that the broker confirmed.",
            |c| load(&c.state.commits),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_commit_errors",
            Counter,
            "Commits of offsets that failed.",
            |c| load(&c.state.commit_errors),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_lag_records",
            Gauge,
            "Records in the topics that are not read yet; absent if unknown.",
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
            "Items whose last record is kept, subscribed or not.",
            |c| c.total(|w| &w.last_values),
        ),
        ConnectionMetric(
            "weir_gateway_last_value_bytes",
            Gauge,
            "Memory of these records, bookkeeping included.",
            |c| c.total(|w| &w.last_value_bytes),
        ),
        ConnectionMetric(
            "weir_gateway_last_values_evicted",
            Counter,
            "Items whose last record was dropped because memory_bytes was reached.",
            |c| c.total(|w| &w.last_values_evicted),
        ),
    ]
};
