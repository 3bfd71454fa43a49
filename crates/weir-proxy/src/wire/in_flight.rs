//! In-flight requests in the order in which brokers respond.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::api_counters::LoopApis;
use crate::request_traces::RequestTrace;
use crate::versions::{SASL_HANDSHAKE, is_write};
use weir_filters::RejectedPartitions;
use weir_rules::ResponseChanges;

#[derive(Debug)]
pub(crate) struct InFlightRequest {
    pub(crate) correlation_id: i32,
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) response: ResponseSource,
    /// Changes that access rules make to the response.
    pub(crate) access: Option<Box<ResponseChanges>>,
}

impl InFlightRequest {
    /// Returns the memory for the proxy's own parts of the response, in bytes.
    fn own_bytes(&self) -> usize {
        let access = self.access.as_ref();
        self.response.own_bytes() + access.map_or(0, |access| access.buffered_bytes())
    }
}

#[derive(Debug)]
pub(crate) enum ResponseSource {
    Broker,
    /// The broker, with partitions added that filters rejected.
    Merged(Box<RejectedPartitions>),
    /// The broker, to a request of the proxy itself for topic names.
    TopicNames,
    /// The broker, as a raw SASL token.
    Token,
    /// The proxy: this whole frame.
    Ready(Box<[u8]>),
}

impl ResponseSource {
    /// Returns the memory for responses or parts of responses of the proxy itself, in bytes.
    fn own_bytes(&self) -> usize {
        match self {
            Self::Broker | Self::TopicNames | Self::Token => 0,
            Self::Merged(rejected) => rejected.buffered_bytes(),
            Self::Ready(frame) => frame.len(),
        }
    }
}

impl InFlightRequest {
    /// Creates the entry of a complete response of the proxy that waits for earlier responses.
    pub(crate) fn ready(frame: Vec<u8>) -> Self {
        Self {
            correlation_id: 0,
            key: SASL_HANDSHAKE,
            version: 0,
            response: ResponseSource::Ready(frame.into()),
            access: None,
        }
    }
}

/// The in-flight requests of one connection, oldest first.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequests {
    entries: VecDeque<(InFlightRequest, Arrival)>,
    own_bytes: usize,
    /// Number of requests of the proxy itself for topic names, at most one.
    lookups: usize,
    /// Counters per API; `None` in tests.
    apis: Option<Arc<LoopApis>>,
    /// Time of the input that is being processed, in microseconds.
    now_us: u64,
    /// Changes that access rules make to the response to a request that filters still process.
    deferred: Option<Box<ResponseChanges>>,
    /// Trace of the request that is added next.
    trace: Option<Box<RequestTrace>>,
    /// Requests that change the cluster, until they are taken; `None` if they are not noted.
    writes: Option<Box<WriteNotes>>,
}

/// Key and `client.id` of requests that change the cluster.
pub(crate) type WriteNote = (i16, Option<Box<str>>);

/// Requests that change the cluster.
#[derive(Debug, Default)]
struct WriteNotes {
    /// `client.id` of the request that is counted next.
    client_id: Option<Box<str>>,
    list: Vec<WriteNote>,
}

/// Arrival of a request.
#[derive(Debug)]
struct Arrival {
    /// Time in microseconds.
    at_us: u64,
    /// Present if the request is traced.
    trace: Option<Box<RequestTrace>>,
}

impl InFlightRequests {
    /// Sets the counters of requests and responses.
    pub(crate) fn set_counters(&mut self, apis: Arc<LoopApis>) {
        self.apis = Some(apis);
    }

    /// Reads the clock for the requests or responses of one input.
    pub(crate) fn begin_input(&mut self) {
        if let Some(apis) = &self.apis {
            self.now_us = apis.now_us();
        }
    }

    /// Notes requests that change the cluster from now on.
    pub(crate) fn note_writes(&mut self) {
        self.writes = Some(Box::default());
    }

    /// Returns `true` if the `client.id` of a request is noted.
    pub(crate) fn notes_client_id(&self, key: i16) -> bool {
        self.writes.is_some() && is_write(key)
    }

    /// Notes the `client.id` of the request that is counted next.
    pub(crate) fn note_client_id(&mut self, client_id: Option<Box<str>>) {
        if let Some(writes) = &mut self.writes {
            writes.client_id = client_id;
        }
    }

    /// Takes the requests that change the cluster.
    pub(crate) fn take_writes(&mut self) -> Vec<WriteNote> {
        let writes = self.writes.as_mut();
        let list = writes.map(|writes| std::mem::take(&mut writes.list));
        list.unwrap_or_default()
    }

    /// Returns the time of the input that is being processed, in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Counts a frame that has waited for filters since `since_us`.
    pub(crate) fn count_held(&self, key: i16, since_us: u64) {
        if let Some(apis) = &self.apis {
            apis.count_held(key, apis.now_us().saturating_sub(since_us));
        }
    }

    /// Counts a response with an error code of the proxy itself.
    pub(crate) fn count_error(&self, key: i16, code: i16) {
        if let Some(apis) = &self.apis {
            apis.count_error(key, code);
        }
    }

    /// Counts a request of the client, of which `frame` has arrived.
    pub(crate) fn count_request(&mut self, key: i16, bytes: usize, frame: &[u8]) {
        if let Some(writes) = &mut self.writes {
            if is_write(key) {
                let client_id = writes.client_id.take();
                writes.list.push((key, client_id));
            }
        }
        if let Some(apis) = &self.apis {
            apis.count_request(key, bytes);
            self.trace = apis.begin_trace(key, bytes, frame);
        }
    }

    /// Removes the request whose response of `bytes` bytes begins, and counts the response.
    pub(crate) fn pop_response(&mut self, bytes: usize) -> Option<InFlightRequest> {
        let (entry, arrival) = self.take_first()?;
        let is_own = matches!(entry.response, ResponseSource::TopicNames);
        if let Some(apis) = self.apis.as_ref().filter(|_| !is_own) {
            let time_us = self.now_us.saturating_sub(arrival.at_us);
            apis.count_response(entry.key, bytes, time_us);
        }
        if let Some(trace) = arrival.trace {
            trace.end(entry.version, bytes);
        }
        Some(entry)
    }

    pub(crate) fn push(&mut self, entry: InFlightRequest) {
        self.own_bytes += entry.own_bytes();
        self.lookups += usize::from(matches!(entry.response, ResponseSource::TopicNames));
        let arrival = Arrival {
            at_us: self.now_us,
            trace: self.trace.take(),
        };
        self.entries.push_back((entry, arrival));
    }

    /// Stores changes to the response to a request that [`Self::push_deferred`] adds later.
    pub(crate) fn defer_access(&mut self, pending: Option<Box<ResponseChanges>>) {
        self.deferred = pending;
    }

    /// Adds the request whose filter work is done.
    pub(crate) fn push_deferred(&mut self, entry: InFlightRequest) {
        let access = self.deferred.take();
        self.push(InFlightRequest { access, ..entry });
    }

    /// Returns `true` if no further request may be added: `limit` requests are in flight, or the
    /// proxy's own responses have reached their limit of bytes.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        self.entries.len() >= limit || self.own_bytes >= OWN_BYTES_MAX
    }

    /// Returns `true` if a request waits for the response with its topic names.
    pub(crate) fn has_lookup(&self) -> bool {
        self.lookups > 0
    }

    /// Returns the bytes of the proxy's own responses that wait for earlier responses.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    pub(crate) fn front(&self) -> Option<&InFlightRequest> {
        self.entries.front().map(|(entry, _)| entry)
    }

    /// Removes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<InFlightRequest> {
        self.take_first().map(|(entry, _)| entry)
    }

    fn take_first(&mut self) -> Option<(InFlightRequest, Arrival)> {
        let first = self.entries.pop_front();
        if let Some((entry, _)) = &first {
            self.own_bytes -= entry.own_bytes();
            self.lookups -= usize::from(matches!(entry.response, ResponseSource::TopicNames));
        }
        if self.entries.is_empty() && self.entries.capacity() > RETAINED_ENTRIES {
            // The memory of a burst is released.
            self.entries.shrink_to(RETAINED_ENTRIES);
        }
        first
    }

    /// Returns the next response if it comes from the proxy.
    pub(crate) fn pop_ready(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.front()?.response, ResponseSource::Ready(_)) {
            return None;
        }
        match self.pop()?.response {
            ResponseSource::Ready(frame) => Some(frame.into_vec()),
            _ => None,
        }
    }

    /// Removes SASL tokens at the front. The last token of some mechanisms has no response.
    pub(crate) fn drop_sasl_tokens(&mut self) {
        let is_token = |entry: &InFlightRequest| matches!(entry.response, ResponseSource::Token);
        while self.front().is_some_and(is_token) {
            self.pop();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Maximum bytes of the proxy's own responses that wait for earlier responses. The response that
/// reaches the limit is still added.
const OWN_BYTES_MAX: usize = 64 * 1024;
/// Entries whose memory is retained after a burst.
const RETAINED_ENTRIES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(correlation_id: i32, response: ResponseSource) -> InFlightRequest {
        InFlightRequest {
            correlation_id,
            key: 18,
            version: 3,
            response,
            access: None,
        }
    }

    #[test]
    fn own_responses_count_by_bytes() {
        let mut in_flight = InFlightRequests::default();
        in_flight.push(entry(0, ResponseSource::Broker));
        for id in 1..=4 {
            assert!(!in_flight.is_full(1_000), "{id}");
            let frame = vec![0; OWN_BYTES_MAX / 4].into();
            in_flight.push(entry(id, ResponseSource::Ready(frame)));
        }
        assert!(in_flight.is_full(1_000));
        assert!(
            in_flight.pop_ready().is_none(),
            "the broker's response is first"
        );
        in_flight.pop();
        assert!(in_flight.pop_ready().is_some() && !in_flight.is_full(1_000));
        while in_flight.pop_ready().is_some() {}
        assert_eq!((in_flight.own_bytes(), in_flight.len()), (0, 0));
        assert!(!in_flight.is_full(1));
    }
}
