//! Traces of sampled requests, from their arrival to the beginning of the broker's response.

use memchr::memmem;
use weir_net::otlp::{
    ActiveTrace, Attributes, Sampler, SpanKind, TraceParent, TraceSource, unix_ns,
};

use crate::versions::{self, PRODUCE};

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

    /// Returns the trace of a request of `bytes` bytes if it is sampled: as one in N, or because of
    /// a record in `frame`, the bytes that have arrived.
    #[inline]
    pub(crate) fn begin(&self, key: i16, bytes: usize, frame: &[u8]) -> Option<Box<RequestTrace>> {
        // Requests have no context; only their records may.
        let mark = || (key == PRODUCE).then(|| sampled_parent(frame)).flatten();
        let mut trace = self.sampler.select(mark)?;
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

/// Returns the first header `traceparent` of an uncompressed record whose sampled flag is set.
///
/// Searches for its bytes instead of decoding records: the lengths of name and value as variable
/// integers, name and value.
fn sampled_parent(frame: &[u8]) -> Option<TraceParent> {
    let frame = &frame[..frame.len().min(SEARCHED_BYTES)];
    let parents = memmem::find_iter(frame, HEADER_START).filter_map(|at| {
        let value = &frame[at + HEADER_START.len()..];
        TraceParent::parse(value.get(..VALUE_BYTES)?)
    });
    parents.into_iter().find(|parent| parent.is_sampled)
}

/// Name of the header and length of its value, as in a record.
const HEADER_START: &[u8] = b"\x16traceparent\x6e";
/// Length of the value in version 0 of W3C Trace Context.
const VALUE_BYTES: usize = 55;
/// Limits the time of the search, which every Produce request takes while traces are on.
const SEARCHED_BYTES: usize = 16 << 10;

fn number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: &str) -> Vec<u8> {
        let value = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        [HEADER_START, value.as_bytes()].concat()
    }

    #[test]
    fn first_sampled_header_is_found() {
        let unmarked = [b"records".as_slice(), &header("00")].concat();
        assert_eq!(sampled_parent(&unmarked), None);
        let both = [unmarked, b"more".to_vec(), header("01")].concat();
        let found = sampled_parent(&both).expect("a marked header");
        assert_eq!(found.span_id[..2], [0xb7, 0xad]);
        assert_eq!(sampled_parent(&both[..both.len() - 1]), None, "cut off");
        let far = [vec![0; SEARCHED_BYTES - 20], header("01")].concat();
        assert_eq!(sampled_parent(&far), None);
        assert_eq!(sampled_parent(b"\x16traceparent\x6e"), None);
    }
}
