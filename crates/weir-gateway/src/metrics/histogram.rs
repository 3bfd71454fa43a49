//! Histograms of times.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::latency::AgeHistogram;

/// Writes a histogram in seconds.
pub(super) fn encode_seconds(
    counts: &AgeHistogram,
    name: &str,
    help: &str,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let seconds = |(ms, count)| (ms as f64 / 1000.0, count);
    let mut buckets: Vec<_> = counts.by_power().into_iter().map(seconds).collect();
    if let Some((bound, _)) = buckets.last_mut() {
        *bound = f64::MAX;
    }
    let sum = counts.sum_ms as f64 / 1000.0;
    encoder
        .encode_descriptor(name, help, None, MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(sum, counts.total(), &buckets, None)
}
