//! Requests without an answer yet, in the order in which brokers answer.

use std::collections::VecDeque;

use crate::filter::Rejected;

/// A request that an answer will come for.
#[derive(Debug)]
pub struct Entry {
    /// Number that the answer repeats.
    pub correlation_id: i32,
    /// Number of the API.
    pub key: i16,
    /// Version of request and answer.
    pub version: i16,
    /// Where the answer comes from.
    pub answer: Answer,
}

/// Where an answer comes from.
#[derive(Debug)]
pub enum Answer {
    /// The broker.
    Broker,
    /// The broker, but for partitions that filters refused.
    Merged(Box<Rejected>),
    /// The broker, as a token without a header.
    Token,
    /// Nowhere: this whole frame is it.
    Ready(Box<[u8]>),
}

/// Requests of one connection, oldest first.
#[derive(Debug, Default)]
pub struct Ring {
    entries: VecDeque<Entry>,
}

impl Ring {
    /// Notes a request.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    /// The request whose answer comes next.
    #[must_use]
    pub fn front(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// Takes the request whose answer begins.
    pub fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front();
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            // A burst should not cost memory for ever.
            self.entries.shrink_to(KEPT);
        }
        entry
    }

    /// The next answer, if it is here already.
    pub fn pop_ready(&mut self) -> Option<Vec<u8>> {
        match self.entries.front() {
            Some(Entry {
                answer: Answer::Ready(_),
                ..
            }) => {}
            _ => return None,
        }
        match self.pop()?.answer {
            Answer::Ready(frame) => Some(frame.into_vec()),
            Answer::Broker | Answer::Merged(_) | Answer::Token => None,
        }
    }

    /// Forgets tokens: the last of some mechanisms has no answer.
    pub fn forget_tokens(&mut self) {
        while matches!(self.front(), Some(entry) if matches!(entry.answer, Answer::Token)) {
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

/// Entries whose room is kept for the next burst.
const KEPT: usize = 16;
