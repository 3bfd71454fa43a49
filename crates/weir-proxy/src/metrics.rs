//! The metrics of `/metrics` (docs/metrics.md). Event loops publish counters; a scrape sums them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_net::admin::MetricKind::{self, Counter, Gauge};
use weir_net::admin::{ProcessMetrics, put_metric};
use weir_net::tls::{TlsAcceptor, TlsFiles};
use weir_net::watchdog::Vitals;

use crate::data::{FilterPool, LoopMetrics, METRICS, Memory};
use crate::virtual_cluster::VirtualCluster;

/// Sources of the metric values.
#[derive(Debug, Clone)]
pub(crate) struct MetricSources {
    pub(crate) loops: Vec<Arc<LoopMetrics>>,
    pub(crate) clusters: Arc<Vec<VirtualCluster>>,
    pub(crate) certificates: Vec<Arc<TlsFiles>>,
    /// Certificates presented to clients.
    pub(crate) presented: Vec<Arc<TlsAcceptor>>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pool: Option<Arc<FilterPool>>,
}

/// A metric without labels: name, kind, help text and current value.
pub(crate) type Metric = (&'static str, MetricKind, &'static str, u64);

/// Creates a registry that reads the sources at each scrape.
pub(crate) fn registry(sources: MetricSources, vitals: Arc<Vitals>) -> Registry {
    let mut registry = Registry::default();
    let process = ProcessMetrics::new("proxy", vitals);
    registry.register_collector(Box::new(process));
    registry.register_collector(Box::new(sources));
    registry
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, kind, help, value) in self.metrics() {
            put_metric(&mut encoder, name, kind, help, value)?;
        }
        let mut family = encoder.encode_descriptor(
            "weir_proxy_broker_up",
            "1 if the broker responded to the last probe, else 0.",
            None,
            MetricType::Gauge,
        )?;
        for cluster in self.clusters.iter() {
            for row in cluster.health.rows() {
                let labels = [
                    ("cluster", cluster.name.clone()),
                    ("broker", row.broker.to_string()),
                ];
                let up = ConstGauge::new(i64::from(row.error.is_none()));
                up.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl MetricSources {
    /// Returns all metrics without labels.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let of_loops = METRICS.iter().enumerate().map(|(index, metric)| {
            let sum = self.loops.iter().map(|one| one.get(index)).sum();
            (metric.0, metric.1, metric.2, sum)
        });
        let clusters = self.clusters.iter();
        let ready = clusters.clone().filter(|one| one.health.is_responding());
        let brokers: usize = clusters.map(|one| one.broker_registry.infos().len()).sum();
        let (used, waiting, waits) = self.memory.usage();
        let pool = self.pool.as_ref().map(|pool| pool.usage());
        let (tasks, cpu) = pool.unwrap_or_default();
        let mut metrics: Vec<Metric> = of_loops.collect();
        metrics.extend([
            (
                "weir_proxy_clusters_ready",
                Gauge,
                "Clusters that responded to the last probe.",
                ready.count() as u64,
            ),
            (
                "weir_proxy_brokers",
                Gauge,
                "Brokers that have a port on the proxy.",
                brokers as u64,
            ),
            (
                "weir_proxy_buffer_claimed_bytes",
                Gauge,
                "Bytes of memory claimed for buffered frames.",
                used as u64,
            ),
            (
                "weir_proxy_buffer_waiting",
                Gauge,
                "Frames that wait for memory.",
                waiting as u64,
            ),
            (
                "weir_proxy_buffer_waits",
                Counter,
                "Frames that had to wait for memory.",
                waits,
            ),
            (
                "weir_proxy_filter_waiting",
                Gauge,
                "Frames that wait for a filter thread.",
                tasks as u64,
            ),
            (
                "weir_proxy_filter_cpu_milliseconds",
                Counter,
                "CPU time of filter threads.",
                cpu.as_millis() as u64,
            ),
        ]);
        if !self.certificates.is_empty() {
            let counts = self.certificates.iter().map(|files| files.counts());
            let add = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a + c, b + d];
            let [reloads, failures] = counts.fold([0; 2], add);
            let expiry = self.expiry_unix_s().and_then(|end| u64::try_from(end).ok());
            metrics.extend([
                (
                    "weir_proxy_tls_reloads",
                    Counter,
                    "Reloads of the files of a tls or upstream_tls table.",
                    reloads,
                ),
                (
                    "weir_proxy_tls_reload_failures",
                    Counter,
                    "Failed reloads; the previous certificates stayed in use.",
                    failures,
                ),
                (
                    "weir_proxy_tls_certificate_expiry_timestamp_seconds",
                    Gauge,
                    "Earliest expiry of the certificates presented to clients, in seconds since \
                     1970; 0 if unknown.",
                    expiry.unwrap_or(0),
                ),
            ]);
        }
        metrics
    }

    /// Returns the earliest expiry of the certificates presented to clients, in seconds since 1970.
    pub(crate) fn expiry_unix_s(&self) -> Option<i64> {
        let ends = self.presented.iter();
        ends.filter_map(|one| one.identity().not_after_unix_s())
            .min()
    }
}
