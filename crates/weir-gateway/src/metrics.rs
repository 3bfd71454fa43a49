//! Counters of shards and connections, and their Prometheus format (docs/metrics.md).
//!
//! Hot paths increment plain integers. Each shard publishes them once per loop iteration into its
//! own atomics, and a scrape sums them. No label contains an item name, because the number of items
//! is unbounded.

mod adapter;
mod auth;
mod histogram;
mod messages;
mod scrape;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_adapter::AdapterMetrics;
use weir_fanout::{DeliveryCounters, RowTableCounters};
use weir_net::admin::MetricKind;
use weir_net::server::IoCounters;
use weir_net::watchdog::Heartbeat;

use crate::admission::Admission;
use crate::latency::DeliveryAges;
use crate::messages::Messages;
use crate::shard::WriterCounters;
use crate::tls::TlsFiles;
use weir_access::audit::AuditLog;
use weir_ingest::{KafkaConnection, ResetReason};

pub(crate) use self::scrape::{MetricSources, registry};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShardCounters {
    pub(crate) sessions: u64,
    pub(crate) connections: u64,
    /// Sessions by transport: WebSocket and HTTP streams, WebSocket and HTTP polls, server-sent
    /// events, JSON over WebSocket.
    pub(crate) by_transport: [u64; 6],
    pub(crate) subscriptions: u64,
    pub(crate) items: u64,
    pub(crate) sessions_created: u64,
    pub(crate) sessions_rebound: u64,
    pub(crate) sessions_refused: u64,
    pub(crate) requests_refused: u64,
    pub(crate) delivery: DeliveryCounters,
    pub(crate) writer: WriterCounters,
    pub(crate) rows: RowTableCounters,
    pub(crate) slow_ended: u64,
    pub(crate) streams_lost: u64,
    pub(crate) sessions_expired: u64,
    pub(crate) recoveries: u64,
    pub(crate) recoveries_refused: u64,
    pub(crate) event_recoveries: u64,
    pub(crate) missed_updates: u64,
    /// By the number of the [`ResetReason`].
    pub(crate) resets: [u64; ResetReason::ALL.len()],
    pub(crate) io: IoCounters,
}

impl ShardCounters {
    fn reset(&self, reason: ResetReason) -> u64 {
        self.resets[reason as usize]
    }
}

struct MetricSpec<T> {
    /// Name; counters get the suffix `_total` when written.
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&T) -> u64,
}

macro_rules! metrics {
    ($($kind:ident $name:ident $value:expr, $help:literal;)*) => {
        &[$(MetricSpec {
            name: stringify!($name),
            kind: MetricKind::$kind,
            help: $help,
            value: $value,
        }),*]
    };
}

const SHARD_METRICS: &[MetricSpec<ShardCounters>] = metrics! {
    Gauge weir_gateway_sessions |c| c.sessions, "Open sessions.";
    Gauge weir_gateway_event_loops_in_use |c| u64::from(c.sessions > 0),
        "Event loops with sessions.";
    Gauge weir_gateway_websocket_streams |c| c.by_transport[0], "Sessions with a WebSocket stream.";
    Gauge weir_gateway_http_streams |c| c.by_transport[1], "Sessions with an HTTP stream.";
    Gauge weir_gateway_websocket_polls |c| c.by_transport[2],
        "Sessions with a waiting WebSocket poll.";
    Gauge weir_gateway_http_polls |c| c.by_transport[3], "Sessions with a waiting HTTP poll.";
    Gauge weir_gateway_sse_streams |c| c.by_transport[4],
        "Sessions with a stream of server-sent events.";
    Gauge weir_gateway_json_streams |c| c.by_transport[5],
        "Sessions with JSON over WebSocket.";
    Gauge weir_gateway_connections |c| c.connections, "Open client connections.";
    Gauge weir_gateway_subscriptions |c| c.subscriptions, "Active subscriptions.";
    Gauge weir_gateway_items |c| c.items,
        "Subscribed items, counted once per shard that has subscribers.";
    Counter weir_gateway_sessions_created |c| c.sessions_created, "Sessions created.";
    Counter weir_gateway_sessions_rebound |c| c.sessions_rebound,
        "Sessions bound to another stream connection.";
    Counter weir_gateway_sessions_refused |c| c.sessions_refused, "Sessions refused.";
    Counter weir_gateway_requests_refused |c| c.requests_refused,
        "Requests refused with REQERR, ERROR or CONERR because of their content.";
    Counter weir_gateway_updates_sent |c| c.delivery.sent, "Updates queued for clients.";
    Counter weir_gateway_updates_conflated |c| c.delivery.conflated,
        "Updates replaced by newer ones because the client lagged or has limits.";
    Counter weir_gateway_updates_dropped |c| c.delivery.dropped,
        "Oldest updates of mode DISTINCT dropped because the client lagged or has limits.";
    Counter weir_gateway_updates_lost |c| c.delivery.lost,
        "Updates lost in modes that forbid it, reported to the client with OV.";
    Counter weir_gateway_updates_too_long |c| c.delivery.too_long,
        "Updates too long for their client, reported with OV instead.";
    Gauge weir_gateway_command_rows |c| c.rows.stored, "Rows stored for mode COMMAND.";
    Counter weir_gateway_command_rows_not_stored |c| c.rows.not_stored,
        "Updates of rows that were not stored because their item had reached command_rows.";
    Counter weir_gateway_command_records_rejected |c| c.rows.rejected,
        "Records of mode COMMAND skipped: no key, no command, or a deletion of an unknown key.";
    Counter weir_gateway_updates_unchanged |c| c.delivery.unchanged,
        "Updates of mode MERGE not sent because they changed none of the subscribed fields.";
    Gauge weir_gateway_lagging_sessions |c| c.delivery.lagging,
        "Sessions with queued updates, because the client lags or has limits.";
    Counter weir_gateway_slow_sessions_closed |c| c.slow_ended,
        "Sessions ended because their client did not read.";
    Gauge weir_gateway_unbound_sessions |c| c.writer.unbound,
        "Sessions without a stream connection.";
    Counter weir_gateway_streams_lost |c| c.streams_lost,
        "Stream connections that ended without LOOP or END.";
    Counter weir_gateway_sessions_expired |c| c.sessions_expired,
        "Sessions that were not rebound in time.";
    Counter weir_gateway_recoveries |c| c.recoveries, "Sessions recovered after a lost connection.";
    Counter weir_gateway_recoveries_failed |c| c.recoveries_refused,
        "Recoveries that failed because the missing notifications were no longer stored.";
    Counter weir_gateway_event_recoveries |c| c.event_recoveries,
        "Subscriptions of clients without an SDK that continued after the last event.";
    Counter weir_gateway_missed_updates |c| c.missed_updates,
        "Updates sent again to such subscriptions.";
    Counter weir_gateway_event_resets_invalid_ids |c| c.reset(ResetReason::InvalidId),
        "Such subscriptions that got a snapshot because the text was no id.";
    Counter weir_gateway_event_resets_other_partitions |c| c.reset(ResetReason::OtherPartitions),
        "Such subscriptions that got a snapshot because the id was of other partitions.";
    Counter weir_gateway_event_resets_too_many_records |c| c.reset(ResetReason::TooManyRecords),
        "Such subscriptions that got a snapshot because too many records were missed.";
    Counter weir_gateway_event_resets_deleted_records |c| c.reset(ResetReason::DeletedRecords),
        "Such subscriptions that got a snapshot because missed records were deleted.";
    Counter weir_gateway_event_resets_unknown_records |c| c.reset(ResetReason::UnknownRecords),
        "Such subscriptions that got a snapshot because the id was of records that do not exist.";
    Counter weir_gateway_event_resets_busy |c| c.reset(ResetReason::Busy),
        "Such subscriptions that got a snapshot because too many clients waited.";
    Counter weir_gateway_event_resets_unavailable |c| c.reset(ResetReason::Unavailable),
        "Such subscriptions that got a snapshot because the brokers did not respond in time.";
    Gauge weir_gateway_recovery_bytes |c| c.writer.journal_bytes,
        "Bytes of data notifications stored for recovery.";
    Counter weir_gateway_diffs_json_patch |c| c.delivery.diffs.json_patch,
        "Values encoded as JSON Patch, once per shared frame.";
    Counter weir_gateway_diffs_tlcp_diff |c| c.delivery.diffs.tlcp_diff,
        "Values encoded as TLCP-diff, once per shared frame.";
    Counter weir_gateway_diffs_not_smaller |c| c.delivery.diffs.not_smaller,
        "Values compared but sent in full, because no diff was exact and clearly shorter.";
    Counter weir_gateway_diffs_over_budget |c| c.delivery.diffs.over_budget,
        "Values sent in full because the diff budget was used up.";
    Counter weir_gateway_compressed_messages |c| c.writer.compression.messages,
        "Messages compressed, once per shared message.";
    Counter weir_gateway_compression_input_bytes |c| c.writer.compression.bytes_before,
        "Bytes of these messages before compression.";
    Counter weir_gateway_compression_output_bytes |c| c.writer.compression.bytes_after,
        "Bytes of these messages after compression.";
    Counter weir_gateway_compression_not_smaller |c| c.writer.compression.not_smaller,
        "Messages compressed but sent uncompressed, because they did not shrink.";
    Counter weir_gateway_compression_over_budget |c| c.writer.compression.over_budget,
        "Messages sent uncompressed because the compression budget was used up.";
    Counter weir_gateway_compressed_sent |c| c.writer.compression.sent,
        "Compressed messages queued for clients.";
    Counter weir_gateway_compressed_received |c| c.io.inflated,
        "Compressed messages received from clients.";
    Counter weir_gateway_compression_negotiated |c| c.io.deflate_negotiated,
        "WebSockets that negotiated compression.";
    Counter weir_gateway_connections_accepted |c| c.io.accepted, "Client connections accepted.";
    Counter weir_gateway_connections_rejected |c| c.io.rejected,
        "Client connections rejected: limit reached or no file descriptors left.";
    Counter weir_gateway_received_bytes |c| c.io.bytes_in, "Bytes read from clients.";
    Counter weir_gateway_sent_bytes |c| c.io.bytes_out, "Bytes written to clients.";
    Counter weir_gateway_writes |c| c.io.writes, "Write calls on client sockets.";
    Counter weir_gateway_blocked_writes |c| c.io.blocked,
        "Flushes that left unsent bytes because the client's socket was full.";
    Counter weir_gateway_queue_full |c| c.io.overflows,
        "Updates that found a client's queue full and were queued as values.";
    Counter weir_gateway_oversized_requests |c| c.io.oversized,
        "Connections closed because a request or message exceeded its limit.";
    Counter weir_gateway_tls_handshakes |c| c.io.tls_handshakes, "TLS handshakes completed.";
    Counter weir_gateway_tls_failures |c| c.io.tls_failures,
        "TLS connections that ended before the handshake completed.";
};

const CONNECTION_METRICS: &[MetricSpec<KafkaConnection>] = metrics! {
    Gauge weir_gateway_connection_ready |c| u64::from(c.state.ready()), "1 if records arrive.";
    Counter weir_gateway_kafka_records |c| c.total(|w| &w.records), "Records read.";
    Counter weir_gateway_kafka_record_bytes |c| c.total(|w| &w.record_bytes),
        "Value bytes of records read.";
    Counter weir_gateway_kafka_unrouted_records |c| c.total(|w| &w.unrouted),
        "Records of items without subscribers.";
    Counter weir_gateway_kafka_extraction_failures |c| c.failed_in_all(),
        "Records skipped because extraction failed.";
    Counter weir_gateway_kafka_decode_failures |c| c.total(|w| &w.undecodable),
        "Failed records whose key or value is not of its type.";
    Gauge weir_gateway_kafka_decode_failures_in_a_row |c| c.total(|w| &w.undecodable_in_a_row),
        "Such records since the last one that could be decoded.";
    Counter weir_gateway_kafka_invalid_item_names |c| c.total(|w| &w.unnameable),
        "Template expansions that no client can name, such as one with a comma in a value.";
    Counter weir_gateway_late_subscriptions |c| load(&c.late.subscriptions),
        "Subscriptions to items within 60 s after reading resumed from stored offsets.";
    Counter weir_gateway_late_records |c| c.total(|w| &w.late_records),
        "Records of their items that were read before these subscriptions.";
    Counter weir_gateway_missed_records_read |c| load(&c.read_back.records),
        "Records read again for clients without an SDK, once for all of them.";
    Counter weir_gateway_missed_record_reads |c| load(&c.read_back.reads),
        "Ranges of partitions that were read again.";
    Counter weir_gateway_updates_posted |c| c.total(|w| &w.updates), "Updates posted to shards.";
    Counter weir_gateway_shard_inbox_full_waits |c| c.total(|w| &w.shard_waits),
        "Waits of 100 ms for a shard with a full inbox.";
    Counter weir_gateway_updates_undelivered |c| c.total(|w| &w.undelivered),
        "Updates that a stalled shard did not accept before the gateway ended.";
    Counter weir_gateway_kafka_errors |c| load(&c.state.source_errors),
        "Errors reported by the Kafka client.";
    Counter weir_gateway_kafka_login_failures |c| load(&c.state.login_failures),
        "Logins that brokers rejected.";
    Counter weir_gateway_kafka_tls_failures |c| load(&c.state.tls_failures),
        "TLS handshakes with brokers that failed.";
    Counter weir_gateway_kafka_offset_resets |c| load(&c.state.resets),
        "Offset resets of partitions.";
    Counter weir_gateway_kafka_truncations |c| load(&c.state.truncations),
        "Of these, partitions whose new leader lacked records that were read.";
    Counter weir_gateway_kafka_throttled_responses |c| load(&c.state.throttled),
        "Responses with which brokers asked for a pause (lean reader).";
    Counter weir_gateway_kafka_throttle_microseconds |c| load(&c.state.throttle_us),
        "These pauses together.";
    Gauge weir_gateway_kafka_follower_partitions |c| load(&c.state.on_followers),
        "Partitions read from followers (lean reader).";
    Counter weir_gateway_kafka_commits |c| load(&c.state.commits), "Confirmed offset commits.";
    Counter weir_gateway_kafka_commit_errors |c| load(&c.state.commit_errors),
        "Failed offset commits.";
    Gauge weir_gateway_kafka_lag_records |c| load(&c.state.lag),
        "Records not read yet; absent if unknown.";
    Gauge weir_gateway_schema_waiting_partitions |c| load(&c.schemas.waiting),
        "Partitions that wait for a schema.";
    Counter weir_gateway_schema_waits |c| load(&c.schemas.waits),
        "Partitions that have waited for a schema.";
    Counter weir_gateway_schema_wait_microseconds |c| load(&c.schemas.wait_us),
        "Time that partitions have waited for schemas.";
    Counter weir_gateway_schema_requests |c| load(&c.schemas.requests),
        "Requests for schemas to the registry.";
    Counter weir_gateway_schema_request_failures |c| load(&c.schemas.failures),
        "Requests for schemas without a usable response.";
    Counter weir_gateway_schema_unknown_ids |c| load(&c.schemas.unknown_ids),
        "Schema ids given up because the registry does not know them.";
    Counter weir_gateway_schemas_from_files |c| load(&c.schemas.from_files),
        "Schemas read from the cache directory instead of the registry.";
    Gauge weir_gateway_routed_items |c| load(&c.workers[0].counters.items),
        "Items with subscribers.";
    Gauge weir_gateway_last_values |c| c.total(|w| &w.last_values),
        "Items with a stored last record, with or without subscribers.";
    Gauge weir_gateway_last_value_bytes |c| c.total(|w| &w.last_value_bytes),
        "Memory of these records, including overhead.";
    Counter weir_gateway_last_values_evicted |c| c.total(|w| &w.last_values_evicted),
        "Items whose last record was evicted because memory_bytes was reached.";
    Counter weir_gateway_snapshots_expired |c| c.total(|w| &w.snapshots_expired),
        "Items whose snapshot was discarded because they were idle.";
};

/// Metric of connections with one value for each kind of failure.
const FAILURES: &str = "weir_gateway_kafka_extraction_failures";

const ADMISSION_METRICS: &[MetricSpec<Admission>] = metrics! {
    Gauge weir_gateway_subscription_bytes |admission| admission.held.bytes() as u64,
        "Estimated memory of all subscriptions and their items.";
    Gauge weir_gateway_memory_bytes |admission| admission.overload.memory().used,
        "Memory in use, of the bound that is closest to its limit.";
    Gauge weir_gateway_memory_limit_bytes |admission| admission.overload.memory().max,
        "Memory above which new sessions and subscriptions are refused.";
    Gauge weir_gateway_overloaded |admission| u64::from(admission.overload.is_on()),
        "1 while new sessions and subscriptions are refused because of the memory limit.";
};

const ADAPTER_METRICS: &[MetricSpec<AdapterMetrics>] = metrics! {
    Gauge weir_gateway_adapter_connected |a| u64::from(a.is_connected()),
        "1 while a remote adapter is connected.";
    Gauge weir_gateway_adapter_pending |a| a.pending(),
        "Requests that wait for a reply of the remote adapter.";
    Gauge weir_gateway_adapter_close_notifications |a| a.closes()[0],
        "Ends of sessions and subscriptions that wait to be sent to the remote adapter.";
    Counter weir_gateway_adapter_close_notifications_dropped |a| a.closes()[1],
        "Ends of sessions and subscriptions that the remote adapter will not get.";
    Counter weir_gateway_adapter_late_replies |a| a.late_replies(),
        "Replies of the remote adapter after their deadline.";
};

const AUDIT_METRICS: &[MetricSpec<AuditLog>] = metrics! {
    Counter weir_gateway_audit_dropped |audit| audit.dropped(),
        "Records of the audit log dropped because it was too slow, or not written after an error.";
};

const MESSAGE_METRICS: &[MetricSpec<Messages>] = metrics! {
    Gauge weir_gateway_messages_pending |m| m.pending(), "Client messages without an outcome.";
    Gauge weir_gateway_message_bytes_pending |m| m.pending_bytes(),
        "Bytes of client messages without an outcome, with overhead.";
    Counter weir_gateway_messages_skipped |m| m.skipped(),
        "Missing client messages of sequences that were skipped after their wait.";
};

const TLS_METRICS: &[MetricSpec<TlsFiles>] = metrics! {
    Counter weir_gateway_tls_reloads |tls| tls.files.counts()[0], "Reloads of certificate and key.";
    Counter weir_gateway_tls_reload_failures |tls| tls.files.counts()[1],
        "Failed reloads, after which the current certificate stayed in use.";
    Gauge weir_gateway_tls_certificate_expiry_timestamp_seconds
        |tls| tls.not_after_unix_s().map_or(0, |end| u64::try_from(end).unwrap_or(0)),
        "Expiry of the current certificate, in seconds since 1970; 0 if unknown.";
};

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[derive(Debug)]
pub(crate) struct ShardMetrics {
    values: [AtomicU64; SHARD_METRICS.len()],
    pub(crate) latency: DeliveryAges,
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
        for (value, metric) in self.values.iter().zip(SHARD_METRICS) {
            value.store((metric.value)(counters), Ordering::Relaxed);
        }
    }
}
