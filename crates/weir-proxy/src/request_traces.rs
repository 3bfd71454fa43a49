//! Traces of sampled requests, from their arrival to the beginning of the broker's response.

use weir_net::otlp::{ActiveTrace, Attributes, Sampler, SpanKind, TraceSource, unix_ns};

use crate::versions;

/// Selects requests of one event loop and virtual cluster.
#[derive(Debug)]
pub(crate) struct RequestTraces {
    sampler: Sampler,
    /// Name of the virtual cluster.
    cluster: String,
}

/// The trace of a request without a response so far.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    trace: ActiveTrace,
    arrived_ns: u64,
    attributes: Attributes,
}

impl RequestTraces {
    pub(crate) fn new(source: &TraceSource, cluster: &str) -> Self {
        Self {
            sampler: source.sampler(),
            cluster: cluster.to_owned(),
        }
    }

    /// Returns the trace of a request of `bytes` bytes if it is sampled.
    #[inline]
    pub(crate) fn begin(&self, key: i16, bytes: usize) -> Option<Box<RequestTrace>> {
        // Requests have no context; only their records may.
        let mut trace = self.sampler.select(|| None)?;
        let arrived_ns = unix_ns();
        let attributes: Attributes = vec![
            ("rpc.system", "kafka".into()),
            ("rpc.method", versions::name(key).into()),
            ("weir.cluster", self.cluster.as_str().into()),
            ("weir.request_bytes", number(bytes).into()),
        ];
        trace.begin("request", SpanKind::Server, arrived_ns, attributes.clone());
        Some(Box::new(RequestTrace {
            trace,
            arrived_ns,
            attributes,
        }))
    }
}

impl RequestTrace {
    /// Ends the trace with the beginning of a response of `bytes` bytes. Without this, it has no
    /// duration.
    pub(crate) fn end(mut self, version: i16, bytes: usize) {
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.push(("weir.api_version", i64::from(version).into()));
        attributes.push(("weir.response_bytes", number(bytes).into()));
        let times = (self.arrived_ns, unix_ns());
        (self.trace).begin("request", SpanKind::Server, times.0, attributes);
        self.trace.add("upstream", times, []);
    }
}

fn number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
