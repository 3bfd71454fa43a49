//! Input budget of an event loop: how much input one iteration handles, in total and per
//! connection, and which connections continue in a later iteration.
//!
//! Without the budget a few peers with much input, or with input that is expensive to handle, would
//! delay updates and timers. Connections take turns, so that no peer waits for all input of
//! another.

use std::collections::{HashMap, VecDeque};

use crate::event_loop::ConnId;

/// Input budget of one iteration in bytes, about 2 ms of work.
const BYTES_PER_ITERATION: usize = 1024 * 1024;
/// Part of the budget that one connection may use at a time.
const BYTES_PER_VISIT: usize = 256 * 1024;

/// Connections with pending input, each once, and the input budget.
#[derive(Debug)]
pub(super) struct InputQueue {
    queue: VecDeque<ConnId>,
    /// Input that was read but not handled, of the few connections that have any.
    parked: HashMap<ConnId, Vec<u8>>,
    left: usize,
    /// Value of `left` at which the visit of the current connection is over.
    visit_end: usize,
}

impl InputQueue {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            parked: HashMap::new(),
            left: BYTES_PER_ITERATION,
            visit_end: 0,
        }
    }

    /// Restores the budget.
    pub(super) fn begin_iteration(&mut self) {
        self.left = BYTES_PER_ITERATION;
    }

    /// Begins to handle the input of another connection; returns `false` if the budget is spent.
    pub(super) fn begin_visit(&mut self) -> bool {
        self.visit_end = self.left.saturating_sub(BYTES_PER_VISIT);
        self.left > 0
    }

    pub(super) fn charge(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Returns `true` if the current connection has used its part of the budget.
    pub(super) fn visit_is_over(&self) -> bool {
        self.left <= self.visit_end
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, conn: ConnId) {
        self.queue.push_back(conn);
    }

    /// Returns the connection that has waited longest, or `None` if there is none or the budget is
    /// spent.
    pub(super) fn pop(&mut self) -> Option<ConnId> {
        if self.left == 0 {
            return None;
        }
        self.queue.pop_front()
    }

    pub(super) fn park(&mut self, conn: ConnId, rest: &[u8]) {
        if !rest.is_empty() {
            self.parked.entry(conn).or_default().extend_from_slice(rest);
        }
    }

    pub(super) fn take_parked(&mut self, conn: ConnId) -> Vec<u8> {
        let rest = self.parked.remove(&conn).unwrap_or_default();
        if self.parked.is_empty() {
            self.parked.shrink_to_fit();
        }
        rest
    }
}
