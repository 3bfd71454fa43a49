//! OpenTelemetry: metrics of a registry and sampled spans, sent to a collector over HTTP with OTLP
//! in its JSON encoding (decision 0102).
//!
//! Configuration and spans exist in every build. Only the exporter needs the feature `otlp`.

mod config;
mod counters;
mod export;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod json;
#[cfg(feature = "otlp")]
mod openmetrics;
mod pairs;
mod sampler;
mod span;

pub use config::{OtlpConfig, OtlpConfigError, OtlpTable};
pub use counters::OtlpCounters;
pub use export::{Export, Exporter};
pub use sampler::{Sampler, TraceSource};
pub use span::{ActiveTrace, AttributeValue, Attributes, Span, SpanKind, TraceParent, unix_ns};
