//! Reads all counters at each scrape, for Prometheus and the dashboard.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use weir_mapping::FailureKind;
use weir_net::admin::{MetricKind, ProcessMetrics};
use weir_net::otlp::OtlpCounters;
use weir_net::watchdog::WatchdogStatus;

use super::histogram::encode_seconds;
use super::messages;
use super::{
    ADMISSION_METRICS, AUDIT_METRICS, CONNECTION_METRICS, FAILURES, MetricSpec, SHARD_METRICS,
    ShardMetrics, TLS_METRICS,
};
use crate::adapter::Adapter;
use crate::admission::{Admission, AdmissionLimit};
use crate::latency::AgeHistogram;
use crate::messages::Messages;
use crate::tls::TlsFiles;
use weir_access::Authenticator;
use weir_access::audit::AuditLog;
use weir_ingest::KafkaConnection;
use weir_ingest::UNKNOWN;

#[derive(Debug, Clone)]
pub(crate) struct MetricSources {
    pub(crate) shards: Vec<Arc<ShardMetrics>>,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) tls: Option<Arc<TlsFiles>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) audit: Option<Arc<AuditLog>>,
    /// `None` without rules for client messages.
    pub(crate) messages: Option<Arc<Messages>>,
    pub(crate) auth: Option<Arc<Authenticator>>,
    /// `None`: no remote adapter is asked.
    pub(crate) adapter: Option<Adapter>,
    /// `None`: nothing is exported to a collector.
    pub(crate) otlp: Option<Arc<OtlpCounters>>,
}

impl MetricSources {
    /// Returns a shard metric, summed over the shards; 0 for an unknown name.
    pub(crate) fn of_shards(&self, name: &str) -> u64 {
        let index = SHARD_METRICS.iter().position(|metric| metric.name == name);
        index.map_or(0, |index| self.shard_sum(index))
    }

    /// Returns a metric of Kafka connections, summed over them; 0 for an unknown name.
    pub(crate) fn of_connections(&self, name: &str) -> u64 {
        self.each_connection(name).sum()
    }

    pub(crate) fn each_connection(&self, name: &str) -> impl Iterator<Item = u64> {
        let metric = CONNECTION_METRICS.iter().find(|metric| metric.name == name);
        let of = metric.map(|metric| metric.value);
        let connections = self.connections.iter();
        connections.filter_map(move |connection| Some(of?(connection)))
    }

    pub(crate) fn latency(&self) -> AgeHistogram {
        let mut counts = AgeHistogram::new();
        let shards = self.shards.iter();
        shards.for_each(|shard| shard.latency.add_to(&mut counts));
        counts
    }

    pub(crate) fn is_counter(name: &str) -> bool {
        let shards = SHARD_METRICS
            .iter()
            .map(|metric| (metric.name, metric.kind));
        let connections = CONNECTION_METRICS
            .iter()
            .map(|metric| (metric.name, metric.kind));
        let kind = shards.chain(connections).find(|metric| metric.0 == name);
        matches!(kind, Some((_, MetricKind::Counter)))
    }

    fn shard_sum(&self, index: usize) -> u64 {
        let values = self.shards.iter().map(|shard| &shard.values[index]);
        values.map(|value| value.load(Ordering::Relaxed)).sum()
    }

    fn encode_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Age of records, by their timestamps, when an update was sent.";
        let name = "weir_gateway_delivery_latency_seconds";
        encode_seconds(&self.latency(), name, help, encoder)
    }
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (index, metric) in SHARD_METRICS.iter().enumerate() {
            metric.encode(self.shard_sum(index), &mut encoder)?;
        }
        for metric in ADMISSION_METRICS {
            metric.encode((metric.value)(&self.admission), &mut encoder)?;
        }
        for metric in CONNECTION_METRICS {
            let mut described = metric.describe(&mut encoder)?;
            for connection in &self.connections {
                let name = connection.config.name.as_str();
                if metric.name == FAILURES {
                    for kind in FailureKind::ALL {
                        let labels = [("connection", name), ("reason", kind.label())];
                        let encoder = described.encode_family(&labels)?;
                        metric.kind.encode(connection.failed(kind), encoder)?;
                    }
                    continue;
                }
                let labels = [("connection", name)];
                let value = (metric.value)(connection);
                if value != UNKNOWN {
                    let encoder = described.encode_family(&labels)?;
                    metric.kind.encode(value, encoder)?;
                }
            }
        }
        self.encode_latency(&mut encoder)?;
        let (name, kind) = ("weir_gateway_limit_hits", MetricType::Counter);
        let mut described = encoder.encode_descriptor(name, "Hits of a limit.", None, kind)?;
        for limit in AdmissionLimit::ALL {
            let labels = [("limit", limit.label())];
            let hits = self.admission.hits(*limit);
            MetricKind::Counter.encode(hits, described.encode_family(&labels)?)?;
        }
        if let Some(audit) = &self.audit {
            for metric in AUDIT_METRICS {
                metric.encode((metric.value)(audit), &mut encoder)?;
            }
        }
        if let Some(sources) = &self.messages {
            messages::encode(sources, &mut encoder)?;
        }
        if let Some(auth) = &self.auth {
            super::auth::encode(auth, &mut encoder)?;
        }
        if let Some(adapter) = &self.adapter {
            super::adapter::encode(adapter.metrics(), &mut encoder)?;
        }
        if let Some(counters) = &self.otlp {
            counters.encode("gateway", &mut encoder)?;
        }
        if let Some(tls) = &self.tls {
            for metric in TLS_METRICS {
                metric.encode((metric.value)(tls), &mut encoder)?;
            }
        }
        Ok(())
    }
}

impl<T> MetricSpec<T> {
    fn describe<'a>(
        &self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, None, self.kind.metric_type())
    }

    pub(super) fn encode(
        &self,
        value: u64,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        self.kind.encode(value, self.describe(encoder)?)
    }
}

pub(crate) fn registry(sources: MetricSources, watchdog_status: Arc<WatchdogStatus>) -> Registry {
    let mut registry = Registry::default();
    let process = ProcessMetrics::new("gateway", watchdog_status);
    registry.register_collector(Box::new(process));
    registry.register_collector(Box::new(sources));
    registry
}

#[cfg(test)]
impl MetricSources {
    /// Returns whether shards and whether connections have a metric with this name.
    pub(crate) fn knows(name: &str) -> [bool; 2] {
        let shards = SHARD_METRICS.iter().any(|metric| metric.name == name);
        let connections = CONNECTION_METRICS.iter().any(|metric| metric.name == name);
        [shards, connections]
    }
}
