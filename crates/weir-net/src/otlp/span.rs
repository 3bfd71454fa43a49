//! Spans, and the traces that they belong to while something is on its way.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::Sender;

use super::counters::{OtlpCounters, add};

/// Trace and span of a `traceparent` header (W3C Trace Context).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace.
    pub trace_id: [u8; 16],
    /// Span of the sender.
    pub span_id: [u8; 8],
    /// `true` if the sender records the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Name of the header.
    pub const HEADER: &'static str = "traceparent";

    /// Parses the value of the header; `None` if it is not valid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = value.split(|byte| *byte == b'-');
        let [version] = hex(parts.next()?)?;
        let (trace_id, span_id) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        let has_more = parts.next().is_some();
        // Version 0 has four parts, later ones may have more; 255 is not valid.
        let is_valid = version != 0xff
            && !(version == 0 && has_more)
            && trace_id != [0; 16]
            && span_id != [0; 8];
        is_valid.then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Parses lowercase hexadecimal digits of exactly `N` bytes.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, two) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(two[0])? << 4 | digit(two[1])?;
    }
    Some(bytes)
}

/// Role of the program in a span, numbered as in OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside the program.
    Internal = 1,
    /// Handling of a request.
    Server = 2,
    /// Handling of a record.
    Consumer = 5,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// Number.
    Number(i64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Attributes of a span.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// A finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Trace.
    pub trace_id: [u8; 16],
    /// Number of the span.
    pub span_id: [u8; 8],
    /// Span above this one.
    pub parent: Option<[u8; 8]>,
    /// Kind of work.
    pub name: &'static str,
    /// Role of the program.
    pub kind: SpanKind,
    /// Beginning in nanoseconds since 1970.
    pub start_ns: u64,
    /// End in nanoseconds since 1970.
    pub end_ns: u64,
    /// Attributes.
    pub attributes: Attributes,
    /// Span of another trace that caused this one.
    pub link: Option<TraceParent>,
}

/// Bounded queue to the exporter.
#[derive(Debug, Clone)]
pub(super) struct SpanQueue {
    pub(super) spans: Sender<Span>,
    pub(super) counters: Arc<OtlpCounters>,
}

impl SpanQueue {
    fn push(&self, span: Span) {
        // The queue is full because the collector is slow or gone, or the exporter has ended.
        if self.spans.try_send(span).is_err() {
            add(&self.counters.dropped, 1);
        }
    }
}

/// A trace whose work is in progress. When the last reference is dropped, its first span ends with
/// the latest of the others.
#[derive(Debug)]
pub struct ActiveTrace {
    /// The first span.
    root: Span,
    end_ns: AtomicU64,
    queue: SpanQueue,
}

impl ActiveTrace {
    pub(super) fn new(queue: SpanQueue, link: Option<TraceParent>) -> Self {
        let now_ns = unix_ns();
        Self {
            root: Span {
                trace_id: random_trace_id(),
                span_id: random_span_id(),
                parent: None,
                name: "",
                kind: SpanKind::Internal,
                start_ns: now_ns,
                end_ns: now_ns,
                attributes: Vec::new(),
                link,
            },
            end_ns: AtomicU64::new(0),
            queue,
        }
    }

    /// Names the first span and sets its beginning.
    pub fn begin(
        &mut self,
        name: &'static str,
        kind: SpanKind,
        start_ns: u64,
        attributes: Attributes,
    ) {
        self.root.name = name;
        self.root.kind = kind;
        self.root.start_ns = start_ns;
        self.root.attributes = attributes;
    }

    /// Adds a span below the first one. An end before the start counts as the start.
    pub fn add(
        &self,
        name: &'static str,
        (start_ns, end_ns): (u64, u64),
        attributes: impl IntoIterator<Item = (&'static str, i64)>,
    ) {
        let end_ns = end_ns.max(start_ns);
        self.end_ns.fetch_max(end_ns, Ordering::Relaxed);
        let attributes = attributes.into_iter();
        self.queue.push(Span {
            trace_id: self.root.trace_id,
            span_id: random_span_id(),
            parent: Some(self.root.span_id),
            name,
            kind: SpanKind::Internal,
            start_ns,
            end_ns,
            attributes: attributes
                .map(|(key, value)| (key, AttributeValue::Number(value)))
                .collect(),
            link: None,
        });
    }
}

impl Drop for ActiveTrace {
    fn drop(&mut self) {
        let latest_ns = *self.end_ns.get_mut();
        let mut root = Span {
            attributes: std::mem::take(&mut self.root.attributes),
            ..self.root
        };
        root.end_ns = latest_ns.max(root.start_ns);
        self.queue.push(root);
    }
}

/// Returns the nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a random number that is not 0. Ids need to be unique, not secret.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0_u8).max(1)
}

fn random_span_id() -> [u8; 8] {
    random().to_be_bytes()
}

fn random_trace_id() -> [u8; 16] {
    let id = u128::from(random()) << 64 | u128::from(random());
    id.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_follows_w3c() {
        let parent = TraceParent::parse(VALID.as_bytes()).expect("valid");
        assert_eq!(parent.trace_id[..2], [0x0a, 0xf7]);
        assert_eq!(parent.span_id[6..], [0x33, 0x31]);
        assert!(parent.is_sampled);
        let unsampled = VALID.replace("-01", "-02");
        assert!(!TraceParent::parse(unsampled.as_bytes()).unwrap().is_sampled);
        let later = format!("cc{}-more", &VALID[2..]);
        assert!(TraceParent::parse(later.as_bytes()).is_some());
        for invalid in [
            "",
            "00",
            &format!("{VALID}-more"),
            &VALID.replace("00-", "ff-"),
            &VALID.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn first_span_ends_with_the_last_one() {
        let (spans, received) = crossbeam_channel::bounded(2);
        let counters = Arc::<OtlpCounters>::default();
        let queue = SpanQueue {
            spans,
            counters: Arc::clone(&counters),
        };
        let link = TraceParent::parse(VALID.as_bytes());
        let mut trace = ActiveTrace::new(queue, link);
        trace.begin("record", SpanKind::Consumer, 10, vec![("n", 7.into())]);
        trace.add("map", (20, 40), [("shard", 1)]);
        drop(trace);
        let [map, root] = [received.recv().unwrap(), received.recv().unwrap()];
        assert_eq!((map.start_ns, map.end_ns), (20, 40));
        assert_eq!(map.parent, Some(root.span_id));
        assert_eq!(map.trace_id, root.trace_id);
        assert_eq!((root.start_ns, root.end_ns, root.link), (10, 40, link));
        assert_eq!(root.attributes, [("n", AttributeValue::Number(7))]);
        assert_eq!(counters.dropped.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn spans_beyond_the_queue_are_counted() {
        let (spans, _received) = crossbeam_channel::bounded(1);
        let counters = Arc::<OtlpCounters>::default();
        let queue = SpanQueue {
            spans,
            counters: Arc::clone(&counters),
        };
        let trace = ActiveTrace::new(queue, None);
        trace.add("one", (1, 2), []);
        trace.add("two", (2, 1), []);
        drop(trace);
        assert_eq!(counters.dropped.load(Ordering::Relaxed), 2);
    }
}
