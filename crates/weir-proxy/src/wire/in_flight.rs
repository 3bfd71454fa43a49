//! Requests without an answer yet, in the order in which brokers answer.

use std::collections::VecDeque;

use crate::filter::RejectedPartitions;

/// A request that an answer will come for.
#[derive(Debug)]
pub struct InFlightRequest {
    /// Number that the answer repeats.
    pub correlation_id: i32,
    /// Number of the API.
    pub key: i16,
    /// Version of request and answer.
    pub version: i16,
    /// Where the answer comes from.
    pub answer: ResponseSource,
}

/// Where an answer comes from.
#[derive(Debug)]
pub enum ResponseSource {
    /// The broker.
    Broker,
    /// The broker, but for partitions that filters refused.
    Merged(Box<RejectedPartitions>),
    /// The broker, as a token without a header.
    Token,
    /// Nowhere: this whole frame is it.
    Ready(Box<[u8]>),
}

impl ResponseSource {
    /// Returns the bytes of the proxy's own making that wait with the entry.
    fn own_bytes(&self) -> usize {
        match self {
            Self::Broker | Self::Token => 0,
            Self::Merged(rejected) => rejected.held_bytes(),
            Self::Ready(frame) => frame.len(),
        }
    }
}

/// Requests of one connection, oldest first.
#[derive(Debug, Default)]
pub struct InFlightRequests {
    entries: VecDeque<InFlightRequest>,
    own_bytes: usize,
}

impl InFlightRequests {
    /// Notes a request.
    pub fn push(&mut self, entry: InFlightRequest) {
        self.own_bytes += entry.answer.own_bytes();
        self.entries.push_back(entry);
    }

    /// Returns `true` if no further request may be noted: `in_flight` requests wait, or the
    /// responses that the proxy made itself have reached their limit.
    #[must_use]
    pub fn is_full(&self, in_flight: usize) -> bool {
        self.entries.len() >= in_flight || self.own_bytes >= OWN_BYTES_MAX
    }

    /// Returns the bytes of responses that the proxy made itself and that wait for their turn.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// The request whose answer comes next.
    #[must_use]
    pub fn front(&self) -> Option<&InFlightRequest> {
        self.entries.front()
    }

    /// Takes the request whose answer begins.
    pub fn pop(&mut self) -> Option<InFlightRequest> {
        let entry = self.entries.pop_front();
        if let Some(entry) = &entry {
            self.own_bytes -= entry.answer.own_bytes();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            // A burst should not cost memory for ever.
            self.entries.shrink_to(KEPT);
        }
        entry
    }

    /// The next answer, if it is here already.
    pub fn pop_ready(&mut self) -> Option<Vec<u8>> {
        match self.entries.front() {
            Some(InFlightRequest {
                answer: ResponseSource::Ready(_),
                ..
            }) => {}
            _ => return None,
        }
        match self.pop()?.answer {
            ResponseSource::Ready(frame) => Some(frame.into_vec()),
            ResponseSource::Broker | ResponseSource::Merged(_) | ResponseSource::Token => None,
        }
    }

    /// Forgets tokens: the last of some mechanisms has no answer.
    pub fn drop_sasl_tokens(&mut self) {
        while matches!(self.front(), Some(entry) if matches!(entry.answer, ResponseSource::Token)) {
            self.pop();
        }
    }

    /// Requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Bytes of the proxy's own responses that may wait for their turn. The response that reaches the
/// limit is still taken.
const OWN_BYTES_MAX: usize = 64 * 1024;
/// Entries whose room is kept for the next burst.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(correlation_id: i32, answer: ResponseSource) -> InFlightRequest {
        InFlightRequest {
            correlation_id,
            key: 18,
            version: 3,
            answer,
        }
    }

    #[test]
    fn own_responses_fill_the_ring_by_their_bytes() {
        let mut ring = InFlightRequests::default();
        ring.push(entry(0, ResponseSource::Broker));
        for id in 1..=4 {
            assert!(!ring.is_full(1_000), "{id}");
            let frame = vec![0; OWN_BYTES_MAX / 4].into();
            ring.push(entry(id, ResponseSource::Ready(frame)));
        }
        assert!(ring.is_full(1_000));
        assert!(
            ring.pop_ready().is_none(),
            "the broker's response comes first"
        );
        ring.pop();
        assert!(ring.pop_ready().is_some() && !ring.is_full(1_000));
        while ring.pop_ready().is_some() {}
        assert_eq!((ring.own_bytes(), ring.len()), (0, 0));
        assert!(!ring.is_full(1));
    }
}
