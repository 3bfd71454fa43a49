//! Metrics of the process, the same for every product, and the metrics page.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::http1::Response;
use crate::log::{dropped_lines, suppressed_lines};
use crate::watchdog::WatchdogStatus;

/// Gauge or counter; a counter's name gets the suffix `_total` when written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A current value.
    Gauge,
    /// A sum since the start.
    Counter,
}

impl MetricKind {
    /// Returns the type of the encoder.
    pub fn metric_type(self) -> MetricType {
        match self {
            Self::Gauge => MetricType::Gauge,
            Self::Counter => MetricType::Counter,
        }
    }

    /// Writes a value.
    pub fn encode(self, value: u64, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Self::Gauge => {
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder)
            }
            Self::Counter => ConstCounter::new(value).encode(encoder),
        }
    }
}

/// Name (a counter's name gets the suffix `_total`), kind and help text of a metric.
pub type MetricRow = (&'static str, MetricKind, &'static str);

/// Defines a struct of numbers, with the metric of each field.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident
     $($field:ident $metric:literal $kind:ident $help:literal)*) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $vis struct $name {
            $(#[doc = $help] $vis $field: u64,)*
        }

        impl $name {
            /// The metrics of the fields, in their order.
            $vis const METRICS: &[$crate::admin::MetricRow] =
                &[$(($metric, $crate::admin::MetricKind::$kind, $help)),*];

            /// Returns the values in the order of their metrics.
            #[inline]
            $vis fn values(&self) -> [u64; Self::METRICS.len()] {
                [$(self.$field),*]
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, more: Self) {
                $(self.$field += more.$field;)*
            }
        }
    };
}

/// Writes a metric without labels.
pub fn put_metric(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    kind: MetricKind,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let described = encoder.encode_descriptor(name, help, None, kind.metric_type())?;
    kind.encode(value, described)
}

/// Metrics of the process: suppressed and dropped log lines, stalls of event loops.
#[derive(Debug)]
pub struct ProcessMetrics {
    product: &'static str,
    watchdog_status: Arc<WatchdogStatus>,
}

impl ProcessMetrics {
    /// Creates a collector; the names of its metrics begin with `weir_` and `product`.
    pub fn new(product: &'static str, watchdog_status: Arc<WatchdogStatus>) -> Self {
        Self {
            product,
            watchdog_status,
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let suppressed = "Log lines suppressed by the limit per kind of event.";
        let dropped = "Log lines dropped because the log output was too slow.";
        for (name, help, value) in [
            ("log_lines_suppressed", suppressed, suppressed_lines()),
            ("log_lines_dropped", dropped, dropped_lines()),
            (
                "stalls",
                "Stalls of event loops.",
                self.watchdog_status.stalls(),
            ),
        ] {
            let name = format!("weir_{}_{name}", self.product);
            put_metric(&mut encoder, &name, MetricKind::Counter, help, value)?;
        }
        let name = format!("weir_{}_longest_stall_seconds", self.product);
        let help = "Longest stall of an event loop.";
        let described = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        ConstGauge::new(self.watchdog_status.longest_ms() as f64 / 1_000.0).encode(described)
    }
}

pub(super) fn metrics_page(registry: &Registry) -> Response {
    let mut page = String::new();
    match text::encode(&mut page, registry) {
        Ok(()) => Response {
            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ..Response::text(200, page)
        },
        Err(error) => Response::text(500, format!("failed to encode metrics: {error}\n")),
    }
}

/// Returns a page with JSON content.
pub fn json_page(json: String) -> Response {
    Response {
        content_type: "application/json",
        ..Response::text(200, json)
    }
}
