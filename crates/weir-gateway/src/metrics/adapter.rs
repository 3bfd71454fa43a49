//! Metrics of the connection to a remote adapter, written only if one is configured.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use weir_adapter::{AdapterMetrics, LatencySnapshot, RequestOutcome};
use weir_net::admin::MetricKind;

use super::ADAPTER_METRICS;

/// Writes the metrics of an adapter.
pub(super) fn encode(
    adapter: &AdapterMetrics,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    for metric in ADAPTER_METRICS {
        metric.encode((metric.value)(adapter), encoder)?;
    }
    let (name, kind) = ("weir_gateway_adapter_requests", MetricType::Counter);
    let help = "Requests to the remote adapter by method and outcome.";
    let mut described = encoder.encode_descriptor(name, help, None, kind)?;
    for method in adapter.methods() {
        for (outcome, count) in RequestOutcome::ALL.iter().zip(method.outcomes) {
            let labels = [
                ("method", method.method.name()),
                ("outcome", outcome.as_str()),
            ];
            MetricKind::Counter.encode(count, described.encode_family(&labels)?)?;
        }
    }
    let name = "weir_gateway_adapter_seconds";
    let help = "Time until the reply of the remote adapter, by method.";
    let mut described = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for method in adapter.methods() {
        let latency = method.latency;
        let labels = [("method", method.method.name())];
        let sum = latency.sum_ms as f64 / 1_000.0;
        let buckets = buckets(&latency);
        described
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(sum, latency.count, &buckets, None)?;
    }
    Ok(())
}

/// Returns the buckets with their bounds in seconds.
fn buckets(latency: &LatencySnapshot) -> Vec<(f64, u64)> {
    let seconds = LatencySnapshot::BOUNDS_MS.map(|ms| ms as f64 / 1_000.0);
    let within = latency.buckets.iter().sum::<u64>();
    let above = (f64::MAX, latency.count.saturating_sub(within));
    let buckets = seconds.into_iter().zip(latency.buckets);
    buckets.chain(std::iter::once(above)).collect()
}
