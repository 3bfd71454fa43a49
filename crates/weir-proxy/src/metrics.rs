//! The metrics of `/metrics` (docs/metrics.md). Event loops publish counters; a scrape sums them.

mod apis;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use weir_net::admin::{MetricKind, MetricRow, ProcessMetrics, put_metric};
use weir_net::otlp::OtlpCounters;
use weir_net::watchdog::WatchdogStatus;

use crate::certificates::CertificateFiles;
use crate::counters::{LoopMetrics, ProxyValues, TlsValues};
use crate::data::{CurrentGeneration, LoopShared};
use crate::reload::ReloadCounts;
use crate::versions;
use weir_rules::audit::ProxyAudit;

#[derive(Debug, Clone)]
pub(crate) struct MetricSources {
    pub(crate) loops: Vec<Arc<LoopMetrics>>,
    pub(crate) certificates: Arc<CertificateFiles>,
    pub(crate) current: Arc<CurrentGeneration>,
    pub(crate) reloads: Arc<ReloadCounts>,
    pub(crate) shared: Arc<LoopShared>,
    /// `None`: nothing is exported to a collector.
    pub(crate) otlp: Option<Arc<OtlpCounters>>,
    /// `None`: there is no audit log.
    pub(crate) audit: Option<Arc<ProxyAudit>>,
}

/// A metric without labels: name, kind, help text and current value.
pub(crate) type Metric = (&'static str, MetricKind, &'static str, u64);

/// Creates a registry that reads the sources at each scrape.
pub(crate) fn registry(sources: MetricSources, watchdog_status: Arc<WatchdogStatus>) -> Registry {
    let mut registry = Registry::default();
    let process = ProcessMetrics::new("proxy", watchdog_status);
    registry.register_collector(Box::new(process));
    registry.register_collector(Box::new(sources));
    registry
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, kind, help, value) in self.metrics() {
            put_metric(&mut encoder, name, kind, help, value)?;
        }
        if let Some(counters) = &self.otlp {
            counters.encode("proxy", &mut encoder)?;
        }
        if let Some(audit) = &self.audit {
            let [records, dropped] = audit.counts();
            for (name, help, value) in [
                (
                    "weir_proxy_audit_records",
                    "Records of the audit log.",
                    records,
                ),
                (
                    "weir_proxy_audit_dropped",
                    "Records of the audit log that were dropped or could not be written.",
                    dropped,
                ),
            ] {
                put_metric(&mut encoder, name, MetricKind::Counter, help, value)?;
            }
        }
        apis::encode(&self.current.get(), &mut encoder)?;
        self.encode_decisions(&mut encoder)?;
        let mut family = encoder.encode_descriptor(
            "weir_proxy_broker_up",
            "1 if the broker responded to the last probe, else 0.",
            None,
            MetricType::Gauge,
        )?;
        for cluster in &self.current.get().clusters {
            for row in cluster.health.rows() {
                let labels = [
                    ("cluster", cluster.config.name.clone()),
                    ("broker", row.broker.to_string()),
                ];
                let up = ConstGauge::new(i64::from(row.error.is_none()));
                up.encode(family.encode_family(&labels)?)?;
            }
        }
        self.encode_logins(&mut encoder)?;
        self.encode_broker_logins(&mut encoder)?;
        self.reloads.encode(encoder)
    }
}

impl MetricSources {
    fn encode_logins(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let generation = self.current.get();
        let clusters = generation.clusters.iter();
        let logins: Vec<_> = clusters
            .filter_map(|one| Some((&one.config.name, one.config.logins.as_ref()?)))
            .collect();
        if logins.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "weir_proxy_logins",
            "Logins of clients at the proxy.",
            None,
            MetricType::Counter,
        )?;
        for (cluster, logins) in &logins {
            for (mechanism, outcome, count) in logins.counts() {
                let labels = [
                    ("cluster", cluster.as_str()),
                    ("mechanism", mechanism),
                    ("outcome", outcome.as_str()),
                ];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "weir_proxy_login_seconds",
            "Time from the begin of an accepted login to its end.",
            None,
            MetricType::Histogram,
        )?;
        for (cluster, logins) in &logins {
            for (mechanism, seconds) in logins.seconds() {
                let labels = [("cluster", cluster.as_str()), ("mechanism", mechanism)];
                seconds.encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "weir_proxy_sessions_expired",
            "Connections closed because their login had expired, or their user was removed.",
            None,
            MetricType::Counter,
        )?;
        for (cluster, logins) in &logins {
            let labels = [("cluster", cluster.as_str())];
            ConstCounter::new(logins.expired()).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes the proxy's logins at brokers, if it has credentials.
    fn encode_broker_logins(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let generation = self.current.get();
        let clusters = generation.clusters.iter();
        let mut identities = clusters
            .filter_map(|one| Some((&one.config.name, one.config.broker_identity.as_ref()?)))
            .peekable();
        if identities.peek().is_none() {
            return Ok(());
        }
        let name = "weir_proxy_upstream_logins";
        let help = "Logins of the proxy at brokers.";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (cluster, identity) in identities {
            for (outcome, count) in identity.counts() {
                let labels = [
                    ("cluster", cluster.as_str()),
                    ("mode", identity.mode.as_str()),
                    ("outcome", outcome.as_str()),
                ];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Writes the decisions of access rules, if there are rules.
    fn encode_decisions(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let generation = self.current.get();
        let clusters = generation.clusters.iter();
        let ruled =
            clusters.filter_map(|one| Some((&one.config.name, one.config.access.as_ref()?)));
        let mut ruled = ruled.peekable();
        if ruled.peek().is_none() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "weir_proxy_decisions",
            "Requests that access rules allowed, or of which they denied something.",
            None,
            MetricType::Counter,
        )?;
        for (cluster, rules) in ruled {
            for (key, counts) in rules.counts.rows() {
                for (outcome, count) in ["allowed", "denied"].into_iter().zip(counts) {
                    let labels = [
                        ("cluster", cluster.as_str()),
                        ("api", versions::name(key)),
                        ("outcome", outcome),
                    ];
                    let count = ConstCounter::new(count);
                    count.encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// Returns all metrics without labels.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let with_value = |(row, value): (&MetricRow, u64)| (row.0, row.1, row.2, value);
        let mut metrics: Vec<_> = LoopMetrics::metrics()
            .map(|row| with_value((row, 0)))
            .collect();
        for one in &self.loops {
            for (sum, value) in metrics.iter_mut().zip(one.values()) {
                sum.3 += value;
            }
        }
        let values = self.proxy_values().values();
        metrics.extend(ProxyValues::METRICS.iter().zip(values).map(with_value));
        if self.certificates.is_any() {
            let values = self.tls_values().values();
            metrics.extend(TlsValues::METRICS.iter().zip(values).map(with_value));
        }
        metrics
    }

    fn proxy_values(&self) -> ProxyValues {
        let generation = self.current.get();
        let clusters = generation.clusters.iter();
        let ready = clusters.clone().filter(|one| one.health.is_responding());
        let brokers: usize = clusters.map(|one| one.broker_registry.infos().len()).sum();
        let (claimed_bytes, memory_waiting, memory_waits) = self.shared.memory.usage();
        let pool = generation.pool.as_ref().map(|pool| pool.usage());
        let (filter_waiting, cpu) = pool.unwrap_or_default();
        ProxyValues {
            generation: generation.number,
            clusters_ready: ready.count() as u64,
            brokers: brokers as u64,
            claimed_bytes: claimed_bytes as u64,
            memory_waiting: memory_waiting as u64,
            memory_waits,
            filter_waiting: filter_waiting as u64,
            filter_cpu_ms: cpu.as_millis() as u64,
        }
    }

    fn tls_values(&self) -> TlsValues {
        let [reloads, failures] = self.certificates.counts();
        let expiry = self.expiry_unix_s().and_then(|end| u64::try_from(end).ok());
        let expiry_unix_s = expiry.unwrap_or(0);
        TlsValues {
            reloads,
            failures,
            expiry_unix_s,
        }
    }

    /// Returns the earliest expiry of the certificates presented to clients, in seconds since 1970.
    pub(crate) fn expiry_unix_s(&self) -> Option<i64> {
        let generation = self.current.get();
        let clusters = generation.clusters.iter();
        let presented = clusters.flat_map(|cluster| cluster.config.certificates());
        let admin = self.certificates.admin_tls().map(|tls| &**tls);
        let ends = presented.chain(admin);
        ends.filter_map(|one| one.identity().not_after_unix_s())
            .min()
    }
}
