//! An export between its configuration and its start: queue and counters exist before the registry
//! whose metrics it sends.

use std::io;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};
use prometheus_client::registry::Registry;

use super::config::OtlpConfig;
use super::counters::OtlpCounters;
use super::sampler::{TraceQuota, TraceSource};
use super::span::{Span, SpanQueue};

#[cfg(feature = "otlp")]
pub use super::exporter::Exporter;

/// The exporter, which builds without the feature `otlp` do not have.
#[cfg(not(feature = "otlp"))]
#[derive(Debug)]
pub enum Exporter {}

#[cfg(not(feature = "otlp"))]
impl Exporter {
    /// Exports the rest.
    pub fn stop(self) {
        match self {}
    }
}

/// Spans that wait for the exporter; further ones are dropped.
const QUEUE_SPANS: usize = 4_096;

/// An export that has not started.
#[derive(Debug)]
pub struct Export {
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "nothing sends"))]
    config: OtlpConfig,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "nothing sends"))]
    queue: Receiver<Span>,
    counters: Arc<OtlpCounters>,
    traces: Option<TraceSource>,
}

impl Export {
    /// Creates the queue of spans.
    pub fn new(config: OtlpConfig) -> Self {
        let (spans, queue) = bounded(QUEUE_SPANS);
        let counters = Arc::<OtlpCounters>::default();
        let traces = (config.traces_per_second > 0).then(|| TraceSource {
            queue: SpanQueue {
                spans,
                counters: Arc::clone(&counters),
            },
            one_in: config.trace_one_in,
            quota: Arc::new(TraceQuota::new(config.traces_per_second)),
        });
        Self {
            config,
            queue,
            counters,
            traces,
        }
    }

    /// Returns the source of samplers; `None` without traces.
    pub fn traces(&self) -> Option<TraceSource> {
        self.traces.clone()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Arc<OtlpCounters> {
        Arc::clone(&self.counters)
    }

    /// Starts to export spans, and the metrics of `registry`. A build without the feature `otlp`
    /// has nothing to start.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(self, registry: Registry) -> io::Result<Option<Exporter>> {
        #[cfg(feature = "otlp")]
        return Exporter::start(self.config, registry, self.counters, self.queue).map(Some);
        #[cfg(not(feature = "otlp"))]
        {
            drop(registry);
            Ok(None)
        }
    }
}
