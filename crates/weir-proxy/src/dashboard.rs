//! Columns and facts of the proxy's dashboard.

use serde_json::{Map, Value, json};
use weir_net::admin::MetricKind;
use weir_net::admin::dashboard::{
    COLUMNS_MAX, ColumnKind, Dashboard, DashboardLayout, DashboardSource, Problem,
};

use crate::metrics::MetricSources;

/// Columns and their metrics. Counters are shown as increase per second.
const COLUMNS: [(&str, &str); 29] = [
    ("connections", "weir_proxy_connections"),
    ("broker_connections", "weir_proxy_broker_connections"),
    ("accepted", "weir_proxy_connections_accepted"),
    ("rejected", "weir_proxy_connections_rejected"),
    ("requests", "weir_proxy_requests"),
    ("responses", "weir_proxy_responses"),
    ("rewritten", "weir_proxy_responses_rewritten"),
    ("bytes_in", "weir_proxy_request_bytes"),
    ("bytes_out", "weir_proxy_response_bytes"),
    ("spliced", "weir_proxy_spliced_bytes"),
    ("blocked_writes", "weir_proxy_blocked_writes"),
    ("client_errors", "weir_proxy_client_errors"),
    ("broker_errors", "weir_proxy_broker_errors"),
    ("tls_failures", "weir_proxy_tls_failures"),
    ("connect_failures", "weir_proxy_connect_failures"),
    ("timeouts", "weir_proxy_timeouts"),
    ("silent_broker", "weir_proxy_silent_broker"),
    ("buffered", "weir_proxy_buffered_bytes"),
    ("claimed", "weir_proxy_buffer_claimed_bytes"),
    ("memory_waiting", "weir_proxy_buffer_waiting"),
    ("memory_waits", "weir_proxy_buffer_waits"),
    ("filter_records", "weir_proxy_filter_records"),
    ("filter_rebuilt", "weir_proxy_filter_batches_rebuilt"),
    ("filter_undecodable", "weir_proxy_filter_undecodable_values"),
    ("filter_rejected", "weir_proxy_filter_rejected_partitions"),
    ("filter_withheld", "weir_proxy_filter_withheld_partitions"),
    ("filter_cut", "weir_proxy_filter_cut"),
    ("filter_limited", "weir_proxy_filter_limited"),
    ("filter_waiting", "weir_proxy_filter_waiting"),
];

pub(crate) fn dashboard(sources: MetricSources) -> Dashboard {
    let metrics = sources.metrics();
    let columns = COLUMNS.map(|(column, name)| {
        let is_counter = metrics
            .iter()
            .any(|metric| metric.0 == name && metric.1 == MetricKind::Counter);
        let kind = match is_counter {
            true => ColumnKind::PerSecond,
            false => ColumnKind::Now,
        };
        (column.to_owned(), kind)
    });
    let loops = 0..sources.loops.len().min(COLUMNS_MAX);
    let others = ["filter", "other"].map(str::to_owned);
    let layout = DashboardLayout {
        script: include_str!("dashboard.js"),
        columns: columns.into(),
        thread_groups: loops
            .map(|number| format!("proxy-{number}"))
            .chain(others)
            .collect(),
        thread_group,
    };
    Dashboard::new(layout, sources)
}

fn thread_group(name: &str) -> &str {
    let name = name.strip_prefix("weir-").unwrap_or(name);
    match name.split_once('-') {
        Some(("proxy", _)) => name,
        Some(("filter", _)) => "filter",
        _ => "other",
    }
}

impl DashboardSource for MetricSources {
    fn read(&mut self, values: &mut Vec<f64>) {
        let metrics = self.metrics();
        values.extend(COLUMNS.map(|(_, name)| {
            let found = metrics.iter().find(|metric| metric.0 == name);
            found.map_or(f64::NAN, |metric| metric.3 as f64)
        }));
    }

    fn problems(&self) -> Vec<Problem> {
        let generation = self.current.get();
        let failed = self.reloads.error().map(|cause| Problem {
            source: "reload".to_owned(),
            address: format!("configuration {}", generation.number + 1),
            cause,
        });
        let brokers = generation.clusters.iter().flat_map(|cluster| {
            let rows = cluster.health.rows().into_iter();
            rows.filter_map(|row| {
                let address = row.broker.to_string();
                row.error.map(|cause| Problem {
                    source: format!("broker of {}", cluster.config.name),
                    address,
                    cause,
                })
            })
        });
        failed.into_iter().chain(brokers).collect()
    }

    fn facts(&self) -> Map<String, Value> {
        let generation = self.current.get();
        let clusters = generation.clusters.iter().map(|cluster| {
            json!({
                "name": cluster.config.name,
                "listen": cluster.listen.to_string(),
                "ready": cluster.health.is_responding(),
                "error": cluster.health.error(),
            })
        });
        let brokers = generation.clusters.iter().flat_map(|cluster| {
            cluster.health.rows().into_iter().map(|row| {
                let broker = row.broker.to_string();
                json!({ "cluster": cluster.config.name, "broker": broker, "error": row.error })
            })
        });
        let facts = [
            ("event_loops", json!(self.loops.len())),
            ("certificate_ends_unix_s", json!(self.expiry_unix_s())),
            ("clusters", clusters.collect()),
            ("brokers", brokers.collect()),
        ];
        let named = facts.into_iter();
        named.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
