//! Reads all counters at each scrape, for Prometheus and the dashboard.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_net::admin::ProcessMetrics;
use weir_net::watchdog::Vitals;

use super::{CONNECTION_METRICS, MetricKind, SHARD_METRICS, ShardMetrics, UNKNOWN};
use crate::admission::{Admission, AdmissionLimit};
use crate::connection::KafkaConnection;
use crate::latency::AgeHistogram;
use crate::tls::TlsFiles;

/// One metric of the certificate.
struct TlsMetric(&'static str, MetricKind, &'static str, fn(&TlsFiles) -> u64);

const TLS_METRICS: [TlsMetric; 3] = {
    use MetricKind::{Counter, Gauge};
    [
        TlsMetric(
            "weir_gateway_tls_reloads",
            Counter,
            "Reloads of certificate and key.",
            |tls| tls.files.counts()[0],
        ),
        TlsMetric(
            "weir_gateway_tls_reload_failures",
            Counter,
            "Failed reloads, after which the current certificate stayed in use.",
            |tls| tls.files.counts()[1],
        ),
        TlsMetric(
            "weir_gateway_tls_certificate_expiry_timestamp_seconds",
            Gauge,
            "Expiry of the current certificate, in seconds since 1970; 0 if unknown.",
            |tls| {
                tls.not_after_unix_s()
                    .map_or(0, |end| u64::try_from(end).unwrap_or(0))
            },
        ),
    ]
};

/// One metric of the limits over all event loops.
struct AdmissionMetric(&'static str, &'static str, fn(&Admission) -> u64);

const ADMISSION_METRICS: [AdmissionMetric; 4] = [
    AdmissionMetric(
        "weir_gateway_subscription_bytes",
        "Estimated memory of all subscriptions and their items.",
        |guard| guard.held.bytes() as u64,
    ),
    AdmissionMetric(
        "weir_gateway_memory_bytes",
        "Memory in use, of the bound that is closest to its limit.",
        |guard| guard.overload.memory().used,
    ),
    AdmissionMetric(
        "weir_gateway_memory_limit_bytes",
        "Memory above which new sessions and subscriptions are refused.",
        |guard| guard.overload.memory().max,
    ),
    AdmissionMetric(
        "weir_gateway_overloaded",
        "1 while new sessions and subscriptions are refused because of the memory limit.",
        |guard| u64::from(guard.overload.is_on()),
    ),
];

/// The sources that a scrape reads.
#[derive(Debug, Clone)]
pub(crate) struct MetricSources {
    pub(crate) shards: Vec<Arc<ShardMetrics>>,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) tls: Option<Arc<TlsFiles>>,
    pub(crate) admission: Arc<Admission>,
}

impl MetricSources {
    /// Returns a shard metric, summed over the shards; 0 for an unknown name.
    pub(crate) fn of_shards(&self, name: &str) -> u64 {
        let index = SHARD_METRICS.iter().position(|metric| metric.0 == name);
        index.map_or(0, |index| self.shard_sum(index))
    }

    /// Returns a metric of Kafka connections, summed over them; 0 for an unknown name.
    pub(crate) fn of_connections(&self, name: &str) -> u64 {
        self.each_connection(name).sum()
    }

    /// Returns a metric of each Kafka connection.
    pub(crate) fn each_connection(&self, name: &str) -> impl Iterator<Item = u64> {
        let metric = CONNECTION_METRICS.iter().find(|metric| metric.0 == name);
        let of = metric.map(|metric| metric.3);
        let connections = self.connections.iter();
        connections.filter_map(move |connection| Some(of?(connection)))
    }

    /// Returns the ages of delivered updates over all shards.
    pub(crate) fn latency(&self) -> AgeHistogram {
        let mut counts = AgeHistogram::new();
        self.shards
            .iter()
            .for_each(|shard| shard.latency.add_to(&mut counts));
        counts
    }

    /// Returns `true` if the metric of this name is a counter.
    pub(crate) fn is_counter(name: &str) -> bool {
        let shards = SHARD_METRICS.iter().map(|metric| (metric.0, metric.1));
        let connections = CONNECTION_METRICS.iter().map(|metric| (metric.0, metric.1));
        let kind = shards.chain(connections).find(|metric| metric.0 == name);
        matches!(kind, Some((_, MetricKind::Counter)))
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
        let help = "Age of records, by their timestamps, when an update was sent.";
        let name = "weir_gateway_delivery_latency_seconds";
        encoder
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, counts.total(), &buckets, None)
    }
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (index, metric) in SHARD_METRICS.iter().enumerate() {
            let sum = self.shard_sum(index);
            let described =
                encoder.encode_descriptor(metric.0, metric.2, None, metric.1.metric_type())?;
            metric.1.encode(sum, described)?;
        }
        for AdmissionMetric(name, help, value) in &ADMISSION_METRICS {
            let described =
                encoder.encode_descriptor(name, help, None, MetricKind::Gauge.metric_type())?;
            MetricKind::Gauge.encode(value(&self.admission), described)?;
        }
        for metric in &CONNECTION_METRICS {
            let mut described =
                encoder.encode_descriptor(metric.0, metric.2, None, metric.1.metric_type())?;
            for connection in &self.connections {
                let labels = [("connection", connection.config.name.as_str())];
                let value = (metric.3)(connection);
                if value != UNKNOWN {
                    metric.1.encode(value, described.encode_family(&labels)?)?;
                }
            }
        }
        self.encode_latency(&mut encoder)?;
        let mut described = encoder.encode_descriptor(
            "weir_gateway_limit_hits",
            "Hits of a limit.",
            None,
            MetricType::Counter,
        )?;
        for limit in AdmissionLimit::ALL {
            let labels = [("limit", limit.label())];
            let hits = self.admission.hits(*limit);
            MetricKind::Counter.encode(hits, described.encode_family(&labels)?)?;
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

impl MetricKind {
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

/// Creates the registry for `/metrics`.
pub(crate) fn registry(sources: MetricSources, vitals: Arc<Vitals>) -> Registry {
    let mut registry = Registry::default();
    let process = ProcessMetrics::new("gateway", vitals);
    registry.register_collector(Box::new(process));
    registry.register_collector(Box::new(sources));
    registry
}

#[cfg(test)]
impl MetricSources {
    /// Returns whether shards and whether connections have a metric with this name.
    pub(crate) fn knows(name: &str) -> [bool; 2] {
        let shards = SHARD_METRICS.iter().any(|metric| metric.0 == name);
        let connections = CONNECTION_METRICS.iter().any(|metric| metric.0 == name);
        [shards, connections]
    }
}
