//! Metrics per virtual cluster and API.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use weir_net::admin::MetricKind;

use crate::api_counters::ApiCounts;
use crate::data::Generation;
use crate::versions;

/// A number of an API: name of its metric, help text and value.
type ApiCounter = (&'static str, &'static str, fn(&ApiCounts) -> u64);

const COUNTERS: [ApiCounter; 3] = [
    (
        "weir_proxy_api_requests",
        "Requests of clients by cluster and API.",
        |counts| counts.requests,
    ),
    (
        "weir_proxy_api_request_bytes",
        "Bytes of these requests.",
        |counts| counts.request_frames.sum,
    ),
    (
        "weir_proxy_api_response_bytes",
        "Bytes of their responses, as brokers have sent them.",
        |counts| counts.response_frames.sum,
    ),
];

pub(super) fn encode(
    generation: &Generation,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let clusters = generation.clusters.iter();
    let sums = clusters.map(|cluster| (cluster.config.name.as_str(), cluster.apis.sums()));
    let sums: Vec<_> = sums.collect();
    let rows = || {
        let each = sums.iter();
        each.flat_map(|(cluster, sums)| sums.iter().map(move |(key, sum)| (*cluster, *key, sum)))
    };
    for (name, help, value) in COUNTERS {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (cluster, key, counts) in rows() {
            let labels = [("cluster", cluster), ("api", versions::name(key))];
            MetricKind::Counter.encode(value(counts), family.encode_family(&labels)?)?;
        }
    }
    encode_connections(generation, encoder)?;
    encode_topic_ids(generation, encoder)?;
    encode_errors(&sums, encoder)?;
    encode_principals(generation, encoder)?;
    let name = "weir_proxy_held_seconds";
    let help = "Time that produce requests and fetch responses waited for filters.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (cluster, key, counts) in rows().filter(|row| row.2.held_us.total() > 0) {
        let labels = [("cluster", cluster), ("api", versions::name(key))];
        let (sum, times) = (counts.held_us.sum as f64 / 1e6, &counts.held_us);
        let encoder = &mut family.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, times.total(), &times.seconds(), None)?;
    }
    let name = "weir_proxy_upstream_seconds";
    let help = "Time from a request to the beginning of the broker's response.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (cluster, key, counts) in rows() {
        let labels = [("cluster", cluster), ("api", versions::name(key))];
        let (sum, times) = (counts.response_us.sum as f64 / 1e6, &counts.response_us);
        let encoder = &mut family.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, times.total(), &times.seconds(), None)?;
    }
    let name = "weir_proxy_frame_bytes";
    let help = "Sizes of requests and of the brokers' responses.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (cluster, key, counts) in rows() {
        for (direction, sizes) in [
            ("request", &counts.request_frames),
            ("response", &counts.response_frames),
        ] {
            let api = versions::name(key);
            let labels = [("cluster", cluster), ("api", api), ("direction", direction)];
            let encoder = &mut family.encode_family(&labels)?;
            let (sum, total) = (sizes.sum as f64, sizes.total());
            encoder.encode_histogram::<NoLabelSet>(sum, total, &sizes.bytes(), None)?;
        }
    }
    Ok(())
}

/// Sums of the APIs of each cluster.
type Sums<'a> = [(&'a str, Vec<(i16, ApiCounts)>)];

fn encode_errors(sums: &Sums<'_>, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let name = "weir_proxy_errors";
    let help = "Responses in which the proxy itself has put an error, by Kafka's error code.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (cluster, sums) in sums {
        for (key, counts) in sums {
            for (code, count) in &counts.errors {
                let (api, code) = (versions::name(*key), code.to_string());
                let labels = [("cluster", *cluster), ("api", api), ("code", &code)];
                MetricKind::Counter.encode(*count, family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}

fn encode_topic_ids(
    generation: &Generation,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let rows = generation.clusters.iter().map(|cluster| {
        let counts = cluster.config.filters.names.counts();
        (cluster.config.name.as_str(), counts)
    });
    let rows: Vec<_> = rows.collect();
    for (place, (name, kind, help)) in TOPIC_IDS.into_iter().enumerate() {
        let mut family = encoder.encode_descriptor(name, help, None, kind.metric_type())?;
        for (cluster, counts) in &rows {
            kind.encode(
                counts[place],
                family.encode_family(&[("cluster", *cluster)])?,
            )?;
        }
    }
    Ok(())
}

/// Numbers of topic ids: name of the metric, kind and help text.
const TOPIC_IDS: [(&str, MetricKind, &str); 2] = [
    (
        "weir_proxy_topic_ids",
        MetricKind::Gauge,
        "Topic ids whose names the proxy knows, which filters and access rules need.",
    ),
    (
        "weir_proxy_topic_id_lookups",
        MetricKind::Counter,
        "Topic ids whose names the proxy has requested from brokers.",
    ),
];

fn encode_connections(
    generation: &Generation,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let clusters = generation.clusters.iter();
    let rows: Vec<_> = clusters
        .map(|cluster| {
            let name = cluster.config.name.as_str();
            (name, &cluster.apis.connections)
        })
        .collect();
    let name = "weir_proxy_cluster_connections";
    let help = "Open client connections by cluster and broker, as the client has addressed it.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (cluster, connections) in &rows {
        for (node_id, open) in connections.open() {
            let broker = node_id.map_or_else(|| "bootstrap".to_owned(), |id| id.to_string());
            let labels = [("cluster", *cluster), ("broker", &broker)];
            MetricKind::Gauge.encode(open, family.encode_family(&labels)?)?;
        }
    }
    let name = "weir_proxy_connections_closed";
    let help = "Client connections that ended, by cluster and cause.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (cluster, connections) in &rows {
        for (cause, count) in connections.closed() {
            let labels = [("cluster", *cluster), ("cause", cause)];
            MetricKind::Counter.encode(count, family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_principals(
    generation: &Generation,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let clusters = generation.clusters.iter();
    let rows: Vec<_> = clusters
        .flat_map(|cluster| {
            let name = cluster.config.name.as_str();
            let rows = cluster.apis.principals.rows().into_iter();
            rows.map(move |(principal, values)| (name, principal, values))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let name = "weir_proxy_principal_requests";
    let help = "Requests of clients that have logged in at the proxy.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (cluster, principal, [requests, ..]) in &rows {
        let labels = [("cluster", *cluster), ("principal", principal)];
        MetricKind::Counter.encode(*requests, family.encode_family(&labels)?)?;
    }
    let name = "weir_proxy_principal_bytes";
    let help = "Bytes of their requests and responses.";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (cluster, principal, [_, request, response]) in &rows {
        for (direction, bytes) in [("request", request), ("response", response)] {
            let labels = [
                ("cluster", *cluster),
                ("principal", principal),
                ("direction", direction),
            ];
            MetricKind::Counter.encode(*bytes, family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
