//! Counters of shards and connections, and their text form for Prometheus (docs/metrics.md).
//!
//! Hot paths add to plain numbers; each shard publishes them once a turn into atomics of its own,
//! and a scrape sums them. No label names an item: their number is not bounded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_net::server::IoCounters;

use crate::connection::Connection;
use crate::guard::{Guard, Limit};
use crate::latency::{Latency, LatencyCounts};
use crate::shard::{DiffCounters, TableCounts};
use crate::tls::TlsFiles;

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
    pub(crate) rows: TableCounts,
    pub(crate) lagging: u64,
    pub(crate) slow_ended: u64,
    pub(crate) unbound: u64,
    pub(crate) streams_lost: u64,
    pub(crate) sessions_expired: u64,
    pub(crate) recoveries: u64,
    pub(crate) recoveries_refused: u64,
    pub(crate) kept_bytes: u64,
    pub(crate) diffs: DiffCounters,
    pub(crate) io: IoCounters,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Gauge,
    Counter,
}

/// One metric of shards: name (a counter's gets the suffix `_total` when written), kind, meaning,
/// and where its value is.
struct ShardMetric(&'static str, Kind, &'static str, fn(&ShardCounters) -> u64);

const SHARD_METRICS: [ShardMetric; 42] = {
    use Kind::{Counter, Gauge};
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
            "weir_gateway_command_keys",
            Gauge,
            "Rows kept for mode COMMAND.",
            |c| c.rows.keys,
        ),
        ShardMetric(
            "weir_gateway_command_keys_left_out",
            Counter,
            "Updates of rows that were not kept because their item had as many as it may have.",
            |c| c.rows.left_out,
        ),
        ShardMetric(
            "weir_gateway_command_refused",
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
            "weir_gateway_slow_sessions",
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
            "weir_gateway_recoveries_refused",
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
            "weir_gateway_diffs_useless",
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
            "weir_gateway_accepted",
            Counter,
            "Client connections accepted.",
            |c| c.io.accepted,
        ),
        ShardMetric(
            "weir_gateway_not_accepted",
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
            "weir_gateway_full_queues",
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
    pub(crate) latency: Latency,
}

impl ShardMetrics {
    pub(crate) fn new() -> Self {
        Self {
            values: [const { AtomicU64::new(0) }; SHARD_METRICS.len()],
            latency: Latency::new(),
        }
    }

    pub(crate) fn publish(&self, counters: &ShardCounters) {
        for (value, metric) in self.values.iter().zip(&SHARD_METRICS) {
            value.store((metric.3)(counters), Ordering::Relaxed);
        }
    }
}

/// One metric of a Kafka connection.
struct ConnectionMetric(&'static str, Kind, &'static str, fn(&Connection) -> u64);

const CONNECTION_METRICS: [ConnectionMetric; 19] = {
    use Kind::{Counter, Gauge};
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
            "weir_gateway_kafka_unrouted",
            Counter,
            "Records of items nobody subscribes to.",
            |c| c.total(|w| &w.unrouted),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_failed",
            Counter,
            "Records skipped because extraction failed.",
            |c| c.total(|w| &w.failed),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_undecodable",
            Counter,
            "Failed records whose key or value is not of its type.",
            |c| c.total(|w| &w.undecodable),
        ),
        ConnectionMetric(
            "weir_gateway_kafka_unnameable",
            Counter,
            "Template expansions that no client can name, such as one with a comma in a value.",
            |c| c.total(|w| &w.unnameable),
        ),
        ConnectionMetric(
            "weir_gateway_updates_posted",
            Counter,
            "Updates handed to shards.",
            |c| c.total(|w| &w.updates),
        ),
        ConnectionMetric(
            "weir_gateway_shard_waits",
            Counter,
            "Waits of 100 ms for a shard with a full inbox.",
            |c| c.total(|w| &w.shard_waits),
        ),
        ConnectionMetric(
            "weir_gateway_undelivered",
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
            "Records in the topics that are not read yet.",
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

/// One metric of the certificate.
struct TlsMetric(&'static str, Kind, &'static str, fn(&TlsFiles) -> u64);

const TLS_METRICS: [TlsMetric; 3] = {
    use Kind::{Counter, Gauge};
    [
        TlsMetric(
            "weir_gateway_tls_reloads",
            Counter,
            "Times that certificate and key were read again.",
            |tls| tls.reloads.load(Ordering::Relaxed),
        ),
        TlsMetric(
            "weir_gateway_tls_reload_failures",
            Counter,
            "Times that they could not be used and the old ones stayed.",
            |tls| tls.failures.load(Ordering::Relaxed),
        ),
        TlsMetric(
            "weir_gateway_tls_certificate_end_seconds",
            Gauge,
            "When the certificate in use ends, in seconds since 1970; 0 if unknown.",
            |tls| {
                tls.not_after_unix_s()
                    .map_or(0, |end| u64::try_from(end).unwrap_or(0))
            },
        ),
    ]
};

/// What the metrics are read from at each scrape.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) shards: Vec<Arc<ShardMetrics>>,
    pub(crate) connections: Vec<Arc<Connection>>,
    pub(crate) tls: Option<Arc<TlsFiles>>,
    pub(crate) guard: Arc<Guard>,
}

impl Sources {
    /// A metric of shards, summed over them; 0 for a name that is none.
    pub(crate) fn of_shards(&self, name: &str) -> u64 {
        let index = SHARD_METRICS.iter().position(|metric| metric.0 == name);
        index.map_or(0, |index| self.shard_sum(index))
    }

    /// A metric of Kafka connections, summed over them; 0 for a name that is none.
    pub(crate) fn of_connections(&self, name: &str) -> u64 {
        self.each_connection(name).sum()
    }

    /// A metric of Kafka connections, of each.
    pub(crate) fn each_connection(&self, name: &str) -> impl Iterator<Item = u64> {
        let metric = CONNECTION_METRICS.iter().find(|metric| metric.0 == name);
        let of = metric.map(|metric| metric.3);
        let connections = self.connections.iter();
        connections.filter_map(move |connection| Some(of?(connection)))
    }

    /// Ages of delivered updates, over all shards.
    pub(crate) fn latency(&self) -> LatencyCounts {
        let mut counts = LatencyCounts::new();
        self.shards
            .iter()
            .for_each(|shard| shard.latency.add_to(&mut counts));
        counts
    }

    fn shard_sum(&self, index: usize) -> u64 {
        let values = self.shards.iter().map(|shard| &shard.values[index]);
        values.map(|value| value.load(Ordering::Relaxed)).sum()
    }

    fn encode_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.latency();
        let mut buckets: Vec<_> = counts
            .by_power()
            .into_iter()
            .map(|(ms, count)| (ms as f64 / 1000.0, count))
            .collect();
        if let Some((bound, _)) = buckets.last_mut() {
            *bound = f64::MAX;
        }
        let sum = counts.sum_ms as f64 / 1000.0;
        let help = "Age of records, by their timestamps, when an update left for a client.";
        let name = "weir_gateway_delivery_latency_seconds";
        encoder
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, counts.total(), &buckets, None)
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (index, metric) in SHARD_METRICS.iter().enumerate() {
            let sum = self.shard_sum(index);
            let described =
                encoder.encode_descriptor(metric.0, metric.2, None, metric.1.metric_type())?;
            metric.1.encode(sum, described)?;
        }
        for metric in &CONNECTION_METRICS {
            let mut described =
                encoder.encode_descriptor(metric.0, metric.2, None, metric.1.metric_type())?;
            for connection in &self.connections {
                let labels = [("connection", connection.config.name.as_str())];
                metric
                    .1
                    .encode((metric.3)(connection), described.encode_family(&labels)?)?;
            }
        }
        self.encode_latency(&mut encoder)?;
        let mut described = encoder.encode_descriptor(
            "weir_gateway_limited",
            "Times that a limit was met.",
            None,
            MetricType::Counter,
        )?;
        for limit in Limit::ALL {
            let labels = [("limit", limit.label())];
            let met = self.guard.met(*limit);
            Kind::Counter.encode(met, described.encode_family(&labels)?)?;
        }
        for metric in TLS_METRICS.iter().filter(|_| self.tls.is_some()) {
            let value = self.tls.as_deref().map_or(0, metric.3);
            let described =
                encoder.encode_descriptor(metric.0, metric.2, None, metric.1.metric_type())?;
            metric.1.encode(value, described)?;
        }
        Ok(())
    }
}

impl Kind {
    fn metric_type(self) -> MetricType {
        match self {
            Self::Gauge => MetricType::Gauge,
            Self::Counter => MetricType::Counter,
        }
    }

    fn encode(self, value: u64, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Self::Gauge => {
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder)
            }
            Self::Counter => ConstCounter::new(value).encode(encoder),
        }
    }
}

/// The registry that `/metrics` is written from.
pub(crate) fn registry(sources: Sources) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(sources));
    registry
}

#[cfg(test)]
impl Sources {
    /// Whether a name is one of a metric of shards, or of connections.
    pub(crate) fn knows(name: &str) -> [bool; 2] {
        let shards = SHARD_METRICS.iter().any(|metric| metric.0 == name);
        let connections = CONNECTION_METRICS.iter().any(|metric| metric.0 == name);
        [shards, connections]
    }
}
