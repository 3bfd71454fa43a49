//! The metrics of `/metrics` (docs/metrics.md). Event loops publish counters; a scrape sums them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_net::admin::ProcessMetrics;
use weir_net::watchdog::Vitals;

use crate::data::{FilterPool, LoopMetrics, METRICS, Memory, MetricKind};
use crate::tls::TlsReloads;
use crate::virtual_cluster::VirtualCluster;

/// Sources of the metric values.
#[derive(Debug)]
pub(crate) struct MetricSources {
    pub(crate) loops: Vec<Arc<LoopMetrics>>,
    pub(crate) clusters: Arc<Vec<VirtualCluster>>,
    pub(crate) tls: Arc<TlsReloads>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) pool: Option<Arc<FilterPool>>,
}

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
        for (index, metric) in METRICS.iter().enumerate() {
            let sum: u64 = self.loops.iter().map(|one| one.get(index)).sum();
            put(&mut encoder, metric.0, metric.1, metric.2, sum)?;
        }
        let responding = self
            .clusters
            .iter()
            .filter(|one| one.health.is_responding());
        put(
            &mut encoder,
            "weir_proxy_clusters_ready",
            MetricKind::Gauge,
            "Clusters that responded to the last probe.",
            responding.count() as u64,
        )?;
        let brokers: usize = self
            .clusters
            .iter()
            .map(|one| one.broker_registry.infos().len())
            .sum();
        put(
            &mut encoder,
            "weir_proxy_brokers",
            MetricKind::Gauge,
            "Brokers that have a port on the proxy.",
            brokers as u64,
        )?;
        self.encode_brokers(&mut encoder)?;
        self.encode_limits(&mut encoder)?;
        if !self.tls.is_empty() {
            self.encode_tls(&mut encoder)?;
        }
        Ok(())
    }
}

impl MetricSources {
    /// Writes the state of each broker.
    fn encode_brokers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
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

    /// Writes the use of the memory and the filter threads that all connections share.
    fn encode_limits(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (used, waiting, waits) = self.memory.usage();
        let pool = self.pool.as_ref().map(|pool| pool.usage());
        let (tasks, cpu) = pool.unwrap_or_default();
        let rows = [
            (
                "weir_proxy_buffer_claimed_bytes",
                MetricKind::Gauge,
                "Bytes of memory claimed for buffered frames.",
                used as u64,
            ),
            (
                "weir_proxy_buffer_waiting",
                MetricKind::Gauge,
                "Frames that wait for memory.",
                waiting as u64,
            ),
            (
                "weir_proxy_buffer_waits",
                MetricKind::Counter,
                "Frames that had to wait for memory.",
                waits,
            ),
            (
                "weir_proxy_filter_waiting",
                MetricKind::Gauge,
                "Frames that wait for a filter thread.",
                tasks as u64,
            ),
            (
                "weir_proxy_filter_cpu_milliseconds",
                MetricKind::Counter,
                "CPU time of filter threads.",
                cpu.as_millis() as u64,
            ),
        ];
        for (name, kind, help, value) in rows {
            put(encoder, name, kind, help, value)?;
        }
        Ok(())
    }

    fn encode_tls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (done, failed) = self.tls.counts();
        let expiry = self
            .tls
            .expiry_unix_s()
            .and_then(|time| u64::try_from(time).ok());
        put(
            encoder,
            "weir_proxy_tls_reloads",
            MetricKind::Counter,
            "Reloads of the files of a tls or upstream_tls table.",
            done,
        )?;
        put(
            encoder,
            "weir_proxy_tls_reload_failures",
            MetricKind::Counter,
            "Failed reloads; the previous certificates stayed in use.",
            failed,
        )?;
        put(
            encoder,
            "weir_proxy_tls_certificate_expiry_timestamp_seconds",
            MetricKind::Gauge,
            "Earliest expiry of the certificates presented to clients, in seconds since 1970; \
             0 if unknown.",
            expiry.unwrap_or(0),
        )
    }
}

fn put(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    kind: MetricKind,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    match kind {
        MetricKind::Counter => {
            let described = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(described)
        }
        MetricKind::Gauge => {
            let described = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(described)
        }
    }
}
