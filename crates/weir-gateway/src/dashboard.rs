//! Columns and facts of the gateway's dashboard.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use weir_net::admin::dashboard::{
    COLUMNS_MAX, ColumnKind, Dashboard, DashboardLayout, DashboardSource, Problem,
};

use crate::admission::AdmissionLimit;
use crate::latency::AgeHistogram;
use crate::metrics::MetricSources;
use crate::tls::TlsFiles;
use weir_ingest::{KafkaConnection, TopicReading, UNKNOWN};

/// Columns from shard metrics. Counters are shown as increase per second.
const SHARDS: [(&str, &str); 27] = [
    ("sessions", "weir_gateway_sessions"),
    ("sessions.ws_streaming", "weir_gateway_websocket_streams"),
    ("sessions.http_streaming", "weir_gateway_http_streams"),
    ("sessions.ws_polling", "weir_gateway_websocket_polls"),
    ("sessions.http_polling", "weir_gateway_http_polls"),
    ("sessions.sse", "weir_gateway_sse_streams"),
    ("sessions.ws_json", "weir_gateway_json_streams"),
    ("sessions.unbound", "weir_gateway_unbound_sessions"),
    ("connections", "weir_gateway_connections"),
    ("subscriptions", "weir_gateway_subscriptions"),
    ("items", "weir_gateway_items"),
    ("lagging", "weir_gateway_lagging_sessions"),
    ("created", "weir_gateway_sessions_created"),
    ("refused", "weir_gateway_sessions_refused"),
    ("requests_refused", "weir_gateway_requests_refused"),
    ("updates", "weir_gateway_updates_sent"),
    ("conflated", "weir_gateway_updates_conflated"),
    ("dropped", "weir_gateway_updates_dropped"),
    ("lost", "weir_gateway_updates_lost"),
    ("unchanged", "weir_gateway_updates_unchanged"),
    ("slow_ended", "weir_gateway_slow_sessions_closed"),
    ("bytes_in", "weir_gateway_received_bytes"),
    ("bytes_out", "weir_gateway_sent_bytes"),
    ("writes", "weir_gateway_writes"),
    ("blocked_writes", "weir_gateway_blocked_writes"),
    ("handshakes", "weir_gateway_tls_handshakes"),
    ("handshakes_failed", "weir_gateway_tls_failures"),
];

/// Columns from metrics of Kafka connections, summed over the connections.
const CONNECTIONS: [(&str, &str); 5] = [
    ("records", "weir_gateway_kafka_records"),
    ("record_bytes", "weir_gateway_kafka_record_bytes"),
    ("records_failed", "weir_gateway_kafka_extraction_failures"),
    ("kafka_errors", "weir_gateway_kafka_errors"),
    ("shard_waits", "weir_gateway_shard_inbox_full_waits"),
];

/// The metric with one column per Kafka connection, `lag.NAME`.
const LAG: &str = "weir_gateway_kafka_lag_records";

/// Latency of deliveries since the previous sample: column and share of deliveries.
const LATENCY: [(&str, f64); 3] = [
    ("latency_p50", 0.5),
    ("latency_p99", 0.99),
    ("latency_max", 1.0),
];

/// Constant facts that the page shows in addition to the samples.
#[derive(Debug, Clone)]
pub(crate) struct GatewayInfo {
    pub(crate) adapter_set: String,
    pub(crate) clients: String,
    pub(crate) shards: usize,
    /// The page can list sessions, with their token.
    pub(crate) has_session_calls: bool,
}

struct GatewayFigures {
    info: GatewayInfo,
    sources: MetricSources,
    /// Ages of deliveries until the previous sample.
    latency: AgeHistogram,
}

pub(crate) fn dashboard(info: GatewayInfo, sources: MetricSources) -> Dashboard {
    let metrics = SHARDS.iter().chain(&CONNECTIONS);
    let mut columns: Vec<_> = metrics
        .map(|(column, metric)| ((*column).to_owned(), kind(metric)))
        .collect();
    columns.push(("limited".to_owned(), ColumnKind::PerSecond));
    columns.extend(LATENCY.map(|(column, _)| (column.to_owned(), ColumnKind::Now)));
    let connections = sources.connections.iter().take(COLUMNS_MAX);
    columns.extend(connections.map(|one| (format!("lag.{}", one.config.name), ColumnKind::Now)));
    let shards = (0..info.shards.min(COLUMNS_MAX)).map(|number| format!("shard-{number}"));
    let others = ["ingest", "kafka", "other"].map(str::to_owned);
    let layout = DashboardLayout {
        script: include_str!("dashboard.js"),
        columns,
        thread_groups: shards.chain(others).collect(),
        thread_group,
    };
    let latency = sources.latency();
    Dashboard::new(
        layout,
        GatewayFigures {
            info,
            sources,
            latency,
        },
    )
}

fn kind(metric: &str) -> ColumnKind {
    match MetricSources::is_counter(metric) {
        true => ColumnKind::PerSecond,
        false => ColumnKind::Now,
    }
}

fn thread_group(name: &str) -> &str {
    let ingest = ["ingest", "worker", "discovery", "commit"];
    if name.starts_with("shard-") {
        name
    } else if name.starts_with("rdk:") {
        "kafka"
    } else if ingest.iter().any(|kind| name.starts_with(kind)) {
        "ingest"
    } else {
        "other"
    }
}

impl DashboardSource for GatewayFigures {
    fn read(&mut self, values: &mut Vec<f64>) {
        let sources = &self.sources;
        values.extend(SHARDS.map(|(_, metric)| sources.of_shards(metric) as f64));
        values.extend(CONNECTIONS.map(|(_, metric)| sources.of_connections(metric) as f64));
        let limits = AdmissionLimit::ALL.iter();
        let hits: u64 = limits.map(|limit| sources.admission.hits(*limit)).sum();
        values.push(hits as f64);
        let latency = sources.latency();
        let between = latency.since(&self.latency);
        values.extend(LATENCY.map(|(_, share)| {
            let ms = between.quantile(share);
            ms.map_or(f64::NAN, |ms| ms as f64)
        }));
        let lags = sources.each_connection(LAG).take(COLUMNS_MAX);
        values.extend(lags.map(|lag| match lag {
            UNKNOWN => f64::NAN,
            known => known as f64,
        }));
        self.latency = latency;
    }

    fn problems(&self) -> Vec<Problem> {
        self.sources.problems()
    }

    fn facts(&self) -> Map<String, Value> {
        let connections = self.sources.connections.iter().map(|connection| {
            json!({
                "name": connection.config.name,
                "enabled": connection.config.enabled,
                "ready": connection.state.ready(),
                "error": connection.state.error(),
            })
        });
        let limits = AdmissionLimit::ALL.iter().map(
            |limit| json!({ "limit": limit.label(), "hits": self.sources.admission.hits(*limit) }),
        );
        let adapter = self.sources.adapter.as_ref().map(|adapter| {
            let metrics = adapter.metrics();
            json!({ "connected": metrics.is_connected(), "pending": metrics.pending() })
        });
        let tls = self.sources.tls.as_deref();
        let facts = [
            ("adapter_set", json!(self.info.adapter_set)),
            ("clients", json!(self.info.clients)),
            ("shards", json!(self.info.shards)),
            ("has_session_calls", json!(self.info.has_session_calls)),
            (
                "certificate_ends_unix_s",
                json!(tls.and_then(TlsFiles::not_after_unix_s)),
            ),
            ("adapter", json!(adapter)),
            ("connections", connections.collect()),
            ("topics", top_topics(&self.sources.connections)),
            ("limits", limits.collect()),
        ];
        facts
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// Topics in the list.
const TOP_TOPICS: usize = 20;

/// Returns the topics that are read the fastest, then those with the most to read.
fn top_topics(connections: &[Arc<KafkaConnection>]) -> Value {
    let mut topics: Vec<_> = connections
        .iter()
        .flat_map(|one| {
            let topics = one.state.topics().into_iter();
            topics.map(|topic| (one.config.name.as_str(), topic))
        })
        .collect();
    topics.sort_by(|(_, one), (_, other)| by_activity(other, one));
    let shown = topics.into_iter().take(TOP_TOPICS);
    let row = |(connection, one): (&str, TopicReading)| {
        json!({
            "connection": connection,
            "topic": one.topic,
            "partitions": one.partitions,
            "offsets_per_s": one.offsets_per_s,
            "lag": one.lag,
        })
    };
    shown.map(row).collect()
}

fn by_activity(one: &TopicReading, other: &TopicReading) -> Ordering {
    let rate = |topic: &TopicReading| topic.offsets_per_s.unwrap_or_default();
    let rates = rate(one).total_cmp(&rate(other));
    // Of equal ones, the first name.
    let names = other.topic.cmp(&one.topic);
    rates.then(one.lag.cmp(&other.lag)).then(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_topics_are_first() {
        let topic = |name: &str, offsets_per_s, lag| TopicReading {
            topic: name.to_owned(),
            partitions: 1,
            offsets_per_s,
            lag,
        };
        let mut topics = [
            topic("idle-b", Some(0.0), Some(0)),
            topic("unknown", None, None),
            topic("busy", Some(9.0), Some(0)),
            topic("behind", Some(0.0), Some(5)),
            topic("idle-a", Some(0.0), Some(0)),
        ];
        topics.sort_by(|one, other| by_activity(other, one));
        let names = topics.map(|topic| topic.topic);
        assert_eq!(names, ["busy", "behind", "idle-a", "idle-b", "unknown"]);
    }

    #[test]
    fn every_column_has_a_metric() {
        for (column, metric) in SHARDS {
            assert!(MetricSources::knows(metric)[0], "{column}: {metric}");
        }
        for (column, metric) in CONNECTIONS.into_iter().chain([("lag", LAG)]) {
            assert!(MetricSources::knows(metric)[1], "{column}: {metric}");
        }
    }

    #[test]
    fn threads_are_grouped_by_name() {
        for (name, group) in [
            ("shard-12", "shard-12"),
            ("rdk:main", "kafka"),
            ("worker-0-1", "ingest"),
            ("admin", "other"),
        ] {
            assert_eq!(thread_group(name), group);
        }
    }
}
