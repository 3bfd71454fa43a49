//! Summary statistics of a latency distribution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Histogram, NegativeCount};

/// Latency summary of one stage in one cell, in microseconds. A percentile with too few samples is
/// `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Number of values, without negative ones.
    pub count: u64,
    /// Mean.
    pub mean_us: Option<f64>,
    /// Population standard deviation.
    pub stddev_us: Option<f64>,
    /// Minimum.
    pub min_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile; needs 299 values.
    pub p99_us: Option<f64>,
    /// 99.9th percentile; needs 2,995 values.
    pub p999_us: Option<f64>,
    /// 99.99th percentile; needs 29,956 values.
    pub p9999_us: Option<f64>,
    /// Maximum.
    pub max_us: Option<f64>,
    /// Number of values above one hour, recorded as one hour.
    #[serde(default)]
    pub clamped_count: u64,
    /// Number of negative values, excluded from all statistics above.
    #[serde(default)]
    pub negative_count: u64,
    /// Timestamp resolution; 1000 if only a text timestamp in milliseconds is available.
    pub resolution_us: f64,
}

impl LatencySummary {
    /// Summarizes a histogram. The other arguments are not part of it.
    pub fn of(histogram: &Histogram, negative: NegativeCount, resolution_us: f64) -> Self {
        let percentile = |percent| histogram.supported_percentile_ns(percent).map(us);
        Self {
            count: histogram.count(),
            mean_us: histogram.mean_ns().map(|mean_ns| mean_ns / 1e3),
            stddev_us: histogram.stddev_ns().map(|stddev_ns| stddev_ns / 1e3),
            min_us: histogram.min_ns().map(us),
            p50_us: percentile(50.0),
            p90_us: percentile(90.0),
            p95_us: percentile(95.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            p9999_us: percentile(99.99),
            max_us: histogram.max_ns().map(us),
            clamped_count: histogram.clamped(),
            negative_count: negative.count,
            resolution_us,
        }
    }
}

fn us(value_ns: u64) -> f64 {
    value_ns as f64 / 1e3
}
