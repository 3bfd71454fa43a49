//! Counters of the export, for the metrics page.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use crate::admin::MetricKind;

/// Counters of the exporter and of samplers.
#[derive(Debug, Default)]
pub struct OtlpCounters {
    /// Exports of metrics and of spans that the collector accepted.
    pub(super) sent: [AtomicU64; 2],
    /// Exports of metrics and of spans without success.
    pub(super) failed: [AtomicU64; 2],
    /// Spans that the collector accepted.
    pub(super) spans: AtomicU64,
    /// Spans dropped because the queue was full or the collector did not accept them.
    pub(super) dropped: AtomicU64,
    /// Traces not begun because of the limit per second.
    pub(super) limited: AtomicU64,
}

const SIGNALS: [&str; 2] = ["metrics", "traces"];
/// Indexes of [`SIGNALS`].
#[cfg(feature = "otlp")]
pub(super) const METRICS: usize = 0;
#[cfg(feature = "otlp")]
pub(super) const TRACES: usize = 1;

impl OtlpCounters {
    /// Writes the counters; the names begin with `weir_` and `product`.
    ///
    /// # Errors
    /// The encoder fails.
    pub fn encode(
        &self,
        product: &str,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        let name = format!("weir_{product}_otlp_exports");
        let help = "Exports to the OpenTelemetry collector.";
        let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for (outcome, counts) in [("sent", &self.sent), ("failed", &self.failed)] {
            for (signal, count) in SIGNALS.iter().zip(counts) {
                let labels = [("signal", *signal), ("outcome", outcome)];
                let encoder = family.encode_family(&labels)?;
                MetricKind::Counter.encode(count.load(Ordering::Relaxed), encoder)?;
            }
        }
        for (name, help, count) in [
            ("spans", "Spans that the collector accepted.", &self.spans),
            (
                "spans_dropped",
                "Spans dropped: queue full, or not accepted by the collector.",
                &self.dropped,
            ),
            (
                "traces_limited",
                "Traces not begun because of traces_per_second.",
                &self.limited,
            ),
        ] {
            let name = format!("weir_{product}_otlp_{name}");
            let count = count.load(Ordering::Relaxed);
            crate::admin::put_metric(encoder, &name, MetricKind::Counter, help, count)?;
        }
        Ok(())
    }
}

/// Adds to a counter that several threads write.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
